"""What all requests of one gateway share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from hookgate import __version__
from hookgate.core.domain.events import Event
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.auth import AccessGate
from hookgate.core.gateway.access.peer import PeerLookup, new_key
from hookgate.core.gateway.access.tokens import principal_id
from hookgate.core.gateway.codes import wire_error
from hookgate.core.gateway.operations import result_json
from hookgate.core.gateway.requests import CALLER, Clients, LiveClient, RequestLog, UnverifiedBodies
from hookgate.core.gateway.routes import ErrorShape, Route, Routes
from hookgate.core.gateway.wire.rpc import PROTOCOL, Methods, event_data, event_parts
from hookgate.core.gateway.wire.stream import QUEUE_BYTES
from hookgate.core.hooks.tasks import EXPIRED, Expiry
from hookgate.core.host import KEY_ENDED, Host
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import masked_json, redact_json
from hookgate.core.turn.start import RETRY_AFTER

if TYPE_CHECKING:
    from aiohttp.web_urldispatcher import AbstractResource

TOKEN_REVOKED = "the token was revoked"
SESSION_ENDED = "the session was ended"

PENDING = 512
"""Sockets at once that have shown no token yet."""


class Server:
    """One gateway as the network serves it: what its requests and sockets share.

    Attributes:
        host: The gateway's host.
        settings: The section ``[gateway]``.
        gate: Lets requests in.
        clients: Who is connected.
        bodies: What is being read of those who have not shown yet who they are.
        methods: What can be called.
        key: Proves to a client that has it from the home folder which gateway this is.
        requests: Logs each request; None where nobody wants that.
        leaving: Whether balancers are to ask others; what comes is served all the same.
        stopping: Whether the gateway takes nothing new.
    """

    def __init__(self, host: Host, routes: Routes, *, peers: PeerLookup | None = None) -> None:
        self.host = host
        self._routes = routes
        self._root: AbstractResource | None = None
        self.settings = host.settings.gateway
        self.gate = AccessGate(self.host, peers=peers)
        self.gate.sessions.watch(self.end_session)
        self.clients = Clients(self.settings.limits.heartbeat_seconds)
        self.bodies = UnverifiedBodies(self.settings.limits)
        self.methods = Methods(self.host)
        self.key = new_key()
        wanted = host.settings.log.requests
        self.requests = RequestLog(self.host.log) if wanted else None
        self._keyed: dict[int, web.Request] = {}
        self.leaving = False
        self.stopping = False
        self._live = 0
        self._pending = 0
        self._last: tuple[Event | None, bytes, bytes] = (None, b"", b"")
        host.after_reading(self._take)

    def _take(self, settings: Settings) -> None:
        """Take the limits that a reload has brought; the rest of the section waits."""
        limits = settings.gateway.limits
        self.settings = self.settings.model_copy(update={"limits": limits})
        self.clients.heartbeat = limits.heartbeat_seconds
        self.bodies.limits = limits
        self.gate.attempts.take(limits.attempts_per_minute)

    def served_at(self, root: AbstractResource | None) -> None:
        """Know the resource of ``/``, which says where the application is mounted."""
        self._root = root

    def shape_of(self, path: str, route: Route | None) -> ErrorShape | None:
        """Return what shapes an error of a request; see `Routes.shape_of`."""
        mounted = self._root.canonical.removesuffix("/") if self._root is not None else ""
        return self._routes.shape_of(path.removeprefix(mounted), route)

    @property
    def ready(self) -> bool:
        """Whether balancers are to send new work here."""
        return (
            self.host.ready
            and not self.ending
            and not self.host.standing.unready
            and len(self.clients) <= self.settings.limits.ready_streams
        )

    @property
    def ending(self) -> bool:
        """Whether it stops, or will in a moment: no connection is kept for another request."""
        return self.leaving or self.stopping

    def enlisted(self, client: LiveClient) -> Enlisted:
        """Count `client` among those that are connected, for as long as it is."""
        return Enlisted(self, client)

    def revoked(self, name: str) -> None:
        """End whatever came in with the token called `name`: connections and turns."""
        for client in self.clients:
            if client.token == name:
                client.end(1008, TOKEN_REVOKED)
        for turn in self.host.running():
            if turn.principal.id == principal_id(name):
                self.host.cancel(turn.id, TOKEN_REVOKED)

    @contextmanager
    def keyed(self, request: web.Request) -> Iterator[None]:
        """Know a request of somebody who came by a plugin's key, for as long as it lasts."""
        self._keyed[id(request)] = request
        try:
            yield
        finally:
            del self._keyed[id(request)]

    def end_session(self, session_id: str) -> None:
        """End the connections of all browsers' sessions whose ids begin with `session_id`."""
        for client in self.clients:
            if client.session and client.session.startswith(session_id):
                client.end(1008, SESSION_ENDED)

    def end_key(self, key: str) -> None:
        """End the connections of whoever came in with `key`, which a plugin has taken back."""
        for client in self.clients:
            if client.principal.came_by(key):
                client.end(1008, KEY_ENDED)
        # Those whose request still arrives, and those that a plugin's own handler answers.
        for request in tuple(self._keyed.values()):
            transport = request.transport
            # A socket has a close frame yet to send.
            mine = request[CALLER].principal.came_by(key) and "Upgrade" not in request.headers
            if mine and transport is not None:
                transport.abort()

    def check_open(self) -> None:
        """Refuse new work while the gateway starts or stops.

        Raises:
            WireError: It does.
        """
        if self.stopping or not self.host.ready:
            state = "stops" if self.stopping else "has not started yet"
            raise wire_error(
                "stopping",
                f"the gateway {state}",
                action="try again in a moment",
                retry_after=RETRY_AFTER,
            )

    def begin(self) -> None:
        """Count a request that lasts until it is told to `end`.

        Raises:
            WireError: There are too many.
        """
        limit = self.settings.limits.connections
        if self._live >= limit:
            raise wire_error(
                "too_many_requests",
                f"{self._live} clients are connected already",
                action="try again in a moment, or raise `gateway.limits.connections`",
            )
        self._live += 1

    def end(self) -> None:
        """Count a request no longer."""
        self._live -= 1

    @contextmanager
    def pending(self, *, anonymous: bool) -> Iterator[None]:
        """Count a socket that has shown no token yet.

        Raises:
            WireError: There are too many.
        """
        if self._pending >= PENDING and anonymous:
            raise wire_error(
                "too_many_requests",
                f"{self._pending} sockets have not authenticated yet",
                action="send the token in the `Authorization` header",
            )
        self._pending += anonymous
        try:
            yield
        finally:
            self._pending -= anonymous

    def hello(self, principal: Principal) -> dict[str, Any]:
        """Return what a client is told when it connects."""
        limits = self.settings.limits
        return {
            "version": __version__,
            "protocol": PROTOCOL,
            "principal": principal.id,
            "scopes": sorted(principal.scopes),
            "limits": {
                "frame_bytes": limits.frame_bytes,
                "queue_frames": limits.queue_frames,
                "queue_bytes": QUEUE_BYTES,
                "turns": limits.turns_per_connection,
                "waiting_per_session": self.host.settings.turn.lane_queue,
                "heartbeat_seconds": limits.heartbeat_seconds,
            },
            "degraded": dict(redact_json(self.host.secrets, self.host.degraded)),
        }

    def data(self, event: Event) -> bytes:
        """Return an event's data as it may leave: JSON, with known secrets masked."""
        return masked_json(self.host.secrets, event_data(event))

    def frame(self, call_id: bytes, event: Event) -> bytes:
        """Return the notification of an event; one that goes to many is written once.

        Args:
            call_id: The id of the request that it belongs to, as JSON.
            event: The event, which is not changed any more.
        """
        last, before, behind = self._last
        if event is not last:
            before, behind = event_parts(event.type, self.data(event))
            self._last = event, before, behind
        return before + call_id + behind

    def body(self, result: Any) -> bytes:
        """Return an operation's result as it may leave: JSON, with known secrets masked."""
        return masked_json(self.host.secrets, result_json(result))


SERVER: web.AppKey[Server] = web.AppKey("hookgate server", Server)
"""What all requests of the gateway share."""


class Enlisted:
    """A client for as long as it is connected.

    A token that was revoked since it let the client in ends it at once, and one that expires
    ends it then; so does a session that nobody has shown again.
    """

    def __init__(self, server: Server, client: LiveClient) -> None:
        self._server, self._client = server, client
        self._ends: list[Expiry] = []

    def __enter__(self) -> None:
        server, client = self._server, self._client
        server.clients.add(client)
        if client.token and not server.gate.tokens.holds(client.token):
            client.end(1008, TOKEN_REVOKED)
        if client.session and server.gate.sessions.has_ended(client.session):
            client.end(1008, SESSION_ENDED)
        clock = server.host.clock
        if client.principal.expires is not None:
            self._ends = [Expiry(client.principal, clock, lambda: client.end(1008, EXPIRED))]
        if client.session:
            lasts = server.gate.sessions.lasts(client.session)
            self._ends.append(Expiry(lasts, clock, lambda: client.end(1008, SESSION_ENDED)))

    def __exit__(self, *_: object) -> None:
        for expiry in self._ends:
            expiry.cancel()
        self._server.clients.remove(self._client)
