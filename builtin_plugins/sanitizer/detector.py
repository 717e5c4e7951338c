"""Finding orders to a model in text that somebody else wrote, within a bound of looking."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice
from typing import Literal

from hookgate import Finding, Severity
from hookgate.builtin_plugins.sanitizer import model, rules
from hookgate.builtin_plugins.sanitizer.model import ModelWeights, ScoredText
from hookgate.builtin_plugins.sanitizer.rules import SanitizerRule
from hookgate.builtin_plugins.sanitizer.sanitizer import THRESHOLD
from hookgate.builtin_plugins.sanitizer.text import Folded, Packed, decoded, fold

STEPS = 42
"""So many steps are allowed for each byte of a text of `LEAST`: half a microsecond each."""

LEAST = 50_000
"""A text of fewer bytes may take as many steps as one of so many."""

BEYOND = 60
"""So many steps are allowed for each byte beyond `LEAST`: honest texts of such a length take 32 to
45 for each, and those of many tables some more."""

MOST = 1_000_000
"""A text of more bytes may take no more steps than one of so many."""


class TooCostlyError(Exception):
    """The text would take more steps than it is allowed; the message is for people."""


class LookBudget:
    """The steps that one text may still take, with all that is unpacked from it.

    Attributes:
        limit: The steps it may take.
        spent: The steps it has taken.
    """

    def __init__(self, text: str) -> None:
        size = len(text.encode("utf-8", "surrogatepass"))
        self.limit = STEPS * LEAST + BEYOND * max(min(size, MOST) - LEAST, 0)
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken.

        Raises:
            TooCostlyError: They are more than are left.
        """
        self.spent += steps
        if self.spent > self.limit:
            raise TooCostlyError(
                f"is too costly to look through: found {self.spent:,} steps, expected at most "
                f"{self.limit:,} for its length; write it more simply, or allow it by its SHA-256"
            )


# -- context ---------------------------------------------------------------------

# What stands around a place of a text: code, quotation marks, talk of attacks.
#
# A text that speaks of attacks has to name them. What it shows as an example is told apart from
# what it asks for, as far as the marks around it tell.

