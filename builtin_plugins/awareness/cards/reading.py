"""Card files: Markdown with YAML frontmatter, read into cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hookgate import FLAG_NAMES, Card, CardOrigin, Triggers
from hookgate.kit.content.fields import (
    DESCRIPTION_CHARS,
    DISPLAY_CHARS,
    ID,
    KEYWORD,
    LABEL,
    TOOL_GLOB,
    Fields,
)
from hookgate.kit.content.frontmatter import split
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.yaml_reader import read_yaml

CARD_BYTES = 51_200
"""The largest card file."""

FRONTMATTER_BYTES = 8 * 1024
"""The largest frontmatter. With `FRONTMATTER_VALUES` it bounds the time that a card takes:
8 KB of nothing but values take the YAML parser 0.3 s, 512 values in them 0.05 s."""

FRONTMATTER_VALUES = 512
"""The most values in a frontmatter. Every list as long as it may be comes to half of that."""

BODY_CHARS = (200, 800)
"""A body of this many characters says enough, and no more than a model needs."""

SESSION_TYPES = ("main", "isolated")
INJECT_AT = ("bootstrap", "mid", "post_tool")

KEYS = (
    "capability_id",
    "name",
    "description",
    "triggers",
    "priority",
    "max_chars",
    "token_budget",
)
TRIGGER_KEYS = (
    "router_tags",
    "keywords",
    "session_types",
    "confidence_threshold",
    "tools",
    "flags",
    "inject_at",
)

MAX_PRIORITY = 20
CHARS_PER_TOKEN = 4

# A surrogate is half of a character: UTF-8 has none, but a text from elsewhere may.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """What came of reading one card.

    Attributes:
        card: The card; None where something is wrong.
        problems: What is wrong, warnings included, in the order of lines.
        line: The line of the file on which the body begins, from 1.
    """

    card: Card | None = None
    problems: tuple[Problem, ...] = ()
    line: int = 1


def parse_card(
    text: str, file: str, *, origin: CardOrigin, trusted: bool, strict: bool = False
) -> CardReading:
    """Read one card. It never raises.

    Args:
        text: What the file holds, without a byte order mark.
        file: The file, for messages and as the card's `source_ref`.
        origin: Whose the card is.
        trusted: Whether medium findings in its body warn instead of rejecting it.
        strict: Whether unknown keys are errors.
    """
    try:
        _check_text(text, file)
        head, body = split(text, file, needed="capability_id")
        document = read_yaml(
            head,
            file,
            first_line=2,
            max_bytes=FRONTMATTER_BYTES,
            max_values=FRONTMATTER_VALUES,
        )
    except ContentError as error:
        return CardReading(problems=(error.problem,))
    if not isinstance(document.value, dict):
        problem = document.problem((), "no keys in the frontmatter", "capability_id")
        return CardReading(problems=(problem,))
    line = _line_of(body, text)
    fields = Fields(document)
    card = _card(fields, body, file, origin=origin, trusted=trusted, strict=strict)
    fields.problems += _problems_of_body(card, file, line)
    problems = tuple(sorted(fields.problems, key=lambda one: one.line or 0))
    return CardReading(card=None if fields.failed else card, problems=problems, line=line)


def _check_text(text: str, file: str) -> None:
    """Refuse characters that are no text.

    Raises:
        ContentError: There is one.
    """
    odd = _NO_TEXT.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        found = f"the character {shortened(odd.group())[1:-1]}"
        raise ContentError(Problem(file=file, line=line, found=found, expected="text"))


def _line_of(body: str, text: str) -> int:
    """Return the line of `text` on which its stripped last part, `body`, begins."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    return lines.count("\n", 0, len(lines) - len(body)) + 1


def _card(
    fields: Fields, body: str, file: str, *, origin: CardOrigin, trusted: bool, strict: bool
) -> Card:
    fields.only(KEYS, strict=strict)
    fields.required("capability_id")
    card_id = fields.text("capability_id", ID)
    usual = Card(id=card_id, text=body)
    priority = fields.integer("priority", 0, MAX_PRIORITY)
    max_chars = fields.integer("max_chars", 1, CARD_BYTES)
    token_budget = fields.integer("token_budget", 1, CARD_BYTES // CHARS_PER_TOKEN)
    return Card(
        id=card_id,
        name=fields.prose("name", DISPLAY_CHARS) or card_id,
        description=fields.prose("description", DESCRIPTION_CHARS),
        text=body,
        triggers=_triggers(fields, strict=strict),
        priority=usual.priority if priority is None else priority,
        max_chars=usual.max_chars if max_chars is None else max_chars,
        token_budget=usual.token_budget if token_budget is None else token_budget,
        origin=origin,
        trusted=trusted,
        source_ref=file,
    )


def _triggers(card: Fields, *, strict: bool) -> Triggers:
    """Return the triggers of a card; warn where there are none."""
    usual = Triggers()
    fields = card.inner("triggers")
    if fields is None:
        found = usual
    else:
        fields.only(TRIGGER_KEYS, strict=strict)
        threshold = fields.number("confidence_threshold", 0, 1)
        tools = fields.texts("tools", TOOL_GLOB)
        found = Triggers(
            router_tags=fields.texts("router_tags", LABEL),
            keywords=fields.texts("keywords", KEYWORD),
            session_types=fields.choices("session_types", SESSION_TYPES) or usual.session_types,
            confidence_threshold=usual.confidence_threshold if threshold is None else threshold,
            tools=tuple(dict.fromkeys(tool.removeprefix("tool:") for tool in tools)),
            flags=fields.choices("flags", FLAG_NAMES, empty=True),
            inject_at=fields.choices("inject_at", INJECT_AT) or usual.inject_at,
        )
    if not (found.router_tags or found.keywords or found.tools or found.flags) and not card.failed:
        card.problem(
            "triggers",
            "no router_tags, keywords, tools or flags",
            "one of them: without any, only force_include shows the card",
            severity="warning",
        )
    return found


def _problems_of_body(card: Card, file: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with the text of a card, and what could be better."""
    size = len(card.text)
    least, most = BODY_CHARS
    cap = min(card.max_chars, CHARS_PER_TOKEN * card.token_budget)
    found = f"a body of {size} characters"
    if not size:
        expected = "a text below the second ---, which tells a model of the capability"
        yield Problem(file=file, line=line, found="an empty body", expected=expected)
        return
    if not least <= size <= most:
        expected = f"{least} to {most} characters"
        yield Problem(file=file, line=line, found=found, expected=expected, severity="warning")
    if size > cap:
        expected = f"at most {cap}, by max_chars and {CHARS_PER_TOKEN} x token_budget: it is cut"
        yield Problem(file=file, line=line, found=found, expected=expected, severity="warning")
