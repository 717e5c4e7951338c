"""What a request carries once it was decided on, its line in the log, and who is connected now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Protocol

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.auth import Caller
from hookgate.core.gateway.routes import Route

CALLER: web.RequestKey[Caller] = web.RequestKey("hookgate caller", Caller)
"""Where the decision leaves who asks."""

ROUTE: web.RequestKey[Route] = web.RequestKey("hookgate route", Route)
"""The route that a request came to, or the nearest one of its path."""


CLIENT: web.RequestKey[str] = web.RequestKey("hookgate client", str)
"""What a request to a route that checks for itself is counted by."""


def client_of(request: web.Request) -> str:
    """Return where a request to a route with ``Access.self_checked`` comes from.

    That is the client's address, as far as trusted proxies tell it; an IPv6 address stands for
    its whole /64. It is what attempts are counted by, not who somebody is.

    Raises:
        KeyError: The route is public or scoped.
    """
    return request[CLIENT]


def principal_of(request: web.Request) -> Principal:
    """Return who makes a request to a route with ``Access.scoped``.

    Raises:
        KeyError: The route is public or checks for itself, so nobody was identified.
    """
    return request[CALLER].principal


# -- request log -----------------------------------------------------------------

# The line of each request in the log, where `[log] requests` asks for it.
#
# It says who asked for what and how it went, and nothing of what was said: a query, the
# parameters and the body are left out, since they hold what people write, and tokens by mistake.

MAX_NAME = 200
"""Characters of the longest path or method that is shown."""


class RequestLog:
    """Writes a line for each request.

    Args:
        log: Where the lines go.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    @staticmethod
    def begin() -> float:
        """Return when a request began, for its line."""
        return time.perf_counter()

    def http(self, request: web.Request, status: int, began: float) -> None:
        """Write the line of an HTTP request; a status of 0 where no answer went out whole."""
        caller = request.get(CALLER)
        self._log.info(
            "request",
            face="http",
            method=request.method[:MAX_NAME],
            path=request.path[:MAX_NAME],
            status=status,
            ms=_since(began),
            principal=caller.principal.id if caller else "",
        )

    def frame(self, method: str, status: str, began: float, principal: str) -> None:
        """Write the line of a request over a socket; `status` is ``ok`` or the error's code."""
        self._log.info(
            "request",
            face="ws",
            method=method[:MAX_NAME],
            status=status,
            ms=_since(began),
            principal=principal,
        )


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


# -- clients ---------------------------------------------------------------------

# The clients that are connected now: counted, asked whether they live, and closed.

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
    def session(self) -> str:
        """The browser's session that it came by, or ""."""

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

    Attributes:
        heartbeat: Seconds between two questions to one client.
    """

    def __init__(self, heartbeat: float) -> None:
        self.heartbeat = heartbeat
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
                await asyncio.sleep(self.heartbeat / slices)
                for client in clients[part::slices]:
                    if client in self._clients:
                        client.check()
