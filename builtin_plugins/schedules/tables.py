"""What is kept of schedules, and the book, which decides who runs what by conditional changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from hookgate import Principal, Store, new_id
from hookgate.builtin_plugins.schedules.operations import RunRow
from hookgate.builtin_plugins.schedules.timing import MADE_UP, Look, Missed
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import Trim, insert_new

T = TypeVar("T")

LEASE_SECONDS = 60.0
"""A gateway that has not been heard of for so long does not run any more what it had begun."""

KEPT = 100
"""Rows of a schedule that are kept, the newest ones."""

IDLE = ("missed", "skipped")
"""States of rows that no turn was started for."""

ORDER = "schedules"
"""Where its writes come among the functions that change shared rows."""

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = sa.MetaData(info={"complete": True})


class Schedule(Record):
    """A schedule. Times are ISO 8601 in UTC with microseconds: one form, which sorts as text."""

    __tablename__ = "schedules_schedule"
    metadata = METADATA

    name: str = Field(primary_key=True)
    plan: str
    """When it is due, in words. Another text is another plan, which begins when first seen."""
    cursor: str
    """What was due up to here has a row among the runs, or had one."""
    missed: int


class Run(Record, RunRow):  # type: ignore[misc]  # whose settings are a dict each
    """What is known of a run, or of several that were missed in a row, and who runs it."""

    __tablename__ = "schedules_run"
    metadata = METADATA

    schedule: str = Field(primary_key=True)
    planned: str = Field(primary_key=True)
    count: int = Field(default=1, sa_type=sa.Integer)
    attempt: int = Field(default=1, sa_type=sa.Integer)
    gateway: str = ""
    until: datetime | None = None
    """Until when its gateway is believed to run it where gateways share the database."""


SCHEDULES, RUNS = Schedule.table, Run.table
_TRIM = Trim((RUNS.c.planned,), (RUNS.c.schedule,), RUNS.c.state != "running")

# The one clock that all gateways on a database share.
_NOW = sa.func.clock_timestamp(type_=sa.DateTime(timezone=True))


def written(moment: datetime) -> str:
    """Return a time as the tables have it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


