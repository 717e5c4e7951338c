"""What a plugin's route may settle for itself: credentials, the shape of errors, bodies, CORS."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from tests.core.gateway.test_authenticate import ALICE, Keys, model, with_key
from tests.support.wire import Served, bearer, serving, tokens

from hookgate import (
    Access,
    Cors,
    Empty,
    ErrorAnswer,
    Gateway,
    Invocation,
    Operation,
    Routes,
    StartError,
    WireError,
    hookimpl,
)

PAGE = "https://app.example"
LISTED = "https://listed.example"
COOKIE = {"Cookie": "session=k_alice"}


def vendors(_: web.Request, problem: ErrorAnswer) -> web.Response:
    """The shape of errors of another product."""
    error = {"message": problem.message, "type": problem.code}
    return web.json_response({"error": error}, status=problem.status, headers={"x-shape": "1"})


class Compat:
    """A plugin with an endpoint that speaks another product's protocol."""

    name = "compat"

    def __init__(self, **options: Any) -> None:
        self.options = options

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        routes.error_code("compat_no_money", 402, "The key has nothing left.")
        scoped: dict[str, Any] = {"access": Access.scoped("chat"), **self.options}
        routes.add("POST", "/compat/chat", self.chat, errors=vendors, **scoped)
        routes.add("GET", "/compat/chat", self.chat, errors=vendors, **scoped)

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.read()
        if body == b"poor":
            raise WireError.named("compat_no_money", "nothing left", action="pay")
        if body == b"broken":
            raise RuntimeError("a secret detail")
        return web.json_response({"got": len(body)})

    @hookimpl
    def list_operations(self, host: Any) -> list[Operation[Any, Any]]:
        async def pay(invocation: Invocation, params: Empty) -> Empty:
            raise WireError.named("compat_no_money", "nothing left", retry_after=60)

        return [Operation(name="pay", summary="Pay.", params=Empty, result=Empty, handler=pay)]


async def ask(
    served: Served, method: str = "POST", body: Any = b"", **more: Any
) -> tuple[int, Any, Any]:
    path = served.url + "/compat/chat"
    async with served.http.request(method, path, data=body, **more) as answer:
        text = await answer.read()
        return answer.status, (json.loads(text) if text else None), answer.headers


# -- errors -----------------------------------------------------------------------------


async def test_every_error_of_a_route_has_its_shape_from_before_the_handler_on() -> None:
    section, made = tokens(chat={"scopes": ["chat"]}, reader={"scopes": ["read"]})
    right = bearer(made["chat"])
    async with serving(model(), Compat(max_body=100), wire=section) as served:
        cases = [
            (await ask(served), 401, "unauthorized"),
            (await ask(served, **bearer("wrong")), 401, "unauthorized"),
            (await ask(served, **bearer(made["reader"])), 403, "forbidden"),
            (await ask(served, "PUT", **right), 405, "method_not_allowed"),
            (await ask(served, body=b"x" * 101, **right), 413, "too_large"),
            (await ask(served, body=b"poor", **right), 402, "compat_no_money"),
            (await ask(served, body=b"broken", **right), 500, "internal"),
            (
                await ask(served, headers={"Host": "evil.example", **right["headers"]}),
                421,
                "wrong_host",
            ),
        ]
        for (status, answer, headers), expected, code in cases:
            assert (status, answer["error"]["type"]) == (expected, code)
            assert headers["x-shape"] == "1"
            assert "secret detail" not in answer["error"]["message"]
        assert cases[0][0][2]["WWW-Authenticate"] == "Bearer"
        assert (await ask(served, body=b"x" * 100, **right))[1] == {"got": 100}
        # The rest of the gateway keeps its own.
        assert (await served.get("/v1/status"))[1]["error"]["data"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    "shape",
    [
        lambda request, problem: 1 / 0,
        lambda request, problem: None,
        lambda request, problem: web.Response(text="fine"),
    ],
    ids=["raises", "nothing", "no error"],
)
async def test_a_shape_that_fails_leaves_the_gateways_own(shape: Any) -> None:
    class Broken:
        @hookimpl
        def add_routes(self, host: Any, routes: Routes) -> None:
            async def fail(request: web.Request) -> web.Response:
                raise WireError.named("anything", "it failed")

            routes.add("GET", "/fails", fail, access=Access.scoped("read"), errors=shape)

    async with serving(model(), Broken()) as served:
        status, answer = await served.get("/fails")
    assert (status, answer["error"]["data"]["code"]) == (500, "anything")


