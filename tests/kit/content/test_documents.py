"""Documents of YAML and TOML, read into models: what is taken, and how what is wrong is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PlainValidator

from hookgate.core.settings.documents import MOST_PROBLEMS
from hookgate.kit.content.documents import (
    KEYWORD,
    Description,
    DocumentModel,
    DocumentReading,
    Examples,
    FlagValues,
    Labels,
    Made,
    Name,
    Snake,
    many,
    once,
    read_text_as,
    several,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oven:
    """A dataclass of somebody's domain."""

    top_heat: Annotated[int, Field(ge=0, le=3)] = 0
    names: Annotated[tuple[Name, ...], several, many] = ()
    line: Annotated[int, Made()] = 0


def refused(value: object) -> object:
    raise ValueError(f"inner.key is {value}, expected another")


class Recipe(DocumentModel):
    """What the tests read."""

    name: Name
    note: Description = ""
    share: float | None = Field(default=None, ge=0, le=1)
    tags: Labels = ()
    when: Annotated[tuple[Annotated[Literal["mid", "post_tool"], Snake], ...], many] = ()
    oven: Oven = field(default_factory=Oven)
    flags: FlagValues | None = None
    by_name: Annotated[dict[str, int], once] = Field(default_factory=dict)
    examples: Examples = ()
    either: int | Oven | None = None
    picky: Annotated[Any, PlainValidator(refused)] = 1


def read(text: str, file: str = "f", *, lenient: bool = False) -> DocumentReading[Recipe]:
    return read_text_as(Recipe, text, file, lenient=lenient)


def made(text: str) -> Recipe:
    reading = read(f"name: n\n{text}")
    assert reading.problems == ()
    assert reading.one is not None
    return reading.one


def told(text: str, **how: Any) -> list[str]:
    reading = read(f"name: n\n{text}", **how)
    return [str(problem) for problem in reading.problems]


def test_keys_are_read_in_both_spellings_and_dataclasses_straight() -> None:
    assert made("oven: {topHeat: 3}").oven == made("oven: {top_heat: 3}").oven == Oven(top_heat=3)


def test_a_null_reads_as_if_it_were_not_there() -> None:
    assert made("tags: null\noven: {topHeat:}\nflags: {sendsExternally: null}\n").oven == Oven()
    assert "`tags[0]`: found nothing" in told("tags: [null]")[0]
    assert "a key that is not known" in told("tag: null")[0]


@pytest.mark.parametrize("value", ["4", "-1", "true", "1.0", "'2'", "[2]", "{}", "two"])
def test_what_is_no_whole_number_within_the_limits_is_named(value: str) -> None:
    (problem,) = told(f"oven: {{topHeat: {value}}}")
    assert problem.startswith("f:2:8: `oven.topHeat`: found")
    assert "expected a whole number from 0 to 3" in problem


@pytest.mark.parametrize("value", ["1.1", "-0.1", "true", ".nan", ".inf", "1e999", "'0.5'", "[]"])
def test_what_is_no_number_within_the_limits_is_named(value: str) -> None:
    assert "expected a number from 0 to 1" in told(f"share: {value}")[0]
    assert made("share: 1").share == 1.0


def test_words_are_read_in_both_spellings_and_each_once() -> None:
    assert made("when: [post_tool, postTool, mid]").when == ("post_tool", "mid")
    (problem,) = told("when: [mid, midd]")
    assert problem.startswith('f:2:13: `when[1]`: found the text "midd", expected one of `mid`')
    assert problem.endswith("did you mean `mid`?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tags: a", 'f:2:1: `tags`: found the text "a", expected a list, each element words of'),
        ("tags: {a: 1}", "f:2:1: `tags`: found a mapping with `a`, expected a list"),
        ("oven: [1]", "f:2:1: `oven`: found a list of 1, expected a mapping"),
        (f"tags: {[f't{n}' for n in range(65)]}", "f:2:1: `tags`: found 65 entries, expected at"),
        ("oven: {names: 3}", "f:2:8: `oven.names`: found 3, expected a list, each element a name"),
        ("oven: {line: 3}", "f:2:8: `oven.line`: found a key that is not known, expected one of"),
        ("flags: [a]", "f:2:1: `flags`: found a list of 1, expected a mapping of flags"),
        ("flags: {sends: true}", "f:2:1: `flags`: found unknown flag 'sends', expected one of"),
        ("note: ''", "f:2:1: `note`: found an empty text, expected 1 to 1024 characters"),
        ('note: "a\\u202eb"', "f:2:1: `note`: found the character \\u202e"),
        ("byName: {aB: 1, a_b: 2}", "f:2:1: `byName`: found a key in both its spellings"),
        ("oven: {topHeat: 1, top_heat: 1}", "f:2:20: `oven.top_heat`: found the key in both its"),
        ("examples: [a, 3]", "f:2:15: `examples[1]`: found the example 3, expected a message"),
        ("either: {topHeat: 9}", "f:2:10: `either.topHeat`: found 9, expected a whole number"),
        ("picky: null", "f:2:1: `picky.inner.key`: found None, expected another"),
        ("either: x", 'f:2:1: `either`: found the text "x", expected a whole number or a mapping'),
    ],
)
def test_what_is_wrong_is_named_where_it_stands(text: str, expected: str) -> None:
    (problem,) = told(text)
    assert problem.startswith(expected)


