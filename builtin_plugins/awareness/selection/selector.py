"""Choosing cards: which ones fit a message, in which order, and how much of them fits a budget.

Everything here is a pure function of its arguments. Every card gets a decision with a reason,
the cards that are not shown too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from hookgate.builtin_plugins.awareness.selection.keywords import Keywords, fold
from hookgate.core.domain.descriptors import FLAG_NAMES, Triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hookgate.builtin_plugins.awareness.selection.keywords import Folded
    from hookgate.core.domain.descriptors import Card, Flags

__all__ = [
    "CUT_MARKER",
    "CardDecision",
    "CardMatcher",
    "JudgedCard",
    "cap_of",
    "cut",
    "fit",
    "force",
    "order",
    "refuse",
    "tokens_of",
]

CUT_MARKER = "\n[cut]"
"""Stands at the end of a text that was cut, and counts towards its cap."""

KEYWORD_SHARE, OCCURRENCE_SHARE, MANY_OCCURRENCES = 0.7, 0.3, 50
"""The score of a card by its keywords: so much for how many of them a message holds, so much
for how often it holds any, up to so many times."""

USUAL_THRESHOLD = Triggers().confidence_threshold
"""A card that leaves its threshold at the default has not said how many of its keywords it wants
to see: one of them is evidence enough, however many there are. Any other threshold is the
least score."""

HIGHEST_PRIORITY = 20

CHARS_A_TOKEN = 4

NAMED = 5
"""So many keywords are named in a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCard:
    """What became of one card.

    Attributes:
        card: The card.
        score: How well it fits, 0 to 1.
        reason: Why it was chosen, or why not, for people.
        chosen: Whether it is to be shown, as far as the budget allows.
        forced: Whether it is shown whatever its score is.
    """

    card: Card
    score: float
    reason: str
    chosen: bool
    forced: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the decision without the card's text."""
        return {
            "id": self.card.id,
            "chosen": self.chosen,
            "score": round(self.score, 4),
            "reason": self.reason,
            "forced": self.forced,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDecision:
    """What becomes of one card once the budget has been looked at.

    Attributes:
        judged: The card and its score; `judged.chosen` is false where it did not fit.
        text: What is shown; "" where nothing is.
        tokens: How many tokens that takes.
    """

    judged: JudgedCard
    text: str = ""
    tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the decision without the card's text."""
        return self.judged.to_json() | {"tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class _Ready:
    """A card that is ready to be held against messages."""

    card: Card
    keywords: Keywords
    tags: frozenset[str]


class CardMatcher:
    """Holds cards against messages. Made once for each set of cards.

    Args:
        cards: The cards by id.
    """

    def __init__(self, cards: Mapping[str, Card]) -> None:
        self._ready = tuple(
            _Ready(card, Keywords(card.triggers.keywords), frozenset(card.triggers.router_tags))
            for card in cards.values()
        )

    def among(self, ids: Collection[str]) -> CardMatcher:
        """Return a matcher of those of the cards that are among `ids`, without making them anew."""
        matcher = CardMatcher({})
        matcher._ready = tuple(ready for ready in self._ready if ready.card.id in ids)
        return matcher

    def judge(
        self,
        message: str,
        *,
        tags: frozenset[str],
        session_type: str,
        point: Literal["bootstrap", "mid"],
    ) -> Sequence[JudgedCard]:
        """Return a decision for every card, in the order of the cards.

        Args:
            message: The current message, and nothing of the conversation before it.
            tags: The router tags of the turn.
            session_type: ``main`` or ``isolated``.
            point: Where in the conversation the turn is.
        """
        folded = fold(message)
        return [self._judge(ready, folded, tags, session_type, point) for ready in self._ready]

    def after_tools(
        self, tools: Sequence[tuple[str, Flags]], *, session_type: str | None = None
    ) -> Sequence[JudgedCard]:
        """Return a decision for every card once tools have been used.

        Args:
            tools: The names and flags of the tools. A flag that is not declared counts as
                true: a card about sending out applies to a tool that may send out.
            session_type: ``main`` or ``isolated``; None for cards of either.
        """
        return [_after(ready.card, tools, session_type) for ready in self._ready]

    def _judge(
        self, ready: _Ready, folded: Folded, tags: frozenset[str], session_type: str, point: str
    ) -> JudgedCard:
        card, triggers = ready.card, ready.card.triggers
        score, reason = _score(ready, folded, tags)
        chosen = False
        if session_type not in triggers.session_types:
            reason = f"not for {session_type} sessions"
        elif point not in triggers.inject_at:
            reason = f"not shown at {point}, only at {', '.join(triggers.inject_at) or 'no point'}"
        elif score >= triggers.confidence_threshold or (
            # Of a message with words, a score is a tag or a keyword.
            score and folded.text and triggers.confidence_threshold == USUAL_THRESHOLD
        ):
            chosen = True
        elif score:
            reason = f"{reason}: {score:.2f}, below its threshold {triggers.confidence_threshold:g}"
        return JudgedCard(card=card, score=score, reason=reason, chosen=chosen)


def _score(ready: _Ready, folded: Folded, tags: frozenset[str]) -> tuple[float, str]:
    if matched := sorted(ready.tags & tags):
        return 1.0, f"router tag {', '.join(matched)}"
    if not folded.text:
        priority = min(max(ready.card.priority, 0), HIGHEST_PRIORITY)
        return priority / HIGHEST_PRIORITY, f"no message, priority {ready.card.priority}"
    found = ready.keywords.count(folded)
    if not found:
        return 0.0, "no router tag and no keyword"
    often = min(sum(found.values()) / MANY_OCCURRENCES, 1.0)
    score = KEYWORD_SHARE * len(found) / len(ready.keywords) + OCCURRENCE_SHARE * often
    named = ", ".join([*list(found)[:NAMED], *(["..."] if len(found) > NAMED else [])])
    # The shares add up to one but for the rounding of floats.
    return min(score, 1.0), f"{len(found)} of {len(ready.keywords)} keywords: {named}"


def _after(card: Card, tools: Sequence[tuple[str, Flags]], session_type: str | None) -> JudgedCard:
    triggers = card.triggers

    def judged(reason: str, score: float = 0.0, *, chosen: bool = False) -> JudgedCard:
        return JudgedCard(card=card, score=score, reason=reason, chosen=chosen)

    if "post_tool" not in triggers.inject_at:
        return judged("not shown after tools")
    if session_type is not None and session_type not in triggers.session_types:
        return judged(f"not for {session_type} sessions")
    for name, flags in tools:
        if any(fnmatchcase(name, pattern) for pattern in triggers.tools):
            return judged(f"the tool {name} was used", 1.0, chosen=True)
        for flag in triggers.flags:
            # A name that is no flag says nothing about any tool.
            if flag in FLAG_NAMES and (value := flags.get(flag)) is not False:
                how = "declares" if value else "may do what is named"
                return judged(f"the tool {name} {how} {flag}", 1.0, chosen=True)
    return judged("no tool was used that it names")


def force(judged: Sequence[JudgedCard], ids: Collection[str]) -> list[JudgedCard]:
    """Return the decisions with those of `ids` forced: chosen past threshold and session type."""
    return [
        replace(
            one,
            chosen=True,
            forced=True,
            reason=f"forced; {one.reason}" if one.chosen else "forced",
        )
        if one.card.id in ids
        else one
        for one in judged
    ]


def refuse(judged: Sequence[JudgedCard], ids: Collection[str], reason: str) -> list[JudgedCard]:
    """Return the decisions with those of `ids` taken back, for a reason such as ``excluded``.

    This wins over everything, force included.
    """
    return [
        replace(one, chosen=False, forced=False, reason=reason) if one.card.id in ids else one
        for one in judged
    ]


def order(judged: Sequence[JudgedCard]) -> list[JudgedCard]:
    """Return decisions in the order in which cards get their room.

    Chosen ones come before the others, and forced ones before all; then by priority and by
    score, high first, and by id.
    """
    return sorted(
        judged,
        key=lambda one: (
            not one.chosen,
            not one.forced,
            -one.card.priority,
            -one.score,
            one.card.id,
        ),
    )


def fit(
    judged: Sequence[JudgedCard],
    budget: int,
    framed: Callable[[Card, str], str] = lambda _, text: text,
) -> list[CardDecision]:
    """Return what of the chosen cards fits, in the order of `judged`.

    A card that does not fit is passed over, and those behind it are still looked at.

    Args:
        judged: The decisions, in order; their cards' texts have passed the sanitizers.
        budget: The most tokens that all texts may take together.
        framed: Makes what is shown of a card and its text, cut to its cap; what stands
            between two cards belongs into it.
    """
    left, decisions = max(budget, 0), []
    for one in judged:
        if not one.chosen:
            decisions.append(CardDecision(judged=one))
            continue
        text = framed(one.card, cut(one.card.text, cap_of(one.card)))
        tokens = tokens_of(text)
        if tokens > left:
            reason = f"does not fit: {tokens} tokens, {left} of {budget} left"
            decisions.append(CardDecision(judged=replace(one, chosen=False, reason=reason)))
            continue
        left -= tokens
        decisions.append(CardDecision(judged=one, text=text, tokens=tokens))
    return decisions


def cap_of(card: Card) -> int:
    """Return the most characters of a card that are shown, the cut marker included."""
    return max(0, min(card.max_chars, CHARS_A_TOKEN * card.token_budget))


def tokens_of(text: str) -> int:
    """Return for how many tokens a text counts: a token for every started four characters."""
    return math.ceil(len(text) / CHARS_A_TOKEN)


def cut(text: str, cap: int) -> str:
    """Return `text` with at most `cap` characters, `CUT_MARKER` included where it was cut.

    The cut is at the end of a line where that keeps two thirds of what would fit, else behind
    a word where that keeps half of it, else anywhere.
    """
    if len(text) <= cap:
        return text
    room = cap - len(CUT_MARKER)
    if room <= 0:
        return CUT_MARKER.strip()[: max(cap, 0)]
    head = text[:room]
    line = head.rfind("\n") if text[room] != "\n" else room
    if 3 * line >= 2 * room:
        return head[:line].rstrip() + CUT_MARKER
    if not text[room].isspace():
        space = head.rfind(" ")
        if 2 * space >= room:
            head = head[:space]
    return head.rstrip() + CUT_MARKER