class Wire:
    """A plugin of outside that owns a prefix: its errors are those of another product."""

    def __init__(self, prefix: str = "/vendor/v1", name: str = "wire") -> None:
        self.prefix, self.name = prefix, name

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        async def serve(request: web.Request) -> web.Response:
            return web.json_response({"got": len(await request.read())})

        routes.errors(self.prefix, self.shape)
        path = f"{self.prefix.rstrip('/')}/{self.name}"
        routes.add("POST", path, serve, access=Access.scoped("chat"), max_body=100)

    def shape(self, request: web.Request, problem: ErrorAnswer) -> web.Response:
        told = {"type": "error", "by": self.name, "error": {"type": problem.code}}
        return web.json_response(told, status=problem.status)


async def test_a_prefix_owns_its_errors_where_nothing_is_served_as_well() -> None:
    section, made = tokens(chat={"scopes": ["chat"]}, reader={"scopes": ["read"]})
    right, reader = bearer(made["chat"]), bearer(made["reader"])
    plugins = (Wire(), Wire("/vendor/v1/deep", "deep"), Compat())
    async with serving(model(), *plugins, wire=section) as served:

        async def asked(method: str, path: str, **more: Any) -> tuple[int, str, str]:
            async with served.http.request(method, served.url + path, **more) as answer:
                told = await answer.json()
            return answer.status, told.get("by", ""), told["error"].get("type", "")

        path = "/vendor/v1/wire"
        assert await asked("POST", path) == (401, "wire", "unauthorized")
        assert await asked("POST", path, **reader) == (403, "wire", "forbidden")
        assert await asked("PUT", path) == (405, "wire", "method_not_allowed")
        assert await asked("POST", path, data=b"x" * 101, **right) == (413, "wire", "too_large")
        evil = {"headers": {"Host": "evil.example"}}
        assert await asked("GET", path, **evil) == (421, "wire", "wrong_host")
        for unknown in ("/vendor/v1", "/vendor/v1/", "/vendor/v1/none", "/vendor/v1//a/../b"):
            assert await asked("GET", unknown) == (404, "wire", "not_found")
        # The longest prefix counts, a part of a name is none, and the rest is the gateway's own.
        assert await asked("GET", "/vendor/v1/deep/none") == (404, "deep", "not_found")
        for other in ("/vendor/v11", "/vendor", "/none", "/v1/status"):
            assert (await asked("GET", other))[1:] == ("", "")


async def test_a_prefix_leaves_the_routes_of_others_their_own_shape() -> None:
    async with serving(model(), Wire("/v1"), Wire("/", "all"), Compat()) as served:
        for path, by in (("/v1/operations/none", None), ("/v1/none", "wire"), ("/none", "all")):
            async with served.http.post(served.url + path, json={}) as answer:
                assert (answer.status, (await answer.json()).get("by")) == (404, by)
        status, answer, headers = await ask(served, "PUT")
        assert (status, headers["x-shape"]) == (405, "1")
        assert answer["error"]["type"] == "method_not_allowed"


async def test_a_prefix_that_cannot_be_owned_is_named() -> None:
    routes = Routes()
    routes.plugin = "acme"
    for prefix, shape in (("v1", vendors), ("/v1/", vendors), ("", vendors), ("/v1", "json")):
        with pytest.raises(StartError, match=f"the errors below {prefix}"):
            routes.errors(prefix, shape)  # type: ignore[arg-type]
    with pytest.raises(
        Exception, match=r"below /vendor/v1 are shaped by .* choose a longer prefix"
    ):
        async with serving(model(), Wire(), Wire(name="twin")):
            raise AssertionError("it started")


async def test_the_root_answers_whoever_asks_whether_something_is_there() -> None:
    section, _ = tokens(chat={})
    async with serving(model(), wire=section) as served:
        async with served.http.head(served.url + "/") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        assert (await served.get("/"))[0] == 405


class Pages:
    name = "pages"

    @hookimpl
    def add_routes(self, routes: Any) -> None:
        for prefix in ("/second", "/other"):
            routes.static(prefix, "hookgate.builtin_plugins.dashboard", "static", why="a page")


class Root:
    name = "root"

    @hookimpl
    def add_routes(self, routes: Any) -> None:
        routes.add("GET", "/", self.show, access=Access.public("a page of its own"))

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response("mine")


async def test_the_root_leads_to_the_first_page_unless_a_plugin_has_one_there() -> None:
    async with serving(model(), Pages()) as served:
        root = served.url + "/"
        async with served.http.get(root, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, "second/")
        async with served.http.get(root) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
    async with serving(model(), Pages(), Root()) as served:
        assert (await served.get("/"))[0] == 200


