from __future__ import annotations

import pytest

from hookgate.kit.content.fields import KEYWORD, UNKNOWN, Fields
from hookgate.kit.content.yaml_reader import read_yaml


def fields(text: str) -> Fields:
    return Fields(read_yaml(text, "f"))


def problems(found: Fields) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_numbers_within_their_limits_are_read() -> None:
    found = fields("a: 3\nb: 0.5\nc: 1\nd: null\n")
    assert found.integer("a", 0, 3) == 3
    assert found.number("b", 0, 1) == 0.5
    assert found.number("c", 0, 1) == 1.0
    assert found.integer("d", 0, 1) is None
    assert found.number("e", 0, 1) is None
    assert problems(found) == []


@pytest.mark.parametrize("value", ["4", "-1", "true", "1.0", "'2'", "[2]", "{}", "two"])
def test_what_is_no_whole_number_within_the_limits_is_named(value: str) -> None:
    found = fields(f"a: {value}")
    assert found.integer("a", 0, 3) is None
    assert "f:1:1: a: found" in problems(found)[0]
    assert "expected a whole number from 0 to 3" in problems(found)[0]


@pytest.mark.parametrize("value", ["1.1", "-0.1", "true", ".nan", ".inf", "1e999", "'0.5'", "[]"])
def test_what_is_no_number_within_the_limits_is_named(value: str) -> None:
    found = fields(f"a: {value}")
    assert found.number("a", 0, 1) is None
    assert "expected a number from 0 to 1" in problems(found)[0]


def test_choices_are_read_in_both_spellings_and_each_once() -> None:
    found = fields("a: [post_tool, postTool, mid]\nb: []\n")
    assert found.choices("a", ("mid", "post_tool")) == ("post_tool", "mid")
    assert found.choices("b", ("mid",), empty=True) == ()
    assert problems(found) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[mid, midd]", "f:1:10: a.1: found 'midd', expected one or more of mid, end (did you"),
        ("[3]", "f:1:5: a.0: found 3, expected one or more of mid, end"),
        ("[]", "f:1:1: a: found an empty list, expected one or more of mid, end"),
        ("mid", "f:1:1: a: found 'mid', expected a list of strings"),
    ],
)
def test_another_choice_is_named_where_it_stands(value: str, expected: str) -> None:
    found = fields(f"a: {value}")
    assert found.choices("a", ("mid", "end")) == ()
    assert problems(found)[0].startswith(expected)


def test_a_mapping_within_a_mapping_is_read_in_both_spellings() -> None:
    outer = fields("outerOne:\n  innerOne: 1\n  other: 2\n")
    outer.only(("outer_one",))
    inner = outer.inner("outer_one")
    assert inner is not None
    inner.only(("inner_one",))
    assert inner.integer("inner_one", 0, 1) == 1
    (problem,) = problems(outer)
    assert problem.startswith("f:3:3: outerOne.other: found an unknown key")


def test_what_is_no_mapping_within_a_mapping_is_named() -> None:
    outer = fields("a: [1]\nb: null\n")
    assert outer.inner("a") is None
    assert outer.inner("b") is None
    assert outer.inner("c") is None
    assert problems(outer) == ["f:1:1: a: found [1], expected a mapping of keys and values"]


def test_an_unknown_key_is_an_error_where_one_is_strict() -> None:
    easy, strict = fields("nmae: x"), fields("nmae: x")
    easy.only(("name",))
    strict.only(("name",), strict=True)
    assert not easy.failed
    assert strict.failed
    assert problems(easy)[0].endswith(
        "which is passed over, expected a known key (did you mean 'name'?)"
    )
    assert "found an unknown key, expected a known key" in problems(strict)[0]


def test_of_many_unknown_keys_the_first_are_named_and_the_others_counted() -> None:
    found = fields("".join(f"k{number}: 1\n" for number in range(100)))
    found.only(("name",))
    assert len(problems(found)) == UNKNOWN + 1
    assert f"found {100 - UNKNOWN} more unknown keys" in problems(found)[-1]


def test_a_key_that_would_break_the_line_is_written_out_in_messages() -> None:
    found = fields('"a\\nerror: forged": 1\n' + f"? {'k' * 500}\n: 1\n")
    found.only(("name",))
    first, second = problems(found)
    assert "a\\nerror: forged" in first
    assert len(second) < 300


@pytest.mark.parametrize(
    "text", ["config", "C++", ".env", "how do I", "/model", "à la carte", "提醒"]
)
def test_a_keyword_may_be_any_words_on_one_line(text: str) -> None:
    assert KEYWORD.fullmatch(text)


@pytest.mark.parametrize("text", ["", " a", "a ", "a\nb", "++", "a\u202eb", "x" * 61, "\u200bа"])
def test_a_keyword_without_a_word_or_with_unseen_characters_is_none(text: str) -> None:
    assert not KEYWORD.fullmatch(text)
