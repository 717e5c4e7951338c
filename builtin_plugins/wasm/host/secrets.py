"""Putting secrets into requests: the guest names them, and the host knows them.

``{{secret:NAME}}`` may stand in the value of a header, in the path and in the strings of a JSON
body. What was put in is remembered with the request, so that a redirect takes none of it to where
no grant names it, and is taken out of what comes back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from hookgate import Secrets
from hookgate.builtin_plugins.wasm.bounds import TooMuchError, hold
from hookgate.builtin_plugins.wasm.host.functions import HostRefusal
from hookgate.settings import MASK, MIN_MASKED

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.grants import Granted, Place

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
