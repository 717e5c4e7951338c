"""Operations over HTTP: one JSON answer, or a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import StreamReader, hdrs, web
from pydantic import BaseModel

from hookgate.core.domain import strict_json
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import new_id
from hookgate.core.gateway.codes import describe_error, wait_header, wire_error
from hookgate.core.gateway.operations import Invocation, Operation
from hookgate.core.gateway.requests import CALLER
from hookgate.core.gateway.server import Server
from hookgate.core.gateway.wire.rpc import Method
from hookgate.core.gateway.wire.sse import GOING_AWAY, GRACE, KEEP_ALIVE, LOOK, EventStream
from hookgate.core.hooks.tasks import until_over

BODY_SECONDS = 30.0
"""Seconds that a request's body may take to arrive."""


async def serve_named(server: Server, request: web.Request) -> web.StreamResponse:
    """Serve ``POST /v1/operations/{name}``."""
    method = server.methods.find(request.match_info["name"], request[CALLER].principal)
    return await _serve(server, method, request)


def serve_operation(
    server: Server, operation: Operation[Any, Any]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of an operation's own route."""

    async def handler(request: web.Request) -> web.StreamResponse:
        method = server.methods.find(operation.name, request[CALLER].principal)
        return await _serve(server, method, request)

    handler.__qualname__ = f"operation {operation.name}"
    return handler


async def _serve(server: Server, method: Method, request: web.Request) -> web.StreamResponse:
    if method.operation.streams:
        server.check_open()
    if request.method in ("GET", "DELETE", "HEAD"):
        arguments = method.read(_from_query(method, request))
    else:
        body = await read_body(request, server.settings.limits.frame_bytes)
        arguments = method.read({**body, **_path_variables(request)})
    call = RestCall(server, request, method, arguments)
    if method.operation.streams and _wants_events(request):
        return await call.stream()
    return await call.answer()


def _wants_events(request: web.Request) -> bool:
    accept = ",".join(request.headers.getall("Accept", ()))
    kinds = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return "text/event-stream" in kinds


def _path_variables(request: web.Request) -> dict[str, str]:
    return {key: value for key, value in request.match_info.items() if key != "name"}


def _from_query(method: Method, request: web.Request) -> dict[str, Any]:
    """Return a query's parameters: texts, and lists where the schema has an array."""
    params: dict[str, Any] = dict(_path_variables(request))
    for name in request.query:
        values = request.query.getall(name)
        params[name] = values if len(values) > 1 or name in method.arrays else values[0]
    return params


async def read_body(request: web.Request, limit: int) -> dict[str, Any]:
    """Read a strict JSON object.

    A page of another origin can send a plain form without asking first, but not this content
    type: it is required, so that a browser asks.

    Args:
        request: The request.
        limit: The longest body, in bytes.

    Raises:
        WireError: It is no JSON object, too long, too slow, or says that it is something else.
    """
    if (
        request.content_type != "application/json"
        or request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity"
    ):
        raise wire_error(
            "unsupported_media_type",
            "found a body that does not say it is plain JSON",
            action="send `Content-Type: application/json` and no Content-Encoding",
        )
    content = request.content
    # Most bodies have come with their head.
    data = content.read_nowait() if content.is_eof() else await _slow_body(content, limit)
    if len(data) > limit:
        raise wire_error(
            "too_large",
            f"found a body of more than {limit} bytes",
            action="send less, or raise `gateway.limits.frame_bytes`",
        )
    try:
        value = strict_json.loads(data)
    except strict_json.StrictJSONError as error:
        raise wire_error("parse_error", str(error), action="send one strict JSON text") from None
    if not isinstance(value, dict):
        raise wire_error(
            "invalid_params", "expected a JSON object", action="send the parameters by name"
        )
    return value


async def _slow_body(content: StreamReader, limit: int) -> bytes:
    """Return a body that is still coming; of one that is longer than `limit` its beginning."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while len(data) <= limit and (chunk := await content.readany()):
                data += chunk
    except TimeoutError:
        raise wire_error("timeout", f"the body did not come within {BODY_SECONDS:.0f} s") from None
    return bytes(data)


class RestCall:
    """One operation, called over HTTP. A `Client` of the gateway while it runs."""

    def __init__(
        self, server: Server, request: web.Request, method: Method, arguments: BaseModel
    ) -> None:
        self._server = server
        self._request = request
        self._method = method
        self._arguments = arguments
        self._held: list[tuple[str, bytes]] = []
        self._events: EventStream | None = None
        self._responded = False
        self._wake = asyncio.Event()
        self._gone = False
        self._looking: asyncio.TimerHandle
        self._task: asyncio.Task[Any] | None = None
        self.token = request[CALLER].token
        self.session = request[CALLER].session
        self.principal = request[CALLER].principal

    # -- one answer ----------------------------------------------------------

    async def answer(self) -> web.Response:
        """Run the operation to its end and answer once."""
        task = self._start(streaming=False)
        with self._server.enlisted(self):
            self._look()
            try:
                await until_over(task)
            finally:
                self._looking.cancel()
                self._let_go(task)
        result = self._result(task)
        # A turn that was refused is a result: what it ended with stands in it.
        return web.Response(
            body=self._server.body(result),
            content_type="application/json",
            headers=wait_header(getattr(result, "error", None) or {}),
        )

    # -- a stream ------------------------------------------------------------

    async def stream(self) -> web.StreamResponse:
        """Run the operation and send its events as they come.

        What goes wrong before there is anything to send is an ordinary error answer.
        """
        task = self._start(streaming=True)
        with self._server.enlisted(self):
            try:
                await self._until(lambda: task.done() or bool(self._held), KEEP_ALIVE)
                if task.done() and not self._held:
                    self._result(task)
                async with EventStream(self._request, client=self) as events:
                    self._open(events)
                    await asyncio.wait([task])
                    if not self._gone:
                        self._finish(task)
            finally:
                self._let_go(task)
        return events.response

    def _open(self, events: EventStream) -> None:
        """Send what was held back until the response's head went out, and all that follows."""
        self._events = events
        for kind, data in self._held:
            events.put(data, event=kind)
        if not self._held:
            events.comment("keep-alive")
        self._held.clear()

    def _finish(self, task: asyncio.Task[Any]) -> None:
        """Send the result, if the operation has not, or what went wrong."""
        try:
            self._respond(self._result(task))
        except Exception as error:  # noqa: BLE001 - the head is out: it can only be told
            problem = describe_error(self._server.host, error)
            data = {**problem.data, "message": problem.message}
            self._put("error", strict_json.dumps(data))

    async def _until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready`, at most `seconds`; see to the client meanwhile."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + seconds
        while not (ready() or self._gone or loop.time() >= limit):
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._wake.wait()
            self.check()

    def _result(self, task: asyncio.Task[Any]) -> Any:
        """Return what the operation came to.

        Raises:
            WireError: It was cancelled while the client is still there.
            Exception: It failed with this.
        """
        if task.cancelled() and not self._gone:
            raise wire_error("cancelled", "the request was cancelled")
        return task.result()

    # -- what runs ---------------------------------------------------------------

    def _start(self, *, streaming: bool) -> asyncio.Task[Any]:
        """Run the operation in a task, which is let go when the request is over."""
        invocation = Invocation(
            host=self._server.host,
            principal=self.principal,
            face="rest",
            request_id=new_id("req"),
            emit=self._emit if streaming else lambda _: None,
            respond=self._respond if streaming else lambda _: None,
            streaming=streaming,
            disconnected=lambda: self._gone,
            path="http",
        )
        work = self._method.handler(invocation, self._arguments)
        task = self._task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        return task

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            # Whatever still runs for this request has lost its client.
            self._gone = True
            task.cancel()

    def _emit(self, event: Event) -> None:
        self._put(event.type, self._server.data(event))

    def _respond(self, result: Any) -> None:
        if self._responded:
            return
        self._responded = True
        self._put("result", self._server.body(result))

    def _put(self, kind: str, data: bytes) -> None:
        if self._events is not None:
            self._events.put(data, event=kind)
        elif not self._gone:
            self._held.append((kind, data))
            self._wake.set()

    # -- being a client ------------------------------------------------------------

    def check(self) -> None:
        """See `Client.check`; also called by the request itself, far more often."""
        if self._request.transport is None and self._task is not None:
            self._gone = True
            self._task.cancel()

    def _look(self) -> None:
        """See to the client now and then while its answer is not there yet."""
        self.check()
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)

    def tell(self, frame: bytes) -> None:
        """See `Client.tell`: a stream gets it as an event, and one answer has no place for it."""
        if self._events is not None:
            told = strict_json.loads(frame)
            self._events.put(strict_json.dumps(told["params"]), event=told["method"])

    def end(self, code: int, reason: str) -> None:
        """See `Client.end`. When the gateway stops (1001) an answer that is due still goes out."""
        if self._task is None:
            return
        if code == GOING_AWAY:
            asyncio.get_running_loop().call_later(GRACE, self._task.cancel)
            return
        self._gone = True
        if (transport := self._request.transport) is not None:
            transport.abort()
        self._task.cancel()
