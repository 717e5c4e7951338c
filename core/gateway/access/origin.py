"""Whether a request was meant for this gateway, and by whom: Host, Origin, proxies.

A browser sends requests for whichever page it shows. The Host header tells the names by
which the page reached us (DNS rebinding makes that the attacker's own name); the Origin
header tells whose page asks. Both are checked before anything else is looked at.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_AUTHORITY = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#@\\]+)")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Authority:
    """A host and a port, as in a Host header: lower case, addresses without brackets."""

    host: str
    port: int | None = None


# Bounded, since strangers choose what is read here, too; servers hold a head to some kilobytes.
@lru_cache(maxsize=1024)
def read_authority(text: str) -> Authority | None:
    """Read ``host[:port]``; None where it is malformed.

    Names keep their form but for the case: ``localhost.`` and ``127.1`` are other names,
    and other names are not ours.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 0 < port < 65_536:
        return None
    host = match["host"].lower()
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return None
    return Authority(host, port)


# A request asks five times for the same two addresses, and reading one is slow. Bounded, since
# strangers choose what is read here.
@lru_cache(maxsize=1024)
def canonical_address(address: str) -> IPAddress | None:
    """Return an address without scope, IPv4-mapped ones folded; None where it is none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


@lru_cache(maxsize=1024)
def address_key(address: IPAddress) -> str:
    """Return what attempts are counted by: an IPv4 address, or an IPv6 network of 64 bits.

    Whoever has one IPv6 address usually has its whole /64 (RFC 6177).
    """
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def is_loopback(address: IPAddress | None) -> bool:
    """Whether this address is the machine's own loopback."""
    return address is not None and address.is_loopback


def is_loopback_bind(host: str) -> bool:
    """Whether a listener bound to `host` can be reached from this machine only."""
    return host.lower() == "localhost" or is_loopback(canonical_address(host.strip("[]")))


@lru_cache(maxsize=64)
def own_authorities(local: str, port: int) -> frozenset[Authority]:
    """Return the names under which a listener on `local`:`port` is reached without settings.

    The wildcard address is not among them: no honest client sends it, and browsers used
    to let pages reach loopback by it.
    """
    hosts = set(_LOOPBACK_NAMES)
    address = canonical_address(local)
    if address is not None and not address.is_unspecified:
        hosts.add(str(address))
    return frozenset(Authority(host, port) for host in hosts)


class HostRule:
    """Which Host headers are ours.

    Args:
        allowed: ``gateway.allowed_hosts``. ``name`` stands for the name alone and with the
            listener's port, ``name:port`` for exactly that.

    Raises:
        StartError: An entry is no host.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed: set[Authority] = set()
        for entry in allowed:
            authority = read_authority(entry)
            if authority is None:
                raise StartError(
                    f"gateway.allowed_hosts: found {entry!r}, expected a name such as "
                    "`gateway.example` or `gateway.example:8443`; `*` is not possible"
                )
            self._allowed.add(authority)

    def check(
        self, headers: CIMultiDictProxy[str], local: str, port: int, *, probe: bool = False
    ) -> Authority:
        """Return the request's authority.

        Args:
            headers: The request's headers.
            local: The address at which the request arrived.
            port: The port at which it arrived.
            probe: Whether the route is one that load balancers ask. They send no Host, as
                HTTP/1.0 allows, or the address that they know the gateway by. A page whose
                name was bound to our address always names itself, so it stays out.

        Raises:
            WireError: There is not exactly one Host header, or it names somebody else.
        """
        given: Sequence[str] = headers.getall("Host", ())
        if probe and not given:
            return Authority(local, port)
        authority = read_authority(given[0]) if len(given) == 1 else None
        if authority is None:
            raise wire_error(
                "bad_target",
                f"found {len(given)} Host headers, expected exactly one, as `host:port`"
                if len(given) != 1
                else "found a malformed Host header, expected `host:port`",
                action="send the Host header of the address that you connect to",
            )
        complete = Authority(authority.host, authority.port or _DEFAULT_PORTS["http"])
        if complete in own_authorities(local, port) or self._named(authority, port):
            return authority
        if probe and (address := canonical_address(authority.host)) and not address.is_unspecified:
            return authority
        raise wire_error(
            "wrong_host",
            f"this gateway is not {given[0][:100]!r}",
            action="use the address that it listens on, or add the name to `gateway.allowed_hosts`",
        )

    def _named(self, authority: Authority, port: int) -> bool:
        if authority in self._allowed:
            return True
        return authority.port == port and Authority(authority.host) in self._allowed


class OriginRule:
    """Which web pages may ask: our own, and those of ``gateway.allowed_origins``."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = frozenset(origin.lower() for origin in allowed)

    def listed(self, origin: str) -> bool:
        """Whether the settings name this origin."""
        return origin.lower() in self._allowed

    def check(
        self, headers: CIMultiDictProxy[str], authority: Authority, *, scheme: str = "http"
    ) -> None:
        """Refuse a request that a foreign page makes. Programs send no Origin and pass.

        Args:
            headers: The request's headers.
            authority: The request's own, from its Host header.
            scheme: ``http``; ``https`` where a trusted proxy says so.

        Raises:
            WireError: The Origin is another one.
        """
        given: Sequence[str] = headers.getall("Origin", ())
        if not given:
            return
        if len(given) == 1 and (self.listed(given[0]) or _same(given[0], authority, scheme)):
            return
        raise wire_error(
            "wrong_origin",
            f"found Origin {given[0][:100]!r}, expected the gateway's own",
            action="open the gateway's own page, or add the origin to `gateway.allowed_origins`",
        )


