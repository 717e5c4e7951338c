"""The clients that are connected now: counted, asked whether they live, and closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.core.domain.turn import Principal

_AT_ONCE = 32
"""Clients that are asked in one go; others wait for less than a millisecond meanwhile."""

_SLICES = 16
"""Goes in one heartbeat, at least."""


class LiveClient(Protocol):
    """A live WebSocket, or a live HTTP request."""

    @property
    def token(self) -> str:
        """The name of the token that it came with, or ""."""

    @property
    def principal(self) -> Principal:
        """Who it is."""

    def check(self) -> None:
        """Ask whether it is still there, and let it go if it has not answered the last time."""

    def tell(self, frame: bytes) -> None:
        """Send it a notification, if it speaks JSON-RPC."""

    def end(self, code: int, reason: str) -> None:
        """Begin to close it; returns at once.

        Args:
            code: A WebSocket close code.
            reason: For people, at most 123 bytes.
        """


class Clients:
    """All that are connected to one gateway.

    Args:
        heartbeat: Seconds between two questions to one client.
    """

    def __init__(self, heartbeat: float) -> None:
        self._heartbeat = heartbeat
        self._clients: set[LiveClient] = set()
        self._gone = asyncio.Event()

    def add(self, client: LiveClient) -> None:
        """Take note of `client`."""
        self._clients.add(client)

    def remove(self, client: LiveClient) -> None:
        """Forget `client`."""
        self._clients.discard(client)
        if not self._clients:
            self._gone.set()

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[LiveClient]:
        return iter(tuple(self._clients))

    async def end_all(self, seconds: float) -> None:
        """Close all, and wait until they are gone, at most `seconds`."""
        for client in self:
            client.end(1001, "the gateway stops")
        if self._clients:
            self._gone.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._gone.wait()
            except TimeoutError:
                return

    async def keep_asking(self) -> None:
        """Ask every client once in each heartbeat whether it is still there; never returns."""
        while True:
            clients = tuple(self._clients)
            slices = max(_SLICES, len(clients) // _AT_ONCE)
            for part in range(slices):
                await asyncio.sleep(self._heartbeat / slices)
                for client in clients[part::slices]:
                    if client in self._clients:
                        client.check()
