from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from hookgate.builtin_plugins.awareness.cards.folders import (
    FRONTMATTER_BYTES,
    CardHead,
    TriggersText,
    parse_card,
)
from hookgate.core.domain.descriptors import FLAG_NAMES, Card, Triggers
from hookgate.kit.content.documents import DocumentReading

BODY = "Invoices are sent by the tool send_invoice. It needs a customer and an amount. " * 3
MINIMAL = "capability_id: invoices\ntriggers: {keywords: [invoice]}\n"


def read(head: str, body: str = BODY, *, strict: bool = False) -> DocumentReading[Card]:
    text = f"---\n{head}---\n\n{body}\n"
    return parse_card(text, "a.md", origin="workspace", trusted=False, strict=strict)


def problems(reading: DocumentReading[Card]) -> list[str]:
    return [str(problem) for problem in reading.problems]


def card_of(reading: DocumentReading[Card]) -> Card:
    assert problems(reading) == []
    assert reading.one is not None
    return reading.one


FULL = """\
capability_id: invoices
name: Invoices
description: Sends
  invoices.
triggers:
  router_tags: [billing, config]
  keywords: [invoice, pay for, C++]
  session_types: [main]
  confidence_threshold: 0
  tools: [send_invoice, 'tool:list_invoices']
  flags: [sends_externally, readsExternalData]
  inject_at: [post_tool, mid]
priority: 0
max_chars: 1200
token_budget: 300
"""


def test_every_key_of_a_card_is_read() -> None:
    reading = parse_card(
        f"---\n{FULL}---\n\n{BODY}\n", "cards/a.md", origin="configured", trusted=True
    )
    assert card_of(reading) == Card(
        id="invoices",
        name="Invoices",
        description="Sends invoices.",
        text=BODY.strip(),
        triggers=Triggers(
            router_tags=("billing", "config"),
            keywords=("invoice", "pay for", "C++"),
            session_types=("main",),
            confidence_threshold=0.0,
            tools=("send_invoice", "list_invoices"),
            flags=("sends_externally", "reads_external_data"),
            inject_at=("post_tool", "mid"),
        ),
        priority=0,
        max_chars=1200,
        token_budget=300,
        origin="configured",
        trusted=True,
        source_ref="cards/a.md",
    )


def test_an_id_and_a_trigger_are_enough() -> None:
    card = card_of(read(MINIMAL))
    assert card == Card(
        id="invoices",
        name="invoices",
        text=BODY.strip(),
        triggers=Triggers(keywords=("invoice",)),
        origin="workspace",
        source_ref="a.md",
    )
    assert (card.priority, card.max_chars, card.token_budget) == (5, 2400, 600)
    assert card.triggers.confidence_threshold == 0.6


