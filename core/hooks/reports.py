"""What is told of calls: failures to the log at once, and to `hook_failed` beside the caller's way.

While somebody listens, each call is measured as well.

Package-private: `core.hooks.caller` is the face of this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from hookgate.core.domain.events import CUT_SHORT, HookSpan
from hookgate.core.hooks.dispatch import Failed, HookFailure, Implementation

CAPACITY = 256
"""Failures that may wait for `hook_failed`; the oldest is dropped when there are more."""


class FailureReports:
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


# -- spans: made only while somebody listens to them ------------------------------

WORDS_CHARS = 80

LIMIT = 0.05
"""Seconds for which an implementation may hold the event loop before that is said of it."""

HELD = "held the event loop"

CUT: Any = object()
"""Stands for what a call came to whose caller was cancelled."""

_TELLING = ("effect", "status", "code", "reason", "message")


def span_of(
    implementation: Implementation, args: tuple[Any, ...], at: float, value: Any, *, waited: bool
) -> HookSpan:
    """Return the span of a call that ends now.

    Args:
        implementation: What was called.
        args: All of the hook's arguments.
        at: `perf_counter()` when it began.
        value: What it came to: a result, None, `Failed` or `CUT`.
        waited: Whether it could let others run meanwhile.
    """
    chain, seconds = implementation.chain, perf_counter() - at
    outcome, failed = _in_words(value)
    held = not waited and seconds > LIMIT
    if held:
        outcome += f"; {HELD} for {seconds * 1000:.0f} ms"
    return HookSpan(
        hook=chain.name,
        plugin=implementation.plugin,
        seconds=seconds,
        outcome=outcome,
        failed=failed,
        held=held,
        turn="" if chain.turn is None else str(getattr(args[chain.turn], "id", "")),
        at=at,
    )


def _in_words(value: Any) -> tuple[str, bool]:
    """Return in a few words what a call came to, and whether it failed."""
    if value is CUT:
        return CUT_SHORT, True
    if type(value) is Failed:
        return value.failure.message, True
    if value is None:
        return "nothing", False
    name = type(value).__name__
    if isinstance(value, str | bytes | list | tuple | set | frozenset | dict):
        return f"{name} of {len(value)}", False
    words = [name]
    for field in _TELLING:
        told = getattr(value, field, None)
        if told is not None and told != "" and not callable(told):
            words.append(str(getattr(told, "name", told)).partition("\n")[0][:WORDS_CHARS])
    return " ".join(words), False
