"""Cases: calls that somebody wrote down, with what should become of them.

They stand beside the rules, in ``NAME.test.yaml``, and are judged as a gateway would judge them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator

from hookgate import FLAG_NAMES, Flags, Provenance
from hookgate.builtin_plugins.policy.bench.bench import NOW, Bench, BenchDecision, recorded
from hookgate.builtin_plugins.policy.judge.engine import State
from hookgate.builtin_plugins.policy.judge.facts import LONGEST, Facts, Happened, History
from hookgate.builtin_plugins.policy.rules.files import (
    SUFFIXES,
    TEST_SUFFIX,
    files_of,
    read_files,
    told_of,
)
from hookgate.builtin_plugins.policy.rules.linting import sample_of
from hookgate.builtin_plugins.policy.rules.model import NO_LONGER_AGO, Came, Rule, Sandbox, lasting
from hookgate.builtin_plugins.policy.rules.profiles import said
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName, RuleEffect
from hookgate.kit.content.documents import (
    DocumentModel,
    DocumentReading,
    Snake,
    many,
    matching,
    once,
    prose,
    read_text_as,
)

MAX_CASES = 2000

BudgetUnit: TypeAlias = Literal["left", "usd", "tokens", "requests", "parallel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call, what came before it, and what should follow.

    Attributes:
        name: What it shows.
        facts: The call.
        before: The calls that were allowed before, the oldest first.
        profile: The profile under which it is judged; None for the settings'.
        effect: What should follow.
        rule: What should decide; "" where that does not matter.
        arguments: What the call should run with; None where that does not matter.
        file: Where it stands.
        line: The line on which it begins.
    """

    name: str
    facts: Facts
    effect: RuleEffect
    before: tuple[Happened, ...] = ()
    profile: ProfileName | None = None
    rule: str = ""
    arguments: Mapping[str, Any] | None = None
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCase:
    """What became of a case.

    Attributes:
        case: The case.
        found: What followed.
        wrong: What is other than expected; empty where it passed.
    """

    case: Case
    found: BenchDecision
    wrong: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong


# -- judging ---------------------------------------------------------------------------


def run_case(bench: Bench, case: Case, *, every: bool = False) -> TriedCase:
    """Judge a case and hold what follows against what should."""
    history = History()
    for happened in sorted(case.before, key=lambda one: one.at):
        history.add(happened.at, recorded(happened.facts), done=happened.done)
    found = bench.under(case.profile).decide(case.facts, history, NOW, every=every)
    wrong = []
    if found.effect != case.effect:
        wrong.append(f"expected {case.effect}, found {found.effect}")
    if case.rule and found.rule not in (case.rule, f"rule:{case.rule}"):
        wrong.append(f"expected the rule {case.rule}, found {found.rule}")
    if case.arguments is not None and dict(found.arguments) != dict(case.arguments):
        wrong.append(f"expected the arguments {dict(case.arguments)}, found {found.arguments}")
    return TriedCase(case=case, found=found, wrong=tuple(wrong))


# -- files -----------------------------------------------------------------------------


