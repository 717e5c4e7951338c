"""What waits for a client: bounded, in order, and never dropped in silence.

While the client keeps up, a frame goes to its transport at once, so that a frame costs no
task and an idle client no queue. Once the transport says that it is full, frames wait and a
task passes them on. A client that lets too many wait is closed: a WebSocket with 1013.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.abc import AbstractStreamWriter

QUEUE_BYTES = 131_072
"""Bytes that may wait for a slow client. 200 clients that read nothing then hold 25 MiB,
and as much again in their transports. One frame of any size may wait alone."""

NO_DRAIN = sys.maxsize
"""As ``WebSocketResponse(writer_limit=...)``: sending a frame then never waits."""


_SHORT_HEADS = tuple(bytes((0x81, size)) for size in range(126))
"""The head of a whole text frame from a server (RFC 6455, section 5.2), by its length."""


class Backlog:
    """A bounded queue of bytes.

    Args:
        frames: How many may wait.
        size: How many bytes may wait, unless it is one frame alone.
    """

    __slots__ = ("_bytes", "_frames", "_limit", "_size")

    def __init__(self, frames: int, size: int = QUEUE_BYTES) -> None:
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._limit = frames
        self._size = size

    def put(self, frame: bytes) -> bool:
        """Let `frame` wait; False where there is no room for it."""
        full = len(self._frames) >= self._limit or self._bytes + len(frame) > self._size
        if self._frames and full:
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        return True

    def pop(self) -> bytes:
        """Take the oldest frame."""
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return frame

    def __len__(self) -> int:
        return len(self._frames)


class Outbox:
    """The only way out to one client: what is put first arrives first.

    Args:
        protocol: The connection's protocol; tells when the transport is full.
        writer: What preparing the response returned.
        frames: How many frames may wait.
        overflow: Called once, when one more would have to wait.
    """

    __slots__ = ("_closed", "_limit", "_overflow", "_protocol", "_pump", "_writer", "backlog")

    def __init__(
        self,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        *,
        frames: int,
        overflow: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._writer = writer
        self._limit = frames
        self._overflow = overflow
        self.backlog: Backlog | None = None
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    def _write(self, frame: bytes) -> None:
        """Write `frame` to the transport."""
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """How many frames wait."""
        return 0 if self.backlog is None else len(self.backlog)

    def put(self, frame: bytes) -> None:
        """Send a frame, or let it wait its turn; never waits itself."""
        if self._closed:
            return
        if self.backlog is None and not self._protocol.writing_paused:
            self._write(frame)
        else:
            self._wait(frame)

    def _step(self, writing: Coroutine[Any, Any, None]) -> None:
        # Nothing in it waits, so one step is all of it.
        try:
            writing.send(None)
        except StopIteration:
            return
        except ConnectionError:
            self._closed = True
            return
        writing.close()
        raise AssertionError("writing a frame waited: the response is not made for an Outbox")

    def _wait(self, frame: bytes) -> None:
        if self.backlog is None:
            self.backlog = Backlog(self._limit)
        if not self.backlog.put(frame):
            self.close()
            self._overflow()
        elif self._pump is None:
            self._pump = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        try:
            while self.backlog and not self._closed:
                await self._writer.drain()
                if self._protocol.transport is None:
                    # A connection that was cut is drained at once, and stays paused.
                    self._closed = True
                while self.backlog and not self._protocol.writing_paused and not self._closed:
                    self._write(self.backlog.pop())
        except ConnectionError:
            self._closed = True
        finally:
            self.backlog = None
            self._pump = None

    async def flush(self, seconds: float) -> None:
        """Wait until nothing waits any more, at most `seconds`."""
        if self._pump is not None:
            await asyncio.wait([self._pump], timeout=seconds)

    def close(self) -> None:
        """Send nothing more; what waits is let go."""
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()
        self.backlog = None


class SocketOutbox(Outbox):
    """The way out to one WebSocket.

    Text frames are put on the transport here: aiohttp's way there takes two coroutines for
    each frame, which is a good part of what a short answer costs. All other frames are left
    to aiohttp.

    Args:
        socket: A prepared response with ``writer_limit=NO_DRAIN`` and without compression.
        protocol: See `Outbox`.
        writer: See `Outbox`.
        transport: The connection's transport.
        frames: See `Outbox`.
        overflow: See `Outbox`.
    """

    __slots__ = ("_socket", "_transport")

    def __init__(
        self,
        socket: web.WebSocketResponse[Any],
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        transport: asyncio.Transport,
        *,
        frames: int,
        overflow: Callable[[], None],
    ) -> None:
        super().__init__(protocol, writer, frames=frames, overflow=overflow)
        self._socket = socket
        self._transport = transport

    def _write(self, frame: bytes) -> None:
        # Nothing may follow a close frame (RFC 6455, section 5.5.1).
        if self._socket.closed or self._transport.is_closing():
            self._closed = True
            return
        size = len(frame)
        if size < 126:
            self._transport.write(_SHORT_HEADS[size] + frame)
        elif size < 65_536:
            self._transport.write(b"\x81\x7e" + size.to_bytes(2, "big") + frame)
        else:
            self._transport.write(b"\x81\x7f" + size.to_bytes(8, "big"))
            self._transport.write(frame)

    def pong(self, data: bytes) -> None:
        """Answer a ping. A client that does not read gets none (RFC 6455, section 5.5.3)."""
        if not self._closed and not self._protocol.writing_paused:
            self._step(self._socket.pong(data))

    def ping(self) -> bool:
        """Ask whether the client is still there; False where the question cannot go out now."""
        if self._closed or self._protocol.writing_paused:
            return False
        self._step(self._socket.ping())
        return True


class EventOutbox(Outbox):
    """The way out to the reader of one stream of server-sent events.

    They are put on the transport here, as `SocketOutbox` does with its frames.

    Args:
        protocol: See `Outbox`.
        writer: See `Outbox`.
        chunked: Whether the response is sent in chunks, as to all but clients of HTTP/1.0.
        frames: See `Outbox`.
        overflow: See `Outbox`.
    """

    __slots__ = ("_chunked",)

    def __init__(
        self,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        *,
        chunked: bool,
        frames: int,
        overflow: Callable[[], None],
    ) -> None:
        super().__init__(protocol, writer, frames=frames, overflow=overflow)
        self._chunked = chunked

    def _write(self, frame: bytes) -> None:
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            self._closed = True
        elif self._chunked:
            transport.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        else:
            transport.write(frame)
