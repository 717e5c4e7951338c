"""The client that the `Egress` service hands out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.kit.url_grants import NotGrantedError, shown, target_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.egress.connection import CheckedTransport

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