def test_lines_may_end_as_they_do_elsewhere() -> None:
    text = f"---\n{FULL}---\n\n{BODY}\n"
    lf, crlf, cr = (
        parse_card(text.replace("\n", end), "a.md", origin="user", trusted=False)
        for end in ("\n", "\r\n", "\r")
    )
    assert lf == crlf == cr
    assert lf.line == 19


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("name: x\n", "a.md:2:1: `capability_id`: found nothing, expected an id of"),
        (
            "capability_id: 'a b'\n",
            'a.md:2:1: `capability_id`: found the text "a b", expected an id of',
        ),
        ("capability_id: ../a\n", 'a.md:2:1: `capability_id`: found the text "../a"'),
        ("capability_id: 7\n", "a.md:2:1: `capability_id`: found 7, expected an id of"),
        (MINIMAL + "name: [x]\n", "a.md:4:1: `name`: found a list of 1, expected text"),
        (MINIMAL + f"name: {'x' * 81}\n", "a.md:4:1: `name`: found 81 characters"),
        (MINIMAL + "name: ''\n", "a.md:4:1: `name`: found an empty text"),
        (MINIMAL + f"description: {'x' * 1025}\n", "a.md:4:1: `description`: found 1,025"),
        (MINIMAL + "priority: 21\n", "a.md:4:1: `priority`: found 21, expected a whole number"),
        (MINIMAL + "priority: 1.5\n", "a.md:4:1: `priority`: found 1.5, expected a whole number"),
        (
            MINIMAL + "priority: yes\n",
            'a.md:4:1: `priority`: found the text "yes", expected a whole number',
        ),
        (MINIMAL + "priority: true\n", "a.md:4:1: `priority`: found true, expected a whole"),
        (MINIMAL + "max_chars: 0\n", "a.md:4:1: `max_chars`: found 0, expected a whole number"),
        (MINIMAL + "maxChars: 51201\n", "a.md:4:1: `maxChars`: found 51201, expected a whole"),
        (MINIMAL + "token_budget: -1\n", "a.md:4:1: `token_budget`: found -1, expected a whole"),
        (
            "capability_id: a\ntriggers: [x]\n",
            "a.md:3:1: `triggers`: found a list of 1, expected a map",
        ),
    ],
)
def test_each_wrong_value_is_named_with_its_place_and_costs_the_card(
    head: str, expected: str
) -> None:
    reading = read(head)
    assert reading.one is None
    assert problems(reading)[0].startswith(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "router_tags: config",
            'a.md:4:3: `triggers.router_tags`: found the text "config", expected a list',
        ),
        (
            "routerTags: [a, '']",
            'a.md:4:19: `triggers.routerTags[1]`: found the text "", expected words',
        ),
        (
            "keywords: [a, 3]",
            "a.md:4:17: `triggers.keywords[1]`: found 3, expected a word or a few",
        ),
        (
            "keywords: ['-']",
            'a.md:4:14: `triggers.keywords[0]`: found the text "-", expected a word',
        ),
        (
            "session_types: [home]",
            'a.md:4:19: `triggers.session_types[0]`: found the text "home", expected',
        ),
        ("session_types: []", "a.md:4:3: `triggers.session_types`: found an empty list"),
        ("confidence_threshold: 1.01", "a.md:4:3: `triggers.confidence_threshold`: found 1.01"),
        (
            "confidence_threshold: '0.5'",
            'a.md:4:3: `triggers.confidence_threshold`: found the text "0.5"',
        ),
        (
            "confidence_threshold: .nan",
            'a.md:4:3: `triggers.confidence_threshold`: found the text ".nan"',
        ),
        (
            "tools: ['http get']",
            'a.md:4:11: `triggers.tools[0]`: found the text "http get", expected the na',
        ),
        (
            "flags: [sends]",
            'a.md:4:11: `triggers.flags[0]`: found the text "sends", expected one of `reads',
        ),
        (
            "flags: {sends_externally: true}",
            "a.md:4:3: `triggers.flags`: found a mapping with",
        ),
        (
            "inject_at: [mid, end]",
            'a.md:4:20: `triggers.inject_at[1]`: found the text "end", expected one',
        ),
    ],
)
def test_each_wrong_trigger_is_named_with_its_place_and_costs_the_card(
    line: str, expected: str
) -> None:
    reading = read(f"capability_id: a\ntriggers:\n  {line}\n")
    assert reading.one is None
    assert problems(reading)[0].startswith(expected)


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_lines() -> None:
    reading = read("priority: x\ncapability_id: a b\ntriggers: {tools: 1}\nmax_chars: []\n", "")
    assert [problem.key for problem in reading.problems] == [
        "priority",
        "capability_id",
        "triggers.tools",
        "max_chars",
        "",
    ]


def test_an_unknown_key_is_a_warning_and_an_error_where_one_is_strict() -> None:
    head = "capability_id: a\nprioritty: 3\ntriggers: {keyword: [x], keywords: [x]}\n"
    easy, strict = read(head), read(head, strict=True)
    assert easy.one is not None
    assert strict.one is None
    assert [problem.severity for problem in easy.problems] == ["warning", "warning"]
    assert [problem.severity for problem in strict.problems] == ["error", "error"]
    assert [problem.nearest for problem in strict.problems] == ["priority", "keywords"]
    assert problems(strict)[1].startswith(
        "a.md:4:12: `triggers.keyword`: found a key that is not known"
    )


