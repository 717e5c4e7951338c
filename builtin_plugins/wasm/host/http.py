"""``http``: requests that the host sends for a guest, and the secrets that it puts into them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import quote

from hookgate import EGRESS, EgressDeniedError, EgressFailedError, Host, Secrets
from hookgate.builtin_plugins.wasm.host.functions import HostRefusal
from hookgate.builtin_plugins.wasm.packages.grants import SAFE, Granted, Place
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.builtin_plugins.wasm.wire import (
    ErrorCode,
    HttpRequest,
    HttpResponse,
    TooMuchError,
    aside,
    hold,
)
from hookgate.kit.modules import httpx
from hookgate.kit.url_grants import NotGrantedError, shown
from hookgate.settings import MASK, MIN_MASKED

_MARK = re.compile(r"\{\{secret:([^{}]{1,128})\}\}")
_LOOKS = "{{secret:"
_URL = re.compile(r"(?P<origin>[^/?#]*//[^/?#]*)(?P<path>/[^?#]*)?(?P<rest>.*)", re.DOTALL)
STAND_IN = "secret"
"""Stands for a secret in the path while the URL is checked against the grants."""


@dataclass(slots=True)
class Inserted:
    """What was put into one request.

    Attributes:
        values: The secrets, by name.
        body: Which of them stand in the body.
    """

    values: dict[str, str] = field(default_factory=dict)
    body: set[str] = field(default_factory=set)

    def masked(self, text: str) -> str:
        """Return `text` with each of them masked, as it is and as a path has it."""
        for value in self.values.values():
            text = text.replace(value, MASK).replace(_in_path(value), MASK)
        return text

    def off_grant(self, granted: Granted, request: httpx.Request) -> str:
        """Return why `request`, which may be a redirect, must not carry what it carries; ""."""
        for name, value in self.values.items():
            for place in self._places(name, value, request):
                if not granted.inserts(name, place, request.url):
                    return f"the secret {name} is not granted there in the {place}"
        return ""

    def _places(self, name: str, value: str, request: httpx.Request) -> list[Place]:
        places: list[Place] = []
        if any(value in text for text in request.headers.values()):
            places.append("header")
        if name in self.body and _has_body(request):
            places.append("body")
        target = request.url.raw_path.decode("ascii")
        if value in target or _in_path(value) in target:
            places.append("path")
        return places


class Inserter:
    """Puts the secrets of one plugin into its requests.

    Args:
        granted: Its grants.
        secrets: The gateway's secrets.
    """

    def __init__(self, granted: Granted, secrets: Secrets) -> None:
        self._granted = granted
        self._secrets = secrets

    def with_stand_ins(self, url: str) -> str:
        """Return a URL to be checked: each secret in its path stands there by another word.

        Raises:
            HostRefusal: A secret is asked for beside the path.
        """
        if _LOOKS not in url:
            return url
        parts = _URL.fullmatch(url)
        if parts is None or _LOOKS in parts["origin"] + parts["rest"]:
            raise HostRefusal(
                "not_granted",
                "found {{secret:...}} in the query, the fragment or the host of a URL, expected "
                "it in the path, a header or the body: logs keep queries",
            )
        return parts["origin"] + _MARK.sub(STAND_IN, parts["path"] or "") + parts["rest"]

    def into_url(self, url: str, checked: httpx.URL, inserted: Inserted) -> str:
        """Return a URL with the secrets that its path names.

        Args:
            url: As the guest wrote it.
            checked: What was checked in its place.
            inserted: Takes note of them.

        Raises:
            HostRefusal: One is not granted there, or is not set.
        """
        return self._into(url, "path", checked, inserted, _in_path)

    def into_headers(
        self, headers: dict[str, str], checked: httpx.URL, inserted: Inserted
    ) -> dict[str, str]:
        """Return headers with the secrets that their values name; see `into_url`."""
        return {
            name: self._into(value, "header", checked, inserted, _in_header)
            for name, value in headers.items()
        }

    def into_body(self, body: str, checked: httpx.URL, inserted: Inserted) -> str:
        """Return a JSON body with the secrets that its strings name; see `into_url`."""
        if _LOOKS not in body:
            return body
        try:
            hold(body.encode())
            data = json.loads(body)
        except TooMuchError as error:
            raise HostRefusal("bad_request", f"a body around {{{{secret:...}}}}: {error}") from None
        except (ValueError, RecursionError):
            raise HostRefusal(
                "bad_request",
                "found {{secret:...}} in a body that is no JSON, expected it in a string of JSON",
            ) from None

        def walk(value: Any) -> Any:
            if isinstance(value, str):
                return self._into(value, "body", checked, inserted, str)
            if isinstance(value, list):
                return [walk(one) for one in value]
            if isinstance(value, dict):
                return {key: walk(one) for key, one in value.items()}
            return value

        try:
            made = json.dumps(walk(data), ensure_ascii=False)
            made.encode()
        except (ValueError, RecursionError):
            raise HostRefusal(
                "bad_request",
                "found a body that cannot be written as JSON again, expected whole characters and "
                "less nesting around {{secret:...}}",
            ) from None
        if _LOOKS in made:
            raise HostRefusal(
                "bad_request", "found {{secret:...}} in a key of JSON, expected it in a value"
            )
        return made

    def _into(
        self,
        text: str,
        place: Place,
        checked: httpx.URL,
        inserted: Inserted,
        written: Callable[[str], str],
    ) -> str:
        def put(match: re.Match[str]) -> str:
            name = match[1]
            if not self._granted.inserts(name, place, checked):
                raise HostRefusal(
                    "not_granted",
                    f"the secret {name[:80]!r} is not granted in the {place} of a request to "
                    f"{checked.host}: expected a grant `secret:{name[:80]} -> {place} @ URL`",
                )
            value = inserted.values[name] = self._value(name)
            if place == "body":
                inserted.body.add(name)
            return written(value)

        made = _MARK.sub(put, text)
        if _LOOKS in text and _LOOKS in _MARK.sub("", text):
            raise HostRefusal(
                "bad_request", f"found a {{{{secret: without its end in the {place}, expected }}}}"
            )
        return made

    def _value(self, name: str) -> str:
        value = self._secrets.get(name)
        if value is None:
            ways = "; or ".join(self._secrets.how_to_set(name))
            raise HostRefusal("unavailable", f"the secret {name} is not set: {ways}")
        if len(value) < MIN_MASKED:
            raise HostRefusal(
                "unavailable",
                f"the secret {name} is shorter than {MIN_MASKED} characters: it could not be "
                "taken out of what comes back",
            )
        self._secrets.register(value)
        return value


def _has_body(request: httpx.Request) -> bool:
    # By what is sent, not by the method: a redirect keeps the body of a GET as well.
    stream = request.stream
    return not isinstance(stream, httpx.ByteStream) or any(stream)


def _in_path(value: str) -> str:
    # A colon may stand in a segment, and some platforms take it there in no other form.
    return quote(value, safe=":")


def _in_header(value: str) -> str:
    if not value.isprintable() or not value.isascii():
        raise HostRefusal("unavailable", "a secret holds what no header can")
    return value


# -- ``http``: requests that the host sends for a guest --------------------------

# Method and URL are checked against the grants here, before anything else happens and again at
# each redirect; addresses, limits and credentials that must not cross origins are the way out's
# matter.

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
