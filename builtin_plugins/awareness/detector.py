"""Finding orders to a model in text that somebody else wrote.

The text is brought to a plain form, and what is packed in it is unpacked. Every sentence is
held against rules about what its words do (`rules`), what it carries where
(`exfiltration`), who it speaks as (`frames`), and what it has done (`deeds`, `schemes`).
What is quoted as an example of an attack, in a text that speaks of attacks, is a finding of
low severity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hookgate.builtin_plugins.awareness.context import mentioned, quoted, reported, units
from hookgate.builtin_plugins.awareness.cues import Cues
from hookgate.builtin_plugins.awareness.deeds import DEEDS
from hookgate.builtin_plugins.awareness.exfiltration import HIGH, MEDIUM, hosts, weigh
from hookgate.builtin_plugins.awareness.frames import FRAMES
from hookgate.builtin_plugins.awareness.lexicon import Part
from hookgate.builtin_plugins.awareness.normalise import decoded, fold
from hookgate.builtin_plugins.awareness.rules import RULES, match
from hookgate.builtin_plugins.awareness.schemes import SCHEMES
from hookgate.core.descriptors import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hookgate.builtin_plugins.awareness.context import Unit
    from hookgate.builtin_plugins.awareness.frames import Frame
    from hookgate.core.descriptors import Severity

__all__ = ["MAX_DEPTH", "MAX_FINDINGS", "inspect", "verdict"]

MAX_FINDINGS = 32
"""So many findings of one text are named; it is judged by then."""

_NOT = int(Part.NOT)
_REACH = 200
"""So many characters around a hint are searched for a pattern."""

MAX_DEPTH = 2
"""So often what was packed is unpacked again."""

_PATTERNS = (*FRAMES, *DEEDS, *SCHEMES)
_CUES = Cues(frame.hint for frame in _PATTERNS)


def inspect(text: str) -> tuple[Finding, ...]:
    """Return what in `text` gives orders to the model that reads it, in the order of the text.

    Deterministic, and in time linear in the length of the text. Spans are offsets in
    `text` as it came.
    """
    return tuple(sorted(_inspect(text, 0), key=lambda found: (found.start, found.end, found.rule)))


def verdict(findings: Sequence[Finding], trusted: bool) -> Literal["clean", "warn", "reject"]:
    """Return what becomes of a text with these findings.

    A finding of high severity rejects every text; one of medium severity rejects text of
    strangers, and warns of the rest.
    """
    severities = {finding.severity for finding in findings}
    if "high" in severities or ("medium" in severities and not trusted):
        return "reject"
    return "warn" if "medium" in severities else "clean"


def _inspect(text: str, depth: int) -> list[Finding]:
    folded = fold(text)
    found: list[Finding] = []
    sentences = units(folded.text)
    for source in (
        _by_words(sentences),
        _by_load(folded.text, sentences),
        _by_frame(folded.text, sentences),
    ):
        for name, severity, note, start, end in source:
            first, last = folded.origin(start, end)
            found.append(Finding(rule=name, severity=severity, start=first, end=last, note=note))
            if len(found) >= MAX_FINDINGS:
                return found
    if depth < MAX_DEPTH:
        found += _packed(text, depth)
    return found[:MAX_FINDINGS]


def _packed(text: str, depth: int) -> Iterator[Finding]:
    for piece in decoded(text):
        inner = _inspect(piece.text, depth + 1)
        worst = [finding for finding in inner if finding.severity != "low"]
        if worst:
            yield Finding(
                rule=f"packed-{worst[0].rule}",
                severity="high",
                start=piece.start,
                end=piece.end,
                note=f"{worst[0].note}; packed as {piece.how}",
            )


def _by_words(sentences: list[Unit]) -> Iterator[tuple[str, Severity, str, int, int]]:
    judged: set[str] = set()
    for unit in sentences:
        if len(unit.words) < 2:
            continue
        text = unit.text[unit.start : unit.end]
        if text in judged:
            continue
        judged.add(text)
        named: set[str] = set()
        mask = unit.mask
        for rule in RULES:
            if not (mask & rule.masks[0] and mask & rule.masks[1]) or rule.name in named:
                continue
            span = match(rule, unit)
            if span is not None:
                named.add(rule.name)
                yield rule.name, _severity(rule.severity, unit, *span), rule.note, *span


def _severity(severity: Severity, unit: Unit, start: int, end: int) -> Severity:
    aside = quoted(unit, start, end) or unit.fenced or unit.row
    if mentioned(unit, start, end) and aside:
        return "low"
    if severity == "medium" and (aside or reported(unit, start)):
        return "low"
    if severity == "high" and reported(unit, start):
        return "medium" if not aside else "low"
    return severity


def _by_load(text: str, sentences: list[Unit]) -> Iterator[tuple[str, Severity, str, int, int]]:
    names = hosts(text)
    for number, unit in enumerate(sentences):
        weighed = weigh(unit, sentences[max(0, number - 3) : number], names)
        if weighed is None or weighed[0] < MEDIUM:
            continue
        weight, start, end = weighed
        severity: Severity = "high" if weight >= HIGH else "medium"
        if mentioned(unit, start, end) and (unit.fenced or unit.row or quoted(unit, start, end)):
            severity = "low"
        yield "exfiltrate", severity, f"carries data to an address (weight {weight})", start, end


def _by_frame(text: str, sentences: list[Unit]) -> Iterator[tuple[str, Severity, str, int, int]]:
    for number, places in sorted(_CUES.places(text).items()):
        frame = _PATTERNS[number]
        for start, end in _near(text, frame, places):
            severity = _framed(frame, sentences, start, end)
            if severity is not None:
                yield frame.name, severity, frame.note, start, end


def _near(text: str, frame: Frame, places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where the pattern is, near its hints and in their lines.

    Each window begins where the one before it ends, if they overlap.
    """
    seen = 0
    for place in places:
        if place < seen:
            continue
        start = max(text.rfind("\n", max(place - _REACH, 0), place), place - _REACH, seen, 0)
        end = text.find("\n", place, place + 2 * _REACH)
        seen = end = end + 1 if end >= 0 else place + 2 * _REACH
        for found in frame.pattern.finditer(text, start, end):
            yield found.span()


def _framed(frame: Frame, sentences: list[Unit], start: int, end: int) -> Severity | None:
    low, high = 0, len(sentences)
    while low < high:
        middle = (low + high) // 2
        if sentences[middle].end <= start:
            low = middle + 1
        else:
            high = middle
    near = [unit for unit in sentences[low : low + 4] if unit.start < end + frame.reach]
    if frame.need and not any(
        word.bits & frame.need and end <= word.start < end + frame.reach
        for unit in near
        for word in unit.words
    ):
        return None
    if not near or not near[0].start <= start < near[0].end:
        return frame.severity
    unit = near[0]
    if any(start - 20 <= word.start < start and word.bits & _NOT for word in unit.words):
        return None
    if (unit.fenced and not frame.code) or unit.row:
        return "low"
    if frame.code:
        return "low" if mentioned(unit, start, end) else frame.severity
    return _severity(frame.severity, unit, start, end)
