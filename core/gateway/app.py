"""The gateway as an aiohttp application. It can be served by itself, or mounted in another."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.domain import strict_json
from hookgate.core.domain.operations import Access
from hookgate.core.gateway.codes import describe, wire_error
from hookgate.core.gateway.front import Front
from hookgate.core.gateway.proof import NONCE_HEADER, PROOF_HEADER, prove
from hookgate.core.gateway.rest import error_response, serve_named, serve_operation
from hookgate.core.gateway.routes import CALLER, Handler, Routes
from hookgate.core.gateway.websocket import serve_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from aiohttp.typedefs import Middleware
    from aiohttp.web_urldispatcher import AbstractRoute

    from hookgate.core.domain.errors import WireError
    from hookgate.core.gateway.peer import PeerLookup
    from hookgate.core.runtime import Gateway

__all__ = ["FRONT", "ROUTES", "build_app"]

FRONT: web.AppKey[Front] = web.AppKey("hookgate front", Front)
"""What all requests of the gateway share."""

ROUTES: web.AppKey[dict[AbstractRoute, Access]] = web.AppKey("hookgate routes", dict)
"""The access of every route that is served."""

CLOSE_SECONDS = 3.0
"""Seconds that clients have to go away when the application ends."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CORS_METHODS = "GET, POST, PUT, PATCH, DELETE"
_CORS_HEADERS = "Authorization, Content-Type"


def build_app(gateway: Gateway, *, peers: PeerLookup | None = None) -> web.Application:
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
    front = Front(gateway.host, peers=peers)
    access: dict[AbstractRoute, Access] = {}
    app = web.Application(
        middlewares=[_decide(front, access)],
        client_max_size=front.settings.limits.frame_bytes,
    )
    app[FRONT] = front
    app[ROUTES] = access
    served = _own_routes(front)
    for route in gateway.routes:
        served.add(route.method, route.path, route.handler, access=route.access)
    for route in served:
        made = app.router.add_route(route.method, route.path, route.handler)
        access[made] = route.access
    app.on_response_prepare.append(_set_headers(front))
    app.cleanup_ctx.append(_run(front))
    app.on_shutdown.append(_shut(front))
    return app


def _own_routes(front: Front) -> Routes:
    """Return the gateway's own routes, and those that operations declare."""
    routes = Routes()
    anyone = Access("scoped", None)
    probe = Access.public("a probe; says no more than whether the gateway works")
    socket = Access.self_checked("authenticates the upgrade request, or the first frame")
    routes.add("GET", "/ws", partial(serve_socket, front), access=socket)
    for method in ("GET", "HEAD"):
        routes.add(method, "/health", partial(_health, front), access=probe)
        routes.add(method, "/ready", partial(_ready, front), access=probe)
    routes.add("POST", "/v1/operations/{name}", partial(serve_named, front), access=anyone)
    for operation in front.host.operations.values():
        if operation.rest is not None:
            method, path = operation.rest
            access = Access("scoped", operation.scope)
            routes.add(method, path, serve_operation(front, operation), access=access)
    return routes


async def _health(front: Front, _: web.Request) -> web.Response:
    degraded = sorted(front.host.degraded)
    body = {"status": "degraded" if degraded else "ok", "degraded": degraded}
    return web.Response(body=strict_json.dumps(body), content_type="application/json")


async def _ready(front: Front, _: web.Request) -> web.Response:
    return web.Response(
        status=200 if front.ready else 503,
        body=strict_json.dumps({"ready": front.ready}),
        content_type="application/json",
    )


# -- every request ----------------------------------------------------------------


def _decide(front: Front, access: Mapping[AbstractRoute, Access]) -> Middleware:
    """Return what lets requests in, or answers why not, and gives errors the wire's form.

    The decision hangs on the route that was resolved, not on the path as it was written: no
    spelling of a path leads to a handler past it. A route that declares no access is denied.
    """

    @web.middleware
    async def decide(request: web.Request, handler: Handler) -> web.StreamResponse:
        requests = front.requests
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
            declared = access.get(request.match_info.route)
            front.gate.check_wire(request)
            if declared is None:
                if (preflight := _preflight(front, request)) is not None:
                    return preflight
                raise _no_route(request)
            with front.live():
                caller = await front.gate.admit(request, declared)
                if caller is not None:
                    request[CALLER] = caller
                return await handler(request)
        except web.HTTPException:
            raise
        except ConnectionError as error:
            if request.transport is None:
                return web.Response()  # nobody is there to read it
            return _answer(front, request, error)
        except Exception as error:  # noqa: BLE001 - every fault becomes an answer and a log line
            return _answer(front, request, error)

    return decide


def _answer(front: Front, request: web.Request, error: Exception) -> web.Response:
    problem = describe(front.host, error)
    if request.writer.output_size > 0:
        # Half of an answer is out; another one behind it would be read as part of it.
        raise ConnectionResetError("the answer broke off")
    return error_response(problem)


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


def _preflight(front: Front, request: web.Request) -> web.Response | None:
    """Return the answer to a browser that asks whether a page of a listed origin may ask."""
    origin = request.headers.get("Origin", "")
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return None
    if not front.gate.origins.listed(origin):
        return None
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": _CORS_METHODS,
            "Access-Control-Allow-Headers": _CORS_HEADERS,
            "Access-Control-Max-Age": "600",
        },
    )


def _set_headers(front: Front) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def set_headers(request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        if (nonce := request.headers.get(NONCE_HEADER)) is not None:
            transport = request.transport
            local = transport.get_extra_info("sockname") if transport is not None else None
            if (proof := prove(front.key, nonce, local)) is not None:
                headers[PROOF_HEADER] = proof
        if response.status == 101:
            return
        headers["Server"] = "hookgate"
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        origin = request.headers.get("Origin")
        if origin is not None and front.gate.origins.listed(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            headers.add("Vary", "Origin")

    return set_headers


# -- life ------------------------------------------------------------------------------


def _run(front: Front) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(_: web.Application) -> AsyncIterator[None]:
        """Ask clients whether they live, and hear of revoked tokens, for the app's life."""
        host, tokens = front.host, front.gate.tokens
        unwatch = tokens.watch(front.revoked)
        async with AsyncExitStack() as stack:
            stack.callback(front.gate.close)
            stack.callback(unwatch)
            asking = host.spawn(front.clients.keep_asking(), name="gateway heartbeat")
            yield
            asking.cancel()
            await asyncio.wait([asking])

    return run


def _shut(front: Front) -> Callable[[web.Application], Awaitable[None]]:
    async def shut(_: web.Application) -> None:
        front.stopping = True
        await front.clients.end_all(CLOSE_SECONDS)

    return shut
