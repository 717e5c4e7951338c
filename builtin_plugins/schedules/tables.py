"""What is kept of schedules, and the statements that decide who runs what."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    Interval,
    MetaData,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = MetaData()

LEASE_SECONDS = 60.0
"""A gateway that has not been heard of for so long does not run any more what it had begun."""

KEPT = 100
"""Rows of a schedule that are kept, the newest ones."""

SCHEDULES = Table(
    "schedules_schedule",
    METADATA,
    Column("name", Text, primary_key=True),
    # When it is due, in words: another text is another plan, which begins when it is first seen.
    Column("plan", Text, nullable=False),
    # All times are ISO 8601 in UTC with microseconds: one form, which sorts as text.
    # What was due up to here has a row among the runs, or had one.
    Column("cursor", Text, nullable=False),
    Column("missed", BigInteger, nullable=False),
)

RUNS = Table(
    "schedules_run",
    METADATA,
    Column("schedule", Text, primary_key=True),
    # When it was due; of several that were missed in a row, the last.
    Column("planned", Text, primary_key=True),
    Column("first", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("more", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    # "clock", or the principal who has started it by hand.
    Column("by", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    # Who runs it, and until when it is believed to where gateways share the database.
    Column("gateway", Text, nullable=False),
    Column("until", DateTime(timezone=True)),
    Column("started", Text, nullable=False),
    Column("ended", Text, nullable=False),
    Column("turn", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("note", Text, nullable=False),
)

_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

# The one clock that all gateways on a database share.
_NOW = func.clock_timestamp(type_=DateTime(timezone=True))


def written(moment: datetime) -> str:
    """Return a time as the tables have it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


