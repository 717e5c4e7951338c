"""The gateway as an aiohttp application. It can be served by itself, or mounted in another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.domain import strict_json
from hookgate.core.gateway.access.credentials import FORMS, SESSION
from hookgate.core.gateway.access.peer import PeerLookup
from hookgate.core.gateway.middleware import decide, set_headers
from hookgate.core.gateway.routes import Access, Route, Routes
from hookgate.core.gateway.server import SERVER, Server
from hookgate.core.gateway.wire.login import log_in, log_out, show
from hookgate.core.gateway.wire.rest import serve_named, serve_operation
from hookgate.core.gateway.wire.websocket import serve_socket

if TYPE_CHECKING:
    from aiohttp.web_urldispatcher import AbstractRoute

    from hookgate.core.runtime import Runtime

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
    served = _own_routes(server, {(route.method, route.path) for route in gateway.routes})
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


def _own_routes(server: Server, taken: Collection[tuple[str, str]]) -> Routes:
    """Return the gateway's own routes, and those of operations.

    Where a plugin has taken the path that an operation's name gives, the operation goes without.
    """
    routes = Routes()
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
