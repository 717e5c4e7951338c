"""What is due begins: a look at the clock for each time, and each run with what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hookgate import (
    STORE,
    SWITCHES,
    Claim,
    HookgateError,
    Host,
    Origin,
    Principal,
    Provenance,
    StoreError,
    Switch,
    Turn,
    TurnError,
    TurnHandle,
    TurnRequest,
)
from hookgate.builtin_plugins.schedules.settings import JobSettings, SchedulesSettings
from hookgate.builtin_plugins.schedules.timing import MADE_UP, Missed, look
from hookgate.channels import deliver
from hookgate.kit.durations import told
from hookgate.kit.tables import tables_of
from hookgate.tasks import finish

if TYPE_CHECKING:
    from hookgate.builtin_plugins.schedules.tables import Book

BEAT_SECONDS = 15.0
"""So often a gateway with runs is heard of by those that share its store."""

LOST_SECONDS = 45.0
"""Without having been heard of for so long, it ends its runs: at 60 others give them up."""

RETRY_SECONDS = 1.0
"""From one attempt to write what became of a run to the next."""

NOTE_CHARS = 500

STOPPED = "the gateway stopped in the middle"


@dataclass(eq=False, slots=True)
class JobRun:
    """A run of this gateway.

    Attributes:
        name: The schedule.
        job: The schedule as it was when the run began.
        planned: When it was due; together with the name it says which run it is.
        note: What is known of it before it has ended.
        heard: When this gateway was last heard of, by the monotonic clock.
        handle: Its turn.
    """

    name: str
    job: JobSettings
    planned: datetime
    note: str
    heard: float
    handle: TurnHandle | None = field(default=None)


def tidy(host: Host, text: str) -> str:
    """Return a note as it is kept and logged: short, without secrets and what no text holds."""
    known = host.secrets.redact(text).replace("\0", "")
    return known.encode(errors="replace").decode()[:NOTE_CHARS]


def _word(text: str) -> str:
    """Return a word without what models put around it."""
    return text.strip().strip("`*_\"'.! ").casefold()


def principal_of(name: str, job: JobSettings) -> Principal:
    """Return who a schedule's turns run for: nobody but the session that it names."""
    address = job.address(name)
    claim = Claim(address.channel, address.account, address.peer)
    return Principal(id=f"schedule:{name}", scopes=frozenset(("chat",)), bindings=(claim,))


