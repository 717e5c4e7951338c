"""The operations of schedules: list, run, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate import AUDIT, SWITCHES, Host, Invocation, Operation, OperationModel, TurnError
from hookgate.builtin_plugins.schedules.running import tidy
from hookgate.builtin_plugins.schedules.scheduler import SWITCH, Scheduler, paused_in

if TYPE_CHECKING:
    from hookgate.builtin_plugins.schedules.settings import JobSettings

LOOKED_AT = 100


class ListParams(OperationModel):
    """Which schedules are wanted."""

    name: str = ""
    """One schedule; all where it is empty."""
    runs: int = Field(default=0, ge=0, le=LOOKED_AT)
    """So many of the last rows of each are shown, too."""


class NameParams(OperationModel):
    """A schedule."""

    name: str
    """Its name."""


class PauseParams(NameParams):
    """A schedule that is to rest."""

    why: str = Field(default="", max_length=300)
    """Why, for those who look at it."""


class RunRow(OperationModel):
    """A run, or several that were missed in a row."""

    schedule: str
    planned: str
    """When it was due, in UTC; of several the last."""
    state: str
    """`running`, `done`, `refused`, `failed`, `cancelled`, `undelivered`, `interrupted`,
    `skipped` or `missed`."""
    note: str
    """Why it ended so."""
    first: str
    """When the first of them was due."""
    count: int
    """How many they are."""
    more: bool
    """Whether there were more than were counted."""
    by: str
    """`clock`, or who has started it by hand."""
    attempt: int
    """2 where it was run again after its gateway had stopped."""
    started: str
    ended: str
    turn: str
    session: str


class ScheduleRow(OperationModel):
    """A schedule, and how it stands."""

    name: str
    state: str
    """`on`, `paused` or `disabled`."""
    when: str
    """Its line of cron with the zone, or the time between two runs."""
    next: str
    """When it is due next, in UTC, without jitter; "" where it is not."""
    last: str
    """When its last run was due; "" where there was none."""
    outcome: str
    """What became of that, or `running`."""
    missed: int
    """So many runs were missed since the schedule is known."""
    last_missed: str
    """When the last of them was due."""
    note: str
    """Who has paused it and why, or why its last run ended so."""


class ScheduleRows(OperationModel):
    """Schedules by name."""

    schedules: list[ScheduleRow]
    runs: list[RunRow]
    """The last rows of each, the newest first, as many as were asked for."""


class ScheduleOperations:
    """The handlers, and what they are offered as."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def listed(self, invocation: Invocation, params: ListParams) -> ScheduleRows:
        """List the schedules whose session the caller may see."""
        host, principal = invocation.host, invocation.principal
        jobs = {
            name: job
            for name, job in sorted(self._scheduler.jobs.items())
            if params.name in ("", name) and principal.may_see(job.address(name))
        }
        if params.name and not jobs:
            raise _unknown(params.name)
        found = ScheduleRows(schedules=[], runs=[])
        if not jobs:
            return found
        paused = paused_in(await host[SWITCHES].get(SWITCH))
        for name, job in jobs.items():
            rows, missed = await (await self._scheduler.book()).rows(name, LOOKED_AT)
            found.schedules.append(_standing(host, name, job, paused.get(name), rows, missed))
            found.runs.extend(rows[: params.runs])
        return found

    async def run(self, invocation: Invocation, params: NameParams) -> RunRow:
        """Run a schedule now."""
        job = self._job(params.name)
        await _audit(invocation, "schedule_run", params.name)
        scheduler = self._scheduler
        planned = await scheduler.run_by_hand(params.name, job, invocation.principal)
        rows, _ = await (await scheduler.book()).rows(params.name, LOOKED_AT)
        return next(row for row in rows if datetime.fromisoformat(row.planned) == planned)

    async def pause(self, invocation: Invocation, params: PauseParams) -> ScheduleRow:
        """Have a schedule rest."""
        job, host = self._job(params.name), invocation.host
        entry = {"by": invocation.principal.id, "why": tidy(host, params.why)}
        await self._switch(host, params.name, entry)
        await _audit(invocation, "schedule_paused", params.name, entry["why"])
        return await self._row(host, params.name, job, entry)

    async def resume(self, invocation: Invocation, params: NameParams) -> ScheduleRow:
        """Have a schedule run again."""
        job, host = self._job(params.name), invocation.host
        await self._scheduler.put_back(params.name)
        await self._switch(host, params.name, None)
        await _audit(invocation, "schedule_resumed", params.name)
        return await self._row(host, params.name, job, None)

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return (
            Operation(
                name="schedules.list",
                summary="List the schedules: when they run next, and what became of the last run.",
                params=ListParams,
                result=ScheduleRows,
                handler=self.listed,
                rest=("GET", "/v1/schedules"),
                command="schedules list",
            ),
            Operation(
                name="schedules.run",
                summary="Run a schedule now, and wait for its end.",
                params=NameParams,
                result=RunRow,
                handler=self.run,
                scope="operate",
                command="schedules run",
            ),
            Operation(
                name="schedules.pause",
                summary="Pause a schedule at all gateways on the store; what runs goes on.",
                params=PauseParams,
                result=ScheduleRow,
                handler=self.pause,
                scope="operate",
                command="schedules pause",
            ),
            Operation(
                name="schedules.resume",
                summary="Let a schedule run again, from now on.",
                params=NameParams,
                result=ScheduleRow,
                handler=self.resume,
                scope="operate",
                command="schedules resume",
            ),
        )

    # -- within --------------------------------------------------------------

    def _job(self, name: str) -> JobSettings:
        job = self._scheduler.jobs.get(name)
        if job is None:
            raise _unknown(name)
        return job

    async def _switch(self, host: Host, name: str, entry: dict[str, str] | None) -> None:
        switches = host[SWITCHES]
        while True:
            known = await switches.get(SWITCH)
            paused = paused_in(known)
            paused.pop(name, None)
            if entry is not None:
                paused[name] = entry
            if await switches.put(SWITCH, {"paused": paused}, version=known.version) is not None:
                return

    async def _row(
        self, host: Host, name: str, job: JobSettings, paused: dict[str, str] | None
    ) -> ScheduleRow:
        rows, missed = await (await self._scheduler.book()).rows(name, LOOKED_AT)
        return _standing(host, name, job, paused, rows, missed)


