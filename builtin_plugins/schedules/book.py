"""What is known of schedules and their runs, in the store or in the process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate.core.domain.messages import new_id
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.builtin_plugins.schedules.looking import Look, Missed
    from hookgate.core.domain.ports import Store
    from hookgate.core.domain.turn import Principal

T = TypeVar("T")

MADE_UP = "it was missed, and is made up for"

ORDER = "schedules"
"""Where its writes come among the functions that change shared rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of a run, or of several that were missed in a row.

    Attributes:
        schedule: The schedule's name.
        planned: When it was due; of several the last one.
        first: When the first of them was due.
        count: How many they are.
        more: Whether there were more than were counted.
        state: ``running``, ``done``, ``refused``, ``failed``, ``cancelled``, ``undelivered``,
            ``interrupted``, ``skipped`` or ``missed``.
        by: ``clock``, or who has started it by hand.
        attempt: 2 where it was run again after its gateway had stopped.
        started: When it began; "" where it did not.
        ended: When it ended; "" while it runs.
        turn: The id of its turn.
        session: The session of its turn.
        note: Why it ended so.
    """

    schedule: str
    planned: str
    first: str
    count: int = 1
    more: bool = False
    state: str = "running"
    by: str = "clock"
    attempt: int = 1
    started: str = ""
    ended: str = ""
    turn: str = ""
    session: str = ""
    note: str = ""


class InProcess:
    """As much of a `Store` as a book needs, in the memory of the process."""

    shared = False

    def __init__(self) -> None:
        from sqlalchemy import StaticPool, create_engine

        from hookgate.builtin_plugins.schedules.tables import METADATA

        self._engine = create_engine("sqlite://", poolclass=StaticPool)
        METADATA.create_all(self._engine)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`."""
        return await self.write(work)

    async def write(self, work: Callable[[Connection], T], *, order: str = "") -> T:
        """Run `work` in a transaction."""
        with self._engine.begin() as connection:
            return work(connection)

    def close(self) -> None:
        """Forget everything."""
        self._engine.dispose()


async def opened(store: Store | None) -> Book:
    """Return the book, with its tables up to date.

    Raises:
        StoreError: The tables cannot be made.
    """
    if store is None:
        return Book(InProcess())
    await tables_of(store, "schedules", "hookgate.builtin_plugins.schedules.tables")
    return Book(store)


class Book:
    """Decides, by conditional changes of rows, which gateway runs what.

    Args:
        store: Has the tables.

    Attributes:
        gateway: The id of this gateway, for as long as the process lives.
        shared: Whether other gateways may hold the store.
    """

    def __init__(self, store: Store | InProcess) -> None:
        from hookgate.builtin_plugins.schedules.tables import Holder, written

        self.gateway = new_id("gateway")
        self.shared = store.shared
        self._store = store
        self._holder = Holder(self.gateway, shared=store.shared)
        self._written = written

    def close(self) -> None:
        """Forget what is kept in the process alone."""
        if isinstance(self._store, InProcess):
            self._store.close()

    async def begin(self, name: str, plan: str, now: datetime) -> datetime:
        """Make a schedule known; return up to where it is settled."""
        at = self._written(now)
        found = await self._write(lambda c: self._holder.begin(c, name, plan, at))
        return datetime.fromisoformat(found)

    async def cursor(self, name: str) -> datetime:
        """Return up to where a schedule is settled."""
        found = await self._store.read(lambda c: self._holder.cursor(c, name))
        return datetime.fromisoformat(found)

    async def put_back(self, name: str, now: datetime) -> None:
        """Have a schedule whose cursor lies ahead begin anew at `now`."""
        at = self._written(now)
        await self._write(lambda c: self._holder.put_back(c, name, at))

    async def settle(
        self, name: str, seen: datetime, look: Look, now: datetime, *, skip: str = ""
    ) -> str:
        """Settle what was looked at; see `Holder.settle`.

        Args:
            name: The schedule.
            seen: The cursor that `look` was made of.
            look: What is to be settled.
            now: The time.
            skip: Why the run that is due is not to begin; "" where it is.
        """
        run = None
        if look.due is not None:
            note = MADE_UP if look.late else ""
            state = "skipped" if skip else "running"
            run = self._row(name, look.due, now, state=state, note=skip or note)
        missed = None if look.missed is None else self._missed(name, look.missed, now)
        return await self._write(
            lambda c: self._holder.settle(
                c,
                name,
                seen=self._written(seen),
                cursor=self._written(look.cursor),
                missed=missed,
                run=run,
            )
        )

    async def by_hand(self, name: str, now: datetime, by: Principal) -> bool:
        """Begin a run that nobody has planned; False where the schedule runs already."""
        run = self._row(name, now, now, by=by.id)
        return await self._write(lambda c: self._holder.by_hand(c, run))

    async def beat(self, keys: Collection[tuple[str, datetime]]) -> set[tuple[str, datetime]]:
        """Be heard of; return which of these runs are still this gateway's."""
        written = {(name, self._written(planned)) for name, planned in keys}
        kept = await self._write(lambda c: self._holder.beat(c, written))
        return {(name, datetime.fromisoformat(planned)) for name, planned in kept}

    async def end(self, name: str, planned: datetime, values: Mapping[str, Any]) -> bool:
        """Write what became of a run; False where another gateway has given it up."""
        key = (name, self._written(planned))
        return await self._write(lambda c: self._holder.end(c, key, values))

    async def interrupt(self, now: datetime) -> Sequence[tuple[str, str]]:
        """Give up the runs whose gateway has stopped; return schedule and time of each."""
        at = self._written(now)
        return await self._write(lambda c: self._holder.interrupt(c, at))

    async def again(self, name: str, now: datetime) -> datetime | None:
        """Take the last run of a schedule, if it was interrupted and not tried twice."""
        at = self._written(now)
        found = await self._write(lambda c: self._holder.again(c, name, at))
        return None if found is None else datetime.fromisoformat(found)

    async def rows(self, name: str, most: int) -> tuple[Sequence[Row], int]:
        """Return the newest rows of a schedule, and how many runs were missed in all."""

        def work(connection: Connection) -> tuple[Sequence[Mapping[str, Any]], int]:
            found = self._holder.rows(connection, name, most)
            return found, self._holder.missed(connection, name)

        rows, missed = await self._store.read(work)
        fields = Row.__dataclass_fields__
        return [Row(**{key: row[key] for key in fields}) for row in rows], missed

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await self._store.write(work, order=ORDER)

    def _row(self, name: str, planned: datetime, now: datetime, **more: Any) -> dict[str, Any]:
        at, due = self._written(now), self._written(planned)
        row: dict[str, Any] = {
            "schedule": name, "planned": due, "first": due, "count": 1, "more": False,
            "state": "running", "by": "clock", "attempt": 1, "gateway": "", "until": None,
            "started": at, "ended": "", "turn": "", "session": "", "note": "", **more,
        }  # fmt: skip
        if row["state"] != "running":
            row |= {"started": "", "ended": at}
        return row

    def _missed(self, name: str, missed: Missed, now: datetime) -> dict[str, Any]:
        return self._row(
            name, missed.last, now, state="missed", first=self._written(missed.first),
            count=missed.count, more=missed.more, note="no gateway has begun it in time",
        )  # fmt: skip
