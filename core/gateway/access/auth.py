"""Who asks: the one decision that WebSocket, HTTP, webhooks and compat endpoints share.

What somebody presents is looked for in the settings' tokens, then plugins are asked. A listener
without tokens serves this machine's loopback, and of it the user that the gateway runs as, and
root, where they present nothing. Once the settings name a token, everybody needs one, loopback
included: who comes from loopback may be a proxy, with anybody behind it. The commands of the home's
own user need none: they show that they have read the key that lies there.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hookgate import hookspecs
from hookgate.core.domain.errors import HookError, StartError, WireError
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.turn import ALL_SCOPES, Claim, Credential, Principal, Scope
from hookgate.core.gateway.access.browser import BrowserSessions, of_plugin
from hookgate.core.gateway.access.credentials import (
    COOKIE,
    FORMS,
    SESSION,
    SESSION_COOKIES,
    Attempts,
    bearer,
    read_credential,
)
from hookgate.core.gateway.access.origin import (
    HostRule,
    IPAddress,
    OriginRule,
    Proxies,
    address_key,
    canonical_address,
    check_own_page,
    forwarded_header,
    is_loopback,
    is_loopback_bind,
)
from hookgate.core.gateway.access.peer import NONCE_HEADER, OWNER_PREFIX, PeerLookup, prove_owner
from hookgate.core.gateway.access.tokens import PREFIXES, token_book
from hookgate.core.gateway.codes import wire_error
from hookgate.core.gateway.proxy_protocol import Announced
from hookgate.core.gateway.sockets import peer_is_ours
from hookgate.core.settings.secret_store import masking

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate.core.gateway.routes import Access
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import Settings

SUBPROTOCOL = "hookgate"
"""The WebSocket subprotocol; a browser offers it beside ``bearer.TOKEN``."""

MAX_TOKEN = 512
"""Characters of the longest token of the settings that is looked at."""

KEYS_OPERATION = "keys.new"
"""The operation by which a plugin makes keys for clients, where one does."""

UNIX_PORT = 80
"""The port that Host headers name over a Unix socket: none."""

_HERE = ipaddress.IPv4Address("127.0.0.1")
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_QUERY_NAMES = frozenset(
    (
        *("token", "access_token", "auth", "authorization", "bearer", "secret"),
        *("api_key", "apikey", "x-api-key"),
    )
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was let in.

    Attributes:
        principal: Who it is.
        token: The name of the token, or "" for the owner on loopback.
        session: The browser's session that stands for it, or "".
    """

    principal: Principal
    token: str = ""
    session: str = ""


_OWNER = Caller(Principal.owner())

_RESERVED = re.compile(r"loopback|embedded|token:.*", re.DOTALL)
_ID = re.compile(r"[^\x00-\x20\x7f]{1,256}")


_GENERATED = re.compile(rf"(?:{'|'.join(PREFIXES)})[A-Za-z0-9_-]{{43}}")
"""The form of `new_token` and of clients' keys: 256 random bits, so that comparing one more guess
gives nothing away. What is shorter somebody may have thought up, and has the limit before it."""


def _digest(credential: Credential) -> bytes:
    """Return what a credential is remembered by."""
    shown = f"{credential.kind}\0{credential.value}"
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).digest()


def _counted(client: IPAddress | None) -> str:
    """Return what the failed attempts of a client are counted by."""
    return "unknown" if client is None else address_key(client)


@lru_cache(maxsize=1024)
def _shown(client: IPAddress | None) -> str:
    """Return a client's address as plugins are told it."""
    return "" if client is None else str(client)


