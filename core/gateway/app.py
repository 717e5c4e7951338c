"""The gateway as an aiohttp application, and what every request of it passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.domain import strict_json
from hookgate.core.domain.errors import WireError
from hookgate.core.gateway.access.credentials import FORMS, SESSION
from hookgate.core.gateway.access.peer import NONCE_HEADER, PROOF_HEADER, PeerLookup, prove
from hookgate.core.gateway.codes import ErrorAnswer, describe_error, wait_header, wire_error
from hookgate.core.gateway.requests import BODIES, CALLER, CLIENT, ROUTE
from hookgate.core.gateway.routes import CORS_HEADERS, TOKEN, Access, Handler, Route, Routes
from hookgate.core.gateway.server import SERVER, Server
from hookgate.core.gateway.wire.login import log_in, log_out, show
from hookgate.core.gateway.wire.rest import serve_named, serve_operation
from hookgate.core.gateway.wire.websocket import serve_socket
from hookgate.core.hooks.tasks import contained

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware
    from aiohttp.web_urldispatcher import AbstractRoute

    from hookgate.core.runtime import Runtime

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CORS_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ASKED_HEADERS = 64
"""Request headers that a browser may ask about at once."""


def decide(server: Server, routes: Mapping[AbstractRoute, Route]) -> Middleware:
    """Return what lets requests in, or answers why not, and gives errors the wire's form.

    The decision hangs on the route that was resolved, not on the path as it was written: no
    spelling of a path leads to a handler past it. A route that declares no access is denied.
    """

    @web.middleware
    async def decide(request: web.Request, handler: Handler) -> web.StreamResponse:
        requests = server.requests
        if requests is None:
            return await answer(request, handler)
        began, status = requests.begin(), 0
        try:
            response = await answer(request, handler)
            status = response.status
            return response
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            requests.http(request, status, began)

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            route = routes.get(request.match_info.route)
            if route is None:
                return await _unserved(server, routes, request)
            request[ROUTE] = route
            server.gate.check_wire(request, route.origins, probe=route.probe)
            if route.access.kind == "self_checked":
                request[CLIENT] = server.gate.address_of(request)
            if route.access.kind != "scoped":
                request[BODIES] = server.bodies
            server.begin()
            try:
                caller = await server.gate.admit(request, route.access, route.credentials)
                if caller is not None:
                    request[CALLER] = caller
                request = _limited(request, route)
                if caller is None or caller.token or not caller.principal.key:
                    return _made(server, route, await contained(handler(request)))
                with server.keyed(request):
                    return _made(server, route, await contained(handler(request)))
            finally:
                server.end()
        except web.HTTPRequestEntityTooLarge:
            return _answer(server, request, _too_large(request.client_max_size))
        except web.HTTPException:
            raise
        except ConnectionError as error:
            if request.transport is None:
                return web.Response()  # nobody is there to read it
            return _answer(server, request, error)
        except Exception as error:  # noqa: BLE001 - every fault becomes an answer and a log line
            return _answer(server, request, error)

    return decide


def _made(server: Server, route: Route, response: object) -> web.StreamResponse:
    """Return what a handler has returned, if it is an answer."""
    if isinstance(response, web.StreamResponse):
        if server.ending:
            # Of a stream that began before, the head has not said that its connection ends.
            response.force_close()
        return response
    raise TypeError(
        f"{route.method} {route.path} of {route.plugin} returned {type(response).__name__}, "
        "expected an aiohttp.web.Response"
    )


# -- the body -----------------------------------------------------------------------


def _limited(request: web.Request, route: Route) -> web.Request:
    """Hold a request's body to the limit of its route.

    Raises:
        WireError: It says that it is longer.
    """
    if route.max_body is None:
        return request
    if (request.content_length or 0) > route.max_body:
        raise _too_large(route.max_body)
    return request.clone(client_max_size=route.max_body)


def _too_large(limit: int) -> WireError:
    return wire_error("too_large", f"found a body of more than {limit} bytes", action="send less")


# -- what is not served -------------------------------------------------------------


async def _unserved(
    server: Server, routes: Mapping[AbstractRoute, Route], request: web.Request
) -> web.Response:
    """Answer a browser's question about a path, or raise that there is nothing.

    Raises:
        WireError: There is no such path, or not for this method.
    """
    near = await _nearest(routes, request)
    if near is not None:
        request[ROUTE] = near
    server.gate.check_wire(request, near.origins if near else None)
    if (preflight := _preflight(server, request, near)) is not None:
        return preflight
    raise _no_route(request)


async def _nearest(routes: Mapping[AbstractRoute, Route], request: web.Request) -> Route | None:
    """Return the route of this path that a browser asks about, or else any route of it."""
    error = request.match_info.http_exception
    if not isinstance(error, web.HTTPMethodNotAllowed):
        return None
    asked = request.headers.get("Access-Control-Request-Method", "")
    allowed = sorted(error.allowed_methods)
    method = asked if request.method == "OPTIONS" and asked in allowed else allowed[0]
    found = await request.app.router.resolve(request.clone(method=method))
    return routes.get(found.route)


def _no_route(request: web.Request) -> WireError:
    match request.match_info.http_exception:
        case web.HTTPMethodNotAllowed() as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            return wire_error(
                "method_not_allowed",
                f"this path does not take {error.method[:20]}",
                action=f"use {allowed}",
            )
        case web.HTTPException():
            return wire_error("not_found", "there is nothing at this path")
    return wire_error(
        "forbidden",
        "this route does not say who may use it",
        action="add it by the hook `add_routes`, with an access",
    )


def _preflight(server: Server, request: web.Request, route: Route | None) -> web.Response | None:
    """Return the answer to a browser that asks whether a page of a listed origin may ask."""
    origin = request.headers.get("Origin", "")
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return None
    cors = route.cors if route else None
    if not _listed(server, route, origin):
        return None
    methods = (cors.methods or (route.method,)) if route and cors else _CORS_METHODS
    taken = cors.headers if cors else CORS_HEADERS
    asked = request.headers.get("Access-Control-Request-Headers", "").split(",")
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": ", ".join(_allowed_headers(taken, asked)),
            "Access-Control-Max-Age": "600",
        },
    )


def _allowed_headers(taken: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return the request headers that a browser is told, each by its whole name."""
    begins = tuple(name[:-1].lower() for name in taken if name.endswith("*"))
    names = [name.strip().lower() for name in asked[:_ASKED_HEADERS]]
    more = [name for name in names if name.startswith(begins) and TOKEN.fullmatch(name)]
    return [name for name in taken if not name.endswith("*")] + more


