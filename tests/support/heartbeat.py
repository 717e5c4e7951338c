"""How long an event loop could not go on while something happened beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Self

HELD = 0.05
"""Seconds for which nothing may hold the event loop."""
EVERY = 0.001
TASKS = Path("/proc/self/task")


class Heartbeat:
    """Beats for the length of an ``async with`` block.

    Attributes:
        longest: The longest time in seconds between two beats that should have been shorter. What
            the loop's thread has waited for a processor is not in it, where the system tells:
            that is the machine's doing. What it has waited for the interpreter is.

    Args:
        beside: How the names of threads begin whose waits are not in it either, since they may
            have held the interpreter when they were taken their processor.
    """

    def __init__(self, beside: str | None = None) -> None:
        self.longest = 0.0
        self._beside = beside
        self._beats: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._beats = asyncio.create_task(self._beat())
        await asyncio.sleep(EVERY)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(2 * EVERY)
        assert self._beats is not None
        self._beats.cancel()

    async def _beat(self) -> None:
        before = time.monotonic() - waited(self._beside)
        while True:
            await asyncio.sleep(EVERY)
            now = time.monotonic() - waited(self._beside)
            self.longest = max(self.longest, now - before - EVERY)
            before = now


def waited(beside: str | None = None) -> float:
    """Return for how many seconds this thread, and those `beside` it, had no processor."""
    threads = [threading.current_thread()]
    if beside is not None:
        threads += [one for one in threading.enumerate() if one.name.startswith(beside)]
    try:
        rows = [(TASKS / str(one.native_id) / "schedstat").read_text() for one in threads]
    except OSError:
        return 0.0
    return sum(int(row.split()[1]) for row in rows) / 1e9
