"""Finding orders to a model in text that somebody else wrote.

The text is brought to a plain form, and what is packed in it is unpacked. Every sentence is
held against rules about what its words do (`rules`), what it carries where
(`exfiltration`), who it speaks as (`frames`), and what it has done (`deeds`, `schemes`).
What `floor` names is found first, and nothing is set against it.
What says little by itself (`signals`, `ploys`, `snares`, `wiles`) is weighed with what
stands near it.
What is quoted as an example of an attack, in a text that speaks of attacks, is a finding of
low severity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Literal

from hookgate.builtin_plugins.sanitizer.anchors import beginnings
from hookgate.builtin_plugins.sanitizer.context import (
    defensive,
    mentioned,
    pieces,
    quoted,
    reported,
    units,
    unwrap,
)
from hookgate.builtin_plugins.sanitizer.cues import Cues
from hookgate.builtin_plugins.sanitizer.deeds import DEEDS
from hookgate.builtin_plugins.sanitizer.exfiltration import (
    FAINTLY,
    HIGH,
    MEDIUM,
    SENDS,
    SINKS,
    hosts,
    weigh,
)
from hookgate.builtin_plugins.sanitizer.feints import FEINTS
from hookgate.builtin_plugins.sanitizer.floor import floor
from hookgate.builtin_plugins.sanitizer.frames import FRAMES, Frame
from hookgate.builtin_plugins.sanitizer.guises import GUISES
from hookgate.builtin_plugins.sanitizer.hushing import HUSHING
from hookgate.builtin_plugins.sanitizer.lexicon import Part
from hookgate.builtin_plugins.sanitizer.lures import LURES
from hookgate.builtin_plugins.sanitizer.normalise import decoded, fold
from hookgate.builtin_plugins.sanitizer.ploys import PLOYS
from hookgate.builtin_plugins.sanitizer.rules import FAINT, RULES, match
from hookgate.builtin_plugins.sanitizer.schemes import SCHEMES
from hookgate.builtin_plugins.sanitizer.signals import (
    ACTS,
    CIRCUMSTANCES,
    NEAR,
    SIGNALS,
    SURE,
    Signal,
)
from hookgate.builtin_plugins.sanitizer.snares import SNARES
from hookgate.builtin_plugins.sanitizer.wiles import WILES
from hookgate.core.domain.descriptors import Finding

if TYPE_CHECKING:
    import re
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from hookgate.builtin_plugins.sanitizer.context import Unit
    from hookgate.core.domain.descriptors import Severity

__all__ = ["MAX_DEPTH", "MAX_FINDINGS", "inspect", "verdict"]

MAX_FINDINGS = 32
"""So many findings of one text are named; it is judged by then."""

_NOT = int(Part.NOT)
_TOLD = ("override", "leak")
"""What may be told of ("if asked to ignore ..."); other signals are often conditional."""

_SAYING_NO = ("override", "conceal", "quiet", "threat", "turn", "obey", "hidden", "self", "steer")
"""What often stands behind a "not", and means no less."""

_COMPANY = 16
"""So many signals before one are weighed with it."""

_TRIED, _APART = 16, 60
"""A signal is looked at again so many characters after it was, or was found to be meant."""

_REACH = 200
"""So many characters around a hint are searched for a pattern."""

MAX_DEPTH = 2
"""So often what was packed is unpacked again."""

_PATTERNS = (*FRAMES, *DEEDS, *SCHEMES)
_HINTED = (*SIGNALS, *HUSHING, *PLOYS, *SNARES, *LURES, *FEINTS, *GUISES, *WILES)
_ALL: tuple[Frame | Signal, ...] = (*_PATTERNS, *_HINTED)
_STARTS = [beginnings(each.pattern.pattern) for each in _ALL]
"""For each pattern, words of which one begins what it matches; none where that is not known."""

_CUES = Cues([*(each.hint for each in _ALL), *map(sorted, _STARTS)])
"""The hints of each pattern, and behind them the beginnings of each."""

_BEHIND = 16
"""So many characters before a place may bear on whether a pattern matches there."""


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
    found = [
        Finding(rule=name, severity=severity, start=start, end=end, note=note)
        for name, severity, note, start, end in floor(text)
    ]
    plain = unwrap(folded.text)
    split = pieces(plain)
    sentences, places = units(plain, split), _CUES.places(plain, split)
    loads = _loads(plain, sentences)
    for source in (
        _by_words(sentences),
        _by_load(loads),
        _by_frame(plain, sentences, places),
        _by_company(plain, sentences, places, loads),
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
    judged: set[tuple[str, bool, bool, bool]] = set()
    for unit in sentences:
        if len(unit.words) < 2:
            continue
        text = unit.text[unit.start : unit.end], unit.fenced, unit.row, unit.theme
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
                if rule.name in ("override", "hijack") and defensive(unit, span[1]):
                    continue
                yield rule.name, _severity(rule.severity, unit, *span), rule.note, *span


def _severity(severity: Severity, unit: Unit, start: int, end: int) -> Severity:
    aside = quoted(unit, start, end) or unit.fenced or unit.row
    if mentioned(unit, start, end) and (aside or unit.block or reported(unit, start)):
        return "low"
    if severity == "medium" and (aside or reported(unit, start)):
        return "low"
    if severity == "high" and reported(unit, start):
        return "medium" if not aside else "low"
    return severity


def _loads(text: str, sentences: list[Unit]) -> list[tuple[Unit, int, int, int]]:
    """Return the sentences that may carry something away, with their weights and spans."""
    loads: list[tuple[Unit, int, int, int]] = []
    names: Counter[str] | None = None
    for number, unit in enumerate(sentences):
        if unit.mask & SENDS and unit.mask & SINKS:
            names = hosts(text) if names is None else names
            weighed = weigh(unit, sentences[max(0, number - 3) : number], names)
            if weighed is not None and weighed[0] >= FAINTLY:
                loads.append((unit, *weighed))
    return loads


def _by_load(
    loads: list[tuple[Unit, int, int, int]],
) -> Iterator[tuple[str, Severity, str, int, int]]:
    for unit, weight, start, end in loads:
        if weight < MEDIUM:
            continue
        severity: Severity = "high" if weight >= HIGH else "medium"
        if mentioned(unit, start, end) and (unit.fenced or unit.row or quoted(unit, start, end)):
            severity = "low"
        yield "exfiltrate", severity, f"carries data to an address (weight {weight})", start, end


def _by_frame(
    text: str, sentences: list[Unit], places: dict[int, list[int]]
) -> Iterator[tuple[str, Severity, str, int, int]]:
    for number in sorted(number for number in places if number < len(_PATTERNS)):
        frame = _PATTERNS[number]
        for start, end in _near(text, number, places):
            severity = _framed(frame, sentences, start, end)
            if severity is not None:
                yield frame.name, severity, frame.note, start, end


def _by_company(
    text: str,
    sentences: list[Unit],
    places: dict[int, list[int]],
    loads: list[tuple[Unit, int, int, int]],
) -> Iterator[tuple[str, Severity, str, int, int]]:
    """Weigh what says little by itself with what stands near it."""
    found: list[tuple[int, int, str, int]] = []
    for number in places:
        if len(_PATTERNS) <= number < len(_ALL):
            found += _meant(text, sentences, number, places)
    found += _by_parts(sentences)
    found += [(start, end, "sends", 2) for _, _, start, end in loads]
    found.sort()
    first = 0
    for last, (start, _, _, _) in enumerate(found):
        while found[first][0] < start - NEAR:
            first += 1
        company = found[max(first, last - _COMPANY) : last + 1]
        weights: dict[str, int] = {}
        for _, _, kind, weight in company:
            weights[kind] = max(weights.get(kind, 0), weight)
        if not weights.keys() & ACTS:
            weights = {kind: by for kind, by in weights.items() if kind not in CIRCUMSTANCES}
        if max(weights.values(), default=0) > 1 and sum(weights.values()) >= SURE:
            note = f"together: {', '.join(sorted(weights))}"
            yield "company", "medium", note, company[0][0], max(place[1] for place in company)
            first = last + 1
            if first == len(found):
                return


def _by_parts(sentences: list[Unit]) -> Iterator[tuple[int, int, str, int]]:
    """Yield signals that the words give, in all languages of the lexicon."""
    for unit in sentences:
        if unit.fenced or unit.row:
            continue
        for kind, rule in FAINT:
            if unit.mask & rule.masks[0] and unit.mask & rule.masks[1]:
                span = match(rule, unit)
                if span is not None and not quoted(unit, *span):
                    yield *span, kind, 2


def _meant(
    text: str, sentences: list[Unit], number: int, places: dict[int, list[int]]
) -> Iterator[tuple[int, int, str, int]]:
    """Yield where a signal is meant; what comes again at once adds nothing to it."""
    faint = _HINTED[number - len(_PATTERNS)]
    tried = kept = -_APART
    for start, end in _near(text, number, places):
        if start < tried + _TRIED or start < kept + _APART:
            continue
        tried = start
        if _live(sentences, start, end, faint):
            kept = start
            yield start, end, faint.kind, faint.weight


def _live(sentences: list[Unit], start: int, end: int, faint: Signal) -> bool:
    """Tell whether a signal is meant: no example, no code, and not what is warned of."""
    unit = _unit_at(sentences, start)
    if unit is None:
        return True
    aside = unit.fenced or quoted(unit, start, end)
    if unit.row or ((aside or unit.block) and mentioned(unit, start, end)):
        return False
    if faint.code:
        return True
    if aside and (unit.fenced or faint.kind != "turn"):
        return False
    if faint.kind in _TOLD and (reported(unit, start) or defensive(unit, end)):
        return False
    return faint.kind in _SAYING_NO or not _refused(unit, start)


def _refused(unit: Unit, start: int) -> bool:
    """Tell whether a "not" stands right before."""
    return unit.mask & _NOT != 0 and any(
        start - 20 <= word.start < start and word.bits & _NOT for word in unit.words
    )


def _unit_at(sentences: list[Unit], start: int) -> Unit | None:
    number = bisect_right(sentences, start, key=_start_of) - 1
    if number >= 0 and sentences[number].start <= start < sentences[number].end:
        return sentences[number]
    return None


def _start_of(unit: Unit) -> int:
    return unit.start


def _near(text: str, which: int, places: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield where a pattern is, near its hints and in their lines.

    Each window begins where the one before it ends, if they overlap. What was found in a
    window holds for each other one with the same text.
    """
    starts = places.get(which + len(_ALL), ()) if _STARTS[which] else None
    if starts is not None and not starts:
        return
    also, pattern, hints = _ALL[which].also, _ALL[which].pattern, places[which]
    known: dict[tuple[int, str], list[tuple[int, int]]] = {}
    number = seen = first = 0
    while (number := bisect_left(hints, seen, number)) < len(hints):
        place = hints[number]
        start = max(text.rfind("\n", max(place - _REACH, 0), place), place - _REACH, seen, 0)
        end = text.find("\n", place, place + 2 * _REACH)
        seen = end = end + 1 if end >= 0 else place + 2 * _REACH
        if starts is not None:
            first = bisect_left(starts, start, first)
            if first == len(starts):
                return
            if starts[first] >= end:
                continue
        before = min(start, _BEHIND)
        window = before, text[start - before : end]
        spans = known.get(window)
        if spans is None:
            spans = known[window] = []
            if also is None or also.search(text, start, end):
                found = (
                    pattern.finditer(text, start, end)
                    if starts is None
                    else _from_starts(text, pattern, starts, first, end)
                )
                spans += [(one.start() - start, one.end() - start) for one in found]
        for low, high in spans:
            yield start + low, start + high


def _from_starts(
    text: str, pattern: re.Pattern[str], starts: Sequence[int], first: int, end: int
) -> Iterator[re.Match[str]]:
    """Yield what `finditer` would from the place with number `first` on, up to `end`."""
    done = 0
    for number in range(first, len(starts)):
        start = starts[number]
        if start >= end:
            return
        if start >= done and (found := pattern.match(text, start, end)):
            done = found.end()
            yield found


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
    if _refused(unit, start):
        return None
    if (unit.fenced and not frame.code) or unit.row:
        return "low"
    if frame.code:
        return "low" if mentioned(unit, start, end) else frame.severity
    return _severity(frame.severity, unit, start, end)