def _listed(server: Server, route: Route | None, origin: str) -> bool:
    """Whether pages of `origin` may use a route."""
    rule = route.origins if route else None
    return (rule or server.gate.origins).listed(origin)


# -- errors -------------------------------------------------------------------------


def _answer(server: Server, request: web.Request, error: Exception) -> web.StreamResponse:
    problem = describe_error(server.host, error)
    if request.writer.output_size > 0:
        # Half of an answer is out; another one behind it would be read as part of it.
        raise ConnectionResetError("the answer broke off")
    response = _shaped(server, request, problem) or web.Response(
        status=problem.status,
        body=strict_json.dumps({"error": problem.to_json()}),
        content_type="application/json",
    )
    for name, value in _headers_of(problem):
        response.headers.setdefault(name, value)
    return response


def _shaped(server: Server, request: web.Request, problem: ErrorAnswer) -> web.Response | None:
    """Return the error in the shape of the route; None where it has none, or that fails."""
    shape = server.shape_of(request.path, request.get(ROUTE))
    if shape is None:
        return None
    try:
        response: object = shape(request, problem)
    except Exception as error:
        server.host.log.error("the shape of an error failed", path=request.path, exc_info=error)
        return None
    if not isinstance(response, web.Response) or response.prepared or response.status < 400:
        what = f"{type(response).__name__} {getattr(response, 'status', '')}".strip()
        server.host.log.error("the shape of an error is no error", path=request.path, found=what)
        return None
    return response


def _headers_of(problem: ErrorAnswer) -> list[tuple[str, str]]:
    headers = list(wait_header(problem.data).items())
    if problem.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if problem.status == 426:
        headers.append(("Upgrade", "websocket"))
    return headers


# -- the headers of every answer ------------------------------------------------------


