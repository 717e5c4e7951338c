from __future__ import annotations

import base64
import os
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.script import Script, Scripted, say
from tests.support.wire import Served, bearer, serving, tokens

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway.app import ROUTES, build_app
from hookgate.core.gateway.requests import client_of, principal_of
from hookgate.core.gateway.routes import Access, Routes
from hookgate.hookspecs import hookimpl


class Pages:
    """A plugin with a route of each kind of access."""

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        async def show(request: web.Request) -> web.Response:
            return web.json_response({"by": principal_of(request).id})

        async def plain(request: web.Request) -> web.Response:
            return web.Response(text="plain")

        async def fail(request: web.Request) -> web.Response:
            raise web.HTTPConflict(text="taken")

        routes.add("GET", "/pages/{page}", show, access=Access.scoped("read"))
        routes.add("POST", "/pages", show, access=Access.scoped("operate"))
        routes.add("GET", "/logo.svg", plain, access=Access.public("a picture"))
        routes.add("POST", "/hook", plain, access=Access.self_checked("a signature"))
        routes.add("GET", "/taken", fail, access=Access.public("a test"))


async def test_every_route_of_the_router_declares_its_access() -> None:
    async with serving(Pages()) as served:
        app = served.listener.app
        router = list(app.router.routes())
        assert len(router) >= 15
        assert set(router) == set(app[ROUTES])
        assert all(isinstance(route.access, Access) for route in app[ROUTES].values())
        open_to_all = {
            (route.method, route.resource.canonical if route.resource else "")
            for route, declared in app[ROUTES].items()
            if declared.access.kind != "scoped"
        }
    assert open_to_all == {
        ("GET", "/ws"),
        ("HEAD", "/"),
        ("GET", "/health"),
        ("HEAD", "/health"),
        ("GET", "/ready"),
        ("HEAD", "/ready"),
        ("POST", "/v1/session"),
        ("DELETE", "/v1/session"),
        ("GET", "/logo.svg"),
        ("POST", "/hook"),
        ("GET", "/taken"),
    }


async def test_a_route_that_declares_no_access_is_denied() -> None:
    async def secret(request: web.Request) -> web.Response:
        return web.Response(text="secret")

    async with serving() as served:
        app = build_app(served.gate)
        app.router.add_get("/beside", secret)
        async with TestServer(app) as server, TestClient(server) as client:
            async with client.get("/beside") as answer:
                assert answer.status == 403
                assert "secret" not in await answer.text()
            async with client.get("/health") as answer:
                assert answer.status == 200


async def test_each_access_lets_in_whom_it_says() -> None:
    section, made = tokens(reader={"scopes": ["read"]}, owner={"scopes": ["read", "operate"]})
    async with serving(Pages(), wire=section) as served:
        assert (await served.get("/pages/a"))[0] == 401
        assert await served.get("/pages/a", **bearer(made["reader"])) == (
            200,
            {"by": "token:reader"},
        )
        assert (await served.post("/pages", **bearer(made["reader"])))[0] == 403
        assert await served.post("/pages", **bearer(made["owner"])) == (200, {"by": "token:owner"})
        async with served.http.get(served.url + "/logo.svg") as answer:
            assert await answer.text() == "plain"
        async with served.http.post(served.url + "/hook") as answer:
            assert await answer.text() == "plain"


class Counting:
    """A route that says what its requests are counted by."""

    name = "counting"

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        async def count(request: web.Request) -> web.Response:
            return web.Response(text=client_of(request))

        routes.add("GET", "/hook", count, access=Access.self_checked("a signature"))


async def test_route_that_checks_for_itself_knows_where_a_request_comes_from() -> None:
    async with serving(Counting()) as served, served.http.get(served.url + "/hook") as answer:
        assert await answer.text() == "127.0.0.1"
    section, _ = tokens(ops={"scopes": ["read"]})
    async with serving(Counting(), wire={**section, "trusted_proxies": ["127.0.0.1"]}) as served:
        for client, counted in (("192.0.2.7", "192.0.2.7"), ("2001:db8::7", "2001:db8::/64")):
            headers = {"X-Forwarded-For": client}
            async with served.http.get(served.url + "/hook", headers=headers) as answer:
                assert await answer.text() == counted


async def test_what_a_handler_answers_on_purpose_goes_out_as_it_is() -> None:
    async with serving(Pages()) as served, served.http.get(served.url + "/taken") as answer:
        assert (answer.status, await answer.text()) == (409, "taken")


def test_a_route_that_changes_something_is_no_probe() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    with pytest.raises(StartError, match="a probe only reads, expected GET or HEAD"):
        Routes().add("POST", "/x", handler, access=Access.public("a test"), probe=True)


