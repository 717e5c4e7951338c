"""What is due begins: one look at the clock for each time that something may be due."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hookgate import STORE, SWITCHES, Host, Principal, Switch, TurnError
from hookgate.builtin_plugins.schedules.runs import Runs
from hookgate.builtin_plugins.schedules.settings import JobSettings, SchedulesSettings
from hookgate.builtin_plugins.schedules.timing import MADE_UP, Missed, look
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.schedules.tables import Book

SWITCH = "schedules"
PART = "schedules"
PART_STORE = "schedules store"
TABLES = "hookgate.builtin_plugins.schedules.tables"
MOST_SECONDS = 60.0
"""The clock may be put forward or back: it is looked at so often at least."""
RETRY_SECONDS = 5.0
READY_SECONDS = 0.1
BEHIND = timedelta(minutes=5)
"""A clock that was put back further than this is told of, since nothing runs meanwhile."""
LONG = timedelta(hours=1)
"""What was due in a longer time is counted on a thread."""


def paused_in(switch: Switch) -> dict[str, dict[str, str]]:
    """Return which schedules are paused: by whom and why, by name."""
    value = switch.value if isinstance(switch.value, dict) else {}
    return {**value.get("paused", {})}


class Scheduler:
    """Starts what is due while the gateway runs.

    Attributes:
        jobs: The schedules, by name.
    """

    def __init__(self, settings: SchedulesSettings) -> None:
        self.jobs: Mapping[str, JobSettings] = settings.jobs
        self._host: Host | None = None
        self._book: Book | None = None
        self._runs: Runs | None = None
        self._opening = asyncio.Lock()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._cursors: dict[str, datetime] = {}
        self._stopped: set[str] = set()
        """Schedules of which a run may have been interrupted."""

    # -- open and close ------------------------------------------------------

    def open(self, host: Host) -> None:
        """Begin, once the gateway takes turns."""
        self._host = host
        self._go()

    def take(self, settings: SchedulesSettings) -> None:
        """Go by other settings; what runs goes on."""
        self.jobs = settings.jobs
        self._cursors.clear()
        self._changed.set()
        self._go()

    def _go(self) -> None:
        """Look at the clock from now on; a gateway without schedules never does."""
        host = self.host
        # A command is soon over: what it began would be cut off.
        if self.jobs and not host.for_command and (self._task is None or self._task.done()):
            self._task = host.spawn(self._keep_looking(), name="schedules")

    @property
    def host(self) -> Host:
        """The gateway."""
        assert self._host is not None, "schedules are looked at between start and stop"
        return self._host

    async def book(self) -> Book:
        """Return the book, opened when it is first asked for.

        Raises:
            StoreError: It cannot be opened.
        """
        async with self._opening:
            if self._book is None:
                store = self.host.get(STORE)
                if store is None or not store.durable:
                    self.host.standing(PART_STORE).bad(
                        "there is no durable store, so runs are known to this process alone: what "
                        "is missed while it is down is not said, and another gateway would run "
                        "the same (enable the plugin `storage`)"
                    )
                tables, store = await tables_of(store, "schedules", TABLES)
                book: Book = tables.Book(store)
                await self._give_up(book)
                self._runs, self._book = Runs(self.host, book), book
            return self._book

    # -- looking -------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while not self.host.ready:  # noqa: ASYNC110 - a start ends soon, and nothing tells of it
            await asyncio.sleep(READY_SECONDS)
        while self.jobs:
            self._changed.clear()
            seconds = await self.look_at_all()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    async def look_at_all(self) -> float:
        """Begin what is due, and say what was missed; return in how many seconds to look again."""
        host = self.host
        try:
            book = await self.book()
            if book.shared:
                await self._give_up(book)
        except Exception as error:  # noqa: BLE001 - it is tried again, and said
            host.standing(PART).bad(f"schedules cannot be read, so that nothing begins: {error}")
            return RETRY_SECONDS
        host.standing(PART).good()
        wait = MOST_SECONDS
        for name, job in list(self.jobs.items()):
            part = f"schedule {name}"
            try:
                wake = await self._look_at(book, name, job)
            except Exception as error:  # noqa: BLE001 - the others go on
                host.standing(part).bad(
                    f"what is due cannot be settled, and is tried again: {error}"
                )
                wait = min(wait, RETRY_SECONDS)
                continue
            host.standing(part).good()
            if wake is not None:
                wait = min(wait, (wake - host.clock.now()).total_seconds())
        return max(wait, 0.0)

    async def _look_at(self, book: Book, name: str, job: JobSettings) -> datetime | None:
        host, now = self.host, self.host.clock.now()
        cursor = self._cursors.get(name)
        if cursor is None:
            cursor = self._cursors[name] = await book.begin(name, job.plan, now)
            self._stopped.add(name)
        if not job.enabled:
            return None
        if name in self._stopped:
            await self._again(book, name, job, now)
        found = (
            await asyncio.to_thread(look, job, book.gateway, cursor, now)
            if now - cursor > LONG
            else look(job, book.gateway, cursor, now)
        )
        if found.cursor != cursor:
            skip = ""
            if found.due is not None:
                paused = paused_in(await host[SWITCHES].get(SWITCH)).get(name)
                skip = "" if paused is None else f"paused by {paused['by']}: {paused['why']}"
            settled = await book.settle(name, cursor, found, now, skip=skip)
            self._cursors[name] = await book.cursor(name) if settled == "lost" else found.cursor
            if settled == "lost":
                return now
            self._say_missed(name, found.missed)
            if settled == "run" and found.due is not None:
                self._start(name, job, found.due, MADE_UP if found.late else "")
        self._say_behind(name, self._cursors[name] - now)
        return found.wake

    async def _again(self, book: Book, name: str, job: JobSettings, now: datetime) -> None:
        planned = await book.again(name, now) if job.on_crash == "again" else None
        self._stopped.discard(name)
        if planned is not None:
            self._start(name, job, planned, "run again after its gateway had stopped")

    def _start(
        self, name: str, job: JobSettings, planned: datetime, note: str = ""
    ) -> asyncio.Task[None]:
        assert self._runs is not None, "there are runs once the book is open"
        self.host.log.info("schedule begins", schedule=name, due=str(planned), note=note)
        return self._runs.start(name, job, planned, note=note)

    # -- saying ----------------------------------------------------------------

    async def _give_up(self, book: Book) -> None:
        """Say which runs were interrupted, since their gateway has stopped."""
        for name, planned in await book.interrupt(self.host.clock.now()):
            self._stopped.add(name)
            self.host.log.warning("schedule run interrupted", schedule=name, due=planned)

    def _say_missed(self, name: str, missed: Missed | None) -> None:
        what = ""
        if missed is not None:
            self.host.log.warning("schedule missed", schedule=name, missed=str(missed))
            what = f"missed {missed} (`hookgate schedules list` shows it)"
        self.host.standing(f"schedule {name}").note(what)

    def _say_behind(self, name: str, behind: timedelta) -> None:
        part = f"clock of schedule {name}"
        if behind <= BEHIND:
            self.host.standing(part).good()
            return
        self.host.standing(part).bad(
            f"the clock is {behind} behind the time up to which this schedule is settled, so that "
            f"nothing is due until then; `hookgate schedules resume {name}` begins anew now"
        )

    # -- what operators do -------------------------------------------------------

    async def run_by_hand(self, name: str, job: JobSettings, by: Principal) -> datetime:
        """Run a schedule now, whatever its times are, and return once that is over.

        Returns:
            The time by which the book has the run.

        Raises:
            TurnError: It runs already.
        """
        book, now = await self.book(), self.host.clock.now()
        await book.begin(name, job.plan, now)
        if not await book.by_hand(name, now, by):
            raise TurnError(
                f"the schedule {name!r} runs already",
                code="busy",
                action="wait for its end: `hookgate schedules list` shows it",
            )
        # It goes on where whoever asked for it does not wait.
        await asyncio.wait({self._start(name, job, now, "by hand")})
        return now

    async def put_back(self, name: str) -> None:
        """Have a schedule that is settled beyond the clock's time begin anew now."""
        await (await self.book()).put_back(name, self.host.clock.now())
        self._cursors.pop(name, None)
        self._changed.set()
