"""Two sets of rules held against each other, and rules against the calls that exercise them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from hookgate import FLAG_NAMES, Flags, Provenance
from hookgate.builtin_plugins.policy.bench.bench import Bench, Found
from hookgate.builtin_plugins.policy.bench.cases import Case, run_case
from hookgate.builtin_plugins.policy.judge.facts import Facts
from hookgate.builtin_plugins.policy.rules.digesting import said
from hookgate.builtin_plugins.policy.rules.linting import sample_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.rules.model import Rule
    from hookgate.builtin_plugins.policy.settings import PolicySettings

ANY_TOOL = "any_tool"
"""Stands for a tool that no rule names."""

FOREIGN = frozenset({"somebody else"})
MAX_TOOLS = 30
"""Names made of globs that the table is made for at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A call of which two sets of rules say different things.

    Attributes:
        what: The call, for people: a case's name, or a line of the table.
        old: What the first set says.
        new: What the second one says.
    """

    what: str
    old: Found
    new: Found

    def to_json(self) -> dict[str, str]:
        """Return it for programs."""
        return {
            "what": self.what,
            "old": self.old.effect,
            "old_rule": self.old.rule,
            "new": self.new.effect,
            "new_rule": self.new.rule,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two sets of rules differ.

    Attributes:
        added: Names of rules of the second set alone.
        removed: Names of rules of the first set alone.
        changed: The keys in which rules of one name differ.
        table: Lines of the table that differ.
        cases: Cases of which they say different things.
        cells: How many lines of the table there are.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]
    table: tuple[Differing, ...]
    cases: tuple[Differing, ...]
    cells: int

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": {name: list(keys) for name, keys in self.changed.items()},
            "lines": self.cells,
            "table": [one.to_json() for one in self.table],
            "cases": [one.to_json() for one in self.cases],
        }


def compare(
    old: Sequence[Rule], new: Sequence[Rule], cases: Iterable[Case], settings: PolicySettings
) -> Difference:
    """Return how two sets of rules differ: in what they say, and in what follows."""
    before, after = ({rule.name: rule for rule in rules} for rules in (old, new))
    benches = Bench(settings, old), Bench(settings, new)
    cells = list(_cells([*old, *new]))
    table = [
        Differing(what=what, old=first, new=second)
        for what, facts in cells
        for first, second in [(benches[0].decide(facts), benches[1].decide(facts))]
        if (first.effect, first.rule) != (second.effect, second.rule)
    ]
    differing = []
    for case in cases:
        first, second = (run_case(bench, case).found for bench in benches)
        if (first.effect, first.rule) != (second.effect, second.rule):
            differing.append(Differing(what=case.name, old=first, new=second))
    changed = {
        name: keys
        for name in before
        if name in after and (keys := _changed(before[name], after[name]))
    }
    return Difference(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=changed,
        table=tuple(table),
        cases=tuple(differing),
        cells=len(cells),
    )


def _changed(old: Rule, new: Rule) -> tuple[str, ...]:
    return tuple(key for key, value in _all(old).items() if _all(new)[key] != value)


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
        held: How often it held.
        unknown: How often it could not be said whether it holds.
        effects: What followed from it, or would have in shadow mode, and how often.
        last: When it had a say last, as it was given; "" for never.
    """

    rule: Rule
    decisive: int = 0
    held: int = 0
    unknown: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    last: str = ""

    @property
    def exercised(self) -> bool:
        """Whether it held, or could not be decided, at least once."""
        return bool(self.held or self.unknown)


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

    def take(self, found: Found, at: str = "") -> None:
        """Count a call that was judged, at the time `at`."""
        self.calls += 1
        for judgement in found.judgements:
            self.looks += 1
            for outcome in judgement.outcomes:
                row = self.rows[outcome.rule.name]
                row.held += outcome.state == "holds"
                row.unknown += outcome.state == "unknown"
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
                "held": row.held,
                "unknown": row.unknown,
                "failed": self.looks - row.held - row.unknown,
            }
            for name, row in self.rows.items()
        ]
