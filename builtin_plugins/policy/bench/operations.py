"""The operations of the bench: rules checked, tried, explained, replayed and compared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    BUDGETS,
    EffectName,
    Event,
    Invocation,
    NotAllowedError,
    OperationModel,
    Provenance,
    Tool,
    TurnError,
    operation,
)
from hookgate.builtin_plugins.policy.bench.apart import Apart
from hookgate.builtin_plugins.policy.judge.engine import Engine
from hookgate.builtin_plugins.policy.judge.facts import Facts
from hookgate.builtin_plugins.policy.rules.linting import KnownTool, arguments_in
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.builtin_plugins.policy.rules.profiles import PROFILES, cells, said
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName, RuleEffect
from hookgate.clients import call_operation
from hookgate.kit.durations import moment

MOST_ARGUMENTS = 20_000
"""Characters of the arguments of a call that is explained."""
MOST_SECONDS = 600.0
"""After so long a replay ends where it is."""
MOST_REPLAYS = 2
PAGE = 200
"""So many rows of the audit are read, and judged, at once."""
TELL_SECONDS = 0.25
"""So often a replay says how far it is."""

RuleText = Annotated[str, Field(max_length=64 * 1024)]
Id = Annotated[str, Field(min_length=1, max_length=200)]
Moment = Annotated[str, Field(max_length=40)]


@dataclass(slots=True)
class Hits:
    """How often a rule had a say since the gateway started.

    Attributes:
        decided: How often it decided.
        would: How often it would have, in shadow mode.
        last: When it did last; None for never.
    """

    decided: int = 0
    would: int = 0
    last: datetime | None = None


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


class PolicyOperations:
    """Rules for tool calls: check, test, explain, replay and compare them.

    Args:
        settings: The settings.
        engine: Returns the rules in force.
        hits: How often each of them had a say, by its name.
        since: From when on that was counted.
    """

    def __init__(
        self,
        settings: PolicySettings,
        engine: Callable[[], Engine],
        hits: Mapping[str, Hits],
        since: datetime,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._hits = hits
        self._since = since
        self._apart: Apart | None = None
        self._replays: Apart | None = None

    @operation("policy.rules", rest=("GET", "/v1/policy/rules"))
    async def rules(self, invocation: Invocation) -> RulesInForce:
        """Show the rules in force in their order, and how often each had a say."""
        self._allowed(invocation)
        rows = [_row(rule, self._hits.get(rule.name, Hits())) for rule in self._engine().rules]
        since, profile = self._since.isoformat(), self._settings.profile
        return RulesInForce(profile=profile, since=since, rules=rows)

    @operation("policy.check", command="")
    async def check(self, invocation: Invocation, params: RuleTexts) -> RulesChecked:
        """Check the text of rules: what cannot be read, never counts, or contradicts another."""
        found = await self._tried(invocation, params, None)
        return RulesChecked.model_validate({key: found[key] for key in RulesChecked.model_fields})

    @operation("policy.test", command="")
    async def test(self, invocation: Invocation, params: CaseTexts) -> CasesTried:
        """Judge cases by the text of rules, with the lists and the profile of the settings."""
        beside = self._engine().rules if params.added else ()
        tried = await self._tried(invocation, params, params.cases, beside)
        return CasesTried.model_validate(tried)

    async def _tried(
        self,
        invocation: Invocation,
        params: RuleTexts,
        cases: str | None,
        beside: Sequence[Rule] = (),
    ) -> Mapping[str, Any]:
        from hookgate.builtin_plugins.policy.bench.apart import Apart

        self._allowed(invocation)
        tools = [_known(tool) for tool in invocation.host.tools.view().values()]
        work = {"rules": params.rules, "cases": cases, "beside": beside, "tools": tools}
        self._apart = self._apart or Apart()
        deadline = invocation.host.settings.turn.deadline_seconds
        view = invocation.host.get(BUDGETS)
        budgets = None if view is None else frozenset(view.names())
        told = {"settings": self._settings, "deadline": deadline, "budgets": budgets}
        return await self._apart.do({**work, **told})

    @operation("policy.replay", streams=True)
    async def replay(self, invocation: Invocation, params: ReplayParams) -> DecisionsReplayed:
        """Judge the calls on record again by other rules, and say which decisions flip."""
        return DecisionsReplayed.model_validate(await self._judged(invocation, params))

    @operation("policy.diff", streams=True)
    async def diff(self, invocation: Invocation, params: DiffParams) -> RulesCompared:
        """Compare two sets of rules: what they say of the same calls on record, and of cases."""
        force = self._engine().rules
        texts = {"old": force if params.old is None else params.old, "cases": params.cases}
        return RulesCompared.model_validate(await self._judged(invocation, params, **texts))

    async def _judged(
        self, invocation: Invocation, params: ReplayParams, **texts: str | Sequence[Rule]
    ) -> dict[str, Any]:
        """Return what becomes of the calls on record; say now and then how far that is."""
        from hookgate.builtin_plugins.policy.bench.apart import Apart
        from hookgate.builtin_plugins.policy.bench.replaying import asked_since

        self._allowed(invocation)
        host, principal = invocation.host, invocation.principal
        if "audit.export" not in host.operations:
            raise TurnError(
                "there is no record of calls: the plugin audit is off",
                code="not_found",
                action="take it out of `[plugins] disable`",
            )
        since, until = (_moment(text, host.clock.now()) for text in (params.since, params.until))
        period = {"since": since and since.timestamp(), "until": until and until.timestamp()}
        force = self._engine().rules
        rules = force if params.rules is None else params.rules
        settings = self._settings
        if params.profile is not None:
            settings = settings.model_copy(update={"profile": params.profile})
        work = {"settings": settings, "rules": rules, "replay": {**period, "turn": params.turn}}
        wanted = {"limit": PAGE, "since": asked_since(since), "after": ""}
        wanted["until"] = until.isoformat() if until else ""
        self._replays = self._replays or Apart(MOST_REPLAYS, MOST_REPLAYS)
        async with self._replays.begun() as child:
            begun = await child.ask({**work, **texts, "beside": force if params.added else ()})
            wanted["kind"] = begun.pop("kind", "")
            said: dict[str, Any] = {}
            read, decisions, untold = 0, [], 0
            start = told = host.clock.monotonic()
            more = begun["ok"]
            while more and host.clock.monotonic() - start < MOST_SECONDS:
                page = await call_operation(
                    host, principal, "audit.export", wanted, path=invocation.path
                )
                wanted["after"], more = page.next, bool(page.next)
                if page.rows:
                    said = await child.ask({"rows": page.rows})
                    read += len(page.rows)
                    decisions += said.pop("decisions")
                if (now := host.clock.monotonic()) - told >= TELL_SECONDS:
                    news = {**said, "read": read, "decisions": decisions[untold:]}
                    invocation.emit(Event("progress", news))
                    told, untold = now, len(decisions)
            if read:
                said["rules"] = (await child.ask({"rows": []}))["rules"]
        return {**begun, **said, "whole": not more, "read": read, "decisions": decisions}

    def _allowed(self, invocation: Invocation) -> None:
        if not invocation.principal.sees_all:
            raise NotAllowedError(
                f"{invocation.principal.id} sees some sessions only, and rules are about all",
                action="use a token without bindings, or ask an operator",
            )

    @operation("policy.explain", command="")
    async def explain(self, invocation: Invocation, params: CallParams) -> CallExplained:
        """Say what every rule in force says of a call, which one decides, and why."""
        from hookgate.builtin_plugins.policy.bench.bench import Bench, explained, history_of

        self._allowed(invocation)
        if len(json.dumps(params.arguments)) > MOST_ARGUMENTS:
            raise TurnError.invalid(
                f"found arguments of more than {MOST_ARGUMENTS:,} characters",
                "shorten them: rules look at few of them",
            )
        view = invocation.host.tools.view()

        def known(name: str) -> KnownTool | None:
            return _known(view[name]) if name in view else None

        try:
            facts, history = history_of(_facts(params, known), params.before, known)
        except ValueError as error:
            raise TurnError.invalid(error, "`hookgate tools list` names flags") from None
        bench = Bench(self._settings, self._engine().rules, params.profile)
        found = await asyncio.to_thread(explained, bench, facts, history)
        return CallExplained(known=params.tool in view, **found)

    @operation("policy.table", rest=("GET", "/v1/policy/table"))
    async def table(self, _: Invocation, profile: ProfileName | None = None) -> Table:
        """Show which flag leads to which verdict in which circumstances.

        Args:
            profile: The profile; the one that is set where this is left out.
        """
        chosen = profile or self._settings.profile
        rows = [
            TableRow(
                flag=cell.flag,
                value="unknown" if cell.value is None else "true" if cell.value else "false",
                provenance=cell.circumstances.provenance.value,
                tainted=cell.circumstances.tainted,
                effect=cell.effect.word,
                rule=cell.rule_name,
            )
            for cell in cells(chosen)
        ]
        return Table(profile=chosen, profiles=list(PROFILES), rows=rows)


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        return moment(text, now) if text else None
    except ValueError as error:
        raise TurnError.invalid(error, "write it in one of these forms") from None


def _terse(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rule says without what it leaves open."""
    short = ((key, _terse(one) if isinstance(one, Mapping) else one) for key, one in said.items())
    return {key: value for key, value in short if value not in (None, "", (), [], {})}


def _row(rule: Rule, hits: Hits) -> RuleRow:
    shown = {"name", "effect", "mode", "reason", "unknown"}
    return RuleRow.of_record(
        rule,
        rule=rule.name,
        decided=hits.decided,
        would=hits.would,
        last=hits.last.isoformat() if hits.last else "",
        says=_terse({key: value for key, value in said(rule).items() if key not in shown}),
    )


def _known(tool: Tool) -> KnownTool:
    call = Facts(tool=tool.name, plugin=tool.plugin, sandbox=tool.sandbox, flags=tool.flags)
    return KnownTool(call, arguments_in(tool.schema))


def _facts(params: CallParams, known: Callable[[str], KnownTool | None]) -> Facts:
    from hookgate.builtin_plugins.policy.bench.bench import declaring, facts_known

    facts = facts_known(params.tool, known)
    return replace(
        facts,
        arguments=params.arguments,
        flags=declaring(facts.flags, params.flags),
        provenance=params.provenance.value,
        taint=frozenset(params.taint),
        agent=params.agent,
        channel=params.channel,
        session=f"{params.agent}:{params.channel}:local:main",
        turn="turn",
    )
