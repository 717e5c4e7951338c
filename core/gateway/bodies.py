"""Bodies of requests whose sender is not known yet: little at once, and none of them for long.

A signature is over the body, so it has to be read before it is known who sends it. Until then it is
held within bounds that hold for the whole gateway, whichever plugin's route it came to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.domain.errors import counted
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from hookgate.core.settings.schema import LimitSettings

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