def test_a_key_in_both_spellings_is_an_error() -> None:
    reading = read(MINIMAL + "max_chars: 100\nmaxChars: 100\n")
    assert reading.one is None
    assert "the key in both its spellings" in problems(reading)[0]


@pytest.mark.parametrize(
    ("size", "more", "told"),
    [
        (199, "", ["found a body of 199 characters, expected 200 to 800 characters"]),
        (200, "", []),
        (800, "", []),
        (801, "", ["found a body of 801 characters, expected 200 to 800 characters"]),
        (300, "max_chars: 299\n", ["found a body of 300 characters, expected at most 299"]),
        (300, "max_chars: 300\n", []),
        (300, "token_budget: 74\n", ["found a body of 300 characters, expected at most 296"]),
        (2401, "", ["expected 200 to 800", "expected at most 2400"]),
    ],
)
def test_the_length_of_the_body_is_worth_a_warning(size: int, more: str, told: list[str]) -> None:
    reading = read(MINIMAL + more, "x" * size)
    assert reading.one is not None
    assert len(problems(reading)) == len(told)
    assert all(part in problem for part, problem in zip(told, problems(reading), strict=True))
    assert {problem.severity for problem in reading.problems} <= {"warning"}


def test_an_empty_body_is_an_error_where_it_should_begin() -> None:
    reading = read(MINIMAL, " \n\n")
    assert reading.one is None
    assert problems(reading)[0].startswith("a.md:4: found an empty body, expected a text below")


@pytest.mark.parametrize("triggers", ["", "triggers: {session_types: [main]}\n", "triggers:\n"])
def test_a_card_that_nothing_shows_is_worth_a_warning(triggers: str) -> None:
    reading = read(f"capability_id: a\n{triggers}")
    assert reading.one is not None
    assert "only force_include shows the card" in problems(reading)[0]


@pytest.mark.parametrize(
    "trigger", ["router_tags: [x]", "keywords: [x]", "tools: [x]", "flags: [sendsExternally]"]
)
def test_any_trigger_is_one(trigger: str) -> None:
    assert problems(read(f"capability_id: a\ntriggers: {{{trigger}}}\n")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a.md:1: found an empty file, expected a first line of --- with capability_id below"),
        ("# Invoices\n", "a.md:1: found no frontmatter"),
        ("---\ncapability_id: a\n", "a.md:1: found frontmatter without an end"),
        (
            "---\n---\ntext\n",
            "a.md:1:1: found nothing, expected keys and values, with `capability_id`",
        ),
        ("---\n- a\n---\ntext\n", "a.md:2:1: found a list of 1, expected keys and values"),
        ("---\na: &x 1\n---\ntext\n", "a.md:2:4: found an anchor (&x)"),
        ("---\na: 1\n---\nte\0xt\n", "a.md:4: found the character \\x00, expected text"),
        ("---\na: 1\n---\nte\ud800xt\n", "a.md:4: found the character \\ud800, expected text"),
        (f"---\na: {'x' * FRONTMATTER_BYTES}\n---\nx\n", "a.md:2:1: found 8195 bytes of YAML"),
        (f"---\na: [{'1,' * 600}]\n---\nx\n", "a.md:2:1025: found more than 512 values"),
    ],
)
def test_what_is_no_card_is_named(text: str, expected: str) -> None:
    reading = parse_card(text, "a.md", origin="user", trusted=False)
    assert reading.one is None
    assert problems(reading)[0].startswith(expected)


def test_the_line_on_which_the_body_begins_is_known() -> None:
    text = "---\ncapability_id: a\n\n---\n\n \n  Body\nand more\n"
    reading = parse_card(text, "a.md", origin="user", trusted=False)
    assert reading.line == 7
    assert reading.one is not None
    assert reading.one.text == "Body\nand more"


