"""Rules: what is certain and has a name. They are data, in ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.normalise import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.builtin_plugins.sanitizer.budget import Budget
    from hookgate.core.domain.descriptors import Severity

__all__ = ["Rule", "found", "rules"]

_FOREIGN = re.compile(r"[^\x00-\x7f]")
RULES = Path(__file__).with_name("rules.toml")

REACH = 300
"""A pattern is looked for so many characters before and behind its hints, in their lines."""

PER_WINDOW, PER_CHARACTER = 100, 10
"""Steps that looking there takes, and for each character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of ``rules.toml``, where each field is explained."""

    name: str
    severity: Severity
    why: str
    pattern: re.Pattern[str]
    hint: tuple[str, ...]
    floor: bool = False
    finds: str
    passes: str


@cache
def rules() -> tuple[Rule, ...]:
    """Read the rules. Their patterns are made when the first text is judged."""
    # As people write it: what is not ASCII stands in the file in its own form.
    written = _FOREIGN.sub(lambda sign: fold(sign[0]).text, RULES.read_text(encoding="utf-8"))
    given = tomllib.loads(written)["rules"]
    return tuple(
        Rule(
            **{
                **rule,
                # Those of the floor are held against the text as it came, too.
                "pattern": re.compile(rule["pattern"], re.IGNORECASE * rule.get("floor", False)),
                "hint": tuple(rule["hint"]),
            }
        )
        for rule in given
    )


def found(
    text: str, budget: Budget | None = None, *, floor: bool = False
) -> Iterator[tuple[Rule, Iterator[tuple[int, int]]]]:
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


def _places(text: str, small: str, rule: Rule, budget: Budget | None) -> Iterator[tuple[int, int]]:
    for start, end in _windows(small, rule):
        if budget:
            budget.spend(PER_WINDOW + PER_CHARACTER * (end - start))
        for match in rule.pattern.finditer(text, start, end):
            yield match.span()


def _windows(small: str, rule: Rule) -> Iterator[tuple[int, int]]:
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
