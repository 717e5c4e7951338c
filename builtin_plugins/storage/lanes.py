"""Lanes of a database that several gateways share: a row says which of them has a session's.

Within a gateway a lane is handed on as `InProcessLanes` does it, first come, first served. Between
gateways it is the row ``(session, epoch, holder, until)``: whoever takes it counts the epoch on, by
the database's clock, and every write to the session is held against it in its own transaction.
Whoever finds it taken leaves its name there, and is the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hookgate import (
    Conversations,
    Fence,
    LaneFullError,
    Lease,
    SessionKey,
    StaleFenceError,
    StoreError,
    StoreUnavailableError,
    Turn,
    new_id,
)
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import LANE_ROWS
from hookgate.kit.records.statements import insert_of
from hookgate.sessions import InProcessLanes
from hookgate.tasks import finish, stop

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ColumnElement

TERM_SECONDS = 15.0
"""So long a lane is its gateway's without being renewed: one that has stopped keeps none longer."""

RENEW_SECONDS = 5.0

LOST_SECONDS = 10.0
"""A gateway that could not renew a lane for so long stops its turn: before others may begin."""

IDLE_SECONDS = 0.02
"""So long a lane stays where it is once nobody holds it: those of a moment go back together."""

RESERVED_SECONDS = 1.0
"""So long a lane that was given back is kept for the gateway that has asked for it first."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.2
"""Seconds from one look at a lane that another gateway has to the next."""

MOST_IN_A_ROW = 8
"""So many hold a lane one after the other before it can go to another gateway."""

RETRY_SECONDS = 5.0

FORGOTTEN = timedelta(hours=1)
"""A lane that nobody has wanted for so long leaves no row."""

# The one clock that all gateways on a database share. `now()` is when the transaction began.
_NOW = sa.func.clock_timestamp(type_=sa.DateTime(timezone=True))
_ROW = LANE_ROWS.c
_IN = _ROW.session.in_(sa.bindparam("sessions", expanding=True))


def _later(seconds: float) -> ColumnElement[Any]:
    return _NOW + sa.literal(timedelta(seconds=seconds), type_=sa.Interval)


_LOOK = sa.select(_ROW.session, _ROW.holder, _ROW.wanted, (_ROW.until <= _NOW).label("over")).where(
    _IN
)
_WHOSE = sa.select(_ROW.session, _ROW.holder, _ROW.epoch, _ROW.wanted).where(_IN)
_CHECK = _WHOSE.order_by(_ROW.session).with_for_update()


@dataclass(slots=True, eq=False)
class Held:
    """A lane that this gateway has.

    Attributes:
        session: The session's key, as it is stored.
        holder: This gateway.
        epoch: Its number among those who have had the lane.
        renewed: When it was renewed last, by the event loop's clock.
        wanted: Whether another gateway is known to wait for it.
        used: How many have held it here, one after the other.
        fence: The fence of who holds it; None while nobody does.
        task: Who that is.
    """

    session: str
    holder: str
    epoch: int
    renewed: float
    wanted: bool = False
    used: int = 0
    fence: Fence | None = None
    task: asyncio.Task[Any] | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What its row has as long as it is this gateway's."""
        return self.session, self.holder, self.epoch


def check_lanes(connection: sa.Connection, fences: Iterable[Fence]) -> set[int]:
    """Hold fences against the rows of their lanes, which nobody takes until the commit.

    Returns:
        The numbers of those whose lane is another gateway's.
    """
    ours = [(fence, fence.lane) for fence in fences if isinstance(fence.lane, Held)]
    if not ours:
        return set()
    sessions = sorted({lane.session for _, lane in ours})
    rows = {row.session: row for row in connection.execute(_CHECK, {"sessions": sessions})}
    stale = set()
    for fence, lane in ours:
        row = rows.get(lane.session)
        if fence.lost or row is None or (row.session, row.holder, row.epoch) != lane.key:
            fence.lost = True
            stale.add(fence.number)
        elif row.wanted:
            lane.wanted = True
    return stale


