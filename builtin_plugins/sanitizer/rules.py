"""Rules: what is certain and has a name. They are data, in ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import HookgateError, Severity
from hookgate.builtin_plugins.sanitizer.text import fold

if TYPE_CHECKING:
    from hookgate.builtin_plugins.sanitizer.detector import LookBudget

_FOREIGN = re.compile(r"[^\x00-\x7f]")
RULES = Path(__file__).with_name("rules.toml")

REACH = 300
"""A pattern is looked for so many characters before and behind its hints, in their lines."""

PER_WINDOW, PER_CHARACTER = 100, 12
"""Steps that looking there takes, and for each character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerRule:
    """One entry of ``rules.toml``, where each field is explained."""

    name: str
    severity: Severity
    why: str
    pattern: re.Pattern[str]
    hint: tuple[str, ...]
    floor: bool = False
    finds: str
    passes: str


_KEYS: dict[str, tuple[type, str]] = {
    "name": (str, "what a finding is called"),
    "severity": (str, "high or medium"),
    "why": (str, "what it does, for people"),
    "pattern": (str, "a regular expression"),
    "hint": (list, "words of which one stands wherever the pattern is found"),
    "finds": (str, "a text in which it is found"),
    "passes": (str, "a text that comes close, and in which it is not"),
}


class RuleError(HookgateError):
    """A rule is wrong: it says of which file, what was found, and what to do."""


@cache
def rules() -> tuple[SanitizerRule, ...]:
    """Read the rules. Their patterns are made when the first text is judged."""
    return read(RULES)


def read(path: Path) -> tuple[SanitizerRule, ...]:
    """Read a file of rules, and hold each to the texts that it has to find and to pass.

    Raises:
        RuleError: One of them is wrong.
    """
    # As people write it: what is not ASCII stands in the file in its own form.
    written = _FOREIGN.sub(lambda sign: fold(sign[0]).text, path.read_text(encoding="utf-8"))
    try:
        entries = tomllib.loads(written).get("rules", [])
    except tomllib.TOMLDecodeError as error:
        raise RuleError(
            f"{path}: found no TOML ({error}), expected entries of [[rules]]; write a pattern "
            "between three single quotes, in which a backslash is a backslash"
        ) from None
    made: dict[str, SanitizerRule] = {}
    for number, entry in enumerate(entries, 1):
        rule = _rule(entry, f"{path}: rule {entry.get('name', number)!r}")
        if rule.name in made:
            raise RuleError(f"{path}: rule {rule.name!r}: found it twice, expected another name")
        made[rule.name] = rule
    return tuple(made.values())


def _rule(entry: dict[str, Any], place: str) -> SanitizerRule:
    for key, (kind, what) in _KEYS.items():
        if not isinstance(entry.get(key), kind) or not entry[key]:
            found = f"{entry[key]!r} as" if key in entry else "no"
            raise RuleError(f"{place}: found {found} `{key}`, expected {what}; write it there")
    if unknown := sorted(entry.keys() - _KEYS.keys() - {"floor"}):
        raise RuleError(f"{place}: found `{unknown[0]}`, expected {', '.join(_KEYS)} or floor")
    if entry["severity"] not in ("high", "medium"):
        raise RuleError(
            f"{place}: found the severity {entry['severity']!r}, expected high (no text may hold "
            "it) or medium (no stranger's text may)"
        )
    # Those of the floor are held against the text as it came, too.
    floor = entry.get("floor", False)
    try:
        pattern = re.compile(entry["pattern"], re.IGNORECASE * floor)
    except re.error as error:
        raise RuleError(
            f"{place}: found a pattern that cannot be read ({error}), expected a regular "
            "expression of Python; mend it there, a literal bracket is written \\["
        ) from None
    hints = tuple(str(word).lower() for word in entry["hint"])
    rule = SanitizerRule(**{**entry, "pattern": pattern, "hint": hints})
    for key, expected in (("finds", True), ("passes", False)):
        text = fold(entry[key]).text
        if any(_places(text, text, rule, None)) is not expected:
            hinted = any(hint in text for hint in hints)
            why = "the pattern" if hinted else "any `hint`, so that the pattern is not tried"
            raise RuleError(
                f"{place}: found its pattern in `passes`, expected it to pass; narrow the pattern"
                if not expected
                else f"{place}: did not find {why} in `finds`, expected it there; both are held "
                "against small letters without accents: mend the pattern, `hint` or the text"
            )
    return rule


def found(
    text: str, budget: LookBudget | None = None, *, floor: bool = False
) -> Iterator[tuple[SanitizerRule, Iterator[tuple[int, int]]]]:
    """Yield the rules that may find something in a text, each with the places where it does.

    Args:
        text: The text in its plain form, or as it came.
        budget: What looking may cost; nothing is counted without one.
        floor: Those of the floor alone.
    """
    small = text.lower()
    for rule in rules():
        if rule.floor or not floor:
            yield rule, _places(text, small, rule, budget)


def _places(
    text: str, small: str, rule: SanitizerRule, budget: LookBudget | None
) -> Iterator[tuple[int, int]]:
    for start, end in _windows(small, rule):
        if budget:
            budget.spend(PER_WINDOW + PER_CHARACTER * (end - start))
        for match in rule.pattern.finditer(text, start, end):
            yield match.span()


def _windows(small: str, rule: SanitizerRule) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text in which a rule's pattern may be found, none twice."""
    if rule.floor:
        if any(hint in small for hint in rule.hint):
            yield 0, len(small)
        return
    places = sorted(place for hint in rule.hint for place in _hints(small, hint))
    done = -1
    start = 0
    for place in places:
        if place > done:
            if done >= 0:
                yield start, done
            line = small.rfind("\n", max(place - REACH, done, 0), place) + 1
            start = max(line, place - REACH, done, 0)
        done = min(place + REACH, len(small))
    if done >= 0:
        yield start, done


def _hints(small: str, hint: str) -> Iterator[int]:
    at = small.find(hint)
    while at >= 0:
        yield at
        # What stands near is within one window.
        at = small.find(hint, at + REACH // 2)