def test_a_single_value_counts_as_a_list_where_it_may() -> None:
    assert made("oven: {names: x}").oven.names == ("x",)


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_lines() -> None:
    reading = read("share: 2\nname: a b\noven: {heat: 1}\n")
    assert [one.key for one in reading.problems] == ["share", "name", "oven.heat"]
    assert reading.one is None
    assert reading.failed


def test_an_unknown_key_is_an_error_or_is_passed_over_with_a_warning() -> None:
    text = "name: n\nshar: 1\noven: {topHeatt: 1}\n"
    strict, easy = read(text), read(text, lenient=True)
    assert strict.one is None
    assert easy.one is not None
    assert not easy.failed
    assert [one.nearest for one in strict.problems] == ["share", "topHeat"]
    assert [one.severity for one in easy.problems] == ["warning", "warning"]
    assert "a key that is not known, which is passed over" in str(easy.problems[0])
    assert read(f"{text}tags: 3\n", lenient=True).failed
    assert read("name: n\nbyName: {}\nby_name: {}\n", lenient=True).failed


def test_of_many_problems_the_first_are_told_and_the_others_counted() -> None:
    problems = told("".join(f"k{number}: 1\n" for number in range(3_000)))
    assert len(problems) == MOST_PROBLEMS + 1
    assert f"found {3_000 - MOST_PROBLEMS} more that are wrong" in "".join(problems)


def test_a_key_that_would_break_the_line_is_written_out_in_messages() -> None:
    first, second = told('"a\\nerror: forged\\u202e": 1\n' + f"? {'k' * 500}\n: 1\n")
    assert "a\\nerror: forged\\u202e" in first
    assert len(second) < 400


def test_toml_is_read_by_the_same_models_in_its_own_words() -> None:
    reading = read('name = "n"\n[oven]\ntopHeat = "3"\n[[tags]]\n', "r.toml")
    assert [str(one) for one in reading.problems] == [
        'r.toml:3: `oven.topHeat`: found the text "3", expected a whole number from 0 to 3',
        "r.toml:4: `tags[0]`: found an empty table, expected words of letters and digits on one "
        "line, at most 40 characters",
    ]
    assert read("name = [" * 900, "r.toml").failed
    assert read("name = " + "9" * 5000, "r.toml").failed


@pytest.mark.parametrize("text", ["", "3", "- a", "~"])
def test_what_is_no_mapping_is_told_which_keys_it_needs(text: str) -> None:
    assert "expected keys and values, with `name`" in str(read(text).problems[0])


def test_a_value_that_looks_like_a_secret_is_not_shown() -> None:
    assert "canary" not in told("tags: sk-canary-123456")[0]
    assert "sk-" not in told("share: https://user:canary@host/")[0]


@pytest.mark.parametrize(
    "text", ["config", "C++", ".env", "how do I", "/model", "à la carte", "提醒"]
)
def test_a_keyword_may_be_any_words_on_one_line(text: str) -> None:
    assert KEYWORD.fullmatch(text)


@pytest.mark.parametrize("text", ["", " a", "a ", "a\nb", "++", "a\u202eb", "x" * 61, "\u200bа"])
def test_a_keyword_without_a_word_or_with_unseen_characters_is_none(text: str) -> None:
    assert not KEYWORD.fullmatch(text)
