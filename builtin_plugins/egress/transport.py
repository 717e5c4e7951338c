"""The transport: aiohttp below httpx's API, connected to addresses that were checked.

aiohttp relays a streamed chunk for about a third of what httpx's own transport costs.
The adapter is written here because the address must be pinned, and because a URL that is
handed over as text would be parsed, and its escapes decoded, a second time: what was
checked would not be what is asked for.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import httpx
from yarl import URL as WireURL

from hookgate.builtin_plugins.egress.grants import Grants, NotGrantedError, Target, shown
from hookgate.builtin_plugins.egress.resolver import CheckedResolver, Resolver
from hookgate.core.errors import (
    EgressDeniedError,
    EgressError,
    EgressFailedError,
    EgressFailureKind,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from types import TracebackType

__all__ = ["CheckedTransport"]

REFUSED_METHODS = frozenset(("CONNECT", "TRACE"))

# They belong to the connection and not to the message: aiohttp writes its own, and a
# caller's could make two parties disagree about where a request ends or whom it is for.
CONNECTION_HEADERS = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)

DECODED = frozenset(("gzip", "deflate", "br", "zstd"))
"""The content encodings that aiohttp decodes, or fails at."""


class CheckedTransport(httpx.AsyncBaseTransport):
    """Checks each request, a redirect's too, against the grants, and sends it.

    Args:
        name: Who asks, for the errors.
        grants: Where it may go.
        resolve: Resolves names.
        private_hosts: Names, or ``name:port``, that may be on a private network.
        max_bytes: The longest body, after decompression.
        tls: The TLS settings, which verify certificates and names.

    """

    def __init__(
        self,
        name: str,
        grants: Grants,
        *,
        resolve: Resolver,
        private_hosts: frozenset[str],
        max_bytes: int,
        tls: ssl.SSLContext,
    ) -> None:
        self._name = name
        self._grants = grants
        self._max_bytes = max_bytes
        self._tls = tls
        self._resolver = CheckedResolver(name, grants, private_hosts, resolve)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def check(self, request: httpx.Request) -> Target:
        """Return where `request` goes.

        Raises:
            EgressDeniedError: It lies outside the grants.

        """
        try:
            target = self._grants.check(request.url)
            if request.method.upper() in REFUSED_METHODS:
                raise NotGrantedError("its method is for proxies: expected GET, POST or the like")
            if request.headers.get("host", target.authority).lower() != target.authority:
                asked = httpx.URL(f"{target.scheme}://{request.headers['host']}/")
                if (asked.raw_host, asked.port) != (request.url.raw_host, request.url.port):
                    raise NotGrantedError("its Host header names another host than its URL")
        except (NotGrantedError, httpx.InvalidURL) as error:
            raise EgressDeniedError(
                f"{self._name}: {request.method[:20]} {shown(request.url)} is not granted: "
                f"{error}; nothing was sent"
            ) from None
        return target

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request.

        Raises:
            EgressDeniedError: It lies outside the grants; nothing was sent.
            EgressFailedError: It could not be sent, or no response came.

        """
        target = self.check(request)
        phases = request.extensions.get("timeout", {})
        with _Mapped(self._name, request):
            response = await self._open().request(
                request.method,
                _wire_url(target),
                headers=[
                    (key, value)
                    for key, value in request.headers.multi_items()
                    if key not in CONNECTION_HEADERS
                ],
                data=_body(request),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=_left(request),
                    # The time in which a connection must be there: the lookup, TCP and TLS.
                    connect=phases.get("connect"),
                    sock_read=phases.get("read"),
                ),
            )
        headers = self._headers(response, request)
        return httpx.Response(
            response.status,
            headers=headers,
            stream=_Body(response, request, self._name, self._max_bytes),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (response.reason or "").encode("ascii", "replace"),
                "limit_silence": partial(_limit_silence, response),
            },
        )

    def _headers(
        self, response: aiohttp.ClientResponse, request: httpx.Request
    ) -> list[tuple[bytes, bytes]]:
        """Return the response's headers, without those that the decoding has made untrue."""
        encoding = ",".join(response.headers.getall("content-encoding", ())).strip().lower()
        if not encoding:
            return list(response.raw_headers)
        if encoding not in DECODED and encoding != "identity":
            # httpx would unpack it behind the limit.
            response.close()
            raise EgressFailedError(
                f"{self._name}: {shown(request.url)} answered in the encoding "
                f"{encoding[:40]!r}: expected gzip, deflate or none",
                kind="protocol",
            )
        return [
            (key, value)
            for key, value in response.raw_headers
            if key.lower() not in (b"content-encoding", b"content-length")
        ]

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise EgressFailedError(f"{self._name}: the client is closed", kind="connect")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=self._resolver,
                    use_dns_cache=False,
                    ssl=self._tls,
                    # Callers bound how much they do at once; a wait here would look to
                    # them like an upstream that does not answer.
                    limit=0,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Body(httpx.AsyncByteStream):
    """The response's body, decoded and counted. It can be read once."""

    def __init__(
        self, response: aiohttp.ClientResponse, request: httpx.Request, name: str, limit: int
    ) -> None:
        self._response = response
        self._read = response.content.readany
        self._mapped = _Mapped(name, request, receiving=True)
        self._name = name
        self._limit = limit
        self._left = limit

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        # Not a generator: one that is left half way is only closed when it is collected.
        try:
            chunk = await self._read()
        except Exception as error:
            self._mapped.raise_for(error)
            raise
        if not chunk:
            raise StopAsyncIteration
        self._left -= len(chunk)
        if self._left < 0:
            self._response.close()
            raise EgressFailedError(
                f"{self._name}: {self._mapped.shown} answered with more than "
                f"{self._limit} bytes: expected at most that many",
                kind="limit",
            )
        return chunk

    async def aclose(self) -> None:
        # Whoever stops reading half way wants no more of it: the connection goes, at once.
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _wire_url(target: Target) -> WireURL:
    """Return the checked parts as aiohttp's URL; `encoded` keeps it from changing them."""
    return WireURL.build(
        scheme=target.scheme,
        host=f"[{target.host}]" if ":" in target.host else target.host,
        port=target.port,
        path=target.path,
        query_string=target.query,
        encoded=True,
    )


def _body(request: httpx.Request) -> bytes | AsyncIterator[bytes] | None:
    stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        return b"".join(stream) or None
    if isinstance(stream, httpx.AsyncByteStream):
        return aiter(stream)
    raise EgressFailedError("found a blocking request body, expected an async one")


def _limit_silence(response: aiohttp.ClientResponse, seconds: float) -> None:
    """Set the longest silence for the rest of the body.

    The limit of a response's first byte is often another one than that between its bytes.
    A caller finds this function in ``response.extensions["limit_silence"]``.
    """
    connection = response.connection
    if connection is not None and connection.protocol is not None:
        connection.protocol.read_timeout = seconds
        connection.protocol.start_timeout()


def _left(request: httpx.Request) -> float | None:
    """Return the seconds until the request's deadline, which its redirects share."""
    deadline = request.extensions.get("deadline")
    if deadline is None:
        return None
    # 0 would mean "no limit" to aiohttp.
    return max(float(deadline) - asyncio.get_running_loop().time(), 0.001)


class _Mapped:
    """Turns aiohttp's errors into `EgressFailedError`."""

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
        detail = str(error)
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
