"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    EffectName,
    OperationModel,
    Provenance,
)
from hookgate.builtin_plugins.policy.settings import ProfileName, RuleEffect

RuleText = Annotated[str, Field(max_length=64 * 1024)]
Id = Annotated[str, Field(min_length=1, max_length=200)]
Moment = Annotated[str, Field(max_length=40)]


class TableRow(OperationModel):
    """One cell of the table."""

    flag: str
    value: Literal["true", "false", "unknown"]
    provenance: str
    tainted: bool
    effect: EffectName
    rule: str


class Table(OperationModel):
    """The verdicts of a profile, for each flag by itself."""

    profile: ProfileName
    profiles: list[ProfileName]
    rows: list[TableRow]


class ProblemRow(OperationModel):
    """What is wrong or odd in a text."""

    file: str
    """``rules.yaml`` or ``rules.test.yaml``: which of the texts."""
    line: int
    """From 1; 0 where it is about all of it."""
    key: str
    """The nearest key, such as ``rules[0].effect``."""
    severity: Literal["error", "warning"]
    found: str
    expected: str


class RuleRow(OperationModel):
    """One rule in force."""

    rule: str
    mode: Literal["enforce", "shadow"]
    effect: RuleEffect
    decided: int
    """How often it decided, by this gateway since it started."""
    would: int
    """How often it would have had a say, in shadow mode."""
    last: str
    """When it did last, ISO 8601 in UTC; empty for never."""
    says: dict[str, Any]
    """What it looks at and changes, as far as it does."""
    description: str
    reason: str
    place: str
    """Where it stands."""


class RulesInForce(OperationModel):
    """The rules in force, in their order."""

    profile: ProfileName
    """What decides where no rule has a say."""
    since: str
    """From when on they are counted: the start of the gateway, ISO 8601 in UTC."""
    rules: list[RuleRow]


class RuleTexts(OperationModel):
    """What to check."""

    rules: RuleText
    """The text of a file of rules, in YAML."""


class RulesChecked(OperationModel):
    """What is wrong with rules."""

    ok: bool
    """Whether a gateway would start with them, no question would outlast its turn, and all cases
    that were asked for passed."""
    rules: list[str]
    """Their names, in their order."""
    problems: list[ProblemRow]


class CaseTexts(RuleTexts):
    """Which cases to try against which rules."""

    cases: RuleText
    """The text of a file of cases, in YAML."""
    added: bool = False
    """Whether the rules in force count beside them, but for those of the same names."""


class Decided(OperationModel):
    """What follows from rules."""

    effect: RuleEffect
    rule: str
    """What decided."""
    why: str


class CaseRow(Decided):
    """What became of a case."""

    name: str
    line: int
    passed: bool
    wrong: list[str]
    """What is other than expected."""


class CoveredRow(OperationModel):
    """How often calls exercised a rule."""

    rule: str
    decisive: int
    """How often it decided."""
    held: int
    unknown: int
    """How often it could not be said whether it holds."""
    failed: int


class CasesTried(RulesChecked):
    """What became of cases; none is tried where a text cannot be read."""

    passed: int
    failed: int
    left: int
    """How many were not tried, for their number or their time."""
    cases: list[CaseRow]
    coverage: list[CoveredRow]
    """Which rules they exercise; empty where none was tried."""


class ReplayParams(OperationModel):
    """Which calls on record are judged again, and by what."""

    rules: RuleText | None = None
    """The text of a file of rules, in YAML; left out, the rules in force."""
    added: bool = False
    """Whether the rules in force count beside them, but for those of the same names."""
    profile: ProfileName | None = None
    """Another profile than the one that is set."""
    since: Moment = ""
    """Only calls from then on: ISO 8601, or ``7d`` for the last seven days."""
    until: Moment = ""
    """Only calls of before then, written likewise."""
    turn: Annotated[str, Field(max_length=200)] = ""
    """Only calls of this turn."""


class DiffParams(ReplayParams):
    """Which rules are held against which, over which calls on record and which cases."""

    old: RuleText | None = None
    """The text of the rules before; left out, the rules in force. ``rules`` are those after."""
    cases: RuleText = ""
    """The text of a file of cases, in YAML."""


