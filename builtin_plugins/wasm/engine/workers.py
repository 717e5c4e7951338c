"""The threads that guests run on, and the clock that ends them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hookgate.builtin_plugins.wasm.engine.calls import Run
from hookgate.builtin_plugins.wasm.engine.errors import GuestError

__all__ = ["TICK", "Ticker", "Workers"]

T = TypeVar("T")

TICK = 0.01
"""Seconds between two looks at the clock of a running guest."""
RESTS_AFTER = 1.0
GRACE = 0.05
"""Seconds past its deadline after which nobody waits for a call any longer, wherever it stands."""
QUEUE = 64
"""How many calls of a guest may wait for each thread that it may have."""
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


class Workers:
    """A bounded number of threads, each of which runs one guest at a time.

    One guest holds half of them at most, so that its runaway calls leave threads for others.
    """

    def __init__(self, threads: int, ticker: Ticker) -> None:
        self._share = max(1, threads // 2)
        self._ticker = ticker
        self._changed = threading.Lock()
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Work]] = {}
        self._executor = ThreadPoolExecutor(threads, "hookgate-wasm", initializer=_step_back)

    async def run(self, run: Run, job: Callable[[], T]) -> T:
        """Run `job` on a thread, within the time of `run`.

        Raises:
            GuestError: It failed, it did not end in time, or no thread was free for as long.
        """
        work = _Work(run, job)
        try:
            self._begin(work)
            answer: T = await work.answer
            return answer
        except asyncio.CancelledError:
            run.cancel()
            raise
        finally:
            work.timer.cancel()

    def close(self) -> None:
        """Take no more calls. Those that run end at their deadline."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _begin(self, work: _Work) -> None:
        guest = work.run.context.guest
        with self._changed:
            if self._running[guest] < self._share:
                self._running[guest] += 1
                self._executor.submit(self._perform, work)
                return
            waiting = self._waiting.setdefault(guest, deque())
            if len(waiting) >= self._share * QUEUE:
                raise work.run.fail("busy", f"{len(waiting)} of its calls wait: try again later")
            waiting.append(work)

    def _perform(self, work: _Work) -> None:
        """Run a call, on a thread, and let the next of this guest take its place."""
        guest = work.run.context.guest
        try:
            work.context.run(work.perform, self._ticker)
        finally:
            with self._changed:
                waiting = self._waiting.get(guest)
                if waiting:
                    # To the end of the line: calls of other guests may wait for this thread.
                    self._executor.submit(self._perform, waiting.popleft())
                else:
                    self._waiting.pop(guest, None)
                    self._running[guest] -= 1
                    if not self._running[guest]:
                        del self._running[guest]


class _Work:
    """One call on its way to a thread and back."""

    def __init__(self, run: Run, job: Callable[[], Any]) -> None:
        self.run = run
        self.job = job
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        # The wait ends even if the thread stands in a function of the host.
        self.timer = self.loop.call_later(run.limits.seconds + GRACE, self._expire)

    def perform(self, ticker: Ticker) -> None:
        """Run the job, on its thread."""
        if self.answer.done():
            return  # nobody waits for it any longer
        result: Any = None
        failure: BaseException | None = None
        try:
            self.run.begin()
            with ticker:
                result = self.job()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            failure = error
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._deliver, result, failure)

    def _deliver(self, result: Any, failure: BaseException | None) -> None:
        if self.answer.done():
            return
        if failure is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(failure)

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
            text = f"no thread was free for it within {seconds:g} seconds"
            error = GuestError(text, guest=guest, kind="busy", figure=seconds)
        self.answer.set_exception(error)


def _step_back() -> None:
    """Let the threads of guests stand behind those of the gateway, where the system can."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
