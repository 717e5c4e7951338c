"""Finding orders to a model in text that somebody else wrote.

The text is brought to a plain form, and what is packed in it is unpacked (`normalise`). Then two
look at it: `rules` for what is certain and has a name, and `model` for what reads like an order.
What a text that speaks of attacks shows as an example is a finding of low severity (`context`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hookgate.builtin_plugins.sanitizer import model, rules
from hookgate.builtin_plugins.sanitizer.context import Surroundings
from hookgate.builtin_plugins.sanitizer.normalise import decoded, fold
from hookgate.builtin_plugins.sanitizer.settings import THRESHOLD
from hookgate.core.domain.descriptors import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.builtin_plugins.sanitizer.model import Weights
    from hookgate.builtin_plugins.sanitizer.normalise import Folded

__all__ = ["MAX_DEPTH", "MAX_FINDINGS", "inspect", "inspect_both", "verdict"]

PACKED = 2.0
"""So much less is enough in what was packed: nobody packs what is for everybody to read."""

MAX_FINDINGS = 32
"""So many findings of one text are named; it is judged by then."""

PASSAGES = 8
"""So many passages that read like orders are told; the surest."""

MAX_DEPTH = 2
"""So often what was packed is unpacked again."""


def inspect(
    text: str, threshold: float = THRESHOLD, weights: Weights | None = None
) -> tuple[Finding, ...]:
    """Return what in `text` gives orders to the model that reads it, in the order of the text.

    Deterministic, and in time linear in the length of the text. Spans are offsets in
    `text` as it came.

    Args:
        text: The text.
        threshold: From this score on, what reads like an order is a finding.
        weights: Of the model; those that come with the package where none are given.
    """
    found = _inspect(text, threshold, 0, weights or model.weights())
    return tuple(sorted(found, key=lambda one: (one.start, one.end, one.rule)))


def inspect_both(text: str, cleaned: str, threshold: float = THRESHOLD) -> tuple[Finding, ...]:
    """Return what is found in a text as it came, and what cleaning has brought to light.

    The places of the latter are those in the cleaned text: in the one that came, the phrase is in
    pieces.
    """
    if not text.strip():
        return ()
    found = inspect(text, threshold)
    known = {finding.rule for finding in found}
    return found + tuple(one for one in _floor(cleaned) if one.rule not in known)


def verdict(findings: Sequence[Finding], trusted: bool) -> Literal["clean", "warn", "reject"]:
    """Return what becomes of a text with these findings.

    A finding of high severity rejects every text; one of medium severity rejects text of
    strangers, and warns of the rest.
    """
    severities = {finding.severity for finding in findings}
    if "high" in severities or ("medium" in severities and not trusted):
        return "reject"
    return "warn" if "medium" in severities else "clean"


def _inspect(text: str, threshold: float, depth: int, weights: Weights) -> list[Finding]:
    folded = fold(text)
    around = Surroundings.of(folded.text)
    found = _floor(text)
    known = {one.rule for one in found}
    found += [one for one in _by_rules(folded, around) if one.rule not in known]
    found += _by_model(folded, around, threshold, weights)
    if depth < MAX_DEPTH:
        for piece in decoded(text):
            inner = _inspect(piece.text, threshold - PACKED * (depth == 0), depth + 1, weights)
            worst = next((one for one in inner if one.severity != "low"), None)
            if worst is not None:
                found.append(
                    Finding(
                        rule=f"packed-{worst.rule}",
                        severity="high",
                        start=piece.start,
                        end=piece.end,
                        note=f"{worst.note}; packed as {piece.how}",
                    )
                )
    return found[:MAX_FINDINGS]


def _floor(text: str) -> list[Finding]:
    """Return what no text may hold, in a text as it stands there."""
    return [
        Finding(rule=rule.name, severity=rule.severity, start=start, end=end, note=rule.why)
        for rule, start, end in rules.found(text, floor=True)
    ]


def _by_rules(folded: Folded, around: Surroundings) -> list[Finding]:
    found: list[Finding] = []
    for rule, start, end in rules.found(folded.text):
        shown = not rule.floor and around.mentioned(start, end)
        first, last = folded.origin(start, end)
        severity = "low" if shown else rule.severity
        found.append(
            Finding(rule=rule.name, severity=severity, start=first, end=last, note=rule.why)
        )
    return found


def _by_model(
    folded: Folded, around: Surroundings, threshold: float, weights: Weights
) -> list[Finding]:
    """Return the passages that read like orders, each place once."""
    units = model.units_of(folded.text)
    if not units:
        return []
    texts = [folded.text[start:end] for start, end in units]
    scores = model.score(model.pieces_of(texts), weights)
    sure = [one for one in scores if one.score >= threshold]
    # One unit says better where it is than two.
    sure.sort(key=lambda one: (one.last - one.first, -one.score, one.first))
    taken: set[int] = set()
    found: list[Finding] = []
    for one in sure:
        if taken.isdisjoint(range(one.first, one.last + 1)) and len(found) < PASSAGES:
            taken.update(range(one.first, one.last + 1))
            start, end = units[one.first][0], units[one.last][1]
            said = ", ".join(model.telling(texts[one.first : one.last + 1], weights))
            first, last = folded.origin(start, end)
            found.append(
                Finding(
                    rule="order",
                    severity="low" if around.mentioned(start, end) else "medium",
                    start=first,
                    end=last,
                    note=f"reads like an order to a model ({one.score:.1f}): {said}",
                )
            )
    return found
