"""Server-sent events: the one way in which the gateway and its plugins answer with a stream.

The stream is kept alive while nothing is said, waits for a reader who is slow, is cut when a
reader does not read, ends when it has gone, and is brought to an end when the gateway stops.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from types import TracebackType
from typing import Self

from aiohttp import hdrs, web

from hookgate.core.domain.parts import TextFrames
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.requests import CALLER, LiveClient
from hookgate.core.gateway.server import SERVER
from hookgate.core.gateway.wire.stream import EventOutbox

KEEP_ALIVE = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy gives it up."""

FLUSH_SECONDS = 30.0
"""Seconds that a slow reader has to take what waits for it."""

GOING_AWAY = 1001
"""The WebSocket close code of a server that stops."""

GRACE = 0.5
"""Seconds that a request has to end by itself when the gateway stops. Its turn is over by then."""

LOOK = 0.5
"""Seconds between two looks at whether the client is still there."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_UNFIT = re.compile(r"[\r\n\x00]")


def encode_event(data: str | bytes, *, event: str = "", id: str = "") -> bytes:
    """Return one event as it goes over the wire (WHATWG HTML, section 9.2).

    Args:
        data: The text; each of its lines becomes a line of the event.
        event: The name of the event; "" for none, which browsers call ``message``.
        id: What a browser that connects again sends as ``Last-Event-ID``; "" for none.
    """
    raw = data.encode() if isinstance(data, str) else data
    head = _named(event) if event else b""
    if id:
        head += b"id: %b\n" % _UNFIT.sub(" ", id).encode()
    if b"\n" in raw or b"\r" in raw:
        raw = b"\ndata: ".join(_LINE_END.split(raw))
    return b"%bdata: %b\n\n" % (head, raw)


def _encode_alike(frames: TextFrames, event: str) -> bytes:
    """Return events of one form; JSON as it is written for the wire has no line ends."""
    start = b"%bdata: %b" % (_named(event) if event else b"", frames.form.head)
    end = b"%b\n\n" % frames.form.tail
    return b"%b%b%b" % (start, (end + start).join(frames.texts), end)


@lru_cache(maxsize=256)
def _named(event: str) -> bytes:
    return b"event: %b\n" % _UNFIT.sub(" ", event).encode()


class EventStream:
    r"""An answer that is a stream of server-sent events. A `LiveClient` of the gateway.

    For handlers of routes::

        async def ticks(self, request):
            async with EventStream(request) as stream:
                async for tick in self.ticks():
                    await stream.send(tick.to_json(), event="tick")
            return stream.response

    The head goes out when the block is entered; what is wrong with the request is raised before
    that. When the reader goes away, does not read, or loses its right to, the block is cancelled
    where it waits and ends without an error; so it does when the gateway stops, and what waits
    then still goes out. An error that leaves the block breaks the connection: the reader has to
    see that the stream is not whole.

    Attributes:
        response: What the handler returns.
        token: See `Client.token`.
        session: See `Client.session`.
        principal: See `Client.principal`.
    """

    def __init__(
        self,
        request: web.Request,
        *,
        headers: Mapping[str, str] | None = None,
        client: LiveClient | None = None,
    ) -> None:
        """Prepare a stream; nothing is sent yet.

        Args:
            request: The request that it answers.
            headers: More headers of the answer.
            client: Who counts for this request as a client of the gateway already, and is asked
                and ended in place of the stream.

        Raises:
            ValueError: A header has a line break or a NUL in it. Found later, it would leave
                an answer without a head.
        """
        for name, value in (headers or {}).items():
            if _UNFIT.search(f"{name}{value}"):
                raise ValueError(
                    f"found the header {name!r} with a line break or a NUL, expected one line"
                )
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "X-Accel-Buffering": "no",
                **(headers or {}),
            }
        )
        caller = request.get(CALLER)
        self.token = caller.token if caller else ""
        self.session = caller.session if caller else ""
        self.principal = caller.principal if caller else Principal(id="")
        self._request = request
        self._server = request.config_dict[SERVER]
        self._client: LiveClient = client or self
        self._own = client is None
        self._scope = asyncio.timeout(None)
        self._stack = ExitStack()
        self._outbox: EventOutbox | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._inside = False
        self._spoken = 0.0

    # -- the block ---------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Send the head.

        Raises:
            WireError: The gateway stops.
        """
        if self._own:
            self._server.check_open()
        writer = await self.response.prepare(self._request)
        assert writer is not None, "a response that was not sent yet has a writer"
        self._outbox = EventOutbox(
            self._request.protocol,
            writer,
            chunked=hdrs.TRANSFER_ENCODING in self.response.headers,
            frames=self._server.settings.limits.queue_frames,
            overflow=self._overflow,
        )
        await self._scope.__aenter__()
        self._inside = True
        if self._own:
            self._stack.enter_context(self._server.enlisted(self))
        self._spoken = asyncio.get_running_loop().time()
        self._look()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        with self._stack:
            self._inside = False
            try:
                await self._scope.__aexit__(kind, error, traceback)
            except TimeoutError:
                error = None  # the block was cancelled by the stream, and that was all
            if self._timer is not None:
                self._timer.cancel()
            if isinstance(error, ConnectionResetError) and not self._connected:
                error = None
            if error is None and self._connected:
                await self._drained()
                if self._connected:
                    await self.response.write_eof()
            return error is None

    @property
    def _connected(self) -> bool:
        transport = self._request.transport
        return transport is not None and not transport.is_closing()

    # -- what is said ------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether the gateway takes nothing new and ends soon; a stream without end ends now."""
        return self._server.stopping

    @property
    def waiting(self) -> int:
        """How many events wait for the reader."""
        backlog = None if self._outbox is None else self._outbox.backlog
        return 0 if backlog is None else len(backlog)

    async def send(self, data: str | bytes, *, event: str = "", id: str = "") -> None:
        """Send one event, and wait while the reader has not taken those before it.

        Args:
            data: See `encode_event`.
            event: See `encode_event`.
            id: See `encode_event`.

        Raises:
            ConnectionResetError: The reader has gone, or has not read for `FLUSH_SECONDS`. It may
                leave the block.
        """
        self.put(data, event=event, id=id)
        await self.flush()

    async def flush(self) -> None:
        """Wait while the reader has not taken what was sent.

        Raises:
            ConnectionResetError: See `send`.
        """
        await self._drained()
        if not self._connected:
            raise ConnectionResetError("the reader of the stream has gone")

    def put(self, data: str | bytes, *, event: str = "", id: str = "") -> None:
        """Send one event and never wait: a reader for whom too much waits is cut off.

        Args:
            data: See `encode_event`.
            event: See `encode_event`.
            id: See `encode_event`.
        """
        self._put(encode_event(data, event=event, id=id))

    def put_all(self, events: Iterable[tuple[str, str | bytes | TextFrames]]) -> None:
        """Send some events as one piece, and never wait; see `put`.

        Args:
            events: The name and the data of each; see `encode_event`. `TextFrames` are an event
                for each of their texts.
        """
        frames: list[bytes] = []
        for event, data in events:
            if isinstance(data, TextFrames):
                frames.append(_encode_alike(data, event))
            else:
                frames.append(encode_event(data, event=event))
        # An empty piece would be the end of the answer.
        if frames:
            self._put(frames[0] if len(frames) == 1 else b"".join(frames))

    def comment(self, text: str) -> None:
        """Send a line that readers pass over."""
        self._put(b": %b\n\n" % _UNFIT.sub(" ", text).encode())

    def _put(self, frame: bytes) -> None:
        assert self._outbox is not None, "events are sent within the block"
        self._spoken = asyncio.get_running_loop().time()
        self._outbox.put(frame)

    async def _drained(self) -> None:
        """Wait until nothing waits; cut the reader off who does not read."""
        outbox = self._outbox
        assert outbox is not None, "events are sent within the block"
        if outbox.waiting:
            await outbox.flush(FLUSH_SECONDS)
            if outbox.waiting:
                self._overflow()

    def _look(self) -> None:
        """See to the reader, and break a long silence."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._spoken >= KEEP_ALIVE:
            self.comment("keep-alive")
        self._timer = loop.call_later(min(LOOK, KEEP_ALIVE), self._look)
        self._client.check()

    def _overflow(self) -> None:
        # HTTP knows no 1013: the connection is cut, so that the reader sees that it missed
        # something.
        self._client.end(1013, "this client reads too slowly")

    # -- being a client ------------------------------------------------------------

    def check(self) -> None:
        """See `Client.check`; also called by the stream itself, far more often."""
        if not self._connected:
            self._leave()

    def tell(self, frame: bytes) -> None:
        """See `Client.tell`: what the events of a route mean is for its plugin to say."""

    def end(self, code: int, reason: str) -> None:
        """See `Client.end`. When the gateway stops (1001) what was said still goes out."""
        if code == GOING_AWAY:
            asyncio.get_running_loop().call_later(GRACE, self._leave)
            return
        if (transport := self._request.transport) is not None:
            transport.abort()
        if self._outbox is not None:
            self._outbox.close()
        self._leave()

    def _leave(self) -> None:
        """Cancel the block."""
        if self._inside:
            self._scope.reschedule(asyncio.get_running_loop().time())