def _standing(
    host: Host,
    name: str,
    job: JobSettings,
    paused: dict[str, str] | None,
    rows: Sequence[RunRow],
    missed: int,
) -> ScheduleRow:
    state = "on" if paused is None else "paused"
    state = state if job.enabled else "disabled"
    due = job.timing.after(host.clock.now()) if state == "on" else None
    last = next((row for row in rows if row.state not in ("missed", "skipped")), None)
    lost = next((row for row in rows if row.state == "missed"), None)
    note = "" if last is None else last.note
    return ScheduleRow(
        name=name,
        state=state,
        when=str(job.timing),
        next="" if due is None else due.isoformat(),
        last="" if last is None else last.planned,
        outcome="" if last is None else last.state,
        missed=missed,
        last_missed="" if lost is None else lost.planned,
        note=note if paused is None else f"paused by {paused['by']}: {paused['why']}",
    )


def _unknown(name: str) -> TurnError:
    return TurnError(
        f"found no schedule {name!r}",
        code="not_found",
        action="`hookgate schedules list` shows all; they stand in [plugin.schedules.jobs.NAME]",
    )


async def _audit(invocation: Invocation, kind: str, name: str, why: str = "") -> None:
    audit = invocation.host.get(AUDIT)
    if audit is not None:
        row = {"by": invocation.principal.id, "schedule": name, "why": why}
        await audit.append(kind, row)
