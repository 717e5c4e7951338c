"""Who asks: the one decision that WebSocket, HTTP, webhooks and compat endpoints share.

A listener without tokens serves this machine's loopback, and of it the user that the
gateway runs as, and root. Once the settings name a token, everybody needs one, loopback
included: who comes from loopback may be a proxy, with anybody behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.attempts import Attempts
from hookgate.core.gateway.codes import wire_error
from hookgate.core.gateway.forwarded import forwarded_header
from hookgate.core.gateway.origin import (
    HostRule,
    OriginRule,
    Proxies,
    address_key,
    canonical,
    is_loopback,
    is_loopback_bind,
)
from hookgate.core.gateway.peer import PeerLookup
from hookgate.core.gateway.tokens import PREFIX, token_book

if TYPE_CHECKING:
    import asyncio

    from aiohttp import web

    from hookgate.core.domain.operations import Access
    from hookgate.core.domain.turn import Scope
    from hookgate.core.gateway.origin import IPAddress
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import Settings

__all__ = ["SUBPROTOCOL", "Caller", "Gate", "check_listener", "offered_protocols"]

SUBPROTOCOL = "hookgate"
"""The WebSocket subprotocol; a browser offers it beside ``bearer.TOKEN``."""

BEARER_PROTOCOL = "bearer."

MAX_TOKEN = 512
"""Characters of the longest token that is looked at."""

_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_QUERY_NAMES = frozenset(
    ("token", "access_token", "auth", "authorization", "api_key", "apikey", "bearer", "secret")
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was let in.

    Attributes:
        principal: Who it is.
        token: The name of the token, or "" for the owner on loopback.
    """

    principal: Principal
    token: str = ""


_OWNER = Caller(Principal.owner())


def check_listener(settings: Settings) -> None:
    """Refuse settings under which strangers could come in.

    Raises:
        StartError: It would listen beyond loopback, or believe proxies, without a token.
    """
    gateway = settings.gateway
    if gateway.tokens:
        return
    how = (
        "run `hookgate token new NAME` and put what it prints into the settings, "
        "as [gateway.tokens.NAME]"
    )
    if not is_loopback_bind(gateway.host):
        raise StartError(
            f"gateway.host is {gateway.host!r}, which others can reach, and there is no token: "
            f"{how}; or listen on 127.0.0.1"
        )
    if gateway.trusted_proxies:
        raise StartError(
            f"gateway.trusted_proxies is set, and there is no token: whoever reaches the proxy "
            f"would own the gateway; {how}"
        )


def offered_protocols(request: web.Request) -> list[str]:
    """Return the WebSocket subprotocols that the client offers."""
    offers = ",".join(request.headers.getall("Sec-WebSocket-Protocol", ()))
    return [offer.strip() for offer in offers.split(",") if offer.strip()]


