"""The threads of a plugin, and how much of the processor they have had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)


class Pool(ThreadPoolExecutor):
    """Threads that know what they have spent.

    Args:
        plugin: Whose they are.
        threads: How many.
    """

    def __init__(self, plugin: str, threads: int) -> None:
        super().__init__(threads, thread_name_prefix=f"hookgate-{plugin}")
        self._counting = threading.Lock()
        self._spent = 0.0
        # By the clock of a thread: what it showed when its work began.
        self._running: dict[int, float] = {}

    def spent(self) -> float:
        """Return the seconds of the processor that all work here has had until now.

        Where a thread's clock cannot be read by another (macOS), what runs counts once it is
        over. The clock of a thread that has ended is not there any more, which is no fault.
        """
        with self._counting:
            total = self._spent
            for clock, begun in self._running.items():
                with suppress(OSError):
                    total += time.clock_gettime(clock) - begun
        return total

    def counted(self, work: Callable[..., T], *args: Any) -> T:
        """Do `work` on a thread of the pool's, and count it."""
        begun = time.thread_time()
        clock = None if _clock_of is None else _clock_of(threading.get_ident())
        if clock is not None:
            with self._counting:
                self._running[clock] = begun
        try:
            return work(*args)
        finally:
            with self._counting:
                if clock is not None:
                    del self._running[clock]
                self._spent += time.thread_time() - begun
