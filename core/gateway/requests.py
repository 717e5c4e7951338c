"""What a request carries once it was decided on, its line in the log, and who is connected now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from hookgate.core.domain.errors import counted
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.auth import Caller
from hookgate.core.gateway.codes import wire_error
from hookgate.core.gateway.routes import Route

if TYPE_CHECKING:
    from hookgate.core.settings.schema import LimitSettings

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


# -- bodies ----------------------------------------------------------------------

# Bodies of requests whose sender is not known yet: little at once, and none of them for long.
#
# A signature is over the body, so it has to be read before it is known who sends it. Until then
# it is held within bounds that hold for the whole gateway, whichever plugin's route it came to.

MOST_BYTES = 256 * 1024
"""The longest body, where its route says nothing else."""

RETRY_SECONDS = 1


@dataclass(slots=True, eq=False)
class _Body:
    """One body that is being read.

    Attributes:
        scope: Ends the reading.
        size: How many bytes of it are held.
        dropped: Whether it had to make room for others.
    """

    scope: asyncio.Timeout
    size: int = 0
    dropped: bool = False


class UnverifiedBodies:
    """The bodies of one gateway that are being read and that nobody has vouched for.

    Where they would hold more than they may, the one goes that was begun first: whoever sends
    slowly on purpose loses to whoever sends a body in one go, not the other way round.

    Attributes:
        limits: ``[gateway.limits]``.
    """

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits
        self._bodies: dict[_Body, None] = {}
        self.held = 0
        """How many bytes are held now."""

    async def read(
        self, request: web.Request, most: int, each: Callable[[bytes], object] | None
    ) -> bytes:
        """Return the body of a request; see `read_unverified`."""
        if (request.content_length or 0) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(self.limits.unverified_seconds) as scope:
                body = _Body(scope)
                self._bodies[body] = None
                try:
                    return await self._whole(request, body, most, each)
                finally:
                    self._release(body)
        except TimeoutError:
            if body.dropped:
                raise _no_room(self.limits.unverified_bytes) from None
            raise wire_error(
                "timeout",
                f"the body did not come within {self.limits.unverified_seconds:g} s",
                action="send it again",
            ) from None

    async def _whole(
        self,
        request: web.Request,
        body: _Body,
        most: int,
        each: Callable[[bytes], object] | None,
    ) -> bytes:
        data = bytearray()
        async for piece in request.content.iter_any():
            if len(data) + len(piece) > most:
                raise _too_large(most)
            self._hold(body, len(piece))
            data += piece
            if each is not None:
                each(piece)
        return bytes(data)

    def _hold(self, body: _Body, size: int) -> None:
        """Count more bytes of `body`; make room for them where there is none."""
        if body.dropped:
            # Its next piece was here before its end was: what is let go of is not counted again.
            raise _no_room(self.limits.unverified_bytes)
        while self.held + size > self.limits.unverified_bytes:
            oldest = next(iter(self._bodies))
            self._release(oldest)
            oldest.dropped = True
            if oldest is body:
                raise _no_room(self.limits.unverified_bytes)
            oldest.scope.reschedule(asyncio.get_running_loop().time())
        body.size += size
        self.held += size

    def _release(self, body: _Body) -> None:
        if body in self._bodies:
            del self._bodies[body]
            self.held -= body.size
            body.size = 0


BODIES: web.RequestKey[UnverifiedBodies] = web.RequestKey(
    "hookgate unverified bodies", UnverifiedBodies
)
"""What a request to a route that is open to strangers is read through."""


async def read_unverified(
    request: web.Request,
    *,
    most: int = MOST_BYTES,
    each: Callable[[bytes], object] | None = None,
) -> bytes:
    """Return the body of a request to a route with ``Access.self_checked`` or ``Access.public``.

    Use it in place of ``request.read()`` wherever a signature over the body shows who the sender
    is. It gives a body ``gateway.limits.unverified_seconds``, and all such bodies of the gateway
    ``unverified_bytes`` of memory together.

    Args:
        request: The request.
        most: The longest body, in bytes.
        each: Called with each piece as it comes, to hash it meanwhile for example.

    Raises:
        WireError: It is longer (413), slower (408), or had to make room for others (429). Let it
            through: the gateway answers with it.
        KeyError: The route is scoped: its sender is known, so ``request.read()`` will do.
    """
    return await request[BODIES].read(request, most, each)


def _too_large(most: int) -> Exception:
    return wire_error(
        "too_large", f"found a body of more than {counted(most, 'byte')}", action="send less"
    )


def _no_room(most: int) -> Exception:
    return wire_error(
        "too_many_requests",
        f"bodies of {counted(most, 'byte')} are under way already whose senders are not known",
        action="send it again, in one go",
        retry_after=RETRY_SECONDS,
    )
