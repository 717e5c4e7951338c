"""A run: its turn, the answer on its way to the channel, and what is written of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookgate import (
    Claim,
    HookgateError,
    Host,
    Origin,
    Principal,
    Provenance,
    StoreError,
    Turn,
    TurnHandle,
    TurnRequest,
)
from hookgate.builtin_plugins.schedules.settings import JobSettings
from hookgate.channels import deliver
from hookgate.kit.durations import told
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
