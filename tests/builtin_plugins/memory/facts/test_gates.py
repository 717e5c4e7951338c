"""What is looked for first is in each text that the slower expressions behind it fit."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from hookgate.builtin_plugins.memory.facts.grammar import EXPRESSIONS, TAIL, grammar, may_hold


def fitting(name: str) -> st.SearchStrategy[str]:
    """Return texts that an expression fits somewhere, with other words around."""
    return st.from_regex(
        re.compile(f"[a-z ]{{0,20}}(?:{EXPRESSIONS[name].pattern})", re.IGNORECASE)
    )


@given(st.data())
@examples(300)
def test_each_text_with_a_short_form_may_hold_one(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([form for form, _ in grammar().short_forms]))
    text = data.draw(st.from_regex(form))

    assert may_hold("may_be_short", text)


@given(fitting("time"))
@examples(300)
def test_each_text_with_a_time_may_hold_one(text: str) -> None:
    assert may_hold("may_be_time", text)


@given(fitting("handed_over"))
def test_each_text_that_hands_something_over_has_a_colon_before_a_space(text: str) -> None:
    if EXPRESSIONS["handed_over"].search(text) is not None:
        assert EXPRESSIONS["hands_over"].search(text) is not None


@given(st.sampled_from(["reported", "trailing"]).flatmap(fitting), st.text(max_size=3))
@examples(300)
def test_what_ends_a_text_is_found_in_its_last_letters(text: str, more: str) -> None:
    for name in ("reported", "trailing"):
        whole, looked_at = text + more, EXPRESSIONS[name].search
        found = looked_at(whole) is not None
        assert (looked_at(whole, max(0, len(whole) - TAIL)) is not None) == found