def files_of_cases(paths: Iterable[Path]) -> list[Path]:
    """Return the files of cases that stand beside the rules of `paths`. It blocks."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() or path.name.endswith(TEST_SUFFIX):
            found += files_of([path], tests=True)
        else:
            beside = path.with_name(f"{path.stem}{TEST_SUFFIX}")
            found += [beside] if beside.is_file() else []
    return list(dict.fromkeys(found))


def rule_paths(paths: Iterable[Path]) -> list[Path]:
    """Return `paths`, with the rules that a file of cases is about in its place. It blocks."""
    found: list[Path] = []
    for path in paths:
        if not path.name.endswith(TEST_SUFFIX) or path.is_dir():
            found.append(path)
            continue
        stem = path.name.removesuffix(TEST_SUFFIX)
        names = [path.with_name(f"{stem}{suffix}") for suffix in SUFFIXES]
        found.append(next((one for one in names if one.is_file()), path.parent))
    return list(dict.fromkeys(found))


def read_cases(files: Iterable[Path]) -> DocumentReading[Case]:
    """Read files of cases. It blocks, and never raises."""
    return read_files(files, read_text_of_cases)


def read_text_of_cases(text: str, file: str) -> DocumentReading[Case]:
    """Read the cases in `text`. It never raises."""
    reading = read_text_as(CaseFile, text, file)
    cases: list[Case] = []
    if reading.document is not None and reading.found:
        whole = reading.found[0]
        for number, one in enumerate(whole.cases):
            line = reading.document.position(("cases", number)).line
            cases.append(replace(one.case(whole.tools), file=file, line=line))
    problems = tuple(told_of(reading, "case", reading.problems))
    return DocumentReading(found=tuple(cases), problems=problems)


# -- what they say ---------------------------------------------------------------------


def _flag(value: Any) -> bool | None:
    if not isinstance(value, bool) and value != "unknown":
        raise ValueError("expected true, false or unknown")
    return value if isinstance(value, bool) else None


WordText = Annotated[str, matching(r"[\x21-\x7e]{1,128}", "a word of at most 128 characters")]
ToolText = Annotated[str, matching(r"[A-Za-z0-9_-]{1,64}", "the name of a tool")]
CaseFlag = Annotated[Literal[(*FLAG_NAMES, "others")], Snake]  # type: ignore[valid-type]
FlagText = Annotated[bool | None, PlainValidator(_flag)]


class Declared(DocumentModel):
    """What is declared of a tool; what is not said is as it is known."""

    flags: Annotated[Mapping[CaseFlag, FlagText], once] = Field(default_factory=dict)
    plugin: WordText | None = None
    sandbox: Sandbox | None = None
    owner: Literal["host", "client"] | None = None

    def declared(self, known: Facts) -> Facts:
        """Return `known` with what is said of the tool itself."""
        flags: dict[str, bool | None] = known.flags.to_json()
        if "others" in self.flags:
            flags = dict.fromkeys(FLAG_NAMES, self.flags["others"])
        flags |= {name: value for name, value in self.flags.items() if name != "others"}
        said = self.model_dump(include={"plugin", "sandbox", "owner"}, exclude_none=True)
        return replace(known, flags=Flags.from_mapping(flags), **said)


class CaseCall(Declared):
    """A call."""

    tool: ToolText
    arguments: dict[str, Any] = Field(default_factory=dict)

    def facts(self, turn: Facts, tools: Mapping[str, Declared]) -> Facts:
        """Return the facts of the call in the circumstances of `turn`."""
        known = Facts(tool=self.tool)
        if self.tool in tools:
            known = tools[self.tool].declared(known)
        known = self.declared(known)
        return replace(
            turn,
            tool=self.tool,
            arguments=self.arguments,
            flags=known.flags,
            plugin=known.plugin,
            sandbox=known.sandbox,
            owner=known.owner,
        )


def _tainted(turn: CaseTurn) -> CaseTurn:
    if turn.tainted is False and turn.taint:
        raise ValueError("tainted is false beside `taint`, expected one of the two")
    return turn


class CaseTurn(DocumentModel):
    """The turn in which a call would run; what is not said is as usual."""

    provenance: Annotated[Came, Snake] | None = None
    tainted: bool | None = None
    taint: Annotated[tuple[WordText, ...], many] | None = None
    agent: WordText | None = None
    channel: WordText | None = None
    account: WordText | None = None
    peer: WordText | None = None
    principal: WordText | None = None
    nested: bool | None = None

    def of(self, turn: Facts) -> Facts:
        """Return `turn` in these circumstances."""
        said = self.model_dump(exclude={"tainted", "taint", "nested"}, exclude_none=True)
        if self.tainted is not None or self.taint is not None:
            somebody = frozenset({"somebody else"}) if self.tainted else frozenset()
            said["taint"] = frozenset(self.taint or ()) or somebody
        if self.nested is not None:
            said["depth"] = int(self.nested)
        return replace(turn, **said)


TurnText = Annotated[CaseTurn, AfterValidator(_tainted)]


class Earlier(CaseCall):
    """A call that was allowed before."""

    turn: TurnText = CaseTurn()
    seconds_ago: Annotated[float, lasting(LONGEST, NO_LONGER_AGO, 0)] | None = None
    failed: bool = False
    same_turn: bool = True
    same_session: bool = True

    def happened(
        self, turn: Facts, tools: Mapping[str, Declared], number: int, count: int
    ) -> Happened:
        """Return it as number `number` of `count`."""
        turn = self.turn.of(turn)
        if not (self.same_turn and self.same_session):
            turn = replace(turn, turn=f"turn {number}")
        if not self.same_session:
            turn = replace(turn, session=f"another:{number}:x:x")
        # Without a time, the calls of a list lie a second apart.
        ago = float(count - number) if self.seconds_ago is None else self.seconds_ago
        return Happened(at=NOW - ago, facts=self.facts(turn, tools), done=not self.failed)


class Expectation(DocumentModel):
    """What should follow."""

    effect: RuleEffect
    rule: Annotated[str, matching(r"[\x21-\x7e]{1,200}", "the name of a rule")] = ""
    arguments: dict[str, Any] | None = None


class CaseText(DocumentModel):
    """A case as it is written."""

    name: Annotated[str, prose(200)]
    description: Annotated[str, prose(1000)] = ""
    profile: ProfileName | None = None
    call: CaseCall
    turn: TurnText = CaseTurn()
    now: datetime | None = None
    budgets: Mapping[WordText, Mapping[BudgetUnit, Annotated[float, Field(ge=0)]]] = Field(
        default_factory=dict
    )
    before: tuple[Earlier, ...] = ()
    expect: Expectation | RuleEffect

    def case(self, tools: Mapping[str, Declared]) -> Case:
        """Return the case, of a file that declares these tools."""
        turn = self.turn.of(Facts(tool="", session="a:b:c:d", turn="turn", at=self.now))
        turn = replace(
            turn, budgets={one: dict(left.items()) for one, left in self.budgets.items()}
        )
        before = tuple(
            one.happened(turn, tools, number, len(self.before))
            for number, one in enumerate(self.before)
        )
        facts = self.call.facts(turn, tools)
        expect = self.expect
        if not isinstance(expect, Expectation):
            expect = Expectation(effect=expect)
        return Case(
            name=self.name,
            facts=replace(facts, index=sum(one.facts.turn == facts.turn for one in before)),
            effect=expect.effect,
            before=before,
            profile=self.profile,
            rule=expect.rule,
            arguments=expect.arguments,
        )


class CaseFile(DocumentModel):
    """What a file of cases says."""

    version: Literal[1] = 1
    description: Any = None
    tools: Mapping[ToolText, Declared] = Field(default_factory=dict)
    cases: tuple[CaseText, ...] = Field(max_length=MAX_CASES)


# -- rules compared by cases -------------------------------------------------------

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
