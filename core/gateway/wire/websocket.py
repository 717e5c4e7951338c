"""One WebSocket: frames in, answers and events out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import HttpVersion11, WSMsgType, web
from pydantic import BaseModel, ValidationError

from hookgate.core.domain.errors import WireError
from hookgate.core.domain.events import Event
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.auth import SUBPROTOCOL, Caller
from hookgate.core.gateway.access.credentials import (
    BEARER_PROTOCOL,
    FORMS,
    SESSION,
    offered_protocols,
)
from hookgate.core.gateway.codes import ErrorAnswer, describe_error, wire_error
from hookgate.core.gateway.operations import Invocation
from hookgate.core.gateway.server import Server
from hookgate.core.gateway.wire import rpc
from hookgate.core.gateway.wire.stream import NO_DRAIN, SocketOutbox
from hookgate.core.hooks.tasks import EXPIRED

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter

AUTH_SECONDS = 10.0
"""Seconds that a socket without a token has for its first frame, ``auth``."""

CLOSE_SECONDS = 5.0
"""Seconds that a client has to answer a close before its connection is cut."""

MAX_REQUESTS = 256
"""Requests of one socket that may run at once."""


async def serve_socket(server: Server, request: web.Request) -> web.StreamResponse:
    """Serve ``GET /ws``: authenticate, say hello, and answer until either side leaves."""
    server.check_open()
    caller = await server.gate.identify(request, (*FORMS, SESSION))
    socket = _make_response(server, request)
    if caller is None:
        # The first frame has to bring the token; a client need not wait to find that out.
        socket.headers["WWW-Authenticate"] = "Bearer"
    with server.pending(anonymous=caller is None):
        try:
            writer = await socket.prepare(request)
        except web.HTTPBadRequest as error:
            raise wire_error(
                "upgrade_required",
                f"found a WebSocket handshake that is not right: {error.text}",
                action="connect with a WebSocket client of version 13",
            ) from None
        connection = Connection(server, socket, request, writer)
        if caller is None:
            caller = await connection.authenticate()
    if caller is not None:
        await connection.serve(caller)
    return socket


def _make_response(server: Server, request: web.Request) -> web.WebSocketResponse[Any]:
    if request.version < HttpVersion11 or request.headers.get("Upgrade", "").lower() != "websocket":
        raise wire_error(
            "upgrade_required",
            "this path speaks WebSocket",
            action="connect with a WebSocket client, over HTTP/1.1",
        )
    offered = offered_protocols(request.headers)
    if offered and SUBPROTOCOL not in offered:
        # A browser drops a connection whose subprotocol was not taken up; and aiohttp would
        # log what was offered, a token maybe.
        raise wire_error(
            "invalid_request",
            f"found subprotocols without {SUBPROTOCOL!r}",
            action=f"offer `{SUBPROTOCOL}`, and `{BEARER_PROTOCOL}TOKEN` beside it",
        )
    return web.WebSocketResponse(
        timeout=CLOSE_SECONDS,
        autoping=False,
        compress=False,
        protocols=(SUBPROTOCOL,) if offered else (),
        # aiohttp refuses a message of this size already.
        max_msg_size=server.settings.limits.frame_bytes + 1,
        writer_limit=NO_DRAIN,
        decode_text=False,
    )


class Connection:
    """One client's socket. A `Client` of the gateway."""

    __slots__ = (
        "_asked",
        "_ending",
        "_heard",
        "_invocation",
        "_outbox",
        "_request",
        "_running",
        "_server",
        "_socket",
        "_streaming",
        "caller",
        "closed",
        "session",
        "token",
    )

    def __init__(
        self,
        server: Server,
        socket: web.WebSocketResponse[Any],
        request: web.Request,
        writer: AbstractStreamWriter,
    ) -> None:
        self._server = server
        self._socket = socket
        self._request = request
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client went away")
        self._outbox = SocketOutbox(
            socket,
            request.protocol,
            writer,
            transport,
            frames=server.settings.limits.queue_frames,
            overflow=self._overflow,
        )
        self._running: dict[object, Running] | None = None
        self._streaming = 0
        self._heard = True
        self._asked = False
        self._ending: asyncio.Task[None] | None = None
        self._invocation: Invocation
        self.caller: Caller
        self.token = self.session = ""
        self.closed = False

    # -- the first frame -------------------------------------------------------

    async def authenticate(self) -> Caller | None:
        """Wait for the token in the first frame; None where the socket was closed instead."""
        problem: WireError
        call_id: rpc.CallId | None = None
        try:
            message = await self._socket.receive(timeout=AUTH_SECONDS)
            if message.type is not WSMsgType.TEXT:
                if message.type in _OVER:
                    return None
                raise rpc.no_token()
            call_id, name, params = rpc.read_call(message.data)
            if name != "auth" or call_id is None:
                raise rpc.no_token()
            gate = self._server.gate
            token = rpc.AuthParams.model_validate(params).token
            caller = gate.home_owner(token, self._request, self._server.key)
            if caller is None:
                caller = await gate.check(gate.credential(token, self._request), self._request)
        except ValidationError:
            problem = wire_error(
                "invalid_params",
                "auth: expected one parameter, `token`, a text",
                action='send `{"token": "..."}`',
            )
        except TimeoutError:
            problem = wire_error("timeout", f"no token came within {AUTH_SECONDS:.0f} s")
        except rpc.BadCall as error:
            problem, call_id = error, error.call_id
        except WireError as error:
            problem = error
        else:
            principal = caller.principal
            scopes = tuple(sorted(principal.scopes))
            self._outbox.put(
                rpc.result_frame(
                    call_id,
                    self._server.body(rpc.AuthResult(principal=principal.id, scopes=scopes)),
                )
            )
            return caller
        self._refuse(call_id, problem)
        await self._close(1008, "authenticate first")
        return None

    # -- life --------------------------------------------------------------------

    async def serve(self, caller: Caller) -> None:
        """Say hello and answer frames until the socket is closed."""
        server = self._server
        self.caller = caller
        self.token, self.session = caller.token, caller.session
        self._invocation = Invocation(
            host=server.host,
            principal=caller.principal,
            cancel=self.cancel,
            streaming=False,
            disconnected=self._is_closed,
        )
        with server.enlisted(self):
            try:
                self._outbox.put(rpc.notification("hello", server.hello(caller.principal)))
                await self._read()
            finally:
                self.closed = True
                self._outbox.close()
                if self._running:
                    for running in tuple(self._running.values()):
                        running.task.cancel()
                    self._running = None

    @property
    def principal(self) -> Principal:
        """See `Client.principal`."""
        return self.caller.principal

    def _is_closed(self) -> bool:
        return self.closed

    async def _read(self) -> None:
        """Answer frames until the socket is closed.

        One loop, without a call more than needed: this is what a frame costs.
        """
        principal, invocation, find = (
            self.caller.principal,
            self._invocation,
            self._server.methods.find,
        )
        expires = principal.expires
        receive, put, body = self._socket.receive, self._outbox.put, self._server.body
        requests = self._server.requests
        while True:
            message = await receive()
            kind = message.type
            self._heard = True
            if expires is not None and principal.has_expired(self._server.host.clock.now()):
                self.end(1008, EXPIRED)
                continue
            if kind is WSMsgType.TEXT:
                call_id: rpc.CallId | None = None
                name = ""
                began = 0.0 if requests is None else requests.begin()
                try:
                    call_id, name, params = rpc.read_call(message.data)
                    method = find(name, principal)
                    arguments = method.read(params)
                    if method.quick:
                        result = await method.handler(invocation, arguments)
                        if call_id is not None:
                            put(rpc.result_frame(call_id, body(result)))
                        if requests is not None:
                            requests.frame(name, "ok", began, principal.id)
                    else:
                        self._start(call_id, method, arguments)
                except Exception as error:  # noqa: BLE001 - nothing may end the socket
                    problem = self._failed(call_id, error)
                    if requests is not None:
                        requests.frame(name, problem.data["code"], began, principal.id)
            elif kind is WSMsgType.PING:
                self._outbox.pong(message.data)
            elif kind is WSMsgType.BINARY:
                self._refuse(None, rpc.binary_frame())
            elif kind is not WSMsgType.PONG:
                return

    def _failed(self, call_id: rpc.CallId | None, error: Exception) -> ErrorAnswer:
        # Also where nobody waits for an answer: a fault of the gateway is logged all the same.
        problem = describe_error(self._server.host, error)
        if isinstance(error, rpc.BadCall):
            self._outbox.put(rpc.error_frame(error.call_id, problem))
        elif call_id is not None:
            self._outbox.put(rpc.error_frame(call_id, problem))
        return problem

    def _start(self, call_id: rpc.CallId | None, method: rpc.Method, arguments: BaseModel) -> None:
        if self._running is None:
            self._running = {}
        running, limits = self._running, self._server.settings.limits
        if call_id in running:
            raise wire_error(
                "invalid_request",
                f"the id {call_id!r} belongs to a request that still runs",
                action="give each request an id of its own",
            )
        if len(running) >= MAX_REQUESTS:
            raise wire_error(
                "too_many_requests",
                f"{len(running)} requests of this socket run already",
                action="wait for an answer",
            )
        if method.operation.streams:
            self._server.check_open()
            if self._streaming >= limits.turns_per_connection:
                raise wire_error(
                    "too_many_turns",
                    f"{self._streaming} turns or subscriptions of this socket run already",
                    action="wait for one to end, or raise `limits.turns_per_connection`",
                )
        Running(self, running, call_id, method, arguments)

    def cancel(self, call_id: rpc.CallId) -> bool:
        """Cancel the request with this id; False where none runs."""
        running = self._running.get(call_id) if self._running else None
        if running is None:
            return False
        running.task.cancel()
        return True

    def _refuse(self, call_id: rpc.CallId | None, error: Exception) -> None:
        self._outbox.put(rpc.error_frame(call_id, describe_error(self._server.host, error)))

    # -- the end -------------------------------------------------------------------

    def check(self) -> None:
        """See `Client.check`."""
        if self._heard:
            self._heard = self._asked = False
        elif self._asked:
            if (transport := self._request.transport) is not None:
                transport.abort()
            return
        self._asked = self._outbox.ping()

    def tell(self, frame: bytes) -> None:
        """See `Client.tell`."""
        self._outbox.put(frame)

    def end(self, code: int, reason: str) -> None:
        """See `Client.end`."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._close(code, reason))

    def _overflow(self) -> None:
        self.end(1013, "this client reads too slowly")

    async def _close(self, code: int, reason: str) -> None:
        """Send what waits and a close frame, and cut the connection if that does not help."""
        transport = self._request.transport
        if transport is None:
            return
        cut = asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)
        try:
            await self._outbox.flush(CLOSE_SECONDS / 2)
            self._outbox.close()
            await self._socket.close(code=code, message=reason.encode(), drain=False)
        finally:
            if transport.get_write_buffer_size() == 0:
                cut.cancel()


class Running:
    """A request that runs in a task."""

    __slots__ = (
        "_answered",
        "_arguments",
        "_call_id",
        "_connection",
        "_json_id",
        "_key",
        "_method",
        "_others",
        "task",
    )

    def __init__(
        self,
        connection: Connection,
        others: dict[object, Running],
        call_id: rpc.CallId | None,
        method: rpc.Method,
        arguments: BaseModel,
    ) -> None:
        self._connection = connection
        self._others = others
        self._call_id = call_id
        self._json_id = orjson.dumps(call_id)
        self._method = method
        self._arguments = arguments
        self._answered = call_id is None
        self._key: object = object() if call_id is None else call_id
        others[self._key] = self
        connection._streaming += method.operation.streams
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._over)

    async def _run(self) -> None:
        connection = self._connection
        invocation = Invocation(
            host=connection._server.host,
            principal=connection.caller.principal,
            request_id="" if self._call_id is None else self._call_id,
            emit=self.emit,
            respond=self.respond,
            cancel=connection.cancel,
            disconnected=connection._is_closed,
            streaming=self._call_id is not None,
        )
        requests = connection._server.requests
        began, status = (0.0 if requests is None else requests.begin()), "cancelled"
        try:
            self.respond(await self._method.handler(invocation, self._arguments))
            status = "ok"
        except Exception as error:  # noqa: BLE001 - a failed request must not end the socket
            status = self._fail(error).data["code"]
        finally:
            if requests is not None:
                name = self._method.operation.name
                requests.frame(name, status, began, connection.caller.principal.id)

    def emit(self, event: Event) -> None:
        """Send an event of this request."""
        if event.type == "done":
            # The client takes the request for over now, so its place and its id are free.
            self._release()
        if self._call_id is not None:
            connection = self._connection
            connection._outbox.put(connection._server.frame(self._json_id, event))

    def respond(self, result: Any) -> None:
        """Send the result, once."""
        if not self._answered and self._call_id is not None:
            self._answered = True
            body = self._connection._server.body(result)
            self._connection._outbox.put(rpc.result_frame(self._call_id, body))

    def _fail(self, error: Exception) -> ErrorAnswer:
        problem = describe_error(self._connection._server.host, error)
        if not self._answered:
            self._answered = True
            self._connection._outbox.put(rpc.error_frame(self._call_id, problem))
        return problem

    def _release(self) -> None:
        if self._others.get(self._key) is self:
            del self._others[self._key]
            self._connection._streaming -= self._method.operation.streams

    def _over(self, task: asyncio.Task[None]) -> None:
        self._release()
        if task.cancelled() and not self._connection.closed:
            self._fail(wire_error("cancelled", "the request was cancelled"))


_OVER = frozenset((WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR))
