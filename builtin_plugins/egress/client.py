"""The `Egress` service and the client that it hands out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import httpx

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.builtin_plugins.egress.settings import EgressSettings
from hookgate.kit.url_grants import Grants, NotGrantedError, shown, target_of

if TYPE_CHECKING:
    import ssl

    import aiohttp

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

    async def _exchange(self, request: httpx.Request, auth: Any) -> httpx.Response:
        """Send one request and return the response, its body unread."""
        by_itself = auth is httpx.USE_CLIENT_DEFAULT and not request.url.userinfo
        if by_itself and not any(self.event_hooks.values()):
            # What httpx does beside is for credentials, cookies and hooks of its client.
            self._set_timeout(request)
            response = await self._transport.handle_async_request(request)
            response.request = request
            if response.has_redirect_location:
                try:
                    response.next_request = self._build_redirect_request(request, response)
                except BaseException:
                    await response.aclose()
                    raise
            return response
        return await super().send(request, stream=True, auth=auth, follow_redirects=False)

    async def _follow(self, request: httpx.Request, auth: Any, follow: bool) -> httpx.Response:
        """Return the response at the end of the redirects; every hop is checked."""
        history: list[httpx.Response] = []
        while True:
            try:
                response = await self._exchange(request, auth)
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
