"""Names whoever holds the event loop, and sees how memory grows with the turns.

All of it is seen by a thread that looks now and then: a turn itself measures nothing.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from hookgate import Host, Implementation

LIMIT = 0.05
"""Seconds for which the event loop may be held before somebody is named."""

IDLE = 1.0
"""Seconds between two looks at an event loop that has nothing to do."""

IDLE_SHARE = 0.01
"""The share of a processor below which the event loop has nothing to do."""

SETTLING = 10.0
"""Seconds after the start for which that is no warning: what is loaded then is loaded once."""

MEASURED_TURNS = 50
"""Memory is noted each time that so many turns have begun; the first ones fill caches."""

NOTED = 20
"""So many notes of memory are kept, so growth is that of the last thousand turns."""

STATM = Path("/proc/self/statm")

LATE = 1.0
"""Seconds by which the event loop is too late for new work, and that it must be on time again."""


class Watchdog:
    """A thread that asks the event loop for a sign of life, and looks who holds it if none comes.

    While the gateway settles after its start, what it finds is told for debugging only. A loop
    that does nothing is asked seldom, until something does run or a turn is said to begin. While
    its signs of life come late by `LATE`, the gateway is not ready.

    Attributes:
        reports: How many times the loop was held for longer than `LIMIT`.
        turns: How many turns have begun.
        blocked: Seconds for which each plugin has held the loop, by its name. Each look stands
            for the time since the one before, so short ones are an estimate; what held the loop
            for longer than `LIMIT` is measured.
    """

    def __init__(self, host: Host, *, limit: float = LIMIT, settling: float = SETTLING) -> None:
        self._host = host
        self._limit = limit
        self._settling = settling
        self._settled = 0.0
        self._stop = threading.Event()
        # Locks, since to set an event takes seven calls: held until there is something to hear.
        self._begins = threading.Lock()
        self._begins.acquire()
        self._thread: threading.Thread | None = None
        self._memory: deque[tuple[int, int]] = deque(maxlen=NOTED)
        self.reports = self.turns = 0
        self.blocked: dict[str, float] = {}
        self._late_at: float | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._settled = time.monotonic() + self._settling
        self._thread = threading.Thread(
            target=self._watch, args=(loop, threading.get_ident()), name="watchdog", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.begins()
        if self._thread is not None:
            self._thread.join()

    def begins(self) -> None:
        """Have the loop looked at closely from now on: a turn begins."""
        self.turns += 1
        if self._begins.locked():
            self._begins.release()

    def growth(self) -> tuple[float, int] | None:
        """Return by how many bytes memory has grown a turn, and over how many turns.

        None before it was noted, or where the system does not say it.
        """
        now, (turns, then) = resident(), self._memory[0] if self._memory else (0, 0)
        if now is None or not turns or self.turns == turns:
            return None
        return (now - then) / (self.turns - turns), self.turns - turns

    def _blocked(self, plugin: str, seconds: float) -> None:
        if plugin:
            self.blocked[plugin] = self.blocked.get(plugin, 0.0) + seconds

    def _note_memory(self) -> None:
        last = self._memory[-1][0] if self._memory else 0
        if self.turns - last >= MEASURED_TURNS and (now := resident()) is not None:
            self._memory.append((self.turns, now))

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        alive = threading.Lock()
        spent, idle, looked = _processor_time(thread), False, time.monotonic()
        while True:
            if idle:
                self._begins.acquire(timeout=IDLE)
            else:
                self._stop.wait(self._limit)
            if self._stop.is_set():
                return
            self._begins.acquire(blocking=False)
            before, spent = spent, _processor_time(thread)
            idle = spent - before < IDLE_SHARE * (IDLE if idle else self._limit)
            self._note_memory()
            before_look, looked = looked, time.monotonic()
            with innermost(thread) as frame:
                whose = self._host.hooks.held_by(frame)
            del frame  # which would keep what it holds
            alive.acquire(blocking=False)
            asked = time.monotonic()
            try:
                loop.call_soon_threadsafe(alive.release)
            except RuntimeError:
                return  # the loop is closed
            if alive.acquire(timeout=self._limit) or self._stop.is_set():
                self._blocked(whose, min(looked - before_look, self._limit))
                self._came(loop, asked)
                continue
            with innermost(thread) as frame:
                holder = self._host.hooks.running(frame)
                whose = self._host.hooks.held_by(frame)
                stack = traceback.StackSummary.extract(
                    traceback.walk_stack(frame), limit=3, lookup_lines=False
                )
            del frame
            self._report(stack, holder)
            if holder is not None and time.monotonic() >= self._settled:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._announce, holder)
            while not alive.acquire(timeout=0.5) and not self._stop.is_set():
                pass
            self._blocked(whose, time.monotonic() - looked)
            self._came(loop, asked)

    def _came(self, loop: asyncio.AbstractEventLoop, asked: float) -> None:
        """Take a sign of life: the gateway is ready unless one of the last came late."""
        now = time.monotonic()
        if now - asked >= LATE:
            self._late_at = now
            why = f"the event loop is late by {LATE:g} s or more"
        elif self._late_at is None or now - self._late_at < LATE:
            return
        else:
            self._late_at, why = None, ""
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._host.standing("event loop").unready, why)

    def _announce(self, holder: Implementation) -> None:
        self._host.standing(f"plugin {holder.plugin}").note(
            f"its hook {holder.hook} has held the event loop for more than "
            f"{self._limit * 1000:g} ms, in which nobody else was served: await what takes its "
            "time, or mark a plain function @blocking"
        )

    def _report(self, stack: traceback.StackSummary, holder: Implementation | None) -> None:
        self.reports += 1
        whose = {} if holder is None else {"plugin": holder.plugin, "hook": holder.hook}
        log = self._host.log
        (log.debug if time.monotonic() < self._settled else log.warning)(
            "the event loop is held",
            **whose,
            longer_than_ms=self._limit * 1000,
            by=[f"{item.filename}:{item.lineno} {item.name}" for item in reversed(stack)],
        )


@contextmanager
def innermost(thread: int) -> Iterator[FrameType | None]:
    """Hand out the frame in which another thread runs, to be walked within the block.

    CPython 3.11 may collect garbage while it makes the object of a frame. What is run then lets
    the other thread go on, and the object is left with a frame that is gone: whoever walks it
    reads freed memory. So nothing is collected within the block.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield sys._current_frames().get(thread)
    finally:
        if collects:
            gc.enable()


def resident() -> int | None:
    """Return the bytes of memory that this process holds now; None where nobody says it."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _processor_time(thread: int) -> float:
    """Return the seconds that a thread has computed for; without end where nobody counts them."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return math.inf  # which is never idle: the difference is not a number
    return time.clock_gettime(time.pthread_getcpuclockid(thread))