def flaw_of(principal: Any) -> str | None:
    """Return why the `Principal` that a plugin named cannot be let in; None where it can.

    Annotations hold nobody back: scopes that were given as one text, for example, would answer
    every question about a part of it with yes.
    """
    texts = (principal.agents, principal.models)
    expires = principal.expires
    checks = (
        (isinstance(principal.id, str) and _ID.fullmatch(principal.id), "its id is no name"),
        (not _RESERVED.fullmatch(str(principal.id)), "its id is one of the gateway's own"),
        (isinstance(principal.scopes, frozenset), "its scopes are no frozenset"),
        (ALL_SCOPES.issuperset(principal.scopes), "one of its scopes is unknown"),
        (_all(principal.bindings, Claim), "its bindings are no tuple of claims"),
        (isinstance(principal.key, str), "its key is no text"),
        (all(part is None or _all(part, str) for part in texts), "its globs are no tuple of texts"),
        (
            expires is None or (isinstance(expires, datetime) and expires.tzinfo is not None),
            "its end is no time with a zone",
        ),
        (
            isinstance(principal.claims, Mapping)
            and all(isinstance(name, str) for name in principal.claims),
            "its claims are no mapping of names",
        ),
    )
    return next((flaw for right, flaw in checks if not right), None)


def _all(value: object, kind: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


def check_listener(settings: Settings, sockets: Sequence[socket.socket] = ()) -> None:
    """Refuse settings under which strangers could come in.

    Args:
        settings: The settings.
        sockets: The sockets that it is to listen on in place of what the settings name.

    Raises:
        StartError: It would listen beyond loopback, or believe proxies, without a token.
    """
    gateway = settings.gateway
    if gateway.proxy_protocol and not gateway.trusted_proxies:
        raise StartError(
            "gateway.proxy_protocol is set, and gateway.trusted_proxies names no proxy whose "
            "headers are to be read: name its address there"
        )
    if gateway.tokens:
        return
    how = (
        "run `hookgate token new NAME` and put what it prints into the settings, "
        "as [gateway.tokens.NAME]"
    )
    if not sockets and not is_loopback_bind(gateway.host):
        raise StartError(
            f"gateway.host is {gateway.host!r}, which others can reach, and there is no token: "
            f"{how}; or listen on 127.0.0.1"
        )
    for one in sockets:
        if one.family != socket.AF_UNIX and not is_loopback_bind(one.getsockname()[0]):
            raise StartError(
                f"the socket on {one.getsockname()[0]} that was handed to this process can be "
                f"reached by others, and there is no token: {how}; or listen on 127.0.0.1"
            )
    if gateway.trusted_proxies:
        raise StartError(
            f"gateway.trusted_proxies is set, and there is no token: whoever reaches the proxy "
            f"would own the gateway; {how}"
        )


class AccessGate:
    """Lets requests in, or says why not. One for each gateway.

    Attributes:
        announced: What the PROXY protocol has told of connections.
        attempts: The failed authentications, by address.
        tokens: The tokens; ``tokens.evaluated`` counts comparisons.
        sessions: The sessions of browsers.
    """

    def __init__(self, host: Host, *, peers: PeerLookup | None = None) -> None:
        settings = host.settings.gateway
        self._host = host
        self.tokens = token_book(host)
        self.sessions = BrowserSessions(host, self.tokens)
        self.attempts = Attempts(settings.limits.attempts_per_minute, host.clock.monotonic)
        self._hosts = HostRule(settings.allowed_hosts)
        self.origins = OriginRule(settings.allowed_origins)
        self._proxies = Proxies(settings.trusted_proxies)
        self._peers = peers or PeerLookup()
        self._checked: WeakKeyDictionary[asyncio.BaseTransport, bool] = WeakKeyDictionary()
        self.announced: WeakKeyDictionary[asyncio.BaseTransport, Announced] = WeakKeyDictionary()

    def close(self) -> None:
        """Close what was opened."""
        self._peers.close()

    async def admit(
        self, request: web.Request, access: Access, forms: Collection[str] = FORMS
    ) -> Caller | None:
        """Decide on one request: may it use a route with this access?

        Args:
            request: The request; `check_wire` has let it pass.
            access: Who may use the route.
            forms: The forms of a credential that the route takes.

        Returns:
            Who asks; None for a route that is public or checks for itself.

        Raises:
            WireError: It may not.
        """
        if access.kind != "scoped":
            return None
        caller = await self.identify(request, forms)
        if caller is None:
            raise wire_error(
                "unauthorized",
                "this gateway needs a token, and none came with the request",
                action=f"send `Authorization: Bearer TOKEN`{self._keys_hint}",
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

    def check_wire(
        self, request: web.Request, origins: OriginRule | None = None, *, probe: bool = False
    ) -> None:
        """Check that a request was meant for this gateway and was not made by a foreign page.

        Args:
            request: The request.
            origins: The pages that may use its route; the gateway's own rule where None.
            probe: Whether its route is one that load balancers ask, see `HostRule.check`.

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
        authority = self._hosts.check(headers, local, port, probe=probe)
        if not self.tokens.configured and (name := forwarded_header(headers)) is not None:
            raise wire_error(
                "forwarded",
                f"found the header {name}: a proxy stands before a listener without tokens, so "
                "everybody behind it would own the gateway",
                action="make a token with `hookgate token new`, and name the proxy in "
                "`gateway.trusted_proxies`",
            )
        if request.method not in _SAFE_METHODS or "Upgrade" in headers:
            scheme = self._scheme(request, peer)
            (origins or self.origins).check(headers, authority, scheme=scheme)
        if request.query_string:
            self._check_query(request)

    def _check_own_page(self, request: web.Request) -> None:
        """Check that a page of the gateway's own origin asks, since a cookie comes by itself.

        Raises:
            WireError: Another one does, or the request does not say which.
        """
        peer, (local, port) = self._ends(request)
        authority = self._hosts.check(request.headers, local, port)
        scheme = self._scheme(request, peer)
        check_own_page(request.headers, authority, scheme=scheme)

    @staticmethod
    def _check_query(request: web.Request) -> None:
        for name, value in request.query.items():
            if name.lower() in _QUERY_NAMES or value.startswith(PREFIXES):
                raise wire_error(
                    "unauthorized",
                    "found a token in the query string, where logs and histories keep it",
                    action="send `Authorization: Bearer TOKEN`; in a browser offer the "
                    "subprotocols `hookgate, bearer.TOKEN`; and replace this token",
                )

    def _ends(self, request: web.Request) -> tuple[IPAddress | None, tuple[str, int]]:
        """Return the peer's address, and the address and port at which the request arrived.

        Where a proxy has announced a client by the PROXY protocol, that one is the peer. A Unix
        socket counts as loopback: no browser's page gets there, and its mode says who may.
        """
        transport = request.transport
        told = self.announced.get(transport) if transport is not None else None
        client = told.address if told is not None else None
        peer = transport.get_extra_info("peername") if transport is not None else None
        local = transport.get_extra_info("sockname") if transport is not None else None
        if not isinstance(peer, tuple) or not isinstance(local, tuple):
            if transport is not None and _is_unix(transport):
                return client or _HERE, (str(_HERE), UNIX_PORT)
            raise wire_error(
                "bad_target",
                "the connection has no address",
                action="connect over TCP or a Unix socket",
            )
        return client or canonical_address(peer[0]), (local[0], local[1])

    # -- who asks --------------------------------------------------------------

    async def identify(self, request: web.Request, forms: Collection[str] = FORMS) -> Caller | None:
        """Return who asks; None where a token is needed and none was presented.

        What was presented is checked before a listener without tokens takes anybody for its
        owner: whoever shows a key is who the key says, or nobody.

        Args:
            request: The request; `check_wire` has let it pass.
            forms: The forms of a credential that are taken.

        Raises:
            WireError: A credential was presented and is not known; or this address has failed
                too often, and what came was never right before; or a stranger asks on loopback.
        """
        client = self._client(request)
        taken = forms
        if SESSION in forms:
            taken = await self._with_session(request, forms)
        credential = read_credential(request.headers, taken, client=_shown(client))
        if credential is None or self._is_left_over(credential):
            return None if self.tokens.configured else self._owner(request)
        if credential.kind == "cookie":
            # Not counted: a foreign page could make the browser that it is in fail at will.
            self._check_own_page(request)
            if credential.name.startswith(SESSION_COOKIES):
                return await self._check_session(credential, request, _counted(client))
        return await self._check(credential, request, _counted(client))

    def _is_left_over(self, credential: Credential) -> bool:
        """Whether it is a session's cookie of another time, when the settings had tokens.

        Where they have none it can stand for nobody, and shuts no owner out.
        """
        session = credential.name.startswith(SESSION_COOKIES)
        return session and not (self.tokens.configured or of_plugin(credential.value))

    async def _with_session(self, request: web.Request, forms: Collection[str]) -> Collection[str]:
        """Return the forms with the cookie by which a session comes over this connection.

        Where nobody can log in no session counts: a cookie of before shuts no owner out.

        Raises:
            WireError: There are cookies, and it cannot be found out which one that is.
        """
        others = [form for form in forms if form != SESSION]
        if "Cookie" in request.headers and (self.tokens.configured or self._asks_plugins):
            others.append(COOKIE + await self.sessions.cookie(secure=self.is_secure(request)))
        return others

    def is_secure(self, request: web.Request) -> bool:
        """Whether the client speaks TLS, as far as a trusted proxy says so."""
        return self._scheme(request, self._ends(request)[0]) == "https"

    def _scheme(self, request: web.Request, peer: IPAddress | None) -> str:
        told = request.transport and self.announced.get(request.transport)
        if told and told.secure:
            return "https"
        return self._proxies.scheme(peer, request.headers)

    def is_proxy(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the other end of a connection is a proxy that is believed."""
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return _is_unix(transport) and self._proxies.trusts(_HERE)
        return self._proxies.trusts(canonical_address(peer[0]))

    async def _check_session(
        self, cookie: Credential, request: web.Request, address: str
    ) -> Caller:
        """Return whom a session stands for, by the credential that opened it."""
        session = await self.sessions.read(cookie.value)
        if session.token is not None:
            caller = Caller(session.token.principal, session.token.name)
            if caller.principal.has_expired(self._host.clock.now()):
                raise wire_error("unauthorized", "this token has expired", action="log in again")
        else:
            shown = bearer(session.credential, client=cookie.client)
            caller = await self._check(shown, request, address)
        return replace(caller, session=session.id)

    async def shown_session(self, request: web.Request) -> str:
        """Return the cookie of the session that a request brings; "" where it brings none.

        Whether what opened the session is still right is not asked.

        Raises:
            WireError: A foreign page asks, or there is more than one credential.
        """
        taken = await self._with_session(request, (SESSION,))
        shown = read_credential(request.headers, taken)
        if shown is None:
            return ""
        self._check_own_page(request)
        return shown.value

    def credential(self, value: str, request: web.Request) -> Credential:
        """Return what came in the first frame of a socket as the credential that it is."""
        return bearer(value, client=_shown(self._client(request)))

    async def check(self, credential: Credential, request: web.Request) -> Caller:
        """Return who comes with `credential`: by the tokens of the settings, then by plugins.

        Args:
            credential: What was presented.
            request: The request, or the upgrade request of a socket.

        Raises:
            WireError: Nobody knows it, it has ended, or this address has failed too often.
        """
        return await self._check(credential, request, self.address_of(request))

    async def _check(self, credential: Credential, request: web.Request, address: str) -> Caller:
        """Do as `check` says."""
        digest = _digest(credential)
        known = self.attempts.knows(digest)
        passes = known or _GENERATED.fullmatch(credential.value) is not None
        if not passes:
            self.check_attempts(address)
        caller = self._from_settings(credential)
        if caller is not None or not credential.value or not self._asks_plugins:
            return self._settle(address, digest, caller)
        async with self.attempts.trial(address):
            if not passes:
                self.check_attempts(address)
            try:
                caller = await self._from_plugins(credential, request)
            except WireError as error:
                # A key that could not be looked at may be right all the same.
                self._fail(
                    address, digest, unknown=not known, over=error.data["code"] == "unauthorized"
                )
                raise
            return self._settle(address, digest, caller)

    def _fail(self, address: str, digest: bytes, *, unknown: bool, over: bool = True) -> None:
        """Count a failure of an address that may fail still.

        Args:
            address: The address.
            digest: The credential.
            unknown: Whether it was never right: behind a lock that is answered as any guess is.
            over: Whether it is right no more, whatever it was.

        Raises:
            WireError: The address has failed too often.
        """
        if unknown:
            self.check_attempts(address)
        if over:
            self.attempts.forget(digest)
        self.attempts.failed(address)

    def _settle(self, address: str, digest: bytes, caller: Caller | None) -> Caller:
        """Return the caller, or count a failure."""
        if caller is not None and not caller.principal.has_expired(self._host.clock.now()):
            self.attempts.let_in(digest)
            return caller
        self._fail(address, digest, unknown=caller is None and not self.attempts.knows(digest))
        if caller is not None:
            raise wire_error("unauthorized", "this token has expired", action="use another one")
        if self.tokens.configured:
            action = "check the token; `hookgate token new` makes another one"
        else:
            action = "send none: this listener has no tokens, and serves its own user without"
        raise wire_error(
            "unauthorized",
            "this token is not known, or has been revoked",
            action=f"{action}{self._keys_hint}",
        )

    @property
    def _keys_hint(self) -> str:
        """How clients of other products get a key, where a plugin makes some."""
        if KEYS_OPERATION not in self._host.operations:
            return ""
        return "; `hookgate keys new NAME --for claude-code` (or codex, opencode, ...) makes a key"

    def _from_settings(self, credential: Credential) -> Caller | None:
        # A cookie is a plugin's: a token of the settings has no business in a browser's jar.
        if credential.kind == "cookie" or not 0 < len(credential.value) <= MAX_TOKEN:
            return None
        token = self.tokens.redeem(credential.value)
        if token is None:
            return None
        if self.tokens.deaf:
            raise wire_error(
                "not_checked",
                "whether this token was revoked at another gateway cannot be found out now",
                action="try again in a moment; operators find the reason in `status`",
            )
        return Caller(token.principal, token.name)

    @property
    def _asks_plugins(self) -> bool:
        return self._host.hooks.implemented(hookspecs.authenticate)

    async def _from_plugins(self, credential: Credential, request: web.Request) -> Caller | None:
        """Ask the hook `authenticate`.

        Raises:
            WireError: A plugin failed, or named somebody who cannot be.
        """
        try:
            # What a plugin raises may hold what it was given, and goes to the log.
            with masking(credential.value), self._host.keys_ended() as ended:
                principal: Principal | Refusal | None = await self._host.hooks.first(
                    hookspecs.authenticate, credential, request
                )
        except HookError:
            raise _not_checked() from None
        if principal is None:
            return None
        if isinstance(principal, Refusal):
            raise wire_error("unauthorized", principal.message, action=principal.action)
        if (flaw := flaw_of(principal)) is not None:
            self._host.log.error("authenticate named a principal that cannot be", flaw=flaw)
            raise _not_checked()
        if principal.key in ended:
            return None
        return Caller(principal)

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
        return _counted(self._client(request))

    def _client(self, request: web.Request) -> IPAddress | None:
        """Return the client's address, as far as trusted proxies tell it."""
        peer, _ = self._ends(request)
        return None if peer is None else self._proxies.client(peer, request.headers)

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

    def home_owner(self, shown: str, request: web.Request, key: str) -> Caller | None:
        """Return the owner, where somebody shows that they have read this gateway's key.

        It lies in the home folder, where its user alone can read it. So tokens that were made for
        others lock the owner's own commands out of nothing: not from loopback, by nobody's proxy.

        Args:
            shown: What stands where a token would.
            request: The request that opened the connection.
            key: The gateway's key.
        """
        transport = request.transport
        if not shown.startswith(OWNER_PREFIX) or transport is None:
            return None
        local, peer = (transport.get_extra_info(name) for name in ("sockname", "peername"))
        expected = prove_owner(key, request.headers.get(NONCE_HEADER, ""), local, peer)
        right = expected is not None and hmac.compare_digest(expected.encode(), shown.encode())
        if not right or forwarded_header(request.headers) is not None:
            return None
        near = is_loopback(self._ends(request)[0]) and self._same_user(transport)
        return _OWNER if near else None

    def _same_user(self, transport: asyncio.BaseTransport) -> bool:
        if _is_unix(transport):
            return peer_is_ours(transport.get_extra_info("socket"))
        if not self._peers.enabled:
            return True
        peer, local = (transport.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        user = self._peers.user_of(peer, local)
        return user is not None and user.trusted


def _is_unix(transport: asyncio.BaseTransport) -> bool:
    end = transport.get_extra_info("socket")
    return end is not None and end.family == socket.AF_UNIX


def _not_checked() -> WireError:
    return wire_error(
        "not_checked",
        "a plugin failed to check this credential",
        action="the log of the gateway says which one and why",
    )