class Gate:
    """Lets requests in, or says why not. One for each gateway.

    Attributes:
        attempts: The failed authentications, by address.
        tokens: The tokens; ``tokens.evaluated`` counts comparisons.
    """

    def __init__(self, host: Host, *, peers: PeerLookup | None = None) -> None:
        settings = host.settings.gateway
        self.tokens = token_book(host)
        self.attempts = Attempts(settings.limits.attempts_per_minute, host.clock.monotonic)
        self._hosts = HostRule(settings.allowed_hosts)
        self.origins = OriginRule(settings.allowed_origins)
        self._proxies = Proxies(settings.trusted_proxies)
        self._peers = peers or PeerLookup()
        self._checked: WeakKeyDictionary[asyncio.BaseTransport, bool] = WeakKeyDictionary()

    def close(self) -> None:
        """Close what was opened."""
        self._peers.close()

    def admit(self, request: web.Request, access: Access) -> Caller | None:
        """Decide on one request: may it use a route with this access?

        Returns:
            Who asks; None for a route that is public or checks for itself.

        Raises:
            WireError: It may not.
        """
        self.check_wire(request)
        if access.kind != "scoped":
            return None
        caller = self.identify(request)
        if caller is None:
            raise wire_error(
                "unauthorized",
                "this gateway needs a token, and none came with the request",
                action="send `Authorization: Bearer TOKEN`",
            )
        self.check_scope(caller.principal, access.scope)
        return caller

    @staticmethod
    def check_scope(principal: Principal, scope: Scope | None) -> None:
        """Refuse a principal without `scope`.

        Raises:
            WireError: It lacks it.
        """
        if scope is not None and scope not in principal.scopes:
            raise wire_error(
                "forbidden",
                f"{principal.id} has the scopes {sorted(principal.scopes)}, expected {scope!r}",
                action=f"use a token with the scope `{scope}`",
            )

    # -- what every request must pass ----------------------------------------

    def check_wire(self, request: web.Request) -> None:
        """Check that a request was meant for this gateway and was not made by a foreign page.

        Raises:
            WireError: Its target, Host, Origin, query or forwarded headers say otherwise.
        """
        if not request.raw_path.startswith("/"):
            raise wire_error(
                "bad_target",
                "found a request target that is not a path",
                action="send `GET /path`; this gateway is no proxy",
            )
        peer, (local, port) = self._ends(request)
        headers = request.headers
        authority = self._hosts.check(headers, local, port)
        if not self.tokens.configured and (name := forwarded_header(headers)) is not None:
            raise wire_error(
                "forwarded",
                f"found the header {name}: a proxy stands before a listener without tokens, so "
                "everybody behind it would own the gateway",
                action="make a token with `hookgate token new`, and name the proxy in "
                "`gateway.trusted_proxies`",
            )
        if request.method not in _SAFE_METHODS or "Upgrade" in headers:
            scheme = self._proxies.scheme(peer, headers)
            self.origins.check(headers, authority, scheme=scheme)
        if request.query_string:
            self._check_query(request)

    @staticmethod
    def _check_query(request: web.Request) -> None:
        for name, value in request.query.items():
            if name.lower() in _QUERY_NAMES or value.startswith(PREFIX):
                raise wire_error(
                    "unauthorized",
                    "found a token in the query string, where logs and histories keep it",
                    action="send `Authorization: Bearer TOKEN`; in a browser offer the "
                    "subprotocols `hookgate, bearer.TOKEN`; and replace this token",
                )

    @staticmethod
    def _ends(request: web.Request) -> tuple[IPAddress | None, tuple[str, int]]:
        """Return the peer's address, and the address and port at which the request arrived."""
        transport = request.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        local = transport.get_extra_info("sockname") if transport is not None else None
        if not isinstance(peer, tuple) or not isinstance(local, tuple):
            raise wire_error(
                "bad_target", "the connection has no address", action="connect over TCP"
            )
        return canonical(peer[0]), (local[0], local[1])

    # -- who asks --------------------------------------------------------------

    def identify(self, request: web.Request) -> Caller | None:
        """Return who asks; None where a token is needed and none was presented.

        Raises:
            WireError: A token was presented and is not known; or this address has failed
                too often, and nothing was compared; or a stranger asks on loopback.
        """
        if not self.tokens.configured:
            return self._owner(request)
        address = self.address_of(request)
        self.check_attempts(address)
        presented = _presented(request)
        return None if presented is None else self.redeem(address, presented)

    def redeem(self, address: str, presented: str) -> Caller:
        """Return who comes with the token `presented`.

        Args:
            address: The client's, from `address_of`.
            presented: What was presented as a token.

        Raises:
            WireError: It is not known, or this address has failed too often.
        """
        self.check_attempts(address)
        token = self.tokens.redeem(presented) if 0 < len(presented) <= MAX_TOKEN else None
        if token is None:
            self.attempts.failed(address)
            raise wire_error(
                "unauthorized",
                "this token is not known, or has been revoked",
                action="check the token; `hookgate token new` makes another one",
            )
        return Caller(token.principal, token.name)

    def check_attempts(self, address: str) -> None:
        """Refuse an address that has failed too often, before anything is compared.

        Raises:
            WireError: It has.
        """
        wait = self.attempts.wait(address)
        if wait > 0:
            raise wire_error(
                "too_many_attempts",
                "too many failed authentications from this address",
                action=f"wait {wait:.0f} s",
                retry_after=round(wait, 1),
            )

    def address_of(self, request: web.Request) -> str:
        """Return what this request's failed attempts are counted by."""
        peer, _ = self._ends(request)
        if peer is None:
            return "unknown"
        return address_key(self._proxies.client(peer, request.headers))

    def _owner(self, request: web.Request) -> Caller:
        transport = request.transport
        peer, _ = self._ends(request)
        assert transport is not None, "a connection that has ends has a transport"
        trusted = self._checked.get(transport)
        if trusted is None:
            trusted = is_loopback(peer) and self._same_user(transport)
            self._checked[transport] = trusted
        if not trusted:
            raise wire_error(
                "unauthorized",
                "this listener has no tokens and serves only its own user, from this machine",
                action="make a token with `hookgate token new`",
            )
        return _OWNER

    def _same_user(self, transport: asyncio.BaseTransport) -> bool:
        if not self._peers.enabled:
            return True
        peer, local = (transport.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        user = self._peers.user_of(peer, local)
        return user is not None and user.trusted


def _presented(request: web.Request) -> str | None:
    """Return the token that came with a request; "" for one that cannot be right."""
    given = request.headers.getall("Authorization", ())
    protocols = [
        offer.removeprefix(BEARER_PROTOCOL)
        for offer in offered_protocols(request)
        if offer.startswith(BEARER_PROTOCOL)
    ]
    if len(given) + len(protocols) > 1:
        raise wire_error(
            "unauthorized",
            "found more than one token, expected one",
            action="send one `Authorization: Bearer TOKEN`",
        )
    if protocols:
        return protocols[0]
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
