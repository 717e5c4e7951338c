"""The plugin ``policy``: judges every tool call and asks people where the rules say so."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import (
    BUDGETS,
    Ask,
    Capabilities,
    Decision,
    HookgateError,
    Host,
    Operation,
    StartError,
    StoreError,
    ToolCall,
    ToolResult,
    Turn,
    TurnKey,
    Verdict,
    operations_of,
)
from hookgate.builtin_plugins.policy.bench.operations import Hits, PolicyOperations
from hookgate.builtin_plugins.policy.desk import Desk, opened
from hookgate.builtin_plugins.policy.desk.quarantine import Quarantine
from hookgate.builtin_plugins.policy.judge.engine import Engine, RuleOutcome
from hookgate.builtin_plugins.policy.judge.facts import Budgets, History, facts_of
from hookgate.builtin_plugins.policy.judge.judging import Judge
from hookgate.builtin_plugins.policy.operations import ApprovalOperations, QuarantineOperations
from hookgate.builtin_plugins.policy.rules.files import read_rules
from hookgate.builtin_plugins.policy.rules.linting import (
    nobody_named,
    past_deadline,
    unknown_budgets,
)
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.builtin_plugins.policy.rules.profiles import policy_version
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.hookspecs import hookimpl
from hookgate.kit.content.documents import DocumentReading
from hookgate.kit.content.problems import brief

RULES = "policy rules"
"""What `status` calls rules that cannot be used."""

APPROVERS = "policy approvers"
"""What `status` calls rules whose approvers are nobody."""

LACKING = "policy budgets"
"""What `status` calls rules that ask about budgets which there are not."""

WAITS = "policy waits"
"""What `status` calls rules whose questions cannot wait as long as they say."""

UNREAD = "policy folders"
"""What `status` calls folders without rules, and rules in them that are not read."""

KNOWN: TurnKey[dict[str, int]] = TurnKey("policy.known")
"""How many calls were counted when one was judged."""

LATE: TurnKey[dict[str, str]] = TurnKey("policy.late")
"""Why a call that was allowed does not run: what came between its judging and its decision."""

SHADOW: TurnKey[dict[str, tuple[RuleOutcome, ...]]] = TurnKey("policy.shadow")


def _told(reading: DocumentReading[Rule]) -> str:
    return brief([str(one) for one in reading.problems if one.severity == "error"])


class Plugin:
    """Judges by profile and overrides, and keeps the inbox of questions."""

    Settings = PolicySettings

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._judge = Judge(settings)
        self._history = History()
        self._hits: dict[str, Hits] = defaultdict(Hits)
        self._desk: Desk | None = None
        self._quarantine: Quarantine | None = None
        self._version: tuple[str, str] = ("", "")
        self._host: Host | None = None
        self._checked_version = -1
        self._warned: set[tuple[str, str]] = set()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the desk. Questions that wait when it closes are cancelled with their turns."""
        self._host = host
        reading = await self._read_rules()
        if reading.failed:
            raise StartError(f"the rules of policy cannot be used: {_told(reading)}")
        self._judge = self._judging_by(Engine(reading.found))
        self._tell_of_approvers(host)
        # All plugins have opened by then, and those that hold budgets are among them.
        host.after_reading(lambda _: self._tell_of_budgets(host))
        async with opened(host, self._settings, self._policy_version) as (desk, quarantine):
            self._desk, self._quarantine = desk, quarantine
            yield
            self._desk = None

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer the inbox and the bench."""
        return operations_of(
            ApprovalOperations(lambda: self._open_desk),
            QuarantineOperations(lambda: self._open_quarantine),
            PolicyOperations(
                self._settings, lambda: self._judge.engine, self._hits, host.clock.now()
            ),
        )

    @hookimpl
    async def reloading(self, host: Host) -> Callable[[], None] | None:
        """Read the rules again, before any tool is published that they have not judged."""
        reading = await self._read_rules()
        if reading.failed:
            # What was judged by yesterday's rules is judged by them on: no rules are no policy.
            why = f"the rules before stay in force: {_told(reading)}"
            host.standing(RULES).bad(why)
            raise HookgateError(why)
        engine = Engine(reading.found)
        return lambda: self._use(host, engine)

    @hookimpl
    async def withhold_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Collection[str] | None:
        """Take away the tools that are not the ones that were accepted."""
        return None if self._quarantine is None else await self._quarantine.withheld(turn)

    @hookimpl
    def before_tool_call(
        self, turn: Turn, call: ToolCall
    ) -> Verdict | Coroutine[Any, Any, Verdict]:
        """Judge by the operator's lists and rules, then by the profile."""
        self._warn_of_idle_globs()
        if self._quarantine is not None and (why := self._quarantine.why(turn, call)):
            return Verdict.deny(why, rule="quarantine")
        # Waited for only where a rule asks: most calls are judged at once.
        if names := self._judge.engine.budgets_of(call):
            return self._judged_later(turn, call, names)
        return self._judged(turn, call)

    async def _judged_later(self, turn: Turn, call: ToolCall, names: Collection[str]) -> Verdict:
        return self._judged(turn, call, await self._left(turn, names))

    async def _left(self, turn: Turn, names: Collection[str]) -> Budgets:
        """Return what is left of budgets; what cannot be known is left out, and so unknown."""
        view = None if self._host is None or not names else self._host.get(BUDGETS)
        try:
            return {} if view is None else await view.left(turn, names)
        except StoreError:
            return {}

    def _judged(self, turn: Turn, call: ToolCall, budgets: Budgets | None = None) -> Verdict:
        clock = None if self._host is None else self._host.clock
        now = 0.0 if clock is None else clock.monotonic()
        at = None if clock is None else clock.now()
        verdict, ruled = self._judge.judge(turn, call, self._history, now, at, budgets)
        if self._judge.engine.rules:
            known = turn.get(KNOWN) or {}
            turn[KNOWN] = {**known, call.id: self._history.added}
        if ruled.shadow:
            before = turn.get(SHADOW) or {}
            turn[SHADOW] = {**before, call.id: ruled.shadow}
        return verdict

    @hookimpl
    async def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        """Remember what was allowed; record what rules in shadow mode would have said."""
        host = self._host
        if host is None:
            return
        if self._judge.engine.rules:
            self._count(host, decision)
            budgets = await self._left(turn, self._judge.engine.budgets_of(call))
            if decision.allowed and not self._is_late(host, turn, call, decision, budgets):
                self._history.add(host.clock.monotonic(), facts_of(turn, call), call=call.id)
        for outcome in (turn.get(SHADOW) or {}).get(call.id, ()):
            data = {
                "rule": outcome.rule.name,
                "would": outcome.effect,
                "decided": decision.effect.word,
                "why": outcome.why,
                "tool": call.name,
                "turn": turn.id,
                "session": str(turn.session),
            }
            hits = self._hits[outcome.rule.name]
            hits.would, hits.last = hits.would + 1, host.clock.now()
            host.log.info("rule in shadow mode", **data)
            await host.record("policy_shadow", **data)

    @hookimpl
    def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
        """Note whether a call did what it was to do, for rules that wait for one."""
        if self._judge.engine.rules:
            self._history.finished(turn.id, call.id, done=result.status == "done")

    @hookimpl
    async def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision | None:
        """Put the question into the inbox and wait."""
        return None if self._desk is None else await self._desk.ask(turn, call, ask)

    # -- within ------------------------------------------------------------

    def _is_late(
        self, host: Host, turn: Turn, call: ToolCall, decision: Decision, budgets: Budgets
    ) -> bool:
        """Whether calls that were counted since this one was judged make its verdict stricter.

        Calls may be judged beside one another: each would be allowed as the last one that may be.
        """
        known = turn.get(KNOWN) or {}
        if known.pop(call.id, self._history.added) == self._history.added or decision.would:
            return False
        own = [one.effect for one in decision.verdicts if one.plugin == "policy"]
        clock = host.clock
        verdict, _ = self._judge.judge(
            turn, call, self._history, clock.monotonic(), clock.now(), budgets
        )
        if not own or verdict.effect <= max(own):
            return False
        why = (
            f"{call.name} is not run: others were allowed while it was judged, and {verdict.rule} "
            "does not allow it beside them; one that is made now is judged anew"
        )
        late = turn.get(LATE) or {}
        turn[LATE] = {**late, call.id: why}
        return True

    def _count(self, host: Host, decision: Decision) -> None:
        for verdict in decision.verdicts:
            if verdict.plugin == "policy" and verdict.rule.startswith("rule:"):
                hits = self._hits[verdict.rule.removeprefix("rule:")]
                hits.decided, hits.last = hits.decided + 1, host.clock.now()

    def _use(self, host: Host, engine: Engine) -> None:
        host.standing(RULES).good()
        if engine.version == self._judge.engine.version:
            return
        self._judge = self._judging_by(engine)
        self._tell_of_approvers(host)
        host.log.info("rules of policy changed", rules=len(engine.rules))
        if self._desk is not None:
            self._desk.inbox.look_again()

    def _tell_of_approvers(self, host: Host) -> None:
        odd = nobody_named(self._judge.engine.rules, self._settings.approvals)
        host.standing(APPROVERS).note(brief([str(one) for one in odd]))
        late = past_deadline(self._judge.engine.rules, host.settings.turn.deadline_seconds)
        host.standing(WAITS).note(brief([str(one) for one in late]))

    def _tell_of_budgets(self, host: Host) -> None:
        view = host.get(BUDGETS)
        lacking = unknown_budgets(self._judge.engine.rules, None if view is None else view.names())
        host.standing(LACKING).note(brief([str(one) for one in lacking]))

    def _judging_by(self, engine: Engine) -> Judge:
        def recheck(turn: Turn, call: ToolCall) -> str:
            if self._judge is not judge:
                return f"{call.name} is not run: the rules changed after it was judged"
            if late := (turn.get(LATE) or {}).get(call.id):
                return late
            return self._quarantine.why(turn, call) if self._quarantine is not None else ""

        judge = Judge(self._settings, engine, recheck)
        return judge

    async def _read_rules(self) -> DocumentReading[Rule]:
        reading = await asyncio.to_thread(read_rules, self._settings.rules)
        if self._host is not None:
            unread = [
                str(one) for one in reading.problems if not one.line and one.severity == "warning"
            ]
            self._host.standing(UNREAD).note(brief(unread))
        return reading

    @property
    def _open_desk(self) -> Desk:
        assert self._desk is not None, "operations are called between start and stop"
        return self._desk

    @property
    def _open_quarantine(self) -> Quarantine:
        assert self._quarantine is not None, "operations are called between start and stop"
        return self._quarantine

    def _policy_version(self) -> str:
        rules = self._judge.engine.version
        if self._version[0] != rules:
            self._version = (rules, policy_version(self._settings, rules))
        return self._version[1]

    def _warn_of_idle_globs(self) -> None:
        # Here and not at start: tools come and go, and all are there at the first call.
        if self._host is None or self._host.tools.version == self._checked_version:
            return
        self._checked_version = self._host.tools.version
        for key, glob in self._judge.idle_globs(self._host.tools.view().keys()):
            if (key, glob) not in self._warned:
                self._warned.add((key, glob))
                self._host.log.warning(
                    f"`[plugin.policy] {key}` names a tool that there is not",
                    glob=glob,
                    tools=sorted(self._host.tools.view()),
                )
