"""Signals in this process: waking whoever waits for a topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any


class InProcessSignals:
    """Signals within this process."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Queue[Mapping[str, Any]]]] = {}

    async def send(self, topic: str, data: Mapping[str, Any]) -> None:
        """Hand `data` to all who listen to `topic` now."""
        for queue in tuple(self._listeners.get(topic, ())):
            queue.put_nowait(data)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Listen to `topic` for the length of an ``async with`` block."""
        queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)

        async def items() -> AsyncIterator[Mapping[str, Any]]:
            while True:
                yield await queue.get()

        try:
            yield items()
        finally:
            listeners = self._listeners[topic]
            listeners.discard(queue)
            if not listeners:
                del self._listeners[topic]
