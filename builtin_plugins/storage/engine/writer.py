"""Places in a bounded queue, handed out in the order of arrival."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Table

from hookgate import StoreError, StoreUnavailableError
from hookgate.builtin_plugins.storage.engine.faults import broken, fault
from hookgate.builtin_plugins.storage.engine.group import (
    Beside,
    Exclusive,
    GroupLostError,
    Handle,
    Insert,
    Inserts,
    Item,
    Job,
    Work,
    WriteGroup,
    WriteGuard,
    groups_of,
    refused,
)
from hookgate.builtin_plugins.storage.engine.lock import DatabaseLink


class Room:
    """Places for those on the way; who finds none waits in line.

    This is `asyncio.Semaphore` for a path where each microsecond is one of every write:
    taking a free place awaits nothing, and a whole group gives its places back at once.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self._free > 0 and not self._line:
            self._free -= 1
            return True
        return False

    def force(self) -> None:
        """Take a place although none may be free: later ones wait for one more to be given back."""
        self._free -= 1

    async def wait(self) -> None:
        """Wait for a place and take it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._line.remove(place)
            else:
                # The place was handed over just before: the next in line gets it.
                self.give(1)
            raise

    def give(self, places: int) -> None:
        """Give places back."""
        self._free += places
        while self._free > 0 and self._line:
            place = self._line.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)


# -- Group commit: one thread writes, and what waits is committed together -------

# Callers on the event loop hand over jobs and wait. The thread takes whatever has gathered while
# it was busy with the group before, runs it in one transaction and commits. Only then do the
# callers go on. So the cost of a commit, which is the disk's, is shared by all who wait for it.

T = TypeVar("T")

SOON = 0.1
"""Seconds that what goes with another job waits for one."""
CLOSED = "the store is closed: the gateway is stopping"


class StoreWriter:
    """The one writer of a database.

    It belongs to the event loop on which it is made. A job that was handed over is carried
    out even if its caller is cancelled meanwhile; a caller that is cancelled while it waits
    for room in the queue has handed over nothing.

    Args:
        link: The connection; used by the writer's thread alone.
        queue_jobs: How many jobs may wait or run; later callers wait, in their order.
        group_rows: The most rows of one commit.
        tell: Called on the event loop with what is wrong when the store stops working, and
            with "" when it works again.
        check: Called before each group; raises OSError where the database is not the one
            that was opened.
        ended: Called on the writer's thread when it has closed the connection.
    """

    def __init__(
        self,
        link: DatabaseLink,
        *,
        queue_jobs: int = 16_384,
        group_rows: int = 4096,
        tell: Callable[[str], None] = lambda _: None,
        check: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._inserts = Inserts()
        self._guard = WriteGuard()
        link.on_open(self._guard.watch)
        self._beside = Beside()
        link.on_open(self._beside.watch)
        self._group_rows = group_rows
        self._tell = tell
        self._check = check
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._room = Room(queue_jobs)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._company: list[Insert | Work] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="hookgate-store", daemon=True)
        self._thread.start()

    @property
    def outside(self) -> int | None:
        """What changes when another program has written, as of the last look; None before it."""
        return self._beside.seen

    # -- on the event loop -------------------------------------------------

    async def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows`; return once they are committed."""
        if not rows:
            return
        kept = list(rows)
        job = Insert(self._loop.create_future(), table, kept, _columns(kept))
        # `_submit` once more: another coroutine in between costs a tenth of the way here.
        if self._closed or not self._room.take():
            await self._wait_for_room()
        self._put(job)
        await job.future

    def insert_soon(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> asyncio.Future[None]:
        """Insert `rows` in the group of the next job, or in one of their own after `SOON`."""
        if self._closed:
            return self._too_late()
        columns = _columns(rows)
        last = self._company[-1] if self._company else None
        if type(last) is Insert and last.table is table and last.columns == columns:
            last.rows += rows
            last.weight += len(rows)
            return last.future
        return self._join(Insert(self._loop.create_future(), table, list(rows), columns))

    def work_soon(self, work: Callable[[Connection], T], order: str = "") -> asyncio.Future[T]:
        """Run `work` in the group of the next job, or in one of its own after `SOON`."""
        if self._closed:
            return self._too_late()
        return self._join(Work(self._loop.create_future(), work, order))

    def _join(self, job: Insert | Work) -> asyncio.Future[Any]:
        """Have a job go with the next one that is handed over."""
        # Those of one table are one job: there are hardly more of these than of what they go with.
        self._room.force()
        self._company.append(job)
        if self._alarm is None:
            self._alarm = self._loop.call_later(SOON, self._put_company)
        return job.future

    def _too_late(self) -> asyncio.Future[Any]:
        late: asyncio.Future[Any] = self._loop.create_future()
        late.set_exception(StoreUnavailableError(CLOSED))
        return late

    async def work(self, work: Callable[[Connection], T], order: str = "") -> T:
        """Run `work` in a group's transaction, at its place; return once it is committed."""
        result: T = await self._submit(Work(self._loop.create_future(), work, order))
        return result

    async def item(self, handle: Handle, item: Any) -> Any:
        """Give `item` to `handle`, with all that wait for it; return once it is committed."""
        return await self._submit(Item(self._loop.create_future(), handle, item))

    async def alone(self, work: Callable[[Connection], T]) -> T:
        """Run `work` with the connection for itself; it begins and commits by itself."""
        result: T = await self._submit(Exclusive(self._loop.create_future(), work))
        return result

    async def close(self) -> None:
        """Carry out what was handed over, then end the thread and the connection."""
        if not self._closed:
            self._closed = True
            self._put_company()
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _submit(self, job: Job) -> Any:
        if self._closed or not self._room.take():
            await self._wait_for_room()
        self._put(job)
        return await job.future

    def _put(self, job: Job) -> None:
        if self._company:
            self._put_company()
        self._queue.put(job)

    def _put_company(self) -> None:
        """Hand over what has waited for a job to go with, in its order."""
        for job in self._company:
            self._queue.put(job)
        self._company.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    async def _wait_for_room(self) -> None:
        if not self._closed:
            await self._room.wait()
        if self._closed:
            self._room.give(1)
            raise StoreUnavailableError(CLOSED)

    def _settle(self, jobs: Sequence[Job], problem: str | None) -> None:
        self._room.give(len(jobs))
        for job in jobs:
            future = job.future
            if future.done():
                continue
            if job.error is None:
                future.set_result(job.value)
            else:
                future.set_exception(job.error)
        if problem is not None and problem != self._problem:
            self._problem = problem
            self._tell(problem)

    # -- on the writer's thread --------------------------------------------

    def _run(self) -> None:
        more = True
        while more:
            jobs, more = self._take()
            for group in groups_of(jobs, self._group_rows):
                problem = self._carry_out(group)
                try:
                    self._loop.call_soon_threadsafe(self._settle, group, problem)
                except RuntimeError:
                    # The event loop is closed: nobody waits for this answer any more.
                    more = False
        self._reset()
        self._link.close()
        self._ended()

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for jobs, and return all that are there, and whether there will be more."""
        jobs: list[Job] = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if self._queue.empty():
                return jobs, True
            job = self._queue.get()
        return jobs, False

    def _carry_out(self, group: Sequence[Job]) -> str | None:
        """Do all of `group`.

        Returns:
            What is wrong with the store, "" where it works, None where this does not show.
        """
        try:
            self._check()
            if isinstance(group[0], Exclusive):
                return self._carry_out_alone(group[0])
            self._link.run(WriteGroup(group, self._inserts, self._guard).commit)
        except Exception as error:  # noqa: BLE001 - every caller of the group is told
            problem = broken(error.__cause__ if isinstance(error, GroupLostError) else error)
            reason = problem or f"{type(error).__name__}: {error}".partition("\n")[0]
            for job in group:
                if not isinstance(job.error, StoreError):
                    job.error = refused(reason, error)
            self._reset()
            return problem or None
        for job in group:
            if job.error is not None and isinstance(job.error, StoreUnavailableError):
                return fault(job.error.__cause__) or str(job.error)
        return ""

    def _carry_out_alone(self, job: Exclusive) -> str | None:
        try:
            job.value = self._link.run(job.work)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the job
            problem = broken(error)
            job.fail(error, problem)
            self._reset()
            return problem or None
        return ""

    def _reset(self) -> None:
        try:
            self._link.reset()
        except Exception:  # noqa: BLE001
            # The connection was broken, which is why it is given up; the next group opens
            # another one and reports what is wrong with that.
            return


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Return the keys of all rows, in order; None where they differ from row to row."""
    columns = tuple(rows[0])
    if len(rows) > 1 and any(tuple(row) != columns for row in rows):
        return None
    return columns