class Book:
    """Decides which gateway runs what.

    Args:
        store: Has the tables.

    Attributes:
        gateway: The id of this gateway, for as long as the process lives.
        shared: Whether other gateways may hold the store; if not, who has another id stopped.
    """

    def __init__(self, store: Store) -> None:
        self.gateway = new_id("gateway")
        self.shared = store.shared
        self._store = store

    # -- schedules ---------------------------------------------------------

    async def begin(self, name: str, plan: str, now: datetime) -> datetime:
        """Make a schedule known; return up to where it is settled. A new plan begins now."""
        fresh = dict(Schedule(name=name, plan=plan, cursor=written(now), missed=0))
        other = sa.and_(SCHEDULES.c.name == name, SCHEDULES.c.plan != plan)

        def work(connection: sa.Connection) -> str:
            insert_new(connection, SCHEDULES, fresh)
            changed = sa.update(SCHEDULES).where(other)
            connection.execute(changed.values(plan=plan, cursor=fresh["cursor"]))
            return _cursor(name, connection)

        return datetime.fromisoformat(await self._write(work))

    async def cursor(self, name: str) -> datetime:
        """Return up to where a schedule is settled."""
        return datetime.fromisoformat(await self._store.read(partial(_cursor, name)))

    async def put_back(self, name: str, now: datetime) -> None:
        """Have a schedule whose cursor lies ahead begin anew at `now`."""
        at = written(now)
        ahead = sa.update(SCHEDULES).where(SCHEDULES.c.name == name, SCHEDULES.c.cursor > at)
        await self._write(lambda c: c.execute(ahead.values(cursor=at)).rowcount)

    async def settle(
        self, name: str, seen: datetime, look: Look, now: datetime, *, skip: str = ""
    ) -> str:
        """Settle all that is due up to the cursor of `look`, if nobody has done so since `seen`.

        The row of the schedule is changed first: whoever else would do it waits for the
        transaction, and then finds another cursor.

        Args:
            name: The schedule.
            seen: The cursor that `look` was made of.
            look: What is to be settled.
            now: The time.
            skip: Why the run that is due is not to begin; "" where it is.

        Returns:
            ``lost`` where somebody was first; ``run`` where a run is this gateway's to run; ""
            where nothing is to be run.
        """
        run: Run | None = None
        if look.due is not None:
            run = Run(
                schedule=name,
                planned=written(look.due),
                first=written(look.due),
                note=skip or (MADE_UP if look.late else ""),
                **_idle("skipped", now) if skip else {"started": written(now)},
            )
        missed = None if look.missed is None else _missed(name, look.missed, now)
        return await self._write(
            partial(self._settle, name, written(seen), written(look.cursor), missed, run)
        )

    def _settle(
        self,
        name: str,
        seen: str,
        cursor: str,
        missed: Run | None,
        run: Run | None,
        connection: sa.Connection,
    ) -> str:
        moved = sa.update(SCHEDULES).where(SCHEDULES.c.name == name, SCHEDULES.c.cursor == seen)
        count = missed.count if missed else 0
        values = {"cursor": cursor, "missed": SCHEDULES.c.missed + count}
        if not connection.execute(moved.values(values)).rowcount:
            return "lost"
        if missed:
            insert_new(connection, RUNS, dict(missed))
        taken = run is not None and self._claim(connection, run)
        _forget(connection, name)
        return "run" if taken else ""

    def _claim(self, connection: sa.Connection, run: Run) -> bool:
        row = dict(run)
        if run.state == "running":
            if going := self._going(connection, run.schedule):
                note = f"the run of {going} was still going"
                row |= {"state": "skipped", "note": note, "ended": run.started, "started": ""}
            else:
                row |= self._held()
        # A row of this time is there where the clock was put back and the schedule resumed.
        return insert_new(connection, RUNS, row) and row["state"] == "running"

    async def by_hand(self, name: str, now: datetime, by: Principal) -> bool:
        """Begin a run that nobody has planned; False where the schedule runs already."""
        at = written(now)
        run = dict(Run(schedule=name, planned=at, first=at, by=by.id, started=at))

        def work(connection: sa.Connection) -> bool:
            _hold(connection, name)
            if self._going(connection, name):
                return False
            connection.execute(sa.insert(RUNS).values(run | self._held()))
            return True

        return await self._write(work)

    # -- runs --------------------------------------------------------------

    async def beat(self, keys: Collection[tuple[str, datetime]]) -> set[tuple[str, datetime]]:
        """Be heard of; return which of these runs are still this gateway's."""

        def work(connection: sa.Connection) -> set[tuple[str, datetime]]:
            lease = sa.update(RUNS).values(until=self._lease())
            return {
                key for key in keys if connection.execute(lease.where(self._mine(*key))).rowcount
            }

        return await self._write(work)

    async def end(self, name: str, planned: datetime, values: Mapping[str, Any]) -> bool:
        """Write what became of a run; False where another gateway has given it up."""
        ended = sa.update(RUNS).where(self._mine(name, planned)).values(dict(values))

        def work(connection: sa.Connection) -> bool:
            there = connection.execute(ended).rowcount
            _forget(connection, name)
            return bool(there)

        return await self._write(work)

    async def interrupt(self, now: datetime) -> Sequence[tuple[str, str]]:
        """Give up the runs whose gateway has stopped; return schedule and time of each."""
        given_up = (
            sa.update(RUNS)
            .where(RUNS.c.state == "running", ~self._lives())
            .values(
                state="interrupted",
                ended=written(now),
                note="its gateway has stopped in the middle",
            )
            .returning(RUNS.c.schedule, RUNS.c.planned)
        )
        return await self._write(
            lambda c: [(row.schedule, row.planned) for row in c.execute(given_up)]
        )

    async def again(self, name: str, now: datetime) -> datetime | None:
        """Take the last planned run, if it was interrupted and not tried twice."""
        found = await self._write(partial(self._again, name, written(now)))
        return None if found is None else datetime.fromisoformat(found)

    def _again(self, name: str, now: str, connection: sa.Connection) -> str | None:
        _hold(connection, name)
        rows = sa.select(RUNS.c.planned, RUNS.c.state, RUNS.c.attempt).where(
            RUNS.c.schedule == name, RUNS.c.by == "clock", RUNS.c.state.not_in(IDLE)
        )
        row = connection.execute(rows.order_by(RUNS.c.planned.desc()).limit(1)).one_or_none()
        if row is None or row.state != "interrupted" or row.attempt > 1:
            return None
        if self._going(connection, name):
            return None
        mine = sa.and_(
            RUNS.c.schedule == name,
            RUNS.c.planned == row.planned,
            RUNS.c.state == "interrupted",
            RUNS.c.attempt == row.attempt,
        )
        begun = {"state": "running", "attempt": row.attempt + 1, "started": now, "ended": ""}
        taken = sa.update(RUNS).where(mine).values({**begun, "note": "", **self._held()})
        return row.planned if connection.execute(taken).rowcount else None

    async def rows(self, name: str, most: int) -> tuple[Sequence[RunRow], int]:
        """Return the newest rows of a schedule, and how many runs were missed in all."""
        shown = sa.select(*(RUNS.c[column] for column in RunRow.model_fields))
        newest = shown.where(RUNS.c.schedule == name).order_by(RUNS.c.planned.desc()).limit(most)
        missed = sa.select(SCHEDULES.c.missed).where(SCHEDULES.c.name == name)

        def work(connection: sa.Connection) -> tuple[Sequence[RunRow], int]:
            rows = [RunRow(**row) for row in connection.execute(newest).mappings()]
            return rows, int(connection.execute(missed).scalar() or 0)

        return await self._store.read(work)

    # -- within ------------------------------------------------------------

    async def _write(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._store.write(work, order=ORDER)

    def _going(self, connection: sa.Connection, name: str) -> str | None:
        """Return when the run was due that is still going, if one is."""
        running = sa.and_(RUNS.c.schedule == name, RUNS.c.state == "running", self._lives())
        return connection.execute(sa.select(RUNS.c.planned).where(running).limit(1)).scalar()

    def _mine(self, name: str, planned: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(
            RUNS.c.schedule == name,
            RUNS.c.planned == written(planned),
            RUNS.c.gateway == self.gateway,
            RUNS.c.state == "running",
        )

    def _lives(self) -> sa.ColumnElement[bool]:
        mine = RUNS.c.gateway == self.gateway
        return sa.or_(mine, RUNS.c.until > _NOW) if self.shared else mine

    def _held(self) -> dict[str, Any]:
        return {"gateway": self.gateway, "until": self._lease()}

    def _lease(self) -> Any:
        if not self.shared:
            return None
        return _NOW + sa.literal(timedelta(seconds=LEASE_SECONDS), type_=sa.Interval)


def _cursor(name: str, connection: sa.Connection) -> str:
    found = sa.select(SCHEDULES.c.cursor).where(SCHEDULES.c.name == name)
    return str(connection.execute(found).scalar_one())


def _hold(connection: sa.Connection, name: str) -> None:
    """Have all that decides who runs a schedule happen one after the other."""
    row = sa.update(SCHEDULES).where(SCHEDULES.c.name == name)
    connection.execute(row.values(plan=SCHEDULES.c.plan))


def _forget(connection: sa.Connection, name: str) -> None:
    _TRIM(connection, KEPT, name)


def _idle(state: str, now: datetime) -> dict[str, Any]:
    return {"state": state, "ended": written(now)}


def _missed(name: str, missed: Missed, now: datetime) -> Run:
    return Run(
        schedule=name,
        planned=written(missed.last),
        first=written(missed.first),
        count=missed.count,
        more=missed.more,
        note="no gateway has begun it in time",
        **_idle("missed", now),
    )
