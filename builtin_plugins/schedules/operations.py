"""The operations of schedules: list, run, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from hookgate import (
    SWITCHES,
    Host,
    Invocation,
    OperationModel,
    Switch,
    TurnError,
    not_found,
    operation,
    set_switch,
)
from hookgate.builtin_plugins.schedules.scheduler import SWITCH, Scheduler, paused_in, tidy
from hookgate.builtin_plugins.schedules.settings import JobSettings

LOOKED_AT = 100


class RunRow(OperationModel):
    """A run, or several that were missed in a row."""

    schedule: str
    planned: str
    """When it was due, in UTC; of several the last."""
    state: str = "running"
    """`running`, `done`, `refused`, `failed`, `cancelled`, `undelivered`, `interrupted`,
    `skipped` or `missed`."""
    note: str = ""
    """Why it ended so."""
    first: str
    """When the first of them was due."""
    count: int = 1
    """How many they are."""
    more: bool = False
    """Whether there were more than were counted."""
    by: str = "clock"
    """`clock`, or who has started it by hand."""
    attempt: int = 1
    """2 where it was run again after its gateway had stopped."""
    started: str = ""
    ended: str = ""
    turn: str = ""
    session: str = ""


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
    """Schedules: what runs by the clock, when it is due, and what became of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @operation("schedules.list", rest=("GET", "/v1/schedules"))
    async def listed(
        self,
        invocation: Invocation,
        name: str = "",
        runs: Annotated[int, Field(ge=0, le=LOOKED_AT)] = 0,
    ) -> ScheduleRows:
        """List the schedules: when they run next, and what became of the last run.

        Args:
            name: One schedule; all where it is empty.
            runs: So many of the last rows of each are shown, too.
        """
        host, principal = invocation.host, invocation.principal
        jobs = {
            key: job
            for key, job in sorted(self._scheduler.jobs.items())
            if name in ("", key) and principal.may_see(job.address(key))
        }
        if name and not jobs:
            raise _unknown(name)
        found = ScheduleRows(schedules=[], runs=[])
        if not jobs:
            return found
        paused = paused_in(await host[SWITCHES].get(SWITCH))
        for key, job in jobs.items():
            rows, missed = await (await self._scheduler.book()).rows(key, LOOKED_AT)
            found.schedules.append(_standing(host, key, job, paused.get(key), rows, missed))
            found.runs.extend(rows[:runs])
        return found

    @operation("schedules.run", scope="operate")
    async def run(self, invocation: Invocation, name: str) -> RunRow:
        """Run a schedule now, and wait for its end.

        Args:
            name: Its name.
        """
        job = self._job(name)
        await _audit(invocation, "schedule_run", name)
        scheduler = self._scheduler
        planned = await scheduler.run_by_hand(name, job, invocation.principal)
        rows, _ = await (await scheduler.book()).rows(name, LOOKED_AT)
        return next(row for row in rows if datetime.fromisoformat(row.planned) == planned)

    @operation("schedules.pause", scope="operate")
    async def pause(
        self, invocation: Invocation, name: str, why: Annotated[str, Field(max_length=300)] = ""
    ) -> ScheduleRow:
        """Pause a schedule at all gateways on the store; what runs goes on.

        Args:
            name: Its name.
            why: Why, for those who look at it.
        """
        job, host = self._job(name), invocation.host
        entry = {"by": invocation.principal.id, "why": tidy(host, why)}
        await self._switch(host, name, entry)
        await _audit(invocation, "schedule_paused", name, entry["why"])
        return await self._row(host, name, job, entry)

    @operation("schedules.resume", scope="operate")
    async def resume(self, invocation: Invocation, name: str) -> ScheduleRow:
        """Let a schedule run again, from now on.

        Args:
            name: Its name.
        """
        job, host = self._job(name), invocation.host
        await self._scheduler.put_back(name)
        await self._switch(host, name, None)
        await _audit(invocation, "schedule_resumed", name)
        return await self._row(host, name, job, None)

    # -- within --------------------------------------------------------------

    def _job(self, name: str) -> JobSettings:
        job = self._scheduler.jobs.get(name)
        if job is None:
            raise _unknown(name)
        return job

    async def _switch(self, host: Host, name: str, entry: dict[str, str] | None) -> None:
        def made(known: Switch) -> object:
            paused = {job: one for job, one in paused_in(known).items() if job != name}
            return {"paused": paused if entry is None else {**paused, name: entry}}

        await set_switch(host[SWITCHES], SWITCH, made)

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
    hint = "`hookgate schedules list` shows all; they stand in [plugin.schedules.jobs.NAME]"
    return not_found("schedule", name, hint)


async def _audit(invocation: Invocation, kind: str, name: str, why: str = "") -> None:
    await invocation.host.record(kind, by=invocation.principal.id, schedule=name, why=why)
