"""The operations of policy: questions, what was allowed always, tools that changed, verdicts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    EffectName,
    Flags,
    Invocation,
    NotAllowedError,
    OperationModel,
    Provenance,
    Tool,
    TurnError,
    operation,
)
from hookgate.builtin_plugins.policy.desk.approvals import Choice
from hookgate.builtin_plugins.policy.desk.grants import GrantScope, GrantState
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.rules.linting import KnownTool, arguments_in
from hookgate.builtin_plugins.policy.rules.profiles import PROFILES, cells
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName, RuleEffect

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.bench.apart import Apart
    from hookgate.builtin_plugins.policy.desk.desk import Desk
    from hookgate.builtin_plugins.policy.desk.quarantine import Quarantine
    from hookgate.builtin_plugins.policy.judge.engine import Engine

MOST_ARGUMENTS = 20_000
"""Characters of the arguments of a call that is explained."""

RuleText = Annotated[str, Field(max_length=64 * 1024)]
Id = Annotated[str, Field(min_length=1, max_length=200)]
Digest = Annotated[str, Field(max_length=64)]


class Approvals(OperationModel):
    """The questions that wait."""

    approvals: list[dict[str, Any]]
    """Each with all that is asked about: see the event ``approval``."""


class Resolved(OperationModel):
    """What became of an answer."""

    id: str
    decision: Choice
    tool: str
    session: str
    grant: str
    """The id of the grant that was made; empty where none was."""


class GrantRow(OperationModel):
    """What somebody has allowed always."""

    id: str
    scope: GrantScope
    """These very arguments, or any of this tool."""
    tool: str
    arguments: str
    """The arguments, in JSON with secrets masked; empty where any are allowed."""
    session: str
    by: str
    """Who allowed it."""
    at: str
    """When, ISO 8601 in UTC."""
    expires: str
    """When it ends, ISO 8601 in UTC."""
    state: GrantState
    """Whether it still answers anything; if not, what has changed since."""
    tool_digest: str
    """The tool as it was when this was allowed."""
    policy: str
    """The policy under which it was allowed."""


class Grants(OperationModel):
    """What stands."""

    grants: list[GrantRow]
    """The newest first."""


class Revoked(OperationModel):
    """What was taken back."""

    id: str
    tool: str
    session: str


class ApprovalOperations:
    """Approvals: tool calls that wait for somebody, and what was allowed always.

    There is no other way to answer a question.
    """

    def __init__(self, desk: Callable[[], Desk]) -> None:
        self._desk = desk

    @operation(
        "approvals.list", also="approval.list", scope="approve", rest=("GET", "/v1/approvals")
    )
    async def list_approvals(self, invocation: Invocation) -> Approvals:
        """List the tool calls that wait for somebody's approval: those that the caller may give."""
        waiting = await self._desk().inbox.waiting(invocation.principal)
        return Approvals(approvals=[dict(question.text) for question in waiting])

    @operation("approvals.resolve", also="approval.resolve", scope="approve")
    async def resolve(
        self,
        invocation: Invocation,
        id: Id,
        decision: Choice,
        digest: Digest = "",
        scope: GrantScope = "arguments",
    ) -> Resolved:
        """Allow a waiting tool call, once or always, or deny it.

        Args:
            id: The question's id.
            decision: ``allow-once``, ``allow-always`` or ``deny``.
            digest: The question's digest, as it was shown; the answer is refused where it is
                another.
            scope: How far ``allow-always`` reaches: these very arguments, or any of this tool in
                this session, where the settings allow that.
        """
        question, grant = await self._desk().resolve(
            invocation.principal, id, decision, digest=digest, scope=scope
        )
        invocation.host.log.info(
            "approval resolved",
            tool=question.text["tool"],
            decision=decision,
            by=invocation.principal.id,
            session=question.text["session"],
        )
        return Resolved(
            id=question.id,
            decision=decision,
            tool=question.text["tool"],
            session=question.text["session"],
            grant=grant.id if grant is not None else "",
        )

    @operation(
        "approvals.grants",
        also="approval.grants",
        scope="approve",
        rest=("GET", "/v1/approvals/grants"),
    )
    async def list_grants(self, invocation: Invocation) -> Grants:
        """List what somebody has allowed always, at addresses of the caller."""
        rows = await self._desk().rows(invocation.principal)
        return Grants(grants=[GrantRow(**row) for row in rows])

    @operation("approvals.revoke", also="approval.revoke", scope="approve")
    async def revoke(
        self,
        invocation: Invocation,
        id: Id,
    ) -> Revoked:
        """Take back what somebody has allowed always; such calls are asked about.

        Args:
            id: The grant's id.
        """
        grant = await self._desk().revoke(invocation.principal, id)
        invocation.host.log.info(
            "grant revoked", grant=grant.id, tool=grant.tool, by=invocation.principal.id
        )
        return Revoked(id=grant.id, tool=grant.tool, session=grant.session)


# -- quarantine ------------------------------------------------------------


class ChangeRow(OperationModel):
    """One thing that is not as it was accepted."""

    part: str
    """description, schema, owner, sandbox, module, plugin, or a flag's name."""
    before: str
    """What was accepted."""
    after: str
    """What it is now."""


class ChangedTool(OperationModel):
    """A tool that waits."""

    tool: str
    plugin: str
    """Who brings it."""
    why: str
    """Why it waits."""
    digest: str
    """Its digest now: say it when you accept, and nothing else is accepted."""
    changes: list[ChangeRow]


class ChangedTools(OperationModel):
    """The tools that wait for somebody to accept them."""

    tools: list[ChangedTool]


