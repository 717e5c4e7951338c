"""Card files: Markdown with YAML frontmatter, read into cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hookgate import FLAG_NAMES, Card, CardOrigin, Triggers
from hookgate.kit.content.documents import (
    Description,
    DisplayName,
    DocumentModel,
    Id,
    Keyword,
    Labels,
    Reading,
    Snake,
    ToolGlob,
    many,
    read_text_as,
)
from hookgate.kit.content.frontmatter import split
from hookgate.kit.content.problems import ContentError, Problem, shortened

CARD_BYTES = 51_200
"""The largest card file."""

FRONTMATTER_BYTES = 8 * 1024
"""The largest frontmatter. With `FRONTMATTER_VALUES` it bounds the time that a card takes:
8 KB of nothing but values take the YAML parser 0.3 s, 512 values in them 0.05 s."""

FRONTMATTER_VALUES = 512
"""The most values in a frontmatter. Every list as long as it may be comes to half of that."""

BODY_CHARS = (200, 800)
"""A body of this many characters says enough, and no more than a model needs."""

MAX_PRIORITY = 20
CHARS_PER_TOKEN = 4

# A surrogate is half of a character: UTF-8 has none, but a text from elsewhere may.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class TriggersText(DocumentModel):
    """``triggers``: when a card applies."""

    router_tags: Labels = ()
    keywords: Annotated[tuple[Keyword, ...], many] = ()
    session_types: Annotated[
        tuple[Annotated[Literal["main", "isolated"], Snake], ...], many, Field(min_length=1)
    ] = Triggers().session_types  # type: ignore[assignment]  # two of them
    confidence_threshold: float = Field(default=Triggers().confidence_threshold, ge=0, le=1)
    tools: Annotated[tuple[ToolGlob, ...], many] = ()
    flags: Annotated[tuple[Annotated[Literal[FLAG_NAMES], Snake], ...], many] = ()  # type: ignore[valid-type]
    inject_at: Annotated[
        tuple[Annotated[Literal["bootstrap", "mid", "post_tool"], Snake], ...],
        many,
        Field(min_length=1),
    ] = Triggers().inject_at  # type: ignore[assignment]  # two of them


class CardHead(DocumentModel):
    """The frontmatter of a card."""

    capability_id: Id
    name: DisplayName = ""
    description: Description = ""
    triggers: TriggersText = TriggersText()
    priority: int = Field(default=Card(id="", text="").priority, ge=0, le=MAX_PRIORITY)
    max_chars: int = Field(default=Card(id="", text="").max_chars, ge=1, le=CARD_BYTES)
    token_budget: int = Field(
        default=Card(id="", text="").token_budget, ge=1, le=CARD_BYTES // CHARS_PER_TOKEN
    )


def parse_card(
    text: str, file: str, *, origin: CardOrigin, trusted: bool, strict: bool = False
) -> Reading[Card]:
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
    except ContentError as error:
        return Reading(problems=(error.problem,))
    reading = read_text_as(
        CardHead,
        head,
        file,
        lenient=not strict,
        first_line=2,
        max_bytes=FRONTMATTER_BYTES,
        max_values=FRONTMATTER_VALUES,
    )
    said, document, line = reading.one, reading.document, _line_of(body, text)
    if said is None or document is None:
        usual = Card(id="", text=body)
        none: Reading[Card] = Reading(problems=reading.problems)
        return none.and_problems(_problems_of_body(usual, file, line))
    triggers = Triggers(
        **{name: getattr(said.triggers, name) for name in TriggersText.model_fields}
    )
    card = Card(
        id=said.capability_id,
        name=said.name or said.capability_id,
        description=said.description,
        text=body,
        triggers=triggers,
        priority=said.priority,
        max_chars=said.max_chars,
        token_budget=said.token_budget,
        origin=origin,
        trusted=trusted,
        source_ref=file,
    )
    more = list(_problems_of_body(card, file, line))
    if not (triggers.router_tags or triggers.keywords or triggers.tools or triggers.flags):
        found = "no router_tags, keywords, tools or flags"
        expected = "one of them: without any, only force_include shows the card"
        more.append(document.problem(("triggers",), found, expected, severity="warning"))
    return Reading(found=(card,), problems=reading.problems, line=line).and_problems(more)


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