async def test_a_registered_code_has_its_status_in_operations_too() -> None:
    async with serving(model(), Compat()) as served:
        async with served.http.post(served.url + "/v1/operations/pay", json={}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (402, "60")
        async with served.socket() as socket:
            error = (await socket.call("pay"))["error"]
    assert (error["code"], error["data"]["code"]) == (-32000, "compat_no_money")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (("not_allowed", 403, "x"), "gateway has a code"),
        (("unauthorized", 401, "x"), "gateway has a code"),
        (("Bad Name", 400, "x"), "lower-case"),
        (("acme_fine", 200, "x"), "400 to 599"),
        (("acme_fine", "400", "x"), "400 to 599"),
        (("acme_fine", 400, " "), "sentence"),
    ],
)
def test_a_code_that_cannot_be_is_named(code: Any, says: str) -> None:
    routes = Routes()
    routes.plugin = "acme"
    with pytest.raises(StartError, match=f"{code[0]}.* of acme: .*{says}"):
        routes.error_code(*code)
    assert routes.codes == {}


async def test_two_plugins_with_one_code_do_not_start_and_both_are_named() -> None:
    class Twin:
        name = "twin"

        @hookimpl
        def add_routes(self, host: Any, routes: Routes) -> None:
            routes.error_code("compat_no_money", 402, "The same.")

    with pytest.raises(Exception, match=r"compat_no_money") as caught:
        async with serving(model(), Compat(), Twin()):
            raise AssertionError("it started")
    assert "twin" in str(caught.value)
    assert re.search("(compat|twin) has registered one", str(caught.value))


@pytest.mark.parametrize(
    "options",
    [
        {"max_body": 0},
        {"max_body": "1"},
        {"errors": "json"},
        {"cors": PAGE},
        {"cors": Cors(origins=("*",))},
        {"cors": Cors(origins=PAGE)},  # type: ignore[arg-type]
        {"cors": Cors(origins=(PAGE,), headers=("a b",))},
        {"cors": Cors(origins=(PAGE,), headers=("*",))},
        {"credentials": ("basic",)},
        {"credentials": ()},
    ],
)
def test_an_option_that_cannot_be_is_named_with_its_route(options: Any) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    routes = Routes()
    with pytest.raises(StartError, match="route GET /x: "):
        routes.add("GET", "/x", handler, access=Access.scoped("read"), **options)
    assert len(routes) == 0


# -- bodies -------------------------------------------------------------------------------


async def pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 1000):
        yield b"x" * 1000
        await asyncio.sleep(0)


async def test_a_body_is_held_to_the_limit_of_its_route_with_a_length_and_without() -> None:
    wire = {"limits": {"frame_bytes": 2000}}
    async with serving(model(), Compat(max_body=50_000), wire=wire) as served:
        assert (await ask(served, body=b"x" * 50_000))[1] == {"got": 50_000}
        assert (await ask(served, body=pieces(50_000)))[1] == {"got": 50_000}
        for body in (b"x" * 50_001, pieces(51_000)):
            status, answer, _ = await ask(served, body=body)
            assert (status, answer["error"]["type"]) == (413, "too_large")
    async with serving(model(), Compat(), wire=wire) as served:
        for body in (b"x" * 2001, pieces(3000)):
            status, answer, _ = await ask(served, body=body)
            assert (status, answer["error"]["type"]) == (413, "too_large")


async def test_a_body_that_says_it_is_too_long_is_refused_before_it_has_come() -> None:
    wire = {"limits": {"frame_bytes": 2000}}
    async with serving(model(), Compat(max_body=50_000), wire=wire) as served:
        head = f"POST /compat/chat HTTP/1.1\r\nHost: {served.host}\r\n"
        # Nothing of it comes: who waited for that would wait for ever.
        answer = await served.raw(f"{head}Content-Length: 50001\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


# -- pages of other origins ------------------------------------------------------------------


async def test_a_route_with_origins_of_its_own_serves_them_and_not_those_of_the_settings() -> None:
    cors = Cors(origins=(PAGE,), headers=("X-Api-Key", "X-Extra"))
    wire = {"allowed_origins": [LISTED]}
    async with serving(model(), Compat(cors=cors), wire=wire) as served:
        for origin, allowed in ((PAGE, True), (LISTED, False), ("https://evil.example", False)):
            for method in ("POST", "GET"):
                status, _, headers = await ask(served, method, headers={"Origin": origin})
                assert status == (200 if allowed or method == "GET" else 403)
                assert headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            status, _, headers = await ask(served, "OPTIONS", headers=asked)
            assert status == (204 if allowed else 405)
            if allowed:
                assert headers["Access-Control-Allow-Methods"] == "POST"
                assert headers["Access-Control-Allow-Headers"] == "X-Api-Key, X-Extra"
                assert "Access-Control-Allow-Credentials" not in headers
                assert headers["Access-Control-Expose-Headers"] == "*"
        # An error is for the page to read as well.
        _, _, headers = await ask(served, "PUT", headers={"Origin": PAGE})
        assert headers["Access-Control-Allow-Origin"] == PAGE
        # And the other way round, elsewhere.
        for origin, status in ((PAGE, 403), (LISTED, 200)):
            body = {"content": "x"}
            assert (await served.post("/v1/turns", body, headers={"Origin": origin}))[0] == status


async def test_pages_of_listed_origins_may_send_what_the_vendors_sdks_send() -> None:
    sdks = "anthropic-version, X-Stainless-OS,openai-organization, authorization"
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"{sdks}, x-evil, x-stainless-a b",
    }
    for cors, origins in ((Cors(origins=(PAGE,)), []), (None, [PAGE])):
        wire = {"allowed_origins": origins}
        async with serving(model(), Compat(cors=cors), wire=wire) as served:
            _, _, headers = await ask(served, "OPTIONS", headers=asked)
        told = headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert {"anthropic-version", "x-stainless-os", "openai-organization"} <= set(told)
        assert {"authorization", "x-api-key", "content-type", "idempotency-key"} <= set(told)
        assert not {name for name in told if "*" in name or "evil" in name or " " in name}


