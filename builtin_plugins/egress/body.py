"""The body of a response: counted, watched for silence, and with typed failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import cast

import aiohttp
import httpx

from hookgate import EgressError, EgressFailedError, EgressFailureKind
from hookgate.kit.url_grants import shown

MOST_GATHERED = 16 * 1024
"""Bytes that come together at most while they are gathered; a body that comes faster is read as
it comes, since the connection holds no more than some of these."""


class Mapped:
    """Turns aiohttp's errors into `EgressFailedError`.

    Args:
        name: Who asked, for the errors.
        request: What was asked.
        receiving: Whether the response had begun.
    """

    __slots__ = ("_name", "_receiving", "_request")

    def __init__(self, name: str, request: httpx.Request, *, receiving: bool = False) -> None:
        self._name = name
        self._request = request
        self._receiving = receiving

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self.raise_for(error)

    @property
    def shown(self) -> str:
        """The request's URL, for an error."""
        return shown(self._request.url)

    def raise_for(self, error: Exception) -> None:
        """Raise what `error` stands for; return where it is none of aiohttp's.

        Raises:
            EgressFailedError: The request failed.
        """
        if isinstance(error, EgressError):
            return
        found = [row[1:] for row in _FAILURES if isinstance(error, row[0])]
        if not found:
            return
        kind, what = found[0]
        if self._receiving and kind == "connect":
            kind, what = "cut", "the connection broke before the response was whole"
        # aiohttp's own words name the host again, and settings that nobody made.
        detail = str(getattr(error, "os_error", None) or error)
        raise EgressFailedError(
            f"{self._name}: {self._request.method} {self.shown}: {what}"
            + (f" ({detail[:200]})" if detail else ""),
            kind=kind,
        ) from error


_FAILURES: tuple[tuple[tuple[type[Exception], ...], EgressFailureKind, str], ...] = (
    ((aiohttp.ConnectionTimeoutError,), "connect", "no connection within the limit"),
    ((aiohttp.SocketTimeoutError,), "timeout", "the other side was silent for too long"),
    ((TimeoutError,), "timeout", "it took longer than its limit"),
    ((aiohttp.ClientConnectorCertificateError,), "connect", "the certificate is not valid"),
    ((aiohttp.ClientSSLError,), "connect", "TLS failed"),
    ((aiohttp.ClientConnectorDNSError,), "connect", "the name cannot be resolved"),
    ((aiohttp.ClientConnectorError,), "connect", "no connection"),
    (
        (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError),
        "cut",
        "the connection broke before the response was whole",
    ),
    ((aiohttp.ClientConnectionError, OSError), "cut", "the connection broke"),
    ((aiohttp.ClientResponseError,), "protocol", "what came back is no valid HTTP"),
    ((aiohttp.ClientError, aiohttp.http.HttpProcessingError), "protocol", "the exchange failed"),
    ((ValueError,), "protocol", "the request cannot be sent"),
)


class _Pieces(aiohttp.StreamReader):
    """aiohttp's stream, of which nobody asks where a chunk of HTTP begins and ends.

    aiohttp notes it for each chunk, and takes them one by one, with a look each time at whether
    reading was paused.
    """

    __slots__ = ()

    _nothing = staticmethod(cast("Callable[[], None]", bool))
    begin_http_chunk_receiving = end_http_chunk_receiving = _nothing

    def _read_nowait(self, n: int) -> bytes:
        if n != -1:
            return super()._read_nowait(n)
        self._timer.assert_timeout()
        found = b"".join(self._buffer)
        self._buffer.clear()
        self._size = 0
        self._cursor += len(found)
        if self._protocol._reading_paused:
            self._protocol.resume_reading()
        return found


class Body(httpx.AsyncByteStream):
    """The body of a response, decoded. It can be read once.

    Args:
        response: Where it comes from.
        request: What was asked, for the errors.
        name: Who asked, for the errors.
        limit: The most bytes.
        silence: The longest wait for a chunk, in seconds; None for any.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        request: httpx.Request,
        *,
        name: str,
        limit: int,
        silence: float | None,
    ) -> None:
        self._response = response
        if type(response.content) is aiohttp.StreamReader:  # of an empty body it is another one
            response.content.__class__ = _Pieces
        self._read = response.content.readany
        self._mapped = Mapped(name, request, receiving=True)
        self._name = name
        self._limit = limit
        self._left = limit
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._silence = silence
        self._waiting: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gather = 0.0
        self._more: asyncio.Future[None] | None = None
        connection = response.connection
        protocol = None if connection is None else connection.protocol
        if protocol is not None:  # otherwise all of it is here
            protocol.read_timeout = None
            protocol.start_timeout()
            self._look()

    @property
    def over(self) -> bool:
        """Whether all of it has been read."""
        return self._response.content.at_eof()

    def gather(self, seconds: float) -> None:
        """Let so much time pass before each further chunk, unless all of the body is there.

        For a reader whom nobody waits for: it has one chunk of what has arrived meanwhile. A
        caller finds this method in ``response.extensions["gather"]``.
        """
        self._gather = seconds
        self._response.content.on_eof(self._gathered)

    async def _wait_for_more(self) -> None:
        self._more = self._loop.create_future()
        timer = self._loop.call_later(self._gather, self._gathered)
        try:
            await self._more
        finally:
            timer.cancel()

    def _gathered(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def limit_silence(self, seconds: float | None) -> None:
        """Set the longest wait for a chunk from now on.

        The limit of a response's first byte is often another one than that between its
        bytes; a caller finds this method in ``response.extensions["limit_silence"]``.
        aiohttp would set a timer anew with each chunk. Here one timer looks when the
        reader has begun to wait, and is set again for when that becomes too long.
        """
        self._silence = seconds
        self._look()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._silence is None or self._response.content.is_eof():
            return
        now = self._time()
        since = now if self._waiting is None else self._waiting
        if now - since >= self._silence:
            # Wakes the reader up with it.
            self._response.content.set_exception(aiohttp.SocketTimeoutError())
        else:
            self._timer = self._loop.call_at(since + self._silence, self._look)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        # Not a generator: one that is left half way is only closed when it is collected.
        self._waiting = self._time()
        try:
            if self._gather and not self._response.content.is_eof():
                await self._wait_for_more()
            chunk = await self._read()
        except Exception as error:
            self._mapped.raise_for(error)
            raise
        self._waiting = None
        if not chunk:
            self._stop_looking()
            raise StopAsyncIteration
        self._left -= len(chunk)
        if self._left < 0:
            self._response.close()
            raise EgressFailedError(
                f"{self._name}: {self._mapped.shown} answered with more than "
                f"{self._limit} bytes: expected at most that many",
                kind="limit",
            )
        if len(chunk) > MOST_GATHERED:
            self._gather = 0.0
        return chunk

    def _stop_looking(self) -> None:
        self._silence = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def aclose(self) -> None:
        """Let go of the connection; one that was left half way is closed at once."""
        self._stop_looking()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