def set_headers(server: Server) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return what gives every answer the headers that browsers and clients go by."""

    async def set_headers(request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        if (nonce := request.headers.get(NONCE_HEADER)) is not None:
            transport = request.transport
            local = transport.get_extra_info("sockname") if transport is not None else None
            if (proof := prove(server.key, nonce, local)) is not None:
                headers[PROOF_HEADER] = proof
        if response.status == 101:
            return
        headers["Server"] = "hookgate"
        if server.ending:
            # What comes next goes to another gateway, and nobody writes into a closed connection.
            response.force_close()
            headers["Connection"] = "close"
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        origin = request.headers.get("Origin")
        if origin is not None and _listed(server, request.get(ROUTE), origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "*"
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            headers.add("Vary", "Origin")

    return set_headers


# -- app -------------------------------------------------------------------------

# The gateway as an aiohttp application. It can be served by itself, or mounted in another.

ROUTES: web.AppKey[dict[AbstractRoute, Route]] = web.AppKey("hookgate routes", dict)
"""What every route that is served has declared."""

CLOSE_SECONDS = 3.0
"""Seconds that clients have to go away when the application ends."""


def build_app(gateway: Runtime, *, peers: PeerLookup | None = None) -> web.Application:
    """Return an aiohttp application that serves `gateway`.

    `Gateway.app` is the way to it: mount it, or serve it by itself. It holds no
    state outside of the gateway and itself, so two of them live side by side.

    Args:
        gateway: The gateway, started; its plugins have added their routes.
        peers: Tells whose the other end of a loopback connection is; for tests.

    Raises:
        StartError: The settings name hosts, proxies or tokens that cannot be, or two routes
            are the same.
    """
    server = Server(gateway.host, gateway.routes, peers=peers)
    routes: dict[AbstractRoute, Route] = {}
    app = web.Application(
        middlewares=[decide(server, routes)],
        client_max_size=server.settings.limits.frame_bytes,
    )
    app[SERVER] = server
    app[ROUTES] = routes
    served = _own_routes(server, gateway.routes)
    served.extend(gateway.routes)
    for route in served:
        made = app.router.add_route(route.method, route.path, route.handler)
        routes[made] = route
        if route.path == "/":
            server.served_at(made.resource)
    app.on_response_prepare.append(set_headers(server))
    app.cleanup_ctx.append(_run(server))
    app.on_shutdown.append(_shut(server))
    return app


def _own_routes(server: Server, others: Routes) -> Routes:
    """Return the gateway's own routes, and those of operations.

    Where a plugin has taken the path that an operation's name gives, the operation goes without.
    """
    routes = Routes()
    taken = {(route.method, route.path) for route in others}
    anyone = Access("scoped", None)
    asked = Access.public("a probe; says no more than whether the gateway works")
    socket = Access.self_checked("authenticates the upgrade request, or the first frame")
    routes.add("GET", "/ws", partial(serve_socket, server), access=socket)
    for method in ("GET", "HEAD"):
        routes.add(method, "/health", partial(_health, server), access=asked, probe=True)
        routes.add(method, "/ready", partial(_ready, server), access=asked, probe=True)
    if ("HEAD", "/") not in taken:
        # Clients of the vendors' wires ask it before anything else.
        routes.add("HEAD", "/", _here, access=asked)
    if others.pages and ("GET", "/") not in taken:
        led = Access.public("leads to a page, which anybody may load")
        routes.add("GET", "/", partial(_to_page, others.pages[0]), access=led)
    own = Access.self_checked("takes the credential from the body, or the session's cookie")
    routes.add("POST", "/v1/session", partial(log_in, server), access=own)
    routes.add("DELETE", "/v1/session", partial(log_out, server), access=own)
    forms = (*FORMS, SESSION)
    routes.add("GET", "/v1/session", partial(show, server), access=anyone, credentials=forms)
    named = partial(serve_named, server)
    routes.add("POST", "/v1/operations/{name}", named, access=anyone, credentials=forms)
    for name, operation in server.host.operations.items():
        if name != operation.name:
            continue  # the route of a former name is that of the operation
        handler, access = serve_operation(server, operation), Access("scoped", operation.scope)
        derived = ("POST", operation.path)
        if operation.rest not in (None, derived):
            routes.add(*operation.rest, handler, access=access, credentials=forms)
        if operation.rest == derived or derived not in taken:
            routes.add(*derived, handler, access=access, credentials=forms)
    return routes


async def _health(server: Server, _: web.Request) -> web.Response:
    degraded = sorted(server.host.degraded)
    body = {"status": "degraded" if degraded else "ok", "degraded": degraded}
    return web.Response(body=strict_json.dumps(body), content_type="application/json")


async def _here(_: web.Request) -> web.Response:
    return web.Response()


async def _to_page(page: str, _: web.Request) -> web.Response:
    # Relative, for applications that are mounted; not for ever, since plugins come and go.
    raise web.HTTPFound(f"{page.removeprefix('/')}/")


async def _ready(server: Server, _: web.Request) -> web.Response:
    return web.Response(
        status=200 if server.ready else 503,
        body=strict_json.dumps({"ready": server.ready}),
        content_type="application/json",
    )


# -- life ------------------------------------------------------------------------------


def _run(server: Server) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(_: web.Application) -> AsyncIterator[None]:
        """Ask clients whether they live, and hear of revoked tokens, for the app's life."""
        host, tokens = server.host, server.gate.tokens
        unwatch = tokens.watch(server.revoked)
        async with AsyncExitStack() as stack:
            stack.callback(server.gate.close)
            stack.callback(unwatch)
            stack.callback(host.ends_keys(server.end_key))
            asking = host.spawn(server.clients.keep_asking(), name="gateway heartbeat")
            yield
            asking.cancel()
            await asyncio.wait([asking])

    return run


def _shut(server: Server) -> Callable[[web.Application], Awaitable[None]]:
    async def shut(_: web.Application) -> None:
        server.stopping = True
        await server.clients.end_all(CLOSE_SECONDS)

    return shut
