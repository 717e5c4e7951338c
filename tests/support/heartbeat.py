"""How long an event loop could not go on while something happened beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Self

HELD = 0.05
"""Seconds for which nothing may hold the event loop."""
EVERY = 0.001
SCHEDULED = Path("/proc/thread-self/schedstat")


class Heartbeat:
    """Beats for the length of an ``async with`` block.

    Attributes:
        longest: The longest time in seconds between two beats that should have been shorter. What
            the loop's thread has waited for a processor is not in it, where the system tells:
            that is the machine's doing. What it has waited for the interpreter is.
    """

    def __init__(self) -> None:
        self.longest = 0.0
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
        before = time.monotonic() - waited()
        while True:
            await asyncio.sleep(EVERY)
            now = time.monotonic() - waited()
            self.longest = max(self.longest, now - before - EVERY)
            before = now


def waited() -> float:
    """Return for how many seconds this thread was ready and had no processor."""
    try:
        return int(SCHEDULED.read_text().split()[1]) / 1e9
    except OSError:
        return 0.0