@pytest.mark.parametrize(
    ("method", "path", "access", "says"),
    [
        ("GET", "/x", None, "declares|access"),
        ("GET", "/x", "read", "access"),
        ("CONNECT", "/x", Access.scoped("read"), "expected one of"),
        ("GET", "x", Access.scoped("read"), "slash"),
        ("get", "/known", Access.scoped("read"), "twice"),
    ],
)
def test_a_route_that_is_not_right_is_refused(
    method: str, path: str, access: Any, says: str
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    routes = Routes()
    routes.add("GET", "/known", handler, access=Access.public("a test"))
    with pytest.raises(StartError, match=says):
        routes.add(method, path, handler, access=access)
    assert len(routes) == 1


async def test_a_plugin_cannot_take_a_path_of_the_gateway() -> None:
    class Thief:
        @hookimpl
        def add_routes(self, host: Any, routes: Routes) -> None:
            async def handler(request: web.Request) -> web.Response:
                return web.Response()

            routes.add("GET", "/ws", handler, access=Access.public("mine"))

    with pytest.raises(StartError, match="added twice"):
        async with serving(Thief(), Scripted(Script(say("x")))):
            raise AssertionError("it started")


# -- tricks with paths and protocols ---------------------------------------------------

PATHS = ("/v1/status", "/v1/sessions", "/v1/operations/status", "/pages/a", "/ws", "/v1/turns")


def spellings(path: str, host: str) -> list[str]:
    """Ways to write a path that some servers take for the same one."""
    last = path.rpartition("/")[2]
    return [
        path,
        path + "/",
        "/" + path,
        "//" + path[1:],
        path.upper(),
        path.replace("/", "%2f"),
        path.replace("/", "%2F")[3:],
        "/" + path[1:].replace("/", "%2f"),
        "/" + path[1:].replace("/", "%252f"),
        path.replace("s", "%73"),
        path.replace("s", "%2573"),
        f"/health/..{path}",
        f"/health/%2e%2e{path}",
        f"/./{path[1:]}",
        f"/health;{path}",
        f"{path};.svg",
        f"{path}%00",
        f"{path}%00.svg",
        f"{path}%20",
        f"{path}.json",
        f"{path}?x=/logo.svg",
        f"{path}#/logo.svg",
        f"/logo.svg/../{last}",
        f"/logo.svg%2f..{path}",
        path.replace("/", "\\"),
        f"http://{host}{path}",
        f"http://evil.example{path}",
        f"*{path}",
    ]


async def status_of(
    served: Served, method: str, target: str, extra: list[str], version: str
) -> int:
    lines = [f"{method} {target} HTTP/{version}", f"Host: {served.host}", *extra]
    if method == "POST":
        lines += ["Content-Type: application/json", "Content-Length: 2"]
    text = "\r\n".join(lines) + "\r\n\r\n" + ("{}" if method == "POST" else "")
    answer = await served.raw(text)
    return int(answer.split(b" ", 2)[1]) if answer else 0


UPGRADE = ["Connection: Upgrade", "Upgrade: websocket"]
KEY = f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}"
VARIANTS = (
    (["Connection: close"], "1.1"),
    ([], "1.0"),
    (["Connection: close", "X-Original-URL: /health"], "1.1"),
    (["Connection: close", "X-Rewrite-URL: /health"], "1.1"),
    (["Connection: close", "X-HTTP-Method-Override: GET"], "1.1"),
    (["Connection: close", "Authorization: Bearer"], "1.1"),
    (["Connection: close", "Authorization: Basic YTpi"], "1.1"),
)


async def test_no_spelling_of_a_path_gets_past_the_token() -> None:
    section, _ = tokens(ops={})
    through, seen = [], 0
    async with serving(
        Pages(), wire={**section, "limits": {"attempts_per_minute": 9999}}
    ) as served:
        for path in PATHS:
            for target in spellings(path, served.host):
                for extra, version in VARIANTS:
                    method = "POST" if path == "/v1/turns" else "GET"
                    status = await status_of(served, method, target, extra, version)
                    seen += 1
                    if 200 <= status < 300 or status == 101:
                        through.append((method, target, extra, version, status))
    assert through == []
    assert seen == len(PATHS) * len(spellings("/a", "b")) * len(VARIANTS)


async def test_old_versions_of_the_websocket_are_no_way_in() -> None:
    section, made = tokens(ops={})
    token = f"Authorization: Bearer {made['ops']}"
    async with serving(wire=section) as served:
        for version in ("0", "6", "12", "14", "", "13, 8"):
            extra = [*UPGRADE, KEY, f"Sec-WebSocket-Version: {version}", token]
            assert await status_of(served, "GET", "/ws", extra, "1.1") == 426, version
        for http, key in (("1.0", KEY), ("1.1", "Sec-WebSocket-Key: short"), ("1.1", "X: y")):
            extra = [*UPGRADE, key, "Sec-WebSocket-Version: 13", token]
            assert await status_of(served, "GET", "/ws", extra, http) == 426
        for upgrade in ("Upgrade: h2c", "X: y"):
            extra = ["Connection: Upgrade", upgrade, KEY, "Sec-WebSocket-Version: 13", token]
            assert await status_of(served, "GET", "/ws", extra, "1.1") == 426
        right = [*UPGRADE, KEY, "Sec-WebSocket-Version: 13", token]
        assert await status_of(served, "GET", "/ws", right, "1.1") == 101


async def test_a_smuggled_second_request_needs_the_token_too() -> None:
    section, made = tokens(ops={})
    async with serving(wire=section) as served:
        first = f"GET /v1/status HTTP/1.1\r\nHost: {served.host}\r\n"
        token = f"Authorization: Bearer {made['ops']}\r\n"
        two = first + token + "\r\n" + first + "Connection: close\r\n\r\n"
        answers = await served.raw(two, read=-1)
    statuses = [part.split(b" ")[0] for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"401"]