_THEME = re.compile(
    r"\b(?:prompt[ -]?injection|injection|injected|jailbreak\w{0,6}|attack\w{0,5}|malicious"
    r"|exploit\w{0,4}|payloads?|detect(?:ion|or)s?|adversar\w{0,6}|red[ -]?team\w{0,4}|phishing"
    r"|exfiltrat\w{0,4}|threats?|vulnerab\w{0,7}"
    r"|social engineering|untrusted|sanitiz\w{0,4}|guardrails?|security|scam\w{0,4}|malware)\b"
)
_FENCE = re.compile(r"^[ \t>]{0,12}(```|~~~)", re.MULTILINE)
_ASIDE = re.compile(r"[ \t]{0,12}(?:\||>|[-*+] {0,3}[`\"'“]|\d{1,3}\. {0,3}[`\"'“]|[`\"'“])")
_QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|`[^`\n]{1,400}`|(?<!\w)'[^'\n]{1,400}'(?!\w)")

THEMED = 2
"""A text speaks of attacks when so many words of the theme stand in it."""
NEAR = 300
"""Characters around a place in which one of them must stand, too."""


@dataclass(frozen=True, slots=True)
class TextSurroundings:
    """What stands where in one folded text.

    Attributes:
        text: The text.
        theme: Where words of the theme stand.
        fences: Where code blocks open and close, in turns.
    """

    text: str
    theme: tuple[int, ...]
    fences: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> TextSurroundings:
        """Look a folded text through."""
        theme = tuple(match.start() for match in _THEME.finditer(text))
        return cls(text, theme, tuple(match.start() for match in _FENCE.finditer(text)))

    def mentioned(self, start: int, end: int) -> bool:
        """Tell whether what stands there is shown as an example of an attack."""
        near = bisect_right(self.theme, end + NEAR) - bisect_right(self.theme, start - NEAR - 1)
        if not near:
            return False
        if self._quoted(start, end):
            return True
        return len(self.theme) >= THEMED and (self.fenced(start) or self._aside(start))

    def fenced(self, start: int) -> bool:
        """Tell whether a place lies in a code block."""
        return bisect_right(self.fences, start) % 2 == 1

    def _aside(self, start: int) -> bool:
        line = self.text.rfind("\n", 0, start) + 1
        return _ASIDE.match(self.text, line) is not None

    def _quoted(self, start: int, end: int) -> bool:
        """Tell whether a good part of a place stands in quotation marks."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", end)
        inside = 0
        for quote in _QUOTATION.finditer(self.text, first, last if last >= 0 else len(self.text)):
            inside += max(min(quote.end(), end) - max(quote.start(), start), 0)
        return 3 * inside > end - start


# -- Finding orders to a model in text that somebody else wrote ------------------

# The text is brought to a plain form, and what is packed in it is unpacked (`unpacking`). Then
# two look at it: `rules` for what is certain and has a name, and `model` for what reads like an
# order. What a text that speaks of attacks shows as an example is a finding of low severity
# (`context`).

PACKED = 2.0
"""So much less is enough in what was packed: nobody packs what is for everybody to read."""

MAX_FINDINGS = 32
"""So many findings of one text are named; it is judged by then."""

PASSAGES = 8
"""So many passages that read like orders are told; the surest."""

MAX_DEPTH = 2
"""So often what was packed is unpacked again."""

SHOWN = 4
"""So many places of one rule are told, and so many that are only shown as an example."""

LOOKED_AT = 64
"""So many places of one rule, or of the model, are looked at for whether they are shown as an
example."""

PASS, PER_CHARACTER, PER_FOREIGN, PER_SIGN = 20_000, 10, 4, 300
"""Steps of a look at a text: of each, for each character, where it is not ASCII, and for each
character that stands in it."""

TOO_COSTLY = "too-costly"
"""What the finding is called that a text is which takes more steps than it may."""

_GAP = "\n" * 12
"""Between what was unpacked: more than any rule reaches across."""


def inspect(
    text: str,
    threshold: float = THRESHOLD,
    weights: ModelWeights | None = None,
    budget: LookBudget | None = None,
) -> tuple[Finding, ...]:
    """Return what in `text` gives orders to the model that reads it, in the order of the text.

    Deterministic, and in time linear in the length of the text: what would take more is a finding
    of its own, ``too-costly``. Spans are offsets in `text` as it came.

    Args:
        text: The text.
        threshold: From this score on, what reads like an order is a finding; in a long text from
            a higher one on.
        weights: Of the model; those that come with the package where none are given.
        budget: What looking may cost; what a text of this length may, where none is given.
    """
    found: list[Finding] = []
    looking = _Looking(weights or model.weights(), budget or LookBudget(text))
    try:
        found += islice(looking.through(text, threshold), MAX_FINDINGS)
    except TooCostlyError as error:
        found.append(Finding(rule=TOO_COSTLY, severity="medium", end=len(text), note=str(error)))
    return tuple(sorted(found, key=lambda one: (one.start, one.end, one.rule)))


def inspect_both(text: str, cleaned: str, threshold: float = THRESHOLD) -> tuple[Finding, ...]:
    """Return what is found in a text as it came, and what cleaning has brought to light.

    The places of the latter are those in the cleaned text: in the one that came, the phrase is in
    pieces.
    """
    if not text.strip():
        return ()
    found = inspect(text, threshold)
    if cleaned == text:
        return found
    try:
        floor = list(_floor(cleaned, _Around(fold(cleaned), LookBudget(cleaned))))
    except TooCostlyError:
        floor = list(_floor(cleaned))
    known = {(one.rule, one.severity) for one in found}
    return found + tuple(one for one in floor if (one.rule, one.severity) not in known)


def verdict(findings: Sequence[Finding], trusted: bool) -> Literal["clean", "warn", "reject"]:
    """Return what becomes of a text with these findings.

    A finding of high severity rejects every text; one of medium severity rejects text of
    strangers, and warns of the rest.
    """
    severities = {finding.severity for finding in findings}
    if "high" in severities or ("medium" in severities and not trusted):
        return "reject"
    return "warn" if "medium" in severities else "clean"


def _floor(text: str, around: _Around | None = None) -> Iterator[Finding]:
    """Yield what no text may hold, in a text as it stands there; a few of each rule.

    Args:
        text: The text.
        around: What stands around its places. Without it, nothing is taken for an example.
    """
    for rule, matches in rules.found(text, floor=True):
        yield from _told(
            rule,
            (
                (start, end, around is not None and around.shown(start, end))
                for start, end in matches
            ),
        )


def _told(rule: SanitizerRule, spans: Iterable[tuple[int, int, bool]]) -> Iterator[Finding]:
    """Yield findings of one rule, a few that are meant and a few that are shown as examples.

    What stands behind `LOOKED_AT` examples of one phrase is none any more.
    """
    told = {"low": 0, rule.severity: 0}
    for number, (start, end, shown) in enumerate(spans):
        severity: Severity = "low" if shown and number < LOOKED_AT else rule.severity
        told[severity] += 1
        if told[severity] <= SHOWN:
            yield Finding(rule=rule.name, severity=severity, start=start, end=end, note=rule.why)
        elif severity != "low":
            return


@dataclass(frozen=True)
class _Looking:
    """One look at a text, and at what is unpacked from it.

    Findings are yielded as they are made: those that were made stay where it proves too costly.
    """

    weights: ModelWeights
    budget: LookBudget

    def through(
        self, text: str, threshold: float, depth: int = 0, packed: bool = False
    ) -> Iterator[Finding]:
        """Yield what is found in a text."""
        try:
            self.budget.spend(PASS + PER_CHARACTER * len(text))
            if not text.isascii():
                self.budget.spend(PER_FOREIGN * len(text) + PER_SIGN * len(set(text)))
            around = _Around(fold(text), self.budget)
            floor = list(_floor(text, around))
        except TooCostlyError:
            yield from _floor(text)
            raise
        yield from floor
        known = {(one.rule, one.severity) for one in floor}
        for looked in (self._by_rules(around), self._by_model(around, threshold)):
            for one in looked:
                if (one.rule, one.severity) not in known:
                    yield one
        if depth == MAX_DEPTH:
            return
        pieces = decoded(text, self.budget)
        for hidden in (True, False):
            alike = [piece for piece in pieces if piece.hidden is hidden]
            if alike:
                least = threshold - PACKED * (hidden and not packed)
                inside = self.through(_joined(alike), least, depth + 1, packed or hidden)
                yield from _outside(inside, alike, around)

    def _by_rules(self, around: _Around) -> Iterator[Finding]:
        folded = around.folded
        for rule, matches in rules.found(folded.text, self.budget):
            spans = ((start, end, around.mentioned(start, end)) for start, end in matches)
            for one in _told(rule, spans):
                start, end = folded.origin(one.start, one.end)
                yield replace(one, start=start, end=end)

    def _by_model(self, around: _Around, threshold: float) -> Iterator[Finding]:
        """Yield the passages that read like orders, each place once."""
        folded = around.folded
        self.budget.spend(model.steps(folded.text))
        units = model.units_of(folded.text)
        if not units:
            return
        texts = [folded.text[start:end] for start, end in units]
        bar = threshold + model.higher(len(units))
        sure = model.score(model.pieces_of(texts), self.weights, bar)
        # One unit says better where it is than two.
        sure.sort(key=lambda one: (one.last - one.first, -one.score, one.first))
        # What is shown as an example covers no wider passage that is meant.
        shown = {
            one
            for one in sure[:LOOKED_AT]
            if around.mentioned(units[one.first][0], units[one.last][1])
        }
        severities: tuple[Severity, ...] = ("medium", "low")
        for severity in severities:
            alike = [one for one in sure if (one in shown) is (severity == "low")]
            for one in _apart(alike)[:PASSAGES]:
                said = ", ".join(model.telling(texts[one.first : one.last + 1], self.weights))
                first, last = folded.origin(units[one.first][0], units[one.last][1])
                yield Finding(
                    rule="order",
                    severity=severity,
                    start=first,
                    end=last,
                    note=f"reads like an order to a model ({one.score:.1f}): {said}",
                )


def _apart(passages: Iterable[ScoredText]) -> list[ScoredText]:
    """Return those that share no unit with one before them."""
    taken: set[int] = set()
    found = []
    for one in passages:
        if taken.isdisjoint(range(one.first, one.last + 1)):
            taken.update(range(one.first, one.last + 1))
            found.append(one)
    return found


@dataclass(frozen=True)
class _Around:
    """A text in plain form with what stands around its places, which few texts are asked for."""

    folded: Folded
    budget: LookBudget

    @cached_property
    def _surroundings(self) -> TextSurroundings:
        self.budget.spend(PER_CHARACTER * len(self.folded.text))
        return TextSurroundings.of(self.folded.text)

    def mentioned(self, start: int, end: int) -> bool:
        return self._surroundings.mentioned(start, end)

    def shown(self, start: int, end: int) -> bool:
        """As `mentioned`, of a place of the text as it came."""
        return self.mentioned(self.folded.place(start), self.folded.place(end))


def _joined(pieces: Sequence[Packed]) -> str:
    return _GAP.join(piece.text for piece in pieces)


def _outside(
    inside: Iterable[Finding], pieces: Sequence[Packed], around: _Around
) -> Iterator[Finding]:
    """Yield what is found in joined pieces as findings of the text that they are from."""
    ends = list(accumulate(len(piece.text) + len(_GAP) for piece in pieces))
    told: set[int] = set()
    for one in inside:
        number = min(bisect_right(ends, one.start), len(pieces) - 1)
        piece = pieces[number]
        if one.severity == "low" or number in told:
            continue
        # What can be read as it stands may be there as an example.
        if not piece.hidden and around.shown(piece.start, piece.end):
            continue
        told.add(number)
        yield Finding(
            rule=f"packed-{one.rule}" if piece.hidden else one.rule,
            severity="high" if piece.hidden else one.severity,
            start=piece.start,
            end=piece.end,
            note=f"{one.note}; {'packed' if piece.hidden else 'written'} as {piece.how}",
        )
