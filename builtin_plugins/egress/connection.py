"""Connections to the addresses that are allowed, looked up once and checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL as WireURL

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.builtin_plugins.egress.body import Body, Mapped
from hookgate.kit.url_grants import Address, Grants, NotGrantedError, Target, parse_address, shown

if TYPE_CHECKING:
    import ssl

_SPECIAL_4 = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified (this network)"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier's NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud platform's own service"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_SPECIAL_6 = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4-mapped form"),
        ("::/96", "an IPv4-compatible form"),
        ("::ffff:0:0:0/96", "an IPv4-translated form"),
        ("64:ff9b::/96", "a NAT64 form"),
        ("64:ff9b:1::/48", "a local NAT64 form"),
        ("100::/64", "reserved for discarding"),
        ("2001::/32", "a Teredo form"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "reserved for documentation"),
        ("2002::/16", "a 6to4 form"),
        ("3fff::/20", "reserved for documentation"),
        ("fc00::/7", "unique-local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

_GLOBAL_6 = IPv6Network("2000::/3")
"""The only block of IPv6 that is assigned as global unicast (IANA, IPv6 address space)."""

_PRIVATE: tuple[IPv4Network | IPv6Network, ...] = (
    *(
        IPv4Network(text)
        for text in (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
        )
    ),
    IPv6Network("::1/128"),
    IPv6Network("fc00::/7"),
)


@lru_cache(maxsize=1024)
def why_not_public(address: Address) -> str | None:
    """Return what sort of address this is where it is not public, else None."""
    if isinstance(address, IPv4Address):
        return next((reason for network, reason in _SPECIAL_4 if address in network), None)
    for network, reason in _SPECIAL_6:
        if address in network:
            return reason
    return None if address in _GLOBAL_6 else "reserved"


def is_loopback(address: Address) -> bool:
    """Whether the address is this machine: 127.0.0.0/8 or ::1, in no other form."""
    return address.is_loopback and not (
        isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    )


def is_private(address: Address) -> bool:
    """Whether an operator's own network may use it: loopback, private, shared, unique-local.

    Link-local is not among them: cloud platforms serve credentials there.
    """
    return any(address in network for network in _PRIVATE)


# -- resolver --------------------------------------------------------------------

# Resolving a name once, checking what it resolves to, and handing over just that.

Resolver: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"
"""``await resolve(host, port)`` returns the host's addresses, or raises `OSError`."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses that the system's resolver has for `host`."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in infos]


