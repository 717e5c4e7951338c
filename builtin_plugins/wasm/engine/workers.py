"""The threads that guests run on, and the clock that ends them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.limits import GuestError

T = TypeVar("T")
W = TypeVar("W")

TICK = 0.01
"""Seconds between two looks at the clock of a running guest."""
RESTS_AFTER = 1.0
GRACE = 0.05
"""Seconds past its deadline after which nobody waits for a call any longer, wherever it stands."""
QUEUE = 64
"""How many calls of a guest may wait for each thread that it may have."""
THREADS_A_TURN = 4
"""How many calls may have begun for each that may run: the others wait for the host."""
NICENESS = 10


class Ticker:
    """Counts epochs while guests run. Guests look at them; a thread that rests wakes nobody."""

    def __init__(self, increment: Callable[[], None]) -> None:
        self._increment = increment
        self._changed = threading.Condition()
        self._running = 0
        self._resting = True
        self._thread: threading.Thread | None = None
        self._closed = False

    def __enter__(self) -> None:
        with self._changed:
            self._running += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._tick, name="hookgate-wasm-clock", daemon=True
                )
                self._thread.start()
            if self._resting:
                self._resting = False
                self._changed.notify_all()

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._running -= 1

    def close(self) -> None:
        """End the thread once no guest runs any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def resting(self) -> bool:
        """Whether nothing ticks."""
        return self._resting

    def _tick(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(TICK)
            self._increment()
            now = time.monotonic()
            if self._running:
                idle_since = now
            elif self._closed or now - idle_since > RESTS_AFTER:
                with self._changed:
                    # Between two calls it goes on a little: to wake it costs more than a tick.
                    self._resting = self._running == 0
                    while self._resting and not self._closed:
                        self._changed.wait()
                    if self._closed and not self._running:
                        return
                    idle_since = time.monotonic()


class Share:
    """So much of something, of which one guest holds at most as much as it leaves free.

    That is a dynamic threshold (Choudhury and Hahne, 1998): a guest that is alone gets half, the
    next one half of the rest, and whoever comes then still finds some. What it began with, it
    keeps. All of it happens under the lock of whoever shares it out.

    Attributes:
        total: How much there is.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.held: Counter[str] = Counter()
        self._free = total

    def has_room(self, guest: str, count: int) -> bool:
        """Whether `guest` may take so much now."""
        return self.held[guest] + count <= self._free

    def take(self, guest: str, count: int) -> None:
        """Hand it out."""
        self.held[guest] += count
        self._free -= count

    def give(self, guest: str, count: int) -> None:
        """Take it back."""
        self._free += count
        self.held[guest] -= count
        if not self.held[guest]:
            del self.held[guest]


class Workers:
    """A bounded number of guests that run at a time, each on a thread of its own.

    A guest that waits for a function of the host runs not: it keeps its thread and its memory,
    of which there are more, and another one runs meanwhile.

    Args:
        threads: How many run.
        memory_bytes: What the memories and tables of all calls may take together.
        ticker: The clock.
    """

    def __init__(self, threads: int, memory_bytes: int, ticker: Ticker) -> None:
        self._ticker = ticker
        self._changed = threading.Lock()
        self._turns = Share(threads)
        self._threads = Share(threads * THREADS_A_TURN)
        self._memory = Share(memory_bytes)
        self._queue = max(1, threads // 2) * QUEUE
        self._waiting: dict[str, deque[_Work]] = {}
        self._resuming: dict[str, deque[threading.Event]] = {}
        self._closed = False
        self._executor = ThreadPoolExecutor(
            self._threads.total, "hookgate-wasm", initializer=_step_back
        )

    async def run(self, run: GuestRun, job: Callable[[], T]) -> T:
        """Run `job` on a thread, within the time of `run`.

        Raises:
            GuestError: It failed, it did not end in time, or there was no thread or memory for it
                for as long.
        """
        work = _Work(self, run, job)
        try:
            self._begin(work)
            answer: T = await work.answer
            return answer
        except asyncio.CancelledError:
            run.cancel()
            raise
        finally:
            work.timer.cancel()
            self._forget(work)

    def close(self) -> None:
        """Take no more calls. Those that run end at their deadline."""
        with self._changed:
            self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def paused(self, run: GuestRun) -> Iterator[None]:
        """Let others run while the guest of `run` waits for the host, on its own thread."""
        guest = run.context.guest
        with self._changed:
            self._turns.give(guest, 1)
            self._admit()
        try:
            yield
        finally:
            turn = threading.Event()
            with self._changed:
                self._resuming.setdefault(guest, deque()).append(turn)
                self._admit()
            if not turn.wait(max(run.seconds_left, 0.0)):
                with self._changed:
                    if not turn.is_set():  # its time is over: it ends at the next look
                        _remove(self._resuming, guest, turn)
                        self._turns.take(guest, 1)

    def lacking(self, run: GuestRun) -> str:
        """Say what there is none of for a call that waits."""
        with self._changed:
            if self._memory.has_room(run.context.guest, run.limits.store_bytes):
                return "no thread was free for it"
        total = self._memory.total
        return f"running calls left no memory for it, of {total:,} bytes in all,"

    def _begin(self, work: _Work) -> None:
        run = work.run
        guest, need = run.context.guest, run.limits.store_bytes
        with self._changed:
            if need > (most := self._memory.total):
                text = f"it may take {need:,} bytes, and all calls together have {most:,}"
                raise run.fail("memory", text, most)
            waiting = self._waiting.setdefault(guest, deque())
            if len(waiting) >= self._queue:
                raise run.fail("busy", f"{len(waiting)} of its calls wait: try again later")
            waiting.append(work)
            self._admit()

    def _forget(self, work: _Work) -> None:
        """Take a call that nobody waits for any longer out of the line."""
        with self._changed:
            _remove(self._waiting, work.run.context.guest, work)

    def _admit(self) -> None:
        """Let those run for whom there is room: who has begun first, then who holds least."""
        while (guest := self._next(self._resuming, self._may_run)) is not None:
            self._turns.take(guest, 1)
            _first(self._resuming, guest).set()
        while not self._closed and (guest := self._next(self._waiting, self._may_begin)):
            work = _first(self._waiting, guest)
            self._turns.take(guest, 1)
            self._threads.take(guest, 1)
            self._memory.take(guest, work.run.limits.store_bytes)
            self._executor.submit(self._perform, work)

    def _next(self, lines: dict[str, Any], may: Callable[[str], bool]) -> str | None:
        # Of those that hold as much, the one that was served longest ago stands first.
        return min(filter(may, lines), key=self._turns.held.__getitem__, default=None)

    def _may_run(self, guest: str) -> bool:
        return self._turns.has_room(guest, 1)

    def _may_begin(self, guest: str) -> bool:
        need = self._waiting[guest][0].run.limits.store_bytes
        return (
            self._turns.has_room(guest, 1)
            and self._threads.has_room(guest, 1)
            and self._memory.has_room(guest, need)
        )

    def _perform(self, work: _Work) -> None:
        """Run a call, on a thread, and let the next one take its place."""
        guest = work.run.context.guest
        try:
            work.context.run(work.perform, self._ticker)
        finally:
            with self._changed:
                self._turns.give(guest, 1)
                self._threads.give(guest, 1)
                self._memory.give(guest, work.run.limits.store_bytes)
                self._admit()
            # Whoever is answered finds the place free.
            work.deliver()


def _first(lines: dict[str, deque[W]], guest: str) -> W:
    """Take the first of a guest's line, which goes behind those of the others."""
    line = lines.pop(guest)
    first = line.popleft()
    if line:
        lines[guest] = line
    return first


def _remove(lines: dict[str, deque[W]], guest: str, one: W) -> None:
    line = lines.get(guest)
    if line is None:
        return
    with suppress(ValueError):
        line.remove(one)
    if not line:
        del lines[guest]


class _Work:
    """One call on its way to a thread and back."""

    def __init__(self, workers: Workers, run: GuestRun, job: Callable[[], Any]) -> None:
        self._workers = workers
        self.run = run
        run.paused = partial(workers.paused, run)
        self.job = job
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        self._result: Any = None
        self._failure: BaseException | None = None
        # The wait ends even if the thread stands in a function of the host.
        self.timer = self.loop.call_later(run.limits.seconds + GRACE, self._expire)

    def perform(self, ticker: Ticker) -> None:
        """Run the job, on its thread."""
        if self.answer.done():
            return  # nobody waits for it any longer
        try:
            self.run.begin()
            with ticker:
                self._result = self.job()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            self._failure = error

    def deliver(self) -> None:
        """Hand what came of it to whoever waits, from its thread."""
        if not self.answer.done() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        if self.answer.done():
            return
        if self._failure is None:
            self.answer.set_result(self._result)
        else:
            self.answer.set_exception(self._failure)

    def _expire(self) -> None:
        if self.answer.done():
            return
        deadline = self.run.context.deadline
        seconds = self.run.limits.seconds
        left = deadline + GRACE - time.monotonic()
        if deadline and left > 0:  # it had to wait for its thread
            self.timer = self.loop.call_later(left, self._expire)
            return
        self.run.cancel()
        guest = self.run.context.guest
        if deadline:
            text = f"it ran longer than its limit, seconds = {seconds:g}"
            error = GuestError(text, guest=guest, kind="time", figure=seconds)
        else:
            text = f"{self._workers.lacking(self.run)} within {seconds:g} seconds"
            error = GuestError(text, guest=guest, kind="busy", figure=seconds)
        self.answer.set_exception(error)


def _step_back() -> None:
    """Let the threads of guests stand behind those of the gateway, where the system can."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