def check_own_page(
    headers: CIMultiDictProxy[str], authority: Authority, *, scheme: str = "http"
) -> None:
    """Refuse a request that does not come from a page of the gateway's own origin.

    A browser sends cookies with whatever a page asks for, also where that only reads. Each
    request with one must say where it comes from: by `Sec-Fetch-Site`, which no page can set, or
    by the Origin. Listed origins are others, too.

    Args:
        headers: The request's headers.
        authority: The request's own, from its Host header.
        scheme: ``http``; ``https`` where a trusted proxy says so.

    Raises:
        WireError: It comes from elsewhere, or does not say.
    """
    sites, origins = headers.getall("Sec-Fetch-Site", ()), headers.getall("Origin", ())
    told = [site == "same-origin" for site in sites]
    told += [_same(origin, authority, scheme) for origin in origins]
    # Typed into the address bar, or opened from a bookmark: no page has a part in it.
    typed = list(sites) == ["none"] and not origins
    if typed or (told and all(told) and len(sites) <= 1 and len(origins) <= 1):
        return
    raise wire_error(
        "wrong_origin",
        "found a cookie in a request that does not say it comes from the gateway's own page",
        action="send the credential in the `Authorization` header",
    )


def _same(origin: str, authority: Authority, scheme: str) -> bool:
    """Whether `origin` is the origin of `authority` (RFC 6454, section 4)."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or match["scheme"] != scheme:
        return False
    other = read_authority(match["authority"])
    default = _DEFAULT_PORTS[scheme]
    return other is not None and (other.host, other.port or default) == (
        authority.host,
        authority.port or default,
    )


class Proxies:
    """The proxies whose forwarded headers are believed: ``gateway.trusted_proxies``.

    Raises:
        StartError: An entry is no address and no network.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in trusted:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                raise StartError(
                    f"gateway.trusted_proxies: found {entry!r}, expected an address such as "
                    "`10.0.0.7` or a network such as `10.0.0.0/24`"
                ) from None

    def trusts(self, address: IPAddress | None) -> bool:
        """Whether `address` is a proxy that is believed."""
        if address is None or not self._networks:
            return False
        return any(address in network for network in self._networks)

    def client(self, peer: IPAddress, headers: CIMultiDictProxy[str]) -> IPAddress:
        """Return the client's address: the last one in the chain that is no trusted proxy."""
        if not self.trusts(peer):
            return peer
        chain = ",".join(headers.getall("X-Forwarded-For", ())).split(",")
        for hop in reversed(chain):
            address = canonical_address(hop.strip())
            if address is None:
                return peer
            if not self.trusts(address):
                return address
        return peer

    def scheme(self, peer: IPAddress | None, headers: Mapping[str, str]) -> str:
        """Return the scheme that the client used, as far as a trusted proxy says."""
        said = headers.get("X-Forwarded-Proto", "") if self.trusts(peer) else ""
        return "https" if said.strip().lower() == "https" else "http"


# -- forwarded -------------------------------------------------------------------

# What proxies, tunnels and content networks add to a request, so that one is noticed.
#
# A listener without tokens takes whoever reaches it for its owner. A header that only something
# in between would add says that somebody else is the real client.
#
# The names come from the documentation of the products themselves. What no table knows yet is
# judged by the words of its name: whatever speaks of a way between client and gateway, or of who
# the client is, was added on that way, since a client has no need to say it. That goes for every
# name but those that clients are known to send, so that what nobody has heard of is refused.

