"""The `Egress` service and the client that it hands out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp
import httpx

from hookgate import EgressDeniedError, EgressError, EgressFailedError, EgressFailureKind
from hookgate.builtin_plugins.egress.settings import EgressSettings
from hookgate.kit.url_grants import Grants, NotGrantedError, shown, target_of

if TYPE_CHECKING:
    import ssl

    from hookgate.builtin_plugins.egress.connection import CheckedTransport, Resolver

# What may follow a redirect to another origin. Everything else can carry a secret: a list
# of the headers that do would never be whole.
HARMLESS_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "accept-language",
        "content-encoding",
        "content-language",
        "content-type",
        "range",
        "user-agent",
    )
)


def tls_settings() -> ssl.SSLContext:
    """Return TLS settings that trust certifi's and the system's authorities. Reads files."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


class Authorities:
    """TLS settings that are made on a thread when they are first asked for, and then kept.

    Reading the certificate authorities takes tens of milliseconds, and much that a gateway does
    needs none.
    """

    def __init__(self, given: ssl.SSLContext | None = None) -> None:
        self._context = given
        self._reading = asyncio.Lock()

    async def __call__(self) -> ssl.SSLContext:
        """Return them."""
        async with self._reading:
            if self._context is None:
                self._context = await asyncio.to_thread(tls_settings)
        return self._context


class _NoCookies(httpx.Cookies):
    """Takes no cookie: what one request got must not go along with another's."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Leave them where they are."""


class CheckedClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` whose every request, redirects included, is checked.

    It keeps no cookies, and no proxy or ``.netrc`` of the environment is looked at. All of
    its failures are `EgressError`, those of reading a streamed body included.
    """

    def __init__(
        self,
        transport: CheckedTransport,
        *,
        name: str,
        timeout: httpx.Timeout,
        total: float,
        headers: Mapping[str, str],
        max_redirects: int,
        denied: Callable[[str], None],
    ) -> None:
        super().__init__(
            transport=transport,
            trust_env=False,
            timeout=timeout,
            headers={"accept-encoding": "gzip, deflate", "user-agent": "hookgate", **headers},
            max_redirects=max_redirects,
        )
        self._egress_name = name
        self._egress_total = total
        self._egress_denied = denied
        self._no_cookies = _NoCookies()

    @property
    def cookies(self) -> httpx.Cookies:
        """No cookies; a request that is to carry some names them in a header."""
        return self._no_cookies

    @cookies.setter
    def cookies(self, cookies: object) -> None:
        raise AttributeError("this client keeps no cookies: send them as a header of the request")

    def build_request(self, method: str, url: httpx.URL | str, **rest: Any) -> httpx.Request:
        """Build a request; see `httpx.AsyncClient.build_request`.

        Raises:
            EgressDeniedError: The URL cannot be read, so no grant can name it.
        """
        try:
            return super().build_request(method, url, **rest)
        except httpx.InvalidURL as error:
            why = f"{self._egress_name}: the URL cannot be read: {error}; nothing was sent"
            self._egress_denied(why)
            raise EgressDeniedError(why) from None

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send a request, and follow its redirects where that is asked for.

        A redirect to another origin takes no header along that could be a credential.
        ``request.extensions["total"]`` sets another limit in seconds for all of it.

        Raises:
            EgressDeniedError: The request or a redirect lies outside the grants.
            EgressFailedError: It failed.
        """
        follow = (
            self.follow_redirects if not isinstance(follow_redirects, bool) else follow_redirects
        )
        if self.is_closed:
            raise EgressFailedError(f"{self._egress_name}: the client is closed", kind="connect")
        total = float(request.extensions.get("total", self._egress_total))
        deadline = asyncio.get_running_loop().time() + total
        request.extensions = {**request.extensions, "deadline": deadline}
        try:
            response = await self._follow(request, auth, follow)
            if not stream:
                try:
                    await response.aread()
                finally:
                    await response.aclose()
            return response
        except EgressDeniedError as error:
            self._egress_denied(str(error))
            raise
        except httpx.HTTPError as error:
            raise EgressFailedError(
                f"{self._egress_name}: the exchange failed: {error}", kind="protocol"
            ) from error

    async def _follow(self, request: httpx.Request, auth: Any, follow: bool) -> httpx.Response:
        """Return the response at the end of the redirects; every hop is checked."""
        history: list[httpx.Response] = []
        while True:
            try:
                response = await super().send(
                    request, stream=True, auth=auth, follow_redirects=False
                )
            except (httpx.RemoteProtocolError, httpx.InvalidURL) as error:
                # The transport raises neither: it is a redirect's address that cannot be read.
                raise EgressDeniedError(
                    f"{self._egress_name}: {shown(request.url)} redirects to what no grant can "
                    f"name: {error}; it was not followed"
                ) from None
            response.history = list(history)
            following = response.next_request
            if not follow or following is None:
                return response
            await response.aclose()
            history.append(response)
            if len(history) > self.max_redirects:
                raise EgressFailedError(
                    f"{self._egress_name}: found more than {self.max_redirects} redirects",
                    kind="limit",
                )
            if not _same_origin(request.url, following.url):
                auth = None
                following = _without_credentials(following)
            request = following


def _same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    try:
        return target_of(one).origin == target_of(other).origin
    except NotGrantedError:
        return False


def _without_credentials(request: httpx.Request) -> httpx.Request:
    """Return the request without every header that could be one."""
    kept = httpx.Headers(
        [
            (key, value)
            for key, value in request.headers.multi_items()
            if key.lower() in HARMLESS_HEADERS
        ]
    )
    request.headers = kept
    return request


class CheckedEgress:
    """The one checked way out for HTTP; the service behind the `EGRESS` key.

    Attributes:
        authorities: Returns the TLS settings of all its clients.

    Args:
        settings: The limits.
        tls: The TLS settings; made when something needs them, where they are not given.
        resolve: Resolves names; the system's resolver where it is not given.
        denied: Is told of every request that was denied, for the log.
    """

    def __init__(
        self,
        settings: EgressSettings | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolver | None = None,
        denied: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings or EgressSettings()
        self.authorities = Authorities(tls)
        self._resolve = resolve
        self._denied = denied
        self._clients: WeakSet[CheckedClient] = WeakSet()

    def client(
        self,
        grants: Sequence[str],
        *,
        name: str,
        timeout: httpx.Timeout | float = 30.0,
        max_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.AsyncClient:
        """Return a client that reaches what `grants` name and nothing else.

        Args:
            grants: URL patterns; `hookgate.kit.url_grants` has their grammar.
            name: Who asks, for the errors.
            timeout: Seconds. A number limits each phase and the whole request with its
                redirects and its body; an `httpx.Timeout` limits the phases, and the
                whole is limited by ``total_seconds`` of the settings.
            max_bytes: The longest response body, after decompression.
            headers: Headers of every request.

        Raises:
            ValueError: A grant does not follow the grammar.
        """
        if isinstance(timeout, httpx.Timeout):
            phases, total = timeout, self._settings.total_seconds
        else:
            phases, total = httpx.Timeout(timeout), float(timeout)
        transport = self._transport(grants, name, max_bytes)
        client = CheckedClient(
            transport,
            name=name,
            timeout=phases,
            total=total,
            headers=dict(headers or {}),
            max_redirects=self._settings.max_redirects,
            denied=self._denied,
        )
        self._clients.add(client)
        return client

    @asynccontextmanager
    async def websocket(
        self, grants: Sequence[str], url: str, *, name: str, max_bytes: int, timeout: float = 10.0
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket to what `grants` name. See `Egress.websocket`."""
        transport = self._transport(grants, name, max_bytes)
        try:
            try:
                socket = await transport.websocket(url, timeout=timeout)
            except EgressDeniedError as error:
                self._denied(str(error))
                raise
            async with socket:
                yield socket
        finally:
            await transport.aclose()

    def _transport(
        self, grants: Sequence[str], name: str, max_bytes: int | None
    ) -> CheckedTransport:
        # What stands below a client takes long to load, and a gateway may need no client.
        from hookgate.builtin_plugins.egress.connection import CheckedTransport, resolve_by_system

        return CheckedTransport(
            name,
            Grants(grants),
            resolve=self._resolve or resolve_by_system,
            private_hosts=frozenset(self._settings.private_hosts),
            max_bytes=self._settings.max_bytes if max_bytes is None else max_bytes,
            tls=self.authorities,
        )

    async def close(self) -> None:
        """Close every client that its owner has left open."""
        for client in tuple(self._clients):
            await client.aclose()


# -- body ------------------------------------------------------------------------

# The body of a response: counted, watched for silence, and with typed failures.


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
        self.limit_silence(silence)

    def limit_silence(self, seconds: float | None) -> None:
        """Set the longest wait for a chunk from now on.

        The limit of a response's first byte is often another one than that between its
        bytes; a caller finds this method in ``response.extensions["limit_silence"]``.
        aiohttp would set a timer anew with each chunk. Here one timer looks when the
        reader has begun to wait, and is set again for when that becomes too long.
        """
        connection = self._response.connection
        if connection is None or connection.protocol is None:
            return  # All of it is here.
        connection.protocol.read_timeout = None
        connection.protocol.start_timeout()
        self._silence = seconds
        self._look()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._silence is None:
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