class SqlLanes:
    """Lanes of sessions in a shared store; see `hookgate.core.domain.ports.Lanes`.

    Args:
        store: The store, with the tables of `storage.tables`.
        conversations: Returns the conversations, which check what is written.
        queue: How many may wait for one lane here.
        wait: Seconds that whoever is the next one here waits for another gateway's turn.
        spawn: Runs work beside the turns.
        tell: Called on the event loop with why lanes cannot be kept, and with "" when they can.
    """

    def __init__(
        self,
        store: SqlStore,
        conversations: Callable[[], Conversations],
        *,
        queue: int,
        wait: float,
        spawn: Callable[..., asyncio.Task[None]],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._local = InProcessLanes(conversations, queue=queue)
        self._seconds = wait
        self._spawn = spawn
        self._tell = tell
        self._held: dict[str, Held] = {}
        self._wanted: dict[str, asyncio.Future[int]] = {}
        self._taking: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self.holder = new_id("gateway")

    def ahead(self, session: SessionKey) -> int:
        """Return how many of this gateway hold the lane or wait for it."""
        return self._local.ahead(session)

    @asynccontextmanager
    async def hold(self, session: SessionKey, turn: Turn | None = None) -> AsyncIterator[Lease]:
        """Wait for the lane, here and then among the gateways, and hold it; see `Lanes.hold`.

        Raises:
            LaneFullError: Too many wait for it here, or another gateway has had it all the time.
            LaneHeldError: An ancestor of `turn` holds it.
            StoreError: The lanes cannot be read or written.
        """
        async with self._local.hold(session, turn) as lease:
            lane = await self._own(str(session))
            fence, task = lease.fence, asyncio.current_task()
            lane.fence, lane.task, lane.used = fence, task, lane.used + 1
            fence.lane = lane
            cancelled = task.cancelling() if task is not None else 0
            try:
                yield lease
            except asyncio.CancelledError:
                if task is not None and fence.lost and task.uncancel() <= cancelled:
                    raise StaleFenceError.of(session) from None
                raise
            finally:
                lane.fence = lane.task = None
                if fence.lost:
                    # Who comes next here asks the database, as everybody does.
                    self._forget(lane)
                self._tidy_soon()

    # -- having a lane -----------------------------------------------------

    async def _own(self, session: str) -> Held:
        """Return the lane of `session`, once it is this gateway's."""
        lane = self._held.get(session)
        if lane is not None and (lane.wanted or lane.used >= MOST_IN_A_ROW):
            # Whoever waits elsewhere comes before those who came later here.
            await self._give_back([lane])
            lane = None
        return lane or await self._take(session)

    async def _take(self, session: str) -> Held:
        loop = asyncio.get_running_loop()
        over, pause = loop.time() + self._seconds, FIRST_PAUSE
        while True:
            began = loop.time()
            if epoch := await self._try(session):
                lane = Held(session, self.holder, epoch, began)
                self._held[session] = lane
                return lane
            if loop.time() >= over:
                raise LaneFullError(
                    f"session {session} has a turn at another gateway, which was not over within "
                    f"{self._seconds:g} s",
                    action="wait for an answer, or raise `[plugin.storage] lane_seconds`",
                    data={"retry_after": RETRY_SECONDS},
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _try(self, session: str) -> int:
        """Take the lane if it is free; return its epoch, 0 where another gateway has it."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._wanted[session] = answer
        if self._taking is None or self._taking.done():
            self._taking = self._spawn(self._take_wanted(), name="storage.lanes taking")
        try:
            return await answer
        except asyncio.CancelledError:
            # It may be this gateway's all the same; then nobody here would give it back.
            self._wanted.pop(session, None)
            if answer.done() and not answer.cancelled() and not answer.exception():
                self._unwanted(session, answer.result())
            raise

    async def _take_wanted(self) -> None:
        """Take what is wanted, all that has gathered in one transaction."""
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            work = partial(_take_all, sessions=sorted(wanted), holder=self.holder)
            taken: dict[str, int] = {}
            failure: Exception = StoreUnavailableError("the gateway is stopping")
            try:
                taken = await self._store.alone(work)
            except Exception as error:  # noqa: BLE001 - told to everybody who waits
                failure = error
            else:
                for session, answer in wanted.items():
                    if answer.done():
                        self._unwanted(session, taken.get(session, 0))
                    else:
                        answer.set_result(taken.get(session, 0))
            finally:
                for answer in wanted.values():
                    if not answer.done():
                        answer.set_exception(failure)

    def _unwanted(self, session: str, epoch: int) -> None:
        """Let a lane go that was taken for somebody who does not wait any more."""
        if epoch and session not in self._held:
            now = asyncio.get_running_loop().time()
            self._held[session] = Held(session, self.holder, epoch, now)
            self._tidy_soon()

    # -- giving it back ----------------------------------------------------

    def _tidy_soon(self) -> None:
        if self._tidying is None or self._tidying.done():
            self._tidying = self._spawn(self._tidy(), name="storage.lanes idle")

    async def _tidy(self) -> None:
        """Give back what nobody holds, until there is nothing of the kind."""
        while idle := [lane for lane in self._held.values() if lane.task is None]:
            await asyncio.sleep(IDLE_SECONDS)
            still = [lane for lane in idle if lane.task is None]
            await self._give_back([one for one in still if self._held.get(one.session) is one])

    async def _give_back(self, lanes: Sequence[Held]) -> None:
        """Give lanes back that nobody holds here. If that fails, their terms end by themselves."""
        if not lanes:
            return
        for lane in lanes:
            self._forget(lane)
        try:
            await finish(self._store.alone(partial(_give_back_all, lanes=lanes)))
        except StoreError as error:
            self._tell(f"other gateways wait for lanes that could not be given back: {error}")

    def _forget(self, lane: Held) -> None:
        if self._held.get(lane.session) is lane:
            del self._held[lane.session]

    async def close(self) -> None:
        """Give back whatever is left; called when no turn runs any more."""
        await stop(self._taking, self._tidying)
        await self._give_back(list(self._held.values()))

    # -- keeping it --------------------------------------------------------

    async def keep(self) -> None:
        """Renew what is held, for as long as it runs, and stop those whose lane is lost."""
        loop = asyncio.get_running_loop()
        tidied = -FORGOTTEN.total_seconds()
        while True:
            old = loop.time() - tidied >= FORGOTTEN.total_seconds()
            if self._held or old:
                try:
                    async with asyncio.timeout(RENEW_SECONDS):
                        await self._renew(prune=old)
                except (StoreError, TimeoutError) as error:
                    self._tell(f"lanes of sessions cannot be renewed: {error}")
                else:
                    self._tell("")
                    tidied = loop.time() if old else tidied
            edge = loop.time() - LOST_SECONDS
            for lane in [one for one in self._held.values() if one.renewed <= edge]:
                self._lose(lane)
            pause = RENEW_SECONDS
            if any(loop.time() - lane.renewed >= pause for lane in self._held.values()):
                pause = RENEW_SECONDS / 5
            await asyncio.sleep(pause)

    async def _renew(self, *, prune: bool) -> None:
        began = asyncio.get_running_loop().time()
        lanes = {lane.session: lane for lane in self._held.values()}
        renewed, seen = await self._store.alone(
            partial(_renew_all, lanes=tuple(lanes.values()), prune=prune)
        )
        for session, lane in lanes.items():
            if session in renewed:
                lane.renewed = began
            elif seen.get(session) != lane.key and self._held.get(session) is lane:
                self._lose(lane)

    def _lose(self, lane: Held) -> None:
        """Stop whoever holds a lane that is another gateway's by now, or may be."""
        self._forget(lane)
        if lane.fence is not None and lane.task is not None:
            lane.fence.lost = True
            lane.task.cancel()


# -- statements ------------------------------------------------------------------------------
#
# Each runs in a transaction of its own, and waits for no row that a write to a session holds: so
# no two gateways wait for each other in a circle, whatever else their writes lock.


def _take_all(connection: sa.Connection, *, sessions: Sequence[str], holder: str) -> dict[str, int]:
    """Take of `sessions`, which are sorted, what is free; say of the others that they are wanted.

    Returns:
        The epochs of those that were taken, by session.
    """
    with connection.begin():
        rows = {row.session: row for row in connection.execute(_LOOK, {"sessions": sessions})}
        taken = {}
        for session in sessions:
            row = rows.get(session)
            if row is None or row.over or row.holder == holder:
                found = connection.execute(_taking(insert_of(connection), session, holder)).first()
                if found is not None:
                    taken[session] = int(found.epoch)
        held = [one for one in sessions if one in rows and one not in taken]
        if wanted := [one for one in held if not rows[one].wanted]:
            free = _locked(_ROW.session.in_(wanted))
            ask = sa.update(LANE_ROWS).where(_ROW.session.in_(free), _ROW.wanted == "")
            connection.execute(ask.values(wanted=holder))
    return taken


def _taking(insert: Any, session: str, holder: str) -> Any:
    until = _later(TERM_SECONDS)
    row = insert(LANE_ROWS).values(session=session, epoch=1, holder=holder, until=until, wanted="")
    return row.on_conflict_do_update(
        index_elements=[_ROW.session],
        set_={"epoch": _ROW.epoch + 1, "holder": holder, "until": until, "wanted": ""},
        where=sa.or_(_ROW.until <= _NOW, _ROW.holder == holder),
    ).returning(_ROW.epoch)


def _give_back_all(connection: sa.Connection, *, lanes: Sequence[Held]) -> None:
    """Free lanes, or hand them to the gateways that have asked for them."""
    until = sa.case((_ROW.wanted == "", _NOW), else_=_later(RESERVED_SECONDS))
    mine = sa.tuple_(_ROW.session, _ROW.holder, _ROW.epoch).in_([lane.key for lane in lanes])
    free = sa.select(_ROW.session).where(mine).order_by(_ROW.session).with_for_update()
    give = sa.update(LANE_ROWS).where(_ROW.session.in_(free.scalar_subquery()), mine)
    with connection.begin():
        connection.execute(give.values(holder=_ROW.wanted, until=until, wanted=""))


def _renew_all(
    connection: sa.Connection, *, lanes: Sequence[Held], prune: bool
) -> tuple[set[str], dict[str, tuple[str, str, int]]]:
    """Renew lanes; return the sessions of those that were, and what the rows of all have now."""
    renewed: set[str] = set()
    seen: dict[str, tuple[str, str, int]] = {}
    with connection.begin():
        if lanes:
            mine = sa.tuple_(_ROW.session, _ROW.holder, _ROW.epoch).in_([one.key for one in lanes])
            more = sa.update(LANE_ROWS).where(_ROW.session.in_(_locked(mine)), mine)
            done = connection.execute(
                more.values(until=_later(TERM_SECONDS)).returning(_ROW.session)
            )
            renewed = set(done.scalars())
            rows = connection.execute(_WHOSE, {"sessions": [one.session for one in lanes]})
            seen = {row.session: (row.session, row.holder, row.epoch) for row in rows}
        if prune:
            old = _locked(_ROW.until < _NOW - sa.literal(FORGOTTEN, type_=sa.Interval))
            connection.execute(sa.delete(LANE_ROWS).where(_ROW.session.in_(old)))
    return renewed, seen


def _locked(which: ColumnElement[bool]) -> Any:
    """Return the query of the sessions of rows that nobody else holds now; they are held."""
    rows = sa.select(_ROW.session).where(which).order_by(_ROW.session)
    return rows.with_for_update(skip_locked=True).scalar_subquery()
