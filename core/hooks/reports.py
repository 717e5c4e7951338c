"""Tells of failures: the log at once, `hook_failed` beside the caller's way.

Package-private: `core.hooks.caller` is the face of this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.core.hooks.dispatch import HookFailure

CAPACITY = 256
"""Failures that may wait for `hook_failed`; the oldest is dropped when there are more."""


class Reports:
    """Takes failures, and has them told by a task of its own, one after the other.

    Attributes:
        dropped: How many failures `hook_failed` has missed.
    """

    def __init__(self, tell: Callable[[HookFailure], Awaitable[None]], log: Any) -> None:
        self._tell = tell
        self._log = log
        self._waiting: deque[HookFailure] = deque(maxlen=CAPACITY)
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, failure: HookFailure, *, tell: bool) -> None:
        """Log `failure`, and tell `hook_failed` of it later. Never waits and never fails."""
        log = self._log.error if failure.required else self._log.warning
        with suppress(Exception):  # a log that cannot be written is no reason to end a turn
            log(
                "hook failed",
                hook=failure.hook,
                plugin=failure.plugin,
                kind=failure.kind,
                reason=failure.message,
                exc_info=failure.error if failure.kind == "raised" else None,
            )
        if not tell:
            return
        if len(self._waiting) == CAPACITY:
            self.dropped += 1
        self._waiting.append(failure)
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), name="hook_failed")

    async def _run(self) -> None:
        while self._waiting:
            await self._tell(self._waiting.popleft())

    async def told(self) -> None:
        """Wait until all failures so far have been told."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def close(self, limit: float) -> None:
        """Wait for that at most `limit` seconds; what is not told by then stays untold."""
        try:
            async with asyncio.timeout(limit):
                await self.told()
        except TimeoutError:
            untold = len(self._waiting)
            self._waiting.clear()
            self._log.warning("hook_failed did not hear of all failures", untold=untold)
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
