"""Cleaning and judging text that somebody else wrote, before a model reads it.

What could pass for the frame of a conversation is taken away: characters that nobody
sees, tags that name a role, and role markers at the start of a line. That keeps text from
posing as another speaker. What gives orders to a model is found by `detector`, in the text
as it came, and costs the card its place.

All patterns run in linear time: no repetition in them stands beside another one that
takes the same characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated

from pydantic import AfterValidator, Field

from hookgate import Card, Finding, Rejected, Section

THRESHOLD = 1.0
"""From this score of the model on, a passage is a finding: see `benchmarks.sanitizer.injection`."""


def _digest(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("expected a SHA-256 of 64 hexadecimal digits, as the rejection names it")
    return text


Score = Annotated[float, Field(ge=-5.0, le=10.0)]


class SanitizerSettings(Section):
    """``[plugin.sanitizer]``: what is let through."""

    allow: tuple[Annotated[str, AfterValidator(_digest)], ...] = ()
    """Texts that pass although something was found in them, by the SHA-256 that their rejection
    names. The text is cleaned all the same; another word in it, and it is judged again."""
    threshold: Score = THRESHOLD
    """From this score on, what reads like an order to a model is a finding; less finds more, and is
    wrong more often."""
    thresholds: dict[str, Score] = Field(default_factory=dict)
    """The same for some cards: a pattern of their ids, such as `skill:*`. The first one that fits
    counts."""

    def threshold_of(self, card: str) -> float:
        """Return the threshold for the card with this id."""
        fitting = (value for glob, value in self.thresholds.items() if fnmatchcase(card, glob))
        return next(fitting, self.threshold)


# -- the sanitizer -----------------------------------------------------------------

MAX_PASSES = 20
"""Tags may hide in tags. A text that is not clean after so many passes is no honest text."""

_ROLES = "system|assistant|user|human|developer|tool"

_LINE_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls but tab and line breaks
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags, and the variation selectors behind them
    "]"
)
"""What takes no room on a screen: zero-width and bidirectional characters, fillers, tags."""

_TAGS = re.compile(
    rf"<(?:[\s/]{{0,4}}(?:{_ROLES})(?![\w-])[^<>]*>"  # <system>, </user >, <tool name="x">
    r"|\|[^<>|]{0,60}\|>"  # <|im_start|>
    r"|</?SYS>>)"
    r"|\[/?(?:INST|SYS)\]",  # [INST]
    re.IGNORECASE,
)

_MARKER = re.compile(rf"^([ \t>#*_-]*)({_ROLES})([ \t*_]*):", re.IGNORECASE | re.MULTILINE)


class NestedError(ValueError):
    """Tags are nested in tags so deep that the text is meant to deceive."""


def clean(text: str) -> str:
    """Return `text` without unseen characters and role tags, its role markers in brackets.

    The result is in the Unicode form NFKC, and cleaning it again changes nothing.

    Raises:
        NestedError: It is not clean after `MAX_PASSES` passes.
    """
    for _ in range(MAX_PASSES):
        # Most of what nests are tags, and the rest of a pass takes longer.
        cleaner = _TAGS.sub("", text)
        if cleaner == text:
            cleaner = _pass(text)
        if cleaner == text:
            return text
        text = cleaner
    raise NestedError(f"role tags are nested in one another more than {MAX_PASSES} deep")


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, by which an operator lets it through."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def judged(
    card: Card, threshold: float = THRESHOLD, allowed: Collection[str] = ()
) -> Card | Rejected | None:
    """Return `card` cleaned, or why no model may see it; None where there is nothing to change.

    The text is judged as it came: what hides an order says as much as the order. The floor holds
    for the cleaned text, too, which is the one that a model reads. Name and description are
    held to the same.

    Args:
        card: The card.
        threshold: From this score on, what reads like an order is a finding.
        allowed: Digests of texts that pass whatever is found in them.
    """
    try:
        cleaned = replace(
            card,
            text=clean(card.text),
            name=clean(card.name),
            description=clean(card.description),
        )
    except NestedError as error:
        nested = Finding(rule="nested-role-tags", severity="high", end=len(card.text))
        return Rejected(reason=str(error), findings=(nested,))
    # Its patterns and weights take time to make. They are made on the thread that judges the
    # first text, and not by a process that ends before there is one.
    from hookgate.builtin_plugins.sanitizer.detector import TOO_COSTLY, inspect_both, verdict

    about = f"{card.name}\n{card.description}"
    plain = f"{cleaned.name}\n{cleaned.description}"
    for what, text, seen in (
        ("its text", card.text, cleaned.text),
        ("its name or description", about, plain),
    ):
        found = inspect_both(text, seen, threshold)
        if verdict(found, card.trusted) == "reject" and digest_of(text) not in allowed:
            worst = [one for one in found if one.severity != "low"]
            named = ", ".join(dict.fromkeys(one.rule for one in worst))
            gives = "gives orders to a model"
            if named == TOO_COSTLY:
                gives = worst[0].note
            why = f"{what} {gives} ({named}; SHA-256 {digest_of(text)})"
            return Rejected(reason=why, findings=found)
    return None if cleaned == card else cleaned


def _pass(text: str) -> str:
    # First to one form: to a model, a tag in full-width letters is a tag too.
    text = unicodedata.normalize("NFKC", text)
    text = _LINE_BREAKS.sub("\n", text)
    text = _UNSEEN.sub("", text)
    text = _TAGS.sub("", text)
    return _MARKER.sub(r"\1[\2]\3:", text)