class CheckedResolver(AbstractResolver):
    """Resolves for aiohttp's connector, which connects to exactly what is returned.

    One lookup serves one connection: nothing between the check and the connection asks
    again, so a name cannot change its answer in between.
    """

    def __init__(
        self,
        name: str,
        grants: Grants,
        private_hosts: frozenset[str],
        resolve: Resolver,
    ) -> None:
        self._name = name
        self._grants = grants
        self._private_hosts = private_hosts
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the host's addresses, all of them checked.

        Raises:
            EgressDeniedError: One of the addresses is not public, and may not be otherwise.
            OSError: The host cannot be resolved.
        """
        found = list(dict.fromkeys(await self._resolve(host, port)))
        if not found:
            raise OSError(f"no addresses for {host}")
        results: list[ResolveResult] = []
        for text in found:
            address = parse_address(text)
            self._check(host, port, text, address)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET6 if ":" in text else socket.AF_INET,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    def _check(self, host: str, port: int, text: str, address: Address | None) -> None:
        if address is None:
            raise EgressDeniedError(
                f"{self._name}: {host} resolves to {text[:80]!r}: expected an IP address "
                "without a zone; nothing was sent"
            )
        reason = why_not_public(address)
        if reason is None:
            return
        if self._grants.names_localhost(host, port) and is_loopback(address):
            return
        if is_private(address) and not self._private_hosts.isdisjoint((host, f"{host}:{port}")):
            return
        raise EgressDeniedError(
            f"{self._name}: {host} resolves to {address}, which is {reason}: expected public "
            f"addresses only; nothing was sent. If this is meant, grant the address itself, or "
            f"add `{host}:{port}` to `private_hosts` in [plugin.egress]"
        )

    async def close(self) -> None:
        """Hold nothing, release nothing."""


# -- transport -------------------------------------------------------------------

# The transport: aiohttp below httpx's API, connected to addresses that were checked.
#
# aiohttp relays a streamed chunk for about a third of what httpx's own transport costs. The
# adapter is written here because the address must be pinned, and because a URL that is handed
# over as text would be parsed, and its escapes decoded, a second time: what was checked would not
# be what is asked for.

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

HEARTBEAT_SECONDS, CLOSE_SECONDS = 30.0, 1.0
"""How often the other end of a WebSocket is asked whether it is there, and how long it may take
to close one."""

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
        tls: Returns the TLS settings, which verify certificates and names.
    """

    def __init__(
        self,
        name: str,
        grants: Grants,
        *,
        resolve: Resolver,
        private_hosts: frozenset[str],
        max_bytes: int,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
    ) -> None:
        self._name = name
        self._grants = grants
        self._max_bytes = max_bytes
        self._tls = tls
        self._resolver = CheckedResolver(name, grants, private_hosts, resolve)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def check(self, request: httpx.Request, headers: Sequence[tuple[str, str]] = ()) -> Target:
        """Return where `request` goes.

        Args:
            request: The request.
            headers: Its headers.

        Raises:
            EgressDeniedError: It lies outside the grants.
        """
        try:
            target = self._grants.check(request.url)
            if request.method.upper() in REFUSED_METHODS:
                raise NotGrantedError("its method is for proxies: expected GET, POST or the like")
            host = ", ".join([value for name, value in headers if name == "host"])
            if host and host.lower() != target.authority:
                asked = httpx.URL(f"{target.scheme}://{host}/")
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
        sent = _decoded(request.headers)
        target = self.check(request, sent)
        phases = request.extensions.get("timeout", {})
        with Mapped(self._name, request):
            # Without TLS this is what aiohttp has by itself, and nothing looks at it.
            tls = await self._tls() if target.scheme == "https" else True
            response = await self._open().request(
                request.method,
                _wire_url(target),
                headers=[pair for pair in sent if pair[0] not in CONNECTION_HEADERS],
                data=_body(request),
                allow_redirects=False,
                ssl=tls,
                timeout=aiohttp.ClientTimeout(
                    total=_left(request),
                    # The time in which a connection must be there: the lookup, TCP and TLS.
                    connect=phases.get("connect"),
                    sock_read=phases.get("read"),
                ),
            )
        headers = self._headers(response, request)
        body = Body(
            response,
            request,
            name=self._name,
            limit=self._max_bytes,
            silence=phases.get("read"),
        )
        return httpx.Response(
            response.status,
            headers=headers,
            stream=body,
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (response.reason or "").encode("ascii", "replace"),
                "limit_silence": body.limit_silence,
                "gather": body.gather,
                # httpx wraps the stream into one more; who relays each chunk can do without.
                "chunks": body,
            },
        )

    async def websocket(self, url: str, *, timeout: float) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket; what is granted, resolved and connected to is as for a request.

        Args:
            url: Where to, ``ws:`` or ``wss:``.
            timeout: The seconds until it has to be open.

        Raises:
            EgressDeniedError: It lies outside the grants, or leads on to elsewhere.
            EgressFailedError: It could not be opened.
        """
        if not url.startswith(("ws:", "wss:")):
            raise EgressDeniedError(f"{self._name}: found another URL than ws: or wss:")
        try:
            request = httpx.Request("GET", f"http{url[2:]}")
        except httpx.InvalidURL as error:
            raise EgressDeniedError(f"{self._name}: the URL cannot be read: {error}") from None
        target = self.check(request)
        with Mapped(self._name, request):
            async with asyncio.timeout(timeout):
                return await self._open(watched=self._no_redirects()).ws_connect(
                    _wire_url(target),
                    max_msg_size=self._max_bytes,
                    heartbeat=HEARTBEAT_SECONDS,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                    ssl=await self._tls() if target.scheme == "https" else True,
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

    def _open(self, watched: aiohttp.TraceConfig | None = None) -> aiohttp.ClientSession:
        if self._closed:
            raise EgressFailedError(f"{self._name}: the client is closed", kind="connect")
        if watched is not None and self._session is not None:
            raise RuntimeError("a transport is for requests, or for one WebSocket")
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                use_dns_cache=False,
                # Callers bound how much they do at once; a wait here would look to
                # them like an upstream that does not answer.
                limit=0,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                # Each request of a session that is watched costs a dozen calls.
                trace_configs=None if watched is None else [watched],
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session

    def _no_redirects(self) -> aiohttp.TraceConfig:
        """Refuse redirects that aiohttp would follow by itself, as it does for a WebSocket."""

        async def refuse(*_: object) -> None:
            raise EgressDeniedError(
                f"{self._name}: a WebSocket is redirected to elsewhere; it was not followed"
            )

        config = aiohttp.TraceConfig()
        config.on_request_redirect.append(refuse)
        return config

    async def aclose(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None


def _decoded(headers: httpx.Headers) -> list[tuple[str, str]]:
    """Return headers as text, with names in lower case."""
    raw = headers.raw
    try:
        return [(key.decode("ascii").lower(), value.decode("ascii")) for key, value in raw]
    except UnicodeDecodeError:
        encoding = headers.encoding  # found out anew, of all headers, for each that is read
        return [(key.decode(encoding).lower(), value.decode(encoding)) for key, value in raw]


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


def _left(request: httpx.Request) -> float | None:
    """Return the seconds until the request's deadline, which its redirects share."""
    deadline = request.extensions.get("deadline")
    if deadline is None:
        return None
    # 0 would mean "no limit" to aiohttp.
    return max(float(deadline) - asyncio.get_running_loop().time(), 0.001)