class Runs:
    """The runs of this gateway that are going."""

    def __init__(self, host: Host, book: Book) -> None:
        self._host = host
        self._book = book
        self._going: set[JobRun] = set()
        self._beating: asyncio.Task[None] | None = None

    def start(
        self, name: str, job: JobSettings, planned: datetime, *, note: str = ""
    ) -> asyncio.Task[None]:
        """Begin a run that the book has as this gateway's; the task ends with it."""
        run = JobRun(name, job, planned, note, asyncio.get_running_loop().time())
        self._going.add(run)
        task = self._host.spawn(self._run(run), name=f"schedule {name}")
        task.add_done_callback(lambda _: self._going.discard(run))
        if self._book.shared and (self._beating is None or self._beating.done()):
            self._beating = self._host.spawn(self._beat(), name="schedules are heard of")
        return task

    # -- one run -----------------------------------------------------------

    async def _run(self, run: JobRun) -> None:
        try:
            state, note = await self._turn(run)
        except asyncio.CancelledError:
            await finish(self._end(run, "interrupted", STOPPED))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what became of the run
            state, note = "failed", str(error) or type(error).__name__
        await finish(self._end(run, state, note))

    async def _turn(self, run: JobRun) -> tuple[str, str]:
        job, name = run.job, run.name
        origin = Origin(
            provenance=Provenance.SCHEDULED, path="heartbeat" if job.heartbeat or job.lean else name
        )
        address = job.address(name)
        request = TurnRequest(
            content=job.message,
            address=address,
            agent=job.agent,
            whole=True,
            # Of what was said before nothing is heard, and nothing is remembered for it.
            client_history=() if job.lean else None,
        )
        handle = run.handle = self._host.start_turn(
            principal_of(name, job), origin, request, sink=lambda _: None
        )
        late = f"it took longer than its deadline of {told(job.deadline)}"
        timer = asyncio.get_running_loop().call_later(job.deadline, handle.cancel, late)
        try:
            turn = await handle.wait()
        finally:
            timer.cancel()
        state = str(turn.ending)
        if state == "cancelled" and not self._host.ready:
            return "interrupted", STOPPED
        if state != "done":
            return state, handle.reason or str(turn.error or "")
        return await self._deliver(run, turn)

    async def _deliver(self, run: JobRun, turn: Turn) -> tuple[str, str]:
        job, address = run.job, run.job.address(run.name)
        if job.deliver_by:
            address = replace(address, channel=job.deliver_by)
        channel = self._host.channels.get(address.channel)
        answer = turn.answer.strip()
        if channel is None and job.deliver_by:
            return "undelivered", f"its answer is kept, and there is no channel {job.deliver_by!r}"
        if channel is None or not job.deliver or not answer:
            return "done", run.note
        if job.silence and _word(answer) == _word(job.silence):
            return "done", run.note or f"not sent: the answer was {job.silence}"
        try:
            await deliver(channel, address, answer)
        except Exception as error:  # noqa: BLE001 - it is the channel's
            return (
                "undelivered",
                f"its answer is kept, and {address.channel} did not take it: {error}",
            )
        return "done", run.note

    async def _end(self, run: JobRun, state: str, note: str) -> None:
        host, note = self._host, tidy(self._host, note)
        turn = None if run.handle is None else run.handle.turn
        values: dict[str, Any] = {
            "state": state,
            "ended": host.clock.now().isoformat(timespec="microseconds"),
            "turn": "" if turn is None else turn.id,
            "session": "" if turn is None else str(turn.session),
            "note": note,
        }
        log = host.log.info if state == "done" else host.log.warning
        log("schedule run", schedule=run.name, due=str(run.planned), state=state, note=note)
        host.metric("schedule_run", schedule=run.name, state=state)
        while True:
            try:
                if not await self._book.end(run.name, run.planned, values):
                    host.log.warning("a run was given up by another gateway", schedule=run.name)
                break
            except StoreError as error:
                # As long as it is not written, the schedule runs, and its next runs are skipped.
                host.log.error(
                    "what became of a run cannot be kept", schedule=run.name, error=str(error)
                )
                if not host.ready:
                    break
                await asyncio.sleep(RETRY_SECONDS)

    # -- being heard of ------------------------------------------------------

    async def _beat(self) -> None:
        """Be heard of while anything runs; end what others may have given up."""
        loop = asyncio.get_running_loop()
        while self._going:
            await asyncio.sleep(BEAT_SECONDS)
            runs, now = tuple(self._going), loop.time()
            try:
                kept = await self._book.beat([(run.name, run.planned) for run in runs])
            except HookgateError as error:
                self._host.log.warning("schedules are not heard of", error=str(error))
                lost = [run for run in runs if loop.time() - run.heard > LOST_SECONDS]
            else:
                lost = [run for run in runs if (run.name, run.planned) not in kept]
                for run in runs:
                    run.heard = now
            for run in lost:
                if run.handle is not None:
                    run.handle.cancel("other gateways take it to have stopped")


# -- what is due -----------------------------------------------------------------

SWITCH = "schedules"
PART = "schedules"
PART_STORE = "schedules store"
TABLES = "hookgate.builtin_plugins.schedules.tables"
MOST_SECONDS = 60.0
"""The clock may be put forward or back: it is looked at so often at least."""
LOOK_AGAIN_SECONDS = 5.0
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
            return LOOK_AGAIN_SECONDS
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
                wait = min(wait, LOOK_AGAIN_SECONDS)
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