_NAMES = frozenset(
    (
        # HTTP itself (RFC 8470), nginx, IIS and the URL rewriters of both
        "early-data", "rewrite-url", "host", "request-start", "queue-start", "front-end-https",
        # Varnish, Squid, Heroku
        "varnish", "squid-error", "surrogate-capability", "connect-time", "total-route-time",
        # AWS, Google
        "amzn-trace-id", "cloud-trace-context", "serverless-authorization",
    )
)  # fmt: skip
"""Names, without ``x-``, whose words give nothing away."""

_PREFIXES = (
    # content networks: Cloudflare, CloudFront, Fastly, Akamai, Alibaba, Imperva, Sucuri
    "cf-", "cloudfront-", "amz-cf-", "fastly-", "akamai-", "ali-", "incap-", "sucuri-",
    "eagleeye-",
    # clouds and hosts: AWS load balancers, Azure, App Service, App Engine, Vercel, Netlify, Fly,
    # DigitalOcean, Heroku, Render, Railway
    "amzn-mtls-", "amzn-oidc-", "azure-", "arr-", "appgw-", "fd-", "appengine-", "vercel-", "nf-",
    "fly-", "do-", "heroku-", "rndr-", "railway-",
    # proxies and gateways: Envoy, Traefik, Kong, Apache
    "envoy-", "traefik-", "kong-", "consumer-", "original-",
    # proxies that authenticate: Authelia, oauth2-proxy, Authentik, Pomerium, Vouch, Azure
    "auth-request-", "authelia-", "authentik-", "authenticated-", "pomerium-", "vouch-", "webauth-",
    "ms-client-principal", "ms-token-",
)  # fmt: skip
"""What the names of a vendor begin with, without ``x-``."""

_CLIENTS = frozenset(
    (
        "host", "origin", "user-agent", "x-user-agent", "http-referer", "x-goog-user-project",
    )
)  # fmt: skip
"""What clients send although its words are those of the rule below."""

_CLIENT_PREFIXES = (
    # Browsers alone can set the first two; the others are SDKs of model vendors and MCP.
    "sec-", "access-control-", "anthropic-", "openai-", "x-stainless-", "mcp-",
)  # fmt: skip

_BETWEEN = re.compile(
    r"""
    # Wherever it stands, also within a word: X-Forwarder-For, XForwardedFor, Devtunnel-Id.
    forward | prox(?:y|ied) | tunnel | tailscale | ngrok | cloudflare | ingress | funnel
    # A word of its own, or its beginning.
    | (?:^|-) (?: relay | gateway | balanc | upstream | downstream | bastion | edge | vpn ) [a-z]*
    | (?:^|-) (?: cdn | via | hops? | lb | waf | nat | mesh | node ) (?:-|$)
    """,
    re.VERBOSE,
)
"""What speaks of a way between client and gateway."""

_WHOSE = re.compile(
    r"""
    # Whose address is told is told by somebody in between, and so is who it is.
    (?:^|-) (?:
        ips? | ipv[46] | addr | remote | peer | visitor | viewer | external
        | real-?(?:ip|port|client)
        | (?:client|real|connecting|source|src|origin|original|originating|user|socket|true
          |end-?user) -? (?:ip|ips|ipv4|ipv6|addr|address|port|host)
        | users? | user-?(?:name|id|info|email) | e?mail | login | logon | groups? | roles?
        | principal | identity | subject | assertion | jwt | claims? | certs? | certificate
        | ssl | tls | dn | proto | scheme | country | city | geo(?:ip)? | asn | latitude | longitude
    ) (?:-|$)
    | .-(?: address | host ) (?:-|$)
    """,
    re.VERBOSE,
)
"""What says who the client is, where it is, or how it came."""


def forwarded_header(names: Iterable[str]) -> str | None:
    """Return the first header that a proxy has added, if there is one."""
    for name in names:
        # Some servers and scripts write `_` for `-`, and none of these names differ by it.
        plain = name.lower().replace("_", "-")
        if plain in _CLIENTS or plain.startswith(_CLIENT_PREFIXES):
            continue
        bare = plain.removeprefix("http-").removeprefix("x-")
        if (
            bare in _NAMES
            or bare.startswith(_PREFIXES)
            or _BETWEEN.search(bare)
            or _WHOSE.search(bare)
        ):
            return name
    return None
