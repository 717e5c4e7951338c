"""Whether what a key may do lies within what its maker may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hookgate import Principal
from hookgate.builtin_plugins.keys.book import Terms, _outside, end_of, of_maker

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GLOBS = st.text(alphabet="ab/*?[]!-", min_size=1, max_size=6)


@given(GLOBS, GLOBS, st.lists(st.text(alphabet="ab/*?[-", max_size=6), max_size=20))
def test_a_glob_within_another_matches_nothing_that_the_other_does_not(
    glob: str, outer: str, names: list[str]
) -> None:
    if _outside([glob], [outer]):
        return
    assert not [name for name in names if fnmatchcase(name, glob) and not fnmatchcase(name, outer)]


@pytest.mark.parametrize(
    ("asked", "held", "outside"),
    [
        (["openai/gpt"], ["openai/*"], ""),
        (["openai/gpt-*"], ["openai/*", "acme/*"], ""),
        (["*"], ["openai/*"], "*"),
        (["openai/*", "acme/x"], ["openai/*"], "acme/x"),
        (["open*"], ["openai/*"], "open*"),
        (["a*"], ["a?"], "a*"),
        (None, ["a"], "*"),
        ([], ["a"], ""),
    ],
)
def test_globs_within_globs(asked: list[str] | None, held: list[str], outside: str) -> None:
    assert _outside(asked, held) == outside


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("90d", NOW + timedelta(days=90)),
        ("12h", NOW + timedelta(hours=12)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_time_or_a_length_of_time(text: str, end: datetime) -> None:
    assert end_of(text, NOW) == end


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": []},
        {"scopes": ["admin"]},
        {"addresses": ["10.0.0.0/99"]},
        {"addresses": ["somewhere"]},
        {"expires": "tomorrow"},
        {"expires": "999999999d"},
        {"expires": "0001-01-01T00:00+14:00"},
        {"usd": "-1"},
        {"rpm": 0},
        {"modes": ["root"]},
        {"models": [""]},
        {"more": 1},
    ],
)
def test_terms_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Terms.model_validate(wrong)


def test_an_end_is_never_later_than_the_makers() -> None:
    maker = Principal(id="token:x", expires=NOW + timedelta(days=1), models=("a/*",))
    for asked in ("", "2d", "2030-01-01"):
        made = of_maker(Terms(expires=asked), maker, NOW)
        assert datetime.fromisoformat(made.expires) == maker.expires
        assert made.models == ("a/*",)
    assert datetime.fromisoformat(of_maker(Terms(expires="1h"), maker, NOW).expires) == (
        NOW + timedelta(hours=1)
    )