# -- credentials ------------------------------------------------------------------------------


async def test_a_route_takes_the_forms_that_it_names() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, Compat(credentials=("x-api-key",))) as served:
        assert (await ask(served, **with_key("k_alice")))[0] == 200
        status, answer, _ = await ask(served, **bearer("k_alice"))
        assert status == 401
        assert "x-api-key" not in answer["error"]["message"]
        assert "not taken here" in answer["error"]["message"]
        # A route that names no cookie knows of none.
        assert (await ask(served, headers={**COOKIE, "x-api-key": "k_alice"}))[0] == 200
    assert [item.kind for item in keys.asked] == ["x-api-key", "x-api-key"]


async def test_one_key_in_both_headers_is_one_credential() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, Compat(credentials=("x-api-key",))) as served:
        both = {"Authorization": "Bearer k_alice", "x-api-key": "k_alice"}
        assert (await served.get("/v1/status", headers=both))[0] == 200
        async with served.http.post(served.url + "/compat/chat", headers=both) as answer:
            assert answer.status == 200
    assert [item.kind for item in keys.asked] == ["bearer", "x-api-key"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "own"}, 200),
        ({"Origin": "own", "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": LISTED}, 403),
        ({"Origin": PAGE}, 403),
        ({"Origin": LISTED, "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Origin": "own", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_a_cookie_counts_in_requests_of_the_gateways_own_pages_alone(
    method: str, told: dict[str, str], status: int
) -> None:
    section, _ = tokens(ops={})
    keys = Keys(k_alice=ALICE)
    plugin = Compat(credentials=("cookie:session",), cors=Cors(origins=(PAGE,)))
    wire = {**section, "allowed_origins": [LISTED], "limits": {"attempts_per_minute": 1}}
    async with serving(model(), keys, plugin, wire=wire) as served:
        headers = {**told, **COOKIE}
        if told.get("Origin") == "own":
            headers["Origin"] = served.url
        assert (await ask(served, method, headers=headers))[0] == status
        assert len(keys.asked) == (status == 200)
        # What a foreign page does in a browser shuts nobody out.
        right = {**COOKIE, "Sec-Fetch-Site": "same-origin"}
        assert (await ask(served, method, headers=right))[0] == 200


async def test_a_token_of_the_settings_is_not_taken_from_a_cookie() -> None:
    section, made = tokens(ops={})
    cookie = {"Cookie": f"session={made['ops']}", "Sec-Fetch-Site": "same-origin"}
    async with serving(model(), Compat(credentials=("cookie:session",)), wire=section) as served:
        assert (await ask(served, headers=cookie))[0] == 401


async def test_the_shape_of_errors_holds_in_a_gateway_that_is_mounted(tmp_path: Any) -> None:
    async with serving(model(), Compat(), Wire()) as served:
        gate: Gateway = served.gate
        parent = web.Application()
        parent.add_subapp("/inner", gate.app())
        runner = web.AppRunner(parent)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            url = f"http://127.0.0.1:{site.port}/inner"
            async with served.http.put(f"{url}/compat/chat") as answer:
                assert (answer.status, answer.headers["x-shape"]) == (405, "1")
            async with served.http.get(f"{url}/vendor/v1/none") as answer:
                assert (answer.status, (await answer.json())["by"]) == (404, "wire")
            async with served.http.head(f"{url}/") as answer:
                assert answer.status == 200
        finally:
            await runner.cleanup()


async def test_the_log_says_who_sent_a_body_that_was_held_to_a_limit(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with serving(
        model(), Keys(k_alice=ALICE), Compat(max_body=10), log={"requests": True}
    ) as served:
        assert (await ask(served, body=b"x" * 10, **with_key("k_alice")))[0] == 200
        assert (await ask(served, body=b"x" * 11, **with_key("k_alice")))[0] == 413
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[0] == "{"]
    told = [(line["principal"], line["status"]) for line in lines if line["event"] == "request"]
    assert told == [("key:alice", 200), ("key:alice", 413)]
