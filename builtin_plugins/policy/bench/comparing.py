"""Two sets of rules held against each other, and rules against the calls that exercise them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hookgate import FLAG_NAMES, Flags, Provenance
from hookgate.builtin_plugins.policy.bench.bench import Bench, BenchDecision
from hookgate.builtin_plugins.policy.bench.cases import Case, run_case
from hookgate.builtin_plugins.policy.judge.engine import State
from hookgate.builtin_plugins.policy.judge.facts import Facts
from hookgate.builtin_plugins.policy.rules.linting import sample_of
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.builtin_plugins.policy.rules.profiles import said
from hookgate.builtin_plugins.policy.settings import PolicySettings

ANY_TOOL = "any_tool"
"""Stands for a tool that no rule names."""

FOREIGN = frozenset({"somebody else"})
MAX_TOOLS = 30
"""Names made of globs that the table is made for at most."""


def compare(
    old: Sequence[Rule], new: Sequence[Rule], cases: Iterable[Case], settings: PolicySettings
) -> dict[str, Any]:
    """Return how two sets of rules differ, JSON-ready: in what they say, and in what follows.

    ``added`` and ``removed`` name rules of one set alone, ``changed`` the keys in which rules of
    one name differ. ``table`` has the lines that differ, of so many ``lines``; ``cases`` those of
    which the sets say different things.
    """
    before, after = ({rule.name: rule for rule in rules} for rules in (old, new))
    first, second = Bench(settings, old), Bench(settings, new)
    cells = list(_cells([*old, *new]))
    table = ((what, first.decide(facts), second.decide(facts)) for what, facts in cells)
    tried = (
        (case.name, run_case(first, case).found, run_case(second, case).found) for case in cases
    )
    changed = {
        name: keys
        for name in before
        if name in after and (keys := _changed(before[name], after[name]))
    }
    return {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": changed,
        "lines": len(cells),
        "table": _differing(table),
        "cases": _differing(tried),
    }


def _differing(rows: Iterable[tuple[str, BenchDecision, BenchDecision]]) -> list[dict[str, str]]:
    return [
        {
            "what": what,
            "old": old.effect,
            "old_rule": old.rule,
            "new": new.effect,
            "new_rule": new.rule,
        }
        for what, old, new in rows
        if (old.effect, old.rule) != (new.effect, new.rule)
    ]


def _changed(old: Rule, new: Rule) -> list[str]:
    return [key for key, value in _all(old).items() if _all(new)[key] != value]


def _all(rule: Rule) -> dict[str, Any]:
    more = {
        "description": rule.description,
        "severity": rule.severity,
        "timeout": rule.timeout,
    }
    return {**said(rule), **more}


def _cells(rules: Iterable[Rule]) -> Iterator[tuple[str, Facts]]:
    """Yield each line of the table: one flag at a time, all others declared false."""
    names = dict.fromkeys(
        (ANY_TOOL, *(name for rule in rules for name in sample_of(rule.match.tool)))
    )
    for tool, flag, value, provenance, tainted in product(
        list(names)[:MAX_TOOLS], FLAG_NAMES, (True, False, None), Provenance, (False, True)
    ):
        flags = Flags.from_mapping({**Flags.none().to_json(), flag: value})
        word = {True: "true", False: "false", None: "unknown"}[value]
        what = f"{tool}, {flag} {word}, {provenance.value}{', tainted' if tainted else ''}"
        yield (
            what,
            Facts(
                tool=tool,
                flags=flags,
                provenance=provenance.value,
                taint=FOREIGN if tainted else frozenset(),
            ),
        )


# -- coverage --------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Covered:
    """How often a rule was exercised.

    Attributes:
        rule: The rule.
        decisive: How often it decided.
        states: How often it held, could not be decided, or did not hold, as far as that was said.
        effects: What followed from it, or would have in shadow mode, and how often.
        last: When it had a say last, as it was given; "" for never.
    """

    rule: Rule
    decisive: int = 0
    states: Counter[State] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    last: str = ""

    @property
    def exercised(self) -> bool:
        """Whether it held, or could not be decided, at least once."""
        return bool(self.states["holds"] or self.states["unknown"])


@dataclass(slots=True)
class Coverage:
    """Which rules were exercised by calls.

    Attributes:
        rows: The rules, in their order.
        calls: How many calls there were.
        looks: How often they were looked at: a call that is rewritten is judged anew.
    """

    rows: dict[str, Covered] = field(default_factory=dict)
    calls: int = 0
    looks: int = 0

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Coverage:
        """Return a coverage of nothing yet."""
        return cls(rows={rule.name: Covered(rule=rule) for rule in rules})

    def take(self, found: BenchDecision, at: str = "") -> None:
        """Count a call that was judged, at the time `at`."""
        self.calls += 1
        for judgement in found.judgements:
            self.looks += 1
            for outcome in judgement.outcomes:
                row = self.rows[outcome.rule.name]
                row.states[outcome.state] += 1
                if outcome.effect is not None:
                    row.effects[outcome.effect] += 1
                    row.last = max(row.last, at)
        if found.rule.startswith("rule:"):
            self.rows[found.rule.removeprefix("rule:")].decisive += 1

    @property
    def percent(self) -> float:
        """The share of the rules that were exercised; of no rules, all."""
        if not self.rows:
            return 100.0
        return 100.0 * sum(row.exercised for row in self.rows.values()) / len(self.rows)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rules for programs, in their order."""
        return [
            {
                "rule": name,
                "decisive": row.decisive,
                "held": row.states["holds"],
                "unknown": row.states["unknown"],
                "failed": self.looks - row.states["holds"] - row.states["unknown"],
            }
            for name, row in self.rows.items()
        ]