class Holder:
    """The statements, in the name of one gateway.

    Args:
        gateway: Its id, for as long as the process lives.
        shared: Whether other gateways may hold the database; if not, who has another id stopped.
    """

    def __init__(self, gateway: str, *, shared: bool) -> None:
        self._gateway = gateway
        self._shared = shared

    # -- schedules ---------------------------------------------------------

    def begin(self, connection: Connection, name: str, plan: str, now: str) -> str:
        """Make a schedule known, and return its cursor; a new plan begins now."""
        fresh = {"name": name, "plan": plan, "cursor": now, "missed": 0}
        connection.execute(_ignoring(connection, SCHEDULES, fresh))
        other = and_(SCHEDULES.c.name == name, SCHEDULES.c.plan != plan)
        connection.execute(update(SCHEDULES).where(other).values(plan=plan, cursor=now))
        return self.cursor(connection, name)

    def cursor(self, connection: Connection, name: str) -> str:
        """Return up to where a schedule is settled."""
        found = select(SCHEDULES.c.cursor).where(SCHEDULES.c.name == name)
        return str(connection.execute(found).scalar_one())

    def put_back(self, connection: Connection, name: str, now: str) -> None:
        """Have a schedule whose cursor lies ahead begin anew at `now`."""
        ahead = and_(SCHEDULES.c.name == name, SCHEDULES.c.cursor > now)
        connection.execute(update(SCHEDULES).where(ahead).values(cursor=now))

    def settle(
        self,
        connection: Connection,
        name: str,
        *,
        seen: str,
        cursor: str,
        missed: Mapping[str, Any] | None,
        run: Mapping[str, Any] | None,
    ) -> str:
        """Settle all that is due up to `cursor`, if nobody has done so since `seen`.

        The row of the schedule is changed first: whoever else would do it waits for the
        transaction, and then finds another cursor.

        Returns:
            ``lost`` where somebody was first; ``run`` where `run` is this gateway's to run;
            "" where nothing is to be run.
        """
        mine = and_(SCHEDULES.c.name == name, SCHEDULES.c.cursor == seen)
        count = missed["count"] if missed else 0
        moved = update(SCHEDULES).where(mine)
        values = {"cursor": cursor, "missed": SCHEDULES.c.missed + count}
        if not connection.execute(moved.values(values)).rowcount:
            return "lost"
        if missed:
            connection.execute(_ignoring(connection, RUNS, missed))
        taken = run is not None and self._claim(connection, run)
        self._forget(connection, name)
        return "run" if taken else ""

    def by_hand(self, connection: Connection, run: Mapping[str, Any]) -> bool:
        """Begin a run that nobody has planned, unless the schedule runs already."""
        self._hold(connection, run["schedule"])
        if self._going(connection, run["schedule"]):
            return False
        connection.execute(insert(RUNS).values(self._held(run)))
        return True

    def _claim(self, connection: Connection, run: Mapping[str, Any]) -> bool:
        if run["state"] == "running":
            if going := self._going(connection, run["schedule"]):
                note = f"the run of {going} was still going"
                run = {
                    **run,
                    "state": "skipped",
                    "note": note,
                    "ended": run["started"],
                    "started": "",
                }
            else:
                run = self._held(run)
        # A row of this time is there where the clock was put back and the schedule resumed.
        there = connection.execute(_ignoring(connection, RUNS, run)).rowcount
        return bool(there) and run["state"] == "running"

    def _held(self, run: Mapping[str, Any]) -> dict[str, Any]:
        return {**run, "gateway": self._gateway, "until": self._lease()}

    # -- runs --------------------------------------------------------------

    def beat(self, connection: Connection, keys: Collection[tuple[str, str]]) -> set[Any]:
        """Be heard of; return which of these runs are still this gateway's."""
        kept = set()
        for key in keys:
            lease = update(RUNS).where(self._mine(key)).values(until=self._lease())
            if connection.execute(lease).rowcount:
                kept.add(key)
        return kept

    def end(self, connection: Connection, key: tuple[str, str], values: Mapping[str, Any]) -> bool:
        """Write what became of a run; False where it is this gateway's no more."""
        ended = connection.execute(update(RUNS).where(self._mine(key)).values(dict(values)))
        self._forget(connection, key[0])
        return bool(ended.rowcount)

    def interrupt(self, connection: Connection, now: str) -> Sequence[tuple[str, str]]:
        """Give up the runs whose gateway has stopped; return which."""
        stopped = and_(RUNS.c.state == "running", ~self._lives())
        given_up = (
            update(RUNS)
            .where(stopped)
            .values(state="interrupted", ended=now, note="its gateway has stopped in the middle")
        )
        found = connection.execute(given_up.returning(RUNS.c.schedule, RUNS.c.planned))
        return [(row.schedule, row.planned) for row in found]

    def again(self, connection: Connection, name: str, now: str) -> str | None:
        """Take the last planned run, if it was interrupted and not tried twice; return its time."""
        self._hold(connection, name)
        rows = select(RUNS.c.planned, RUNS.c.state, RUNS.c.attempt).where(
            RUNS.c.schedule == name, RUNS.c.by == "clock", RUNS.c.state.not_in(IDLE)
        )
        row = connection.execute(rows.order_by(RUNS.c.planned.desc()).limit(1)).one_or_none()
        if row is None or row.state != "interrupted" or row.attempt > 1:
            return None
        if self._going(connection, name):
            return None
        mine = and_(
            RUNS.c.schedule == name,
            RUNS.c.planned == row.planned,
            RUNS.c.state == "interrupted",
            RUNS.c.attempt == row.attempt,
        )
        taken = update(RUNS).where(mine).values(
            state="running", attempt=row.attempt + 1, gateway=self._gateway,
            until=self._lease(), started=now, ended="", note="",
        )  # fmt: skip
        return row.planned if connection.execute(taken).rowcount else None

    def rows(self, connection: Connection, name: str, most: int) -> Sequence[Mapping[str, Any]]:
        """Return the newest rows of a schedule, the newest first."""
        found = select(RUNS).where(RUNS.c.schedule == name)
        found = found.order_by(RUNS.c.planned.desc()).limit(most)
        return [dict(row) for row in connection.execute(found).mappings()]

    def missed(self, connection: Connection, name: str) -> int:
        """Return how many runs of a schedule were missed since it is known."""
        found = select(SCHEDULES.c.missed).where(SCHEDULES.c.name == name)
        return int(connection.execute(found).scalar() or 0)

    # -- within ------------------------------------------------------------

    def _hold(self, connection: Connection, name: str) -> None:
        """Have all that decides who runs a schedule happen one after the other."""
        row = update(SCHEDULES).where(SCHEDULES.c.name == name)
        connection.execute(row.values(plan=SCHEDULES.c.plan))

    def _forget(self, connection: Connection, name: str) -> None:
        newest = select(RUNS.c.planned).where(RUNS.c.schedule == name)
        newest = newest.order_by(RUNS.c.planned.desc()).offset(KEPT).limit(1)
        oldest = connection.execute(newest).scalar()
        if oldest is not None:
            old = and_(RUNS.c.schedule == name, RUNS.c.planned <= oldest)
            connection.execute(delete(RUNS).where(old, RUNS.c.state != "running"))

    def _going(self, connection: Connection, name: str) -> str | None:
        """Return when the run was due that is still going, if one is."""
        running = and_(RUNS.c.schedule == name, RUNS.c.state == "running", self._lives())
        return connection.execute(select(RUNS.c.planned).where(running).limit(1)).scalar()

    def _mine(self, key: tuple[str, str]) -> ColumnElement[bool]:
        name, planned = key
        return and_(
            RUNS.c.schedule == name,
            RUNS.c.planned == planned,
            RUNS.c.gateway == self._gateway,
            RUNS.c.state == "running",
        )

    def _lives(self) -> ColumnElement[bool]:
        mine = RUNS.c.gateway == self._gateway
        return or_(mine, RUNS.c.until > _NOW) if self._shared else mine

    def _lease(self) -> Any:
        if not self._shared:
            return None
        return _NOW + literal(timedelta(seconds=LEASE_SECONDS), type_=Interval)


IDLE = ("missed", "skipped")
"""States of rows that no turn was started for."""


def _ignoring(connection: Connection, table: Table, row: Mapping[str, Any]) -> Any:
    """Return an `INSERT` of a row that leaves one alone that is there already."""
    return _INSERT[connection.dialect.name](table).values(dict(row)).on_conflict_do_nothing()