# -- whatever a file says ------------------------------------------------------------

LISTED = {
    "router_tags": st.lists(st.sampled_from(["config", "tools", "a b"]), max_size=3),
    "keywords": st.lists(st.sampled_from(["invoice", "C++", "é"]), max_size=3),
    "session_types": st.lists(st.sampled_from(["main", "isolated"]), min_size=1, max_size=2),
    "confidence_threshold": st.sampled_from([0, 0.25, 1, 1.0]),
    "tools": st.lists(st.sampled_from(["http_get", "tool:a"]), max_size=2),
    "flags": st.lists(st.sampled_from(FLAG_NAMES), max_size=2),
    "inject_at": st.lists(
        st.sampled_from(["bootstrap", "mid", "post_tool"]), min_size=1, max_size=2
    ),
}
GOOD = st.fixed_dictionaries(
    {"capability_id": st.sampled_from(["a", "tool:b", "c-d_e"])},
    optional={
        "name": st.sampled_from(["A", "Ä b"]),
        "description": st.sampled_from(["One.", "Two\nlines"]),
        "triggers": st.fixed_dictionaries({}, optional=LISTED),
        "priority": st.integers(0, 20),
        "max_chars": st.integers(1, 3000),
        "token_budget": st.integers(1, 3000),
    },
)


def in_camel(data: dict[str, Any]) -> dict[str, Any]:
    return {
        to_camel(key): in_camel(value) if isinstance(value, dict) else value
        for key, value in data.items()
    }


def dumped(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


@given(GOOD)
def test_keys_in_both_spellings_give_equal_cards(data: dict[str, Any]) -> None:
    snake, camel_case = read(dumped(data)), read(dumped(in_camel(data)))
    assert snake.one is not None
    assert snake.one == camel_case.one


@pytest.mark.parametrize("names", [FLAG_NAMES, tuple(map(to_camel, FLAG_NAMES))])
def test_flags_are_named_in_both_spellings(names: tuple[str, ...]) -> None:
    card = card_of(read(dumped({"capability_id": "a", "triggers": {"flags": list(names)}})))
    assert card.triggers.flags == FLAG_NAMES


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
KEY, TRIGGER = (
    st.sampled_from([*model.model_fields, *map(to_camel, model.model_fields)]) | st.text(max_size=8)
    for model in (CardHead, TriggersText)
)
TYPED = st.dictionaries(KEY, ANY, max_size=6) | st.fixed_dictionaries(
    {"capability_id": st.just("a"), "triggers": st.dictionaries(TRIGGER, ANY, max_size=5)}
)
PIECES = st.sampled_from(
    [
        *("---", "\n", "\r", ": ", "- ", "? ", "[", "]", "{", "}", "|", ">", "#", "'", '"'),
        *("&a", "*a", "<<", "!!", "%", "\t", "\0", "\x85", "\u2028", "\ufeff", "\ud800"),
        *("capability_id", "triggers"),
    ]
)


def held(reading: DocumentReading[Card]) -> bool:
    """Whether there is a card or an error, and not both; and each problem is on one line."""
    failed = any(problem.severity == "error" for problem in reading.problems)
    one_line = all("\n" not in str(problem) for problem in reading.problems)
    named = all(problem.file == "a.md" and problem.line for problem in reading.problems)
    return failed == (reading.one is None) and one_line and named


@given(TYPED, st.booleans())
def test_any_values_give_a_card_or_a_problem(data: dict[str, Any], strict: bool) -> None:
    assert held(read(dumped(data), strict=strict))


@given(st.lists(PIECES | st.text(max_size=6), max_size=30).map("".join), st.booleans())
@example("---\n---\n", True)
def test_any_text_gives_a_card_or_a_problem(text: str, whole: bool) -> None:
    if not whole:
        text = f"---\n{text}\n---\n{BODY}"
    assert held(parse_card(text, "a.md", origin="user", trusted=False, strict=True))
