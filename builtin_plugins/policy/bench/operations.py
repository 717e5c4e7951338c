"""The operations of the bench: rules checked, tried, explained, replayed and compared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookgate import (
    BUDGETS,
    Event,
    Invocation,
    NotAllowedError,
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
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName
from hookgate.clients import call_operation
from hookgate.kit.durations import moment
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.bench import models
else:
    models = on_demand("hookgate.builtin_plugins.policy.bench.models")

MOST_ARGUMENTS = 20_000
"""Characters of the arguments of a call that is explained."""
MOST_SECONDS = 600.0
"""After so long a replay ends where it is."""
MOST_REPLAYS = 2
PAGE = 200
"""So many rows of the audit are read, and judged, at once."""
TELL_SECONDS = 0.25
"""So often a replay says how far it is."""


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
    async def rules(self, invocation: Invocation) -> models.RulesInForce:
        """Show the rules in force in their order, and how often each had a say."""
        self._allowed(invocation)
        rows = [_row(rule, self._hits.get(rule.name, Hits())) for rule in self._engine().rules]
        since, profile = self._since.isoformat(), self._settings.profile
        return models.RulesInForce(profile=profile, since=since, rules=rows)

    @operation("policy.check", command="")
    async def check(self, invocation: Invocation, params: models.RuleTexts) -> models.RulesChecked:
        """Check the text of rules: what cannot be read, never counts, or contradicts another."""
        found = await self._tried(invocation, params, None)
        return models.RulesChecked.model_validate(
            {key: found[key] for key in models.RulesChecked.model_fields}
        )

    @operation("policy.test", command="")
    async def test(self, invocation: Invocation, params: models.CaseTexts) -> models.CasesTried:
        """Judge cases by the text of rules, with the lists and the profile of the settings."""
        beside = self._engine().rules if params.added else ()
        tried = await self._tried(invocation, params, params.cases, beside)
        return models.CasesTried.model_validate(tried)

    async def _tried(
        self,
        invocation: Invocation,
        params: models.RuleTexts,
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
    async def replay(
        self, invocation: Invocation, params: models.ReplayParams
    ) -> models.DecisionsReplayed:
        """Judge the calls on record again by other rules, and say which decisions flip."""
        return models.DecisionsReplayed.model_validate(await self._judged(invocation, params))

    @operation("policy.diff", streams=True)
    async def diff(self, invocation: Invocation, params: models.DiffParams) -> models.RulesCompared:
        """Compare two sets of rules: what they say of the same calls on record, and of cases."""
        force = self._engine().rules
        texts = {"old": force if params.old is None else params.old, "cases": params.cases}
        return models.RulesCompared.model_validate(await self._judged(invocation, params, **texts))

    async def _judged(
        self, invocation: Invocation, params: models.ReplayParams, **texts: str | Sequence[Rule]
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
    async def explain(
        self, invocation: Invocation, params: models.CallParams
    ) -> models.CallExplained:
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
        return models.CallExplained(known=params.tool in view, **found)

    @operation("policy.table", rest=("GET", "/v1/policy/table"))
    async def table(self, _: Invocation, profile: ProfileName | None = None) -> models.Table:
        """Show which flag leads to which verdict in which circumstances.

        Args:
            profile: The profile; the one that is set where this is left out.
        """
        chosen = profile or self._settings.profile
        rows = [
            models.TableRow(
                flag=cell.flag,
                value="unknown" if cell.value is None else "true" if cell.value else "false",
                provenance=cell.circumstances.provenance.value,
                tainted=cell.circumstances.tainted,
                effect=cell.effect.word,
                rule=cell.rule_name,
            )
            for cell in cells(chosen)
        ]
        return models.Table(profile=chosen, profiles=list(PROFILES), rows=rows)


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        return moment(text, now) if text else None
    except ValueError as error:
        raise TurnError.invalid(error, "write it in one of these forms") from None


def _terse(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rule says without what it leaves open."""
    short = ((key, _terse(one) if isinstance(one, Mapping) else one) for key, one in said.items())
    return {key: value for key, value in short if value not in (None, "", (), [], {})}


def _row(rule: Rule, hits: Hits) -> models.RuleRow:
    shown = {"name", "effect", "mode", "reason", "unknown"}
    return models.RuleRow.of_record(
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


def _facts(params: models.CallParams, known: Callable[[str], KnownTool | None]) -> Facts:
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
