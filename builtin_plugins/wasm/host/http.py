"""``http``: requests that the host sends for a guest.

Method and URL are checked against the grants here, before anything else happens and again at each
redirect; addresses, limits and credentials that must not cross origins are the way out's matter.
"""

from __future__ import annotations

import base64
import re
from time import monotonic
from typing import TYPE_CHECKING

import httpx

from hookgate import EGRESS, EgressDeniedError, EgressFailedError, Host
from hookgate.builtin_plugins.wasm.bounds import aside
from hookgate.builtin_plugins.wasm.host.functions import HostRefusal
from hookgate.builtin_plugins.wasm.host.secrets import Inserted, Inserter
from hookgate.builtin_plugins.wasm.packages.grants import SAFE
from hookgate.builtin_plugins.wasm.wire import ErrorCode, HttpRequest, HttpResponse
from hookgate.kit.url_grants import NotGrantedError, shown

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.grants import Granted
    from hookgate.builtin_plugins.wasm.settings import WasmSettings

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_OVERRIDE = re.compile(r"x[-_](?:http[-_])?method(?:[-_]override)?", re.IGNORECASE)
"""Headers by which a server may do something else than what the method says, and the grant."""
INSERTED = "hookgate_wasm_inserted"
"""The request's extension that says what was put into it; redirects have it as well."""

_CODES: dict[str, ErrorCode] = {"timeout": "timeout", "limit": "limit"}


class Door:
    """The way out of one plugin.

    Args:
        host: The gateway.
        settings: The limits.
        plugin: The plugin's name.
        granted: Its grants.
    """

    def __init__(self, host: Host, settings: WasmSettings, plugin: str, granted: Granted) -> None:
        self._host = host
        self._settings = settings
        self._plugin = plugin
        self._granted = granted
        self._inserter = Inserter(granted, host.secrets)
        self._client: httpx.AsyncClient | None = None

    async def send(
        self, asked: HttpRequest, *, deadline: float, longest: float | None = None
    ) -> HttpResponse:
        """Send one request and return what came back.

        Args:
            asked: What the guest asks for.
            deadline: When its call ends at the latest, by ``time.monotonic()``.
            longest: Another limit in seconds than that of the settings, as for a long poll.

        Raises:
            HostRefusal: It is not granted, or did not work; says why, without secrets.
        """
        inserted = Inserted()
        try:
            client = self._open()
            request = await aside(len(asked.body), self._request, client, asked, inserted)
            left = deadline - monotonic()
            if left <= 0:
                raise HostRefusal("timeout", "the call has no time left")
            request.extensions = {
                **request.extensions,
                "total": min(longest or self._settings.http_seconds, left),
                "timeout": httpx.Timeout(left).as_dict(),
                INSERTED: inserted,
            }
            response = await client.send(request, follow_redirects=True)
            return await aside(len(response.content), self._response, response, inserted)
        except EgressDeniedError as error:
            raise HostRefusal("not_granted", self._safe(str(error), inserted)) from None
        except EgressFailedError as error:
            code = _CODES.get(error.kind, "failed")
            raise HostRefusal(code, self._safe(str(error), inserted)) from None
        except HostRefusal as refusal:
            raise HostRefusal(refusal.code, self._safe(str(refusal), inserted)) from None

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    # -- there ---------------------------------------------------------------

    def _request(
        self, client: httpx.AsyncClient, asked: HttpRequest, inserted: Inserted
    ) -> httpx.Request:
        checked = self._checked(asked)
        if asked.method in SAFE and asked.body:
            raise HostRefusal(
                "bad_request",
                f"found a body in a {asked.method}, expected none: what is granted to ask says "
                "nothing besides",
            )
        for name, value in asked.headers.items():
            if _OVERRIDE.fullmatch(name):
                raise HostRefusal(
                    "not_granted",
                    f"found the header {name!r}, which some servers take for another method, "
                    "expected `method` alone to say it",
                )
            if not _NAME.fullmatch(name) or any(ord(sign) < 32 for sign in value):
                raise HostRefusal("bad_request", f"found the header {name[:80]!r}, expected a name")
        url = self._inserter.into_url(asked.url, checked, inserted)
        headers = self._inserter.into_headers(asked.headers, checked, inserted)
        if asked.base64:
            content = _decoded(asked.body)
        else:
            content = self._inserter.into_body(asked.body, checked, inserted).encode()
        try:
            return client.build_request(asked.method, url, headers=headers, content=content or None)
        except (ValueError, TypeError) as error:
            raise HostRefusal("bad_request", f"it cannot be sent: {error}") from None

    def _checked(self, asked: HttpRequest) -> httpx.URL:
        """Return the URL, once method and URL are granted."""
        text = self._inserter.with_stand_ins(asked.url)
        try:
            url = httpx.URL(text)
            self._granted.check(asked.method, url)
        except httpx.InvalidURL as error:
            raise HostRefusal("bad_request", f"the URL cannot be read: {error}") from None
        except NotGrantedError as error:
            raise HostRefusal(
                "not_granted",
                f"{asked.method[:20]} {shown(url)} is not granted: {error}; nothing was sent",
            ) from None
        return url

    async def _check_hop(self, request: httpx.Request) -> None:
        """Refuse a request, or a redirect, whose method or secrets are not granted there."""
        try:
            self._granted.check(request.method, request.url)
        except NotGrantedError as error:
            why = str(error)
        else:
            inserted: Inserted = request.extensions.get(INSERTED) or Inserted()
            why = inserted.off_grant(self._granted, request)
        if why:
            raise EgressDeniedError(
                f"wasm {self._plugin}: {request.method} {shown(request.url)} is not granted: "
                f"{why}; nothing was sent there"
            )

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            egress = self._host.get(EGRESS)
            if egress is None:
                raise HostRefusal(
                    "unavailable", "there is no way out: the operator has to enable `egress`"
                )
            self._client = egress.client(
                self._granted.patterns,
                name=f"wasm {self._plugin}",
                timeout=self._settings.http_seconds,
                max_bytes=self._settings.http_bytes,
            )
            self._client.event_hooks = {"request": [self._check_hop]}
        return self._client

    # -- and back --------------------------------------------------------------

    def _response(self, response: httpx.Response, inserted: Inserted) -> HttpResponse:
        headers: dict[str, str] = {}
        for name, value in response.headers.multi_items():
            known = headers.get(name)
            headers[name] = value if known is None else f"{known}, {value}"
        headers = {name: self._safe(value, inserted) for name, value in headers.items()}
        data = response.content
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            # Bytes hold what text does: this request's secrets, and those of earlier ones.
            masked = self._safe(data.decode("utf-8", "surrogateescape"), inserted)
            body = base64.b64encode(masked.encode("utf-8", "surrogateescape")).decode()
            return HttpResponse(
                status=response.status_code, headers=headers, body=body, base64=True
            )
        return HttpResponse(
            status=response.status_code, headers=headers, body=self._safe(text, inserted)
        )

    def _safe(self, text: str, inserted: Inserted) -> str:
        return self._host.secrets.redact(inserted.masked(text))


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise HostRefusal("bad_request", "the body is no base64") from None
