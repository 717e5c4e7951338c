"""Work of a session that follows its turns, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hookgate.core.domain.turn import SessionKey
from hookgate.core.hooks.tasks import contained


class InSessionOrder:
    """Runs work off the lanes, in the order in which it came in, session by session."""

    def __init__(self) -> None:
        self._last: dict[SessionKey, asyncio.Task[None]] = {}

    def run(self, session: SessionKey, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` once all earlier work of `session` is over."""
        before = self._last.get(session)

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await contained(work())

        task = asyncio.create_task(in_turn(), name=f"after {session}")
        self._last[session] = task
        task.add_done_callback(lambda done: self._forget(session, done))
        return task

    def _forget(self, session: SessionKey, task: asyncio.Task[None]) -> None:
        if self._last.get(session) is task:
            del self._last[session]

    async def drain(self) -> None:
        """Wait until all work is done."""
        while self._last:
            await asyncio.wait(tuple(self._last.values()))
