"""Grants: URL patterns that say where a client of the way out may go.

Whoever states them, checks them beforehand or asks for such a client reads them here, so that
what is checked is what is used.

The grammar::

    grant  = scheme "://" host [":" port] path
    scheme = "http" | "https"
    host   = name | "*." name | IPv4 address | "[" IPv6 address "]"
    path   = "/" [characters] ["*"]

- Without a port, the scheme's own port is meant, and no other.
- ``*.example.com`` stands for every name below ``example.com``, at any depth, and not for
  ``example.com`` itself. The name behind ``*.`` has at least two labels.
- A path that ends in ``/*`` stands for everything below it; any other path for itself. The
  query is free.
- Everything else is refused: users, queries, fragments, other stars, names that end in a
  dot or in a number, addresses in other spellings than the canonical one.

A URL is read by ``httpx.URL`` and by nothing else: the grant is compared with its parts,
and the same parts are connected to and sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

from hookgate.kit.modules import httpx

__all__ = [
    "Address",
    "Grant",
    "Grants",
    "NotGrantedError",
    "Target",
    "parse_address",
    "service_url",
    "shown",
    "target_of",
]

Address: TypeAlias = IPv4Address | IPv6Address

PORTS = {"http": 80, "https": 443}

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# RFC 3986, section 3.3: pchar and "/"; the percent sign must begin a whole escape.
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()+,;=:@/-]|%[0-9A-Fa-f]{2})*")
MAX_NAME = 253
"""Characters of a name in DNS (RFC 1035, section 2.3.4, without the root's dot)."""


def parse_address(text: str) -> Address | None:
    """Return the address that `text` writes in its one canonical way, or None.

    IPv6 may be abbreviated in any legal way; a zone (``%eth0``) is not taken.
    """
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


class NotGrantedError(ValueError):
    """A URL cannot be read as one that a grant could name, or no grant names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The parts of a URL that a request and a grant are compared by.

    Attributes:
        scheme: http or https.
        host: A lower-case ASCII name, or a canonical IP address without brackets.
        port: The port, the scheme's own where the URL names none.
        path: The path as it is sent, percent-encoded.
        address: Whether the host is an IP address.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Location):
    """Where one request goes: what of its URL is checked, connected to and sent.

    Attributes:
        query: The query as it is sent, without the question mark.
    """

    query: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: httpx.URL) -> Target:
    """Read the parts of `url`.

    Raises:
        NotGrantedError: No grant can name it: another scheme, a user in it, an odd host.
    """
    return _target(url.scheme, url.userinfo, url.raw_host, url.port, url.raw_path)


def _target(
    scheme: str, userinfo: bytes, raw_host: bytes, port: int | None, raw_path: bytes
) -> Target:
    if scheme not in PORTS:
        raise NotGrantedError(f"its scheme is {scheme[:20]!r}: expected http or https")
    if userinfo:
        raise NotGrantedError("it names a user: credentials go into a header")
    host, address = _read_host(raw_host.decode("ascii"))
    path, _, query = raw_path.decode("ascii").partition("?")
    port = PORTS[scheme] if port is None else port
    return Target(scheme=scheme, host=host, port=port, path=path, query=query, address=address)


def _read_host(host: str) -> tuple[str, bool]:
    """Return the host in its canonical form, and whether it is an address."""
    if (address := parse_address(host)) is not None:
        return str(address), True
    if not host or len(host) > MAX_NAME or not _NAME.fullmatch(host):
        raise NotGrantedError(
            f"its host is {host[:80]!r}: expected letters, digits, hyphens and single dots"
        )
    # As in the WHATWG URL standard: what ends in a number is meant as an IPv4 address,
    # and resolvers read 127.1, 0x7f.1 and 2130706433 as one.
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise NotGrantedError(
            f"its host is {host[:80]!r}: expected an IPv4 address as four decimal numbers"
        )
    return host, False


def _climbs(path: str) -> bool:
    """Whether some server could read the path as one that leaves the folder it names.

    Servers and proxies decode escapes, once or twice, take a backslash for a slash, and
    drop what stands behind a semicolon.
    """
    data = path.encode()
    for _ in range(4):
        parts = re.split(rb"[/\\]", data)
        if any(part.partition(b";")[0] in (b".", b"..") for part in parts):
            return True
        decoded = unquote_to_bytes(data)
        if decoded == data:
            return False
        data = decoded
    return True  # Escaped more often than anybody writes on purpose.


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Location):
    """One URL pattern, read; `host` is without its ``*.``, `path` without its star.

    Attributes:
        text: As it was written.
        below: Whether every name below `host` is meant, and not `host` itself.
        prefix: Whether everything that begins with `path` is meant.
    """

    text: str
    below: bool
    prefix: bool

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Read a pattern.

        Raises:
            ValueError: It does not follow the grammar; says what was found and expected.
        """
        try:
            return cls._parse(text)
        except (ValueError, httpx.InvalidURL) as error:
            raise ValueError(
                f"found the grant {text[:200]!r}: {error}; expected a URL pattern such as "
                "https://api.example.com/v1/* or https://*.example.com/*"
            ) from None

    @classmethod
    def _parse(cls, text: str) -> Grant:
        match = re.fullmatch(r"(https?)://(\*\.)?([^/?#\\@*\s]+)(/[^?#*\s]*)(\*?)", text)
        if match is None:
            raise ValueError("it does not read as scheme, host, port and path")
        scheme, below, authority, path, star = match.groups()
        url = httpx.URL(f"{scheme}://{authority}{path}")
        target = target_of(url)
        if not 1 <= target.port <= 65_535 or authority.endswith(":"):
            raise ValueError("its port is not between 1 and 65535")
        if below and (target.address or "." not in target.host):
            raise ValueError("behind `*.` stands no name of at least two labels")
        if star and not path.endswith("/"):
            raise ValueError("its star does not stand behind a slash")
        if _climbs(path) or not _PATH.fullmatch(target.path):
            raise ValueError("its path has dot segments or characters that no path has")
        return cls(
            text=text,
            scheme=target.scheme,
            host=target.host,
            below=bool(below),
            port=target.port,
            path=target.path,
            prefix=bool(star),
            address=target.address,
        )

    def covers(self, target: Target) -> bool:
        """Whether the pattern names this target."""
        if (self.scheme, self.port) != (target.scheme, target.port):
            return False
        if self.below:
            if target.address or not target.host.endswith(f".{self.host}"):
                return False
        elif self.host != target.host:
            return False
        if self.prefix:
            return target.path.startswith(self.path)
        return target.path == self.path


KEPT = 64
"""URLs of a client that are known to be granted: most clients ask for the same few."""


class Grants:
    """All patterns of one client."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.grants = tuple(Grant.parse(text) for text in patterns)
        self._covered = lru_cache(maxsize=KEPT)(self._check)

    def check(self, url: httpx.URL) -> Target:
        """Return the target of `url`.

        Raises:
            NotGrantedError: No pattern names it.
        """
        return self._covered(url.scheme, url.userinfo, url.raw_host, url.port, url.raw_path)

    def _check(
        self, scheme: str, userinfo: bytes, host: bytes, port: int | None, path: bytes
    ) -> Target:
        target = _target(scheme, userinfo, host, port, path)
        covering = [grant for grant in self.grants if grant.covers(target)]
        if not covering:
            raise NotGrantedError(f"expected {self.described}")
        # What is granted whole may use any path, and a single path is what it is; below a
        # prefix nothing may climb out.
        prefixes = [grant.prefix and grant.path != "/" for grant in covering]
        if all(prefixes) and _climbs(target.path):
            raise NotGrantedError("its path has dot segments in it, written out or escaped")
        return target

    def names_localhost(self, host: str, port: int) -> bool:
        """Whether ``localhost`` itself is granted at this port."""
        return host == "localhost" and any(
            grant.host == host and grant.port == port and not grant.below for grant in self.grants
        )

    @property
    def described(self) -> str:
        """The patterns, for an error."""
        if not self.grants:
            return "nothing: no URL is granted here"
        texts = [grant.text for grant in self.grants[:5]]
        more = len(self.grants) - len(texts)
        return " or ".join(texts) + (f" or one of {more} more" if more else "")


def service_url(text: str, *, example: str, secret: str) -> httpx.URL:
    """Return the address of a service, as settings name it.

    Args:
        text: What was found.
        example: An address such as is expected.
        secret: Where a key goes, since none stands in an address.

    Raises:
        ValueError: It is none.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(f"it is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"expected an http or https URL, such as {example}")
    if url.userinfo or url.query or url.fragment:
        raise ValueError(f"expected no user, query or fragment in it; {secret}")
    return url


def shown(url: httpx.URL) -> str:
    """Return `url` for an error or the log: without user, query and fragment."""
    host = url.raw_host.decode("ascii", "replace")
    host = f"[{host}]" if ":" in host else host
    port = "" if url.port is None else f":{url.port}"
    path = url.raw_path.decode("ascii", "replace").partition("?")[0]
    return f"{url.scheme}://{host}{port}{path}"[:300]
