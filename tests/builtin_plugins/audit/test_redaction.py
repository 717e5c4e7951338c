from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.audit.entries import MASK, Redaction


@pytest.mark.parametrize(
    ("globs", "masked", "paths"),
    [
        ((), {"Password": "p", "list": [{"api_token": "t", "n": 1}]}, ()),
        (("*password*",), {"Password": MASK, "list": [{"api_token": "t", "n": 1}]}, ("Password",)),
        (
            ("*token*", "PASS*"),
            {"Password": MASK, "list": [{"api_token": MASK, "n": 1}]},
            ("Password", "list[0].api_token"),
        ),
        (("send.list",), {"Password": "p", "list": MASK}, ("list",)),
        (("other.list",), {"Password": "p", "list": [{"api_token": "t", "n": 1}]}, ()),
        (("se*.n",), {"Password": "p", "list": [{"api_token": "t", "n": MASK}]}, ("list[0].n",)),
    ],
)
def test_what_a_glob_names_is_masked_at_any_depth_and_named(
    globs: tuple[str, ...], masked: object, paths: tuple[str, ...]
) -> None:
    arguments = {"Password": "p", "list": [{"api_token": "t", "n": 1}]}
    assert Redaction(globs).apply("send", arguments) == (masked, paths)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_everything_is_masked_by_a_star_and_nothing_by_no_glob(
    arguments: dict[str, object],
) -> None:
    masked, paths = Redaction(("*",)).apply("tool", arguments)
    assert set(masked.values()) <= {MASK}
    assert len(paths) == len(arguments)
    assert Redaction(()).apply("tool", arguments) == (arguments, ())