class TwoDecisions(OperationModel):
    """What was decided before, on record or by the rules before, and what is decided now."""

    old: str
    old_rule: str
    new: str
    """Empty where nothing can be said."""
    new_rule: str


class ReplayedRow(TwoDecisions):
    """A decision that is another one now, or cannot be judged again."""

    row: str
    """Its row in the audit, as CHAIN/SEQ."""
    at: str
    tool: str
    session: str
    turn: str
    call: str
    standing: Literal["flip", "undecidable", "passed_over"]
    """It becomes another one; nothing can be said; or policy had no say."""
    why: str
    """Why it follows, or why it cannot be judged again."""


class TrafficRow(CoveredRow):
    """How often the calls on record exercised a rule."""

    mode: Literal["enforce", "shadow"]
    effects: dict[RuleEffect, int]
    """What followed from it, or would have in shadow mode, and how often."""
    last: str
    """When it had a say last; empty for never."""


class DecisionsReplayed(OperationModel):
    """What came of a replay. Each ``progress`` has the same counts so far, and new decisions."""

    ok: bool
    """Whether the texts could be read; nothing is judged where they cannot."""
    problems: list[ProblemRow]
    whole: bool
    """Whether all calls were judged; false where that took too long, and it ended before."""
    read: int
    """How many rows of the audit were read: what came before counts, too."""
    at: str
    """When the last of them was written."""
    rows: int
    """Decisions of policy that were judged again."""
    same: int
    """Those that stay."""
    flips: dict[str, int]
    """Those that flip, such as ``allow -> deny``."""
    undecidable: int
    """Those of which nothing can be said."""
    passed_over: int
    """Decisions in which policy had no say, beside ``rows``."""
    reasons: dict[str, int]
    """Why nothing can be said, or policy had no say."""
    decisions: list[ReplayedRow]
    """Those that flip, at most 1,000, and that cannot be judged again, at most 200."""
    rules: list[TrafficRow]
    """How often each rule had a say."""


class DifferingRow(TwoDecisions):
    """A case, or a line of the table, of which two sets of rules say different things."""

    what: str


class RulesCompared(DecisionsReplayed):
    """How two sets of rules differ: in what they say, and in what follows."""

    added: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
    changed: dict[str, list[str]] = Field(default_factory=dict)
    """The keys in which rules of one name differ."""
    lines: int = 0
    """How many lines the table has: each flag, its value, provenance and taint, by tools that
    rules name."""
    differing_table: int = 0
    table: list[DifferingRow] = Field(default_factory=list)
    """Lines that differ, at most 200."""
    differing_cases: int = 0
    cases: list[DifferingRow] = Field(default_factory=list)
    """Cases that differ."""


class CallParams(OperationModel):
    """A call that is not made, and the circumstances of it."""

    tool: Annotated[str, Field(min_length=1, max_length=64)]
    """The tool's name; what it declares is known where the gateway has it."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    flags: dict[str, bool | None] = Field(default_factory=dict, max_length=32)
    """What it declares instead: ``true``, ``false`` or null for unknown, by flag."""
    provenance: Provenance = Provenance.EXTERNAL_USER
    """How the turn came in."""
    taint: list[Id] = Field(default_factory=list, max_length=20)
    """Whose text the turn has read, such as ``tool:http_get``."""
    before: list[Id] = Field(default_factory=list, max_length=50)
    """Tools that were called before in this turn, the oldest first; with ``@10m``, so long ago in
    an earlier turn of the session."""
    agent: Id = "main"
    channel: Id = "cli"
    profile: ProfileName | None = None
    """Another profile than the one that is set."""


class RuleSays(OperationModel):
    """What one rule says."""

    rule: str
    place: str
    """Where it stands."""
    mode: str
    state: str
    """``holds``, ``fails``, or ``unknown`` where that cannot be said."""
    effect: str
    """What follows from it; empty where nothing does."""
    why: str


class CallDecided(Decided):
    """What follows from all of them."""

    arguments: dict[str, Any]
    """Those with which it would run."""


class CallExplained(OperationModel):
    """What every rule says of a call, and which one decides."""

    tool: str
    known: bool
    """Whether the gateway has such a tool."""
    flags: dict[str, bool | None]
    """What was taken for declared."""
    profile: ProfileName
    rules: list[RuleSays]
    decided: CallDecided
