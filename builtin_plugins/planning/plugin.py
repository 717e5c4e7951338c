"""The plugin ``planning``: plans turns, tells of their course, and learns from their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import (
    OUTCOME_WINDOWS,
    STORE,
    ContextBuilder,
    Event,
    FinishedCall,
    Host,
    Operation,
    Outcome,
    OutcomeEntry,
    Principal,
    Turn,
    TurnKey,
    TurnPlan,
    hookspecs,
    operations_of,
    outcome_by_ending,
)
from hookgate.builtin_plugins.planning import planner
from hookgate.builtin_plugins.planning.kpi import (
    ALERT,
    INSTRUMENTS,
    OUTCOME,
    KeptWindows,
    Kpi,
    OutcomeWindow,
    alert_of,
    scope_key,
)
from hookgate.builtin_plugins.planning.operations import OutcomeOperations, sees
from hookgate.builtin_plugins.planning.planner import Lifecycle, State
from hookgate.builtin_plugins.planning.settings import PlanningSettings
from hookgate.hookspecs import hookimpl
from hookgate.kit.tables import tables_of
from hookgate.settings import redact_json
from hookgate.tasks import stop

PART = "planning.outcomes"
META_TOOL = frozenset(("tool:discover_capabilities",))

COURSE: TurnKey[Lifecycle] = TurnKey("planning.lifecycle")
COUNTED: TurnKey[tuple[OutcomeWindow, Kpi] | None] = TurnKey("planning.counted")

REASON_CHARS = 300
"""So much of why a turn went as it did is kept."""


class Plugin:
    """Plans turns by settings, by what requests ask for, and by how things went lately."""

    Settings = PlanningSettings
    uses = (STORE, OUTCOME_WINDOWS)

    def __init__(self, settings: PlanningSettings) -> None:
        self._settings = settings
        self._windows = KeptWindows(settings)
        self._host: Host | None = None
        self._alone: bool | None = None

    def take_settings(self, settings: PlanningSettings) -> Collection[str]:
        """Take over changed settings; turns that run go on as they were planned."""
        self._settings = settings
        self._windows.take(settings)
        return ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the windows of outcomes; write what is in them before closing."""
        self._host = host
        host.flags.apply("planning", planner.FLAGS)
        host.instruments.apply("planning", INSTRUMENTS)
        self._windows = await self._opened(host)
        keeping = host.spawn(self._windows.keep(), name="planning.outcomes")
        try:
            yield
        finally:
            await stop(keeping)
            await self._windows.close()
            self._host = None

    async def _opened(self, host: Host) -> KeptWindows:
        """Return the windows as they are kept: by a plugin, or else by the store, or not at all."""
        kept, store = host.get(OUTCOME_WINDOWS), host.get(STORE)
        shared = durable = kept is not None
        if kept is None and store is not None:
            tables, _ = await tables_of(
                store, "planning", "hookgate.builtin_plugins.planning.tables"
            )
            size = lambda: self._settings.outcomes.rolling_window_size  # noqa: E731 - as settings go
            kept = tables.StoreWindows(store, size)
            shared, durable = store.shared, store.durable
        if kept is None:
            host.standing(PART).note(
                "no plugin provides a store: how turns went is kept in memory and lost when the "
                "gateway stops (enable the plugin `storage`)"
            )
        tell = host.standing(PART).bad
        windows = KeptWindows(self._settings, kept, durable=durable, shared=shared, tell=tell)
        await windows.flush()
        return windows

    # -- the plan ------------------------------------------------------------

    @hookimpl(tryfirst=True, specname="plan_turn")
    def plan_by_settings(self, turn: Turn, plan: TurnPlan) -> TurnPlan | None:
        """Plan as the settings and the request want it; other plugins go from there."""
        settings = self._settings
        if not settings.enabled:
            return None
        return planner.planned(plan, self._asked(turn), settings)

    @hookimpl(trylast=True)
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan | None:
        """Change the plan while outcomes are bad, and tell what it came to."""
        settings, host = self._settings, self._host
        if turn.flags:
            _tell_unfollowed(turn, settings)
        if not settings.enabled or host is None:
            return None
        details: dict[str, Any] = {"overrides": sorted(turn.flags)}
        window = self._windows.get(scope_key(turn, settings.outcomes.scope))
        held = planner.pinned(turn.flags) or host.settings.turn.failure_mode == "fail_closed"
        if window is not None and window.degraded:
            plan = planner.adapted(plan, self._asked(turn), settings.adaptive, held=held)
            details["adaptive"] = {"widened": plan.widened, "failure_mode": plan.failure_mode}
        if settings.lifecycle:
            details |= {
                "failure_mode": "fail_closed" if held else plan.failure_mode,
                "tool_selection": plan.tool_selection,
                "discovery": plan.discovery,
                "kinds": sorted(plan.kinds or ()),
                "category": plan.category,
            }
            self._tell(turn, "planned", details)
        return plan

    def _asked(self, turn: Turn) -> Mapping[str, Any]:
        """Return what a request asks for, as far as it may."""
        if self._settings.allow_request_overrides:
            return turn.flags
        return {name: turn.flags[name] for name in (planner.FAILURE_MODE,) if name in turn.flags}

    @hookimpl
    def withhold_capabilities(self) -> Collection[str] | None:
        """Take the meta-tool away, where the settings do not want it."""
        settings = self._settings
        wanted = settings.discovery.register_meta_tool or not settings.enabled
        return None if wanted else META_TOOL

    # -- the course ----------------------------------------------------------

    @hookimpl
    def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
        """Tell that the turn begins to run, and what it goes on without."""
        if context.stage == "start" and self._follows():
            self._tell(
                turn,
                "executing",
                {
                    "failure_mode": turn.plan.failure_mode,
                    "tool_selection": turn.plan.tool_selection,
                    "tools": len(turn.offered),
                    "selected": len(turn.selections),
                },
            )
            self._tell_degraded(turn)

    @hookimpl
    def turn_ended(self, turn: Turn) -> None:
        """Tell how the turn ended, before its client hears that it is done."""
        told = self._counted_early(turn)
        if not self._follows():
            return
        details: dict[str, Any] = {"ending": turn.ending, **told}
        if turn.ending in ("done", "awaiting_client"):
            self._tell_degraded(turn)
            if turn.degraded and turn.answer.strip():
                self._tell(turn, "recovered", {"from": sorted(turn.degraded)})
            self._tell(turn, "completed", details)
        else:
            code = turn.error.code if turn.error is not None else ""
            self._tell(turn, "errored", {**details, "code": code})

    def _counted_early(self, turn: Turn) -> Mapping[str, Any]:
        """Count a turn before its client hears that it is done; return what that hears of it.

        Where another plugin judges turns nothing is known yet: that may take as long as it likes,
        and nobody waits for it.
        """
        host = self._host
        if host is None or turn.ending == "awaiting_client" or not self._judges_alone(host):
            return {}
        outcome = self.judge_turn(turn) or outcome_by_ending(turn)
        counted = turn[COUNTED] = self._counted(host, turn, outcome)
        if counted is None or not self._settings.outcomes.enabled:
            return {}
        return {"outcome": _said(outcome), "kpi": counted[1].to_json()}

    def _judges_alone(self, host: Host) -> bool:
        if self._alone is None:
            judges = host.hooks.implementations(hookspecs.judge_turn)
            self._alone = {one.plugin for one in judges} <= {"planning"}
        return self._alone

    def _follows(self) -> bool:
        return self._settings.enabled and self._settings.lifecycle

    def _tell_degraded(self, turn: Turn) -> None:
        if turn.degraded:
            self._tell(turn, "degraded", {"reasons": dict(turn.degraded)})

    def _tell(self, turn: Turn, state: State, details: Mapping[str, Any]) -> None:
        """Send the event of a state, and of those that were passed on the way to it."""
        host = self._host
        if host is None:
            return
        course = turn.get(COURSE)
        if course is None:
            course = turn[COURSE] = Lifecycle()
        for passed in course.reach(state):
            said = details if passed == state else {}
            data: Mapping[str, Any] = {
                "state": passed,
                "time": host.clock.now().isoformat(),
                "details": said,
            }
            if "reasons" in said:  # what a plugin has raised stands in them
                data = redact_json(host.secrets, data)
            turn.emit(Event("lifecycle", data, scope="chat"))

    # -- the outcome ---------------------------------------------------------

    @hookimpl(trylast=True)
    def judge_turn(self, turn: Turn) -> Outcome | None:
        """Say what the request says of itself, where no plugin knows better."""
        if not self._settings.allow_request_overrides:
            return None
        claimed: Outcome | None = turn.flags.get(
            planner.TASK_OUTCOME, turn.flags.get(planner.TASK_SUCCESS)
        )
        return claimed

    @hookimpl
    def after_turn(self, turn: Turn, outcome: Outcome) -> None:
        """Count how the turn went, and tell what its window comes to."""
        host = self._host
        # A turn that waits for its client's tools goes on in the next one.
        if host is None or turn.ending == "awaiting_client":
            return
        known = turn.get(COUNTED)
        counted = known if known is not None else self._counted(host, turn, outcome)
        if counted is not None and self._settings.outcomes.enabled:
            self._publish(host, turn, outcome, *counted)

    def _counted(
        self, host: Host, turn: Turn, outcome: Outcome
    ) -> tuple[OutcomeWindow, Kpi] | None:
        """Put a turn into its window; return that, and what it comes to.

        None where there are no windows, and for a turn of which nothing is kept.
        """
        settings = self._settings
        if turn.ephemeral or not (settings.outcomes.enabled or settings.adaptive.enabled):
            return None
        scope, fault = scope_key(turn, settings.outcomes.scope), fault_of(turn)
        entry = OutcomeEntry(
            turn=turn.id,
            at=int(host.clock.now().timestamp() * 1_000_000),
            status=outcome.status,
            score=min(max(outcome.score, 0.0), 1.0),
            steers=not outcome.claimed and (bool(fault) or turn.ending == "done"),
            fault=fault,
            session=str(turn.session),
            reason=host.secrets.redact(outcome.reason)[:REASON_CHARS],
        )
        before = self._windows.get(scope)
        changed = before is not None and before.degraded
        window = self._windows.add(scope, entry)
        if window.degraded != changed:
            _tell_changed(host, scope, degraded=window.degraded)
        return window, window.kpi(scope)

    def _publish(
        self, host: Host, turn: Turn, outcome: Outcome, window: OutcomeWindow, kpi: Kpi
    ) -> None:
        host.metric(
            OUTCOME,
            scope=kpi.scope,
            status=outcome.status,
            source=outcome.source,
            score=outcome.score,
            weighted=kpi.weighted,
            degraded=int(kpi.degraded),
        )
        if host.events.wanted("outcome"):
            host.events.publish(turn.named(Event("outcome", _said(outcome), scope="chat")))
        if host.events.wanted("outcome_kpi"):
            host.events.publish(turn.named(Event("outcome_kpi", kpi.to_json(), scope="chat")))
        settings = self._settings.outcomes
        now = host.clock.monotonic()
        if settings.emit_alerts and (alert := alert_of(window, kpi, settings, now)) is not None:
            host.log.warning("turns go badly", severity=alert.severity, reason=alert.reason)
            host.metric(ALERT, **alert.to_json(), scope=alert.scope)
            _publish(host, "outcome_alert", alert.scope, alert.to_json())

    # -- operators -----------------------------------------------------------

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows how the last turns went."""
        return operations_of(OutcomeOperations(lambda: self._windows))


def fault_of(turn: Turn) -> str:
    """Return what of discovery and tools went wrong in a turn: ``discovery``, ``tools``, or ""."""
    code = turn.error.code if turn.error is not None else ""
    if code == "discovery_failed" or "discovery_failed" in turn.degraded:
        return "discovery"
    return "tools" if code == "tool_failed" or any(_lost(turn, one) for one in turn.calls) else ""


def _lost(turn: Turn, done: FinishedCall) -> bool:
    """Whether a call has failed that was allowed, or that is of no tool which is there."""
    if done.call.name not in turn.offered:
        return True
    failed = done.result.is_error and done.result.status != "cancelled"
    return failed and done.decision.allowed


def _said(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "score": outcome.score,
        "source": outcome.source,
        "reason": outcome.reason,
    }


def _publish(host: Host, kind: str, scope: str, data: Mapping[str, Any]) -> None:
    """Publish an event of a scope, for those who may see it."""

    def audience(principal: Principal) -> bool:
        return sees(principal, scope)

    host.events.publish(Event(kind, data, scope="read", audience=audience))


def _tell_changed(host: Host, scope: str, *, degraded: bool) -> None:
    """Say that plans change from now on, or are as they were."""
    what = "turns go badly: plans are changed" if degraded else "turns go well: plans are as set"
    host.log.info(what, scope=scope)
    _publish(host, "outcome_plans", scope, {"scopeKey": scope, "degraded": degraded})


def _tell_unfollowed(turn: Turn, settings: PlanningSettings) -> None:
    """Tell the client of flags that its gateway does not follow."""
    followed = planner.OUTCOMES if settings.allow_request_overrides else frozenset()
    if settings.allow_request_overrides and settings.enabled:
        return
    ignored = sorted(turn.flags.keys() & {flag.name for flag in planner.FLAGS} - followed)
    if ignored:
        data = {
            "code": "flags_not_followed",
            "message": f"this gateway lets no request set {', '.join(ignored)}",
            "action": "leave them out; `enabled` and `allow_request_overrides` of "
            "`plugin.planning` let requests set them",
        }
        turn.emit(Event("warning", data, scope="chat"))