class QuarantineOperations:
    """Tools: what models can call."""

    def __init__(self, quarantine: Callable[[], Quarantine]) -> None:
        self._quarantine = quarantine

    @operation("tools.changes", rest=("GET", "/v1/tools/changes"))
    async def changes(self, _: Invocation) -> ChangedTools:
        """Show the tools in quarantine: what was accepted, and what they are now.

        Example:
            hookgate tools changes
        """
        return ChangedTools.model_validate({"tools": list(self._quarantine().rows())})


# -- verdicts --------------------------------------------------------------


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


class RuleTexts(OperationModel):
    """What to check."""

    rules: RuleText
    """The text of a file of rules, in YAML."""


class RulesChecked(OperationModel):
    """What is wrong with rules."""

    ok: bool
    """Whether a gateway would start with them, and all cases that were asked for passed."""
    rules: list[str]
    """Their names, in their order."""
    problems: list[ProblemRow]


class CaseTexts(RuleTexts):
    """Which cases to try against which rules."""

    cases: RuleText
    """The text of a file of cases, in YAML."""


class CaseRow(OperationModel):
    """What became of a case."""

    name: str
    line: int
    passed: bool
    wrong: list[str]
    """What is other than expected."""
    effect: RuleEffect
    rule: str
    """What decided."""
    why: str


class CasesTried(RulesChecked):
    """What became of cases; none is tried where a text cannot be read."""

    passed: int
    failed: int
    left: int
    """How many were not tried, for their number or their time."""
    cases: list[CaseRow]


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
    """Tools that were called before in this turn, the oldest first."""
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


class CallDecided(OperationModel):
    """What follows from all of them."""

    effect: RuleEffect
    rule: str
    why: str
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
    """Rules for tool calls: check, test, explain, replay and compare them."""

    def __init__(self, settings: PolicySettings, engine: Callable[[], Engine]) -> None:
        self._settings = settings
        self._engine = engine
        self._apart: Apart | None = None

    @operation("policy.check", command="")
    async def check(self, invocation: Invocation, params: RuleTexts) -> RulesChecked:
        """Check the text of rules: what cannot be read, never counts, or contradicts another."""
        found = await self._tried(invocation, params.rules, None)
        return RulesChecked.model_validate({key: found[key] for key in RulesChecked.model_fields})

    @operation("policy.test", command="")
    async def test(self, invocation: Invocation, params: CaseTexts) -> CasesTried:
        """Judge cases by the text of rules, with the lists and the profile of the settings."""
        return CasesTried.model_validate(await self._tried(invocation, params.rules, params.cases))

    async def _tried(
        self, invocation: Invocation, rules: str, cases: str | None
    ) -> Mapping[str, Any]:
        from hookgate.builtin_plugins.policy.bench.apart import Apart, plain

        self._allowed(invocation)
        tools = [plain(_known(tool)) for tool in invocation.host.tools.view().values()]
        settings = self._settings.model_dump(mode="json")
        work = {"rules": rules, "cases": cases, "settings": settings, "tools": tools}
        self._apart = self._apart or Apart()
        return await self._apart.do(work)

    def _allowed(self, invocation: Invocation) -> None:
        if not invocation.principal.sees_all:
            raise NotAllowedError(
                f"{invocation.principal.id} sees some sessions only, and rules are about all",
                action="use a token without bindings, or ask an operator",
            )

    @operation("policy.explain", command="")
    async def explain(self, invocation: Invocation, params: CallParams) -> CallExplained:
        """Say what every rule in force says of a call, which one decides, and why."""
        from hookgate.builtin_plugins.policy.bench.bench import Bench, explained
        from hookgate.builtin_plugins.policy.bench.cases import recorded

        self._allowed(invocation)
        if len(json.dumps(params.arguments)) > MOST_ARGUMENTS:
            raise TurnError(
                f"found arguments of more than {MOST_ARGUMENTS:,} characters",
                code="invalid_params",
                action="shorten them: rules look at few of them",
            )
        view = invocation.host.tools.view()
        facts = _facts(params, view)
        happened = [
            replace(_facts(params, view, name), arguments={}, index=number)
            for number, name in enumerate(params.before)
        ]
        bench = Bench(self._settings, self._engine().rules, params.profile)

        def judged() -> dict[str, Any]:
            history = History()
            for number, one in enumerate(happened):
                history.add(number, recorded(one))
            return explained(bench, facts, history, len(happened))

        found = await asyncio.to_thread(judged)
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
                rule=cell.rule,
            )
            for cell in cells(chosen)
        ]
        return Table(profile=chosen, profiles=list(PROFILES), rows=rows)


def _known(tool: Tool) -> KnownTool:
    return KnownTool(
        name=tool.name,
        plugin=tool.plugin,
        sandbox=tool.sandbox,
        flags=tool.flags,
        arguments=arguments_in(tool.schema),
    )


def _facts(params: CallParams, view: Mapping[str, Tool], earlier: str = "") -> Facts:
    """Return the facts of the call, or of one before it."""
    name = earlier or params.tool
    known = _known(view[name]).facts if name in view else Facts(tool=name)
    said = {} if earlier else params.flags
    try:
        declared = Flags.from_mapping({**known.flags.to_json(), **said}) if said else known.flags
    except ValueError as error:
        raise TurnError(
            str(error), code="invalid_params", action="take the names of `hookgate tools list`"
        ) from None
    return replace(
        known,
        arguments=params.arguments,
        flags=declared,
        provenance=params.provenance.value,
        taint=frozenset(params.taint),
        agent=params.agent,
        channel=params.channel,
        session=f"{params.agent}:{params.channel}:local:main",
        turn="turn",
        index=len(params.before),
    )
