from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from aiohttp import web
from httpx_sse import aconnect_sse
from tests.core.gateway.test_chat import Gate
from tests.core.json_cases import REFUSED
from tests.support.script import (
    Allow,
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    say,
    until,
)
from tests.support.wire import Served, serving

from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.turn import Address, Origin, Principal, TurnRequest
from hookgate.core.gateway.operations import Invocation, Operation, OperationModel
from hookgate.core.gateway.routes import Access
from hookgate.core.gateway.wire import rest, sse
from hookgate.hookspecs import hookimpl

SSE = {"Accept": "text/event-stream"}


class Shelf(OperationModel):
    shelf: str
    tags: tuple[str, ...] = ()
    limit: int = 10


class Books(OperationModel):
    shelf: str
    tags: tuple[str, ...]
    limit: int
    by: str
    face: str


class Library:
    """A plugin with operations that have routes of their own."""

    def __init__(self, *routes: tuple[str, str]) -> None:
        self.routes = routes

    @hookimpl
    def list_operations(self, host: Any) -> list[Operation[Any, Any]]:
        async def books(invocation: Invocation, params: Shelf) -> Books:
            return Books(by=invocation.principal.id, face=invocation.face, **params.model_dump())

        return [
            Operation(
                name=f"books.{number}",
                summary="Books.",
                params=Shelf,
                result=Books,
                handler=books,
                rest=route,
            )
            for number, route in enumerate(self.routes)
        ]


async def events(
    served: Served, path: str = "/v1/turns", body: Any = None, method: str = "POST"
) -> AsyncIterator[tuple[str, Any]]:
    """Read a stream of events with a client of its own."""
    more = {} if body is None else {"json": body}
    async with (
        httpx.AsyncClient() as client,
        aconnect_sse(client, method, served.url + path, **more) as source,
    ):
        async for event in source.aiter_sse():
            yield event.event, json.loads(event.data)


async def test_a_message_gets_one_json_answer() -> None:
    script = Script(call(("c1", "echo", {"text": "hey"})), say("it said hey"))
    async with serving(Scripted(script), Tools(echo_tool()), Allow()) as served:
        status, answer = await served.post("/v1/turns", {"content": "hi"})
    assert status == 200
    assert answer.pop("turn").startswith("turn_")
    assert answer.pop("usage")["output_tokens"] == 14
    assert answer == {
        "session": "main:cli:local:main",
        "ending": "done",
        "text": "it said hey",
        "stop": "end",
        "tool_calls": [
            {
                "id": "c1",
                "name": "echo",
                "input": {"text": "hey"},
                "content": "hey",
                "is_error": False,
                "status": "done",
            }
        ],
        "error": None,
    }


async def test_a_message_gets_its_events_as_they_come() -> None:
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served:
        got = []
        async for kind, data in events(served, body={"content": "hi"}):
            got.append((kind, data))
            if kind == "text" and not gate.open.is_set():
                assert data == {"text": "one"}
                gate.open.set()
    kinds = [kind for kind, _ in got]
    assert kinds == ["result", "context", "text", "text", "text", "usage", "done"]
    assert got[0][1] == {"turn": got[-1][1]["turn"], "session": "main:cli:local:main"}
    assert got[-1][1]["text"] == "one two"


async def test_a_provider_hears_whether_pieces_are_waited_for() -> None:
    script = Script(say("one"), say("two"))
    async with serving(Scripted(script)) as served:
        await served.post("/v1/turns", {"content": "x"})
        [_ async for _ in events(served, body={"content": "x"})]
    assert [request.whole for request in script.requests] == [True, False]


async def test_silence_is_broken_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE", 0.02)
    gate = Gate()
    async with (
        serving(Scripted(Script(gate.stops()))) as served,
        served.http.post(served.url + "/v1/turns", json={"content": "x"}, headers=SSE) as answer,
    ):
        seen = b""
        while b": keep-alive\n\n" not in seen:
            seen += await answer.content.readany()
        gate.open.set()
        seen += await answer.content.read()
    assert seen.endswith(b"\n\n")
    assert seen.count(b"event: done\n") == 1


async def test_an_error_before_the_message_is_committed_has_a_status_of_its_own() -> None:
    async with serving(
        default_agent=None, bindings=[{"agent": "main", "channel": "irc"}]
    ) as served:
        for headers in ({}, SSE):
            status, answer = await served.post("/v1/turns", {"content": "x"}, headers=headers)
            assert status == 422
            assert answer["error"]["code"] == -32003
            assert answer["error"]["data"]["code"] == "no_agent"


async def test_a_turn_that_fails_later_says_so_in_its_answer() -> None:
    script = Script([ProviderError("rejected", "it said no", provider="script")])
    async with serving(Scripted(script)) as served:
        status, answer = await served.post("/v1/turns", {"content": "x"})
        kinds = [kind async for kind, _ in events(served, body={"content": "x"})]
    assert (status, answer["ending"]) == (200, "failed")
    assert answer["error"]["code"] == "provider_failed"
    assert kinds[-2:] == ["error", "done"]


@pytest.mark.parametrize("headers", [{}, SSE])
async def test_the_turn_of_a_client_that_goes_away_is_cancelled(
    headers: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    gate, recorder = Gate(), Recorder()
    async with serving(Scripted(Script(gate.stops())), recorder) as served:
        asking = asyncio.ensure_future(served.post("/v1/turns", {"content": "x"}, headers=headers))
        await gate.reached.wait()
        asking.cancel()
        await until(lambda: len(recorder.turns) == 1)
        await until(lambda: not len(served.server.clients))
    assert recorder.turns[0].ending == "cancelled"
    assert recorder.turns[0].origin.path == "http"
    # Clients come and go: that is nothing for the log.
    assert "Traceback" not in capfd.readouterr().err


async def test_a_client_that_goes_away_may_have_its_turn_finished() -> None:
    gate, recorder = Gate(), Recorder()
    async with serving(
        Scripted(Script(gate.stops())), recorder, wire={"on_disconnect": "finish"}
    ) as served:
        asking = asyncio.ensure_future(served.post("/v1/turns", {"content": "x"}))
        await gate.reached.wait()
        asking.cancel()
        await until(lambda: not len(served.server.clients))
        gate.open.set()
        await until(lambda: len(recorder.turns) == 1)
    assert (recorder.turns[0].ending, recorder.turns[0].answer) == ("done", "one two")


# -- bodies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
async def test_a_body_must_say_that_it_is_json(kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    async with serving() as served:
        status, answer = await served.post(
            "/v1/turns", json=None, data=b'{"content":"x"}', headers=headers
        )
        assert (await served.get("/v1/sessions"))[1] == {"sessions": []}
    assert status == 415
    assert answer["error"]["data"]["code"] == "unsupported_media_type"


async def test_a_compressed_body_is_refused() -> None:
    async with serving() as served:
        headers = {"Content-Type": "application/json", "Content-Encoding": "deflate"}
        status, _ = await served.post("/v1/turns", json=None, data=b"{}", headers=headers)
    assert status == 415


async def test_every_body_that_is_no_strict_json_is_refused() -> None:
    headers = {"Content-Type": "application/json"}
    async with serving() as served:
        for name, text in REFUSED.items():
            status, answer = await served.post("/v1/turns", json=None, data=text, headers=headers)
            assert (status, answer["error"]["code"]) == (400, -32700), name
        assert (await served.get("/health"))[0] == 200


@pytest.mark.parametrize("text", [b"[]", b"3", b"null", b'"x"', b'[{"content":"x"}]'])
async def test_a_body_that_is_no_object_is_refused(text: bytes) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    async with serving() as served:
        status, answer = await served.post("/v1/turns", json=None, data=text, headers=headers)
    assert (status, answer["error"]["code"]) == (400, -32602)


async def test_a_body_over_the_limit_is_refused_however_it_is_sent() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 100

    headers = {"Content-Type": "application/json"}
    async with serving(wire={"limits": {"frame_bytes": 2000}}) as served:
        for data in (b" " * 3000, pieces()):
            status, answer = await served.post("/v1/turns", json=None, data=data, headers=headers)
            assert (status, answer["error"]["data"]["code"]) == (413, "too_large")
        fitting = json.dumps({"content": "x"}).encode().ljust(2000)
        status, _ = await served.post("/v1/turns", json=None, data=fitting, headers=headers)
        assert status == 200


async def test_a_chunked_body_that_is_too_long_is_refused_before_it_has_come() -> None:
    async with serving(wire={"limits": {"frame_bytes": 2000}}) as served:
        head = f"POST /v1/turns HTTP/1.1\r\nHost: {served.host}\r\nTransfer-Encoding: chunked\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        # 2,100 bytes and no end: who waited for that would keep whatever comes.
        answer = await served.raw(head + f"64\r\n{'x' * 100}\r\n" * 21)
    assert b" 413 " in answer
    assert b'"too_large"' in answer


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "BODY_SECONDS", 0.05)
    async with serving() as served:
        answer = await served.raw(
            f"POST /v1/turns HTTP/1.1\r\nHost: {served.host}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
    assert answer.startswith(b"HTTP/1.1 408 ")


# -- operations ------------------------------------------------------------------------------


async def test_every_operation_is_there_by_its_name() -> None:
    async with serving(Library(("GET", "/v1/books")), Scripted(Script(say("well said")))) as served:
        assert await served.post("/v1/operations/ping") == (200, {"pong": True})
        status, answer = await served.post("/v1/operations/books.0", {"shelf": "a", "limit": 3})
        assert (status, answer["by"], answer["face"]) == (200, "loopback", "rest")
        status, answer = await served.post("/v1/operations/chat.send", {"content": "x"})
        assert (status, answer["text"]) == (200, "well said")
        status, answer = await served.post("/v1/operations/nothing")
        assert (status, answer["error"]["code"]) == (404, -32601)
        status, answer = await served.post("/v1/operations/ping", {"x": 1})
        assert (status, answer["error"]["code"]) == (400, -32602)


async def test_parameters_come_from_the_query_the_path_and_the_body() -> None:
    library = Library(("GET", "/shelves/{shelf}"), ("PUT", "/shelves/{shelf}"), ("GET", "/books"))
    async with serving(library) as served:
        _, answer = await served.get("/shelves/top%20one?limit=7&tags=a&tags=b")
        assert (answer["shelf"], answer["limit"], answer["tags"]) == ("top one", 7, ["a", "b"])
        _, answer = await served.get("/books?shelf=low&tags=a")
        assert (answer["shelf"], answer["tags"]) == ("low", ["a"])
        async with served.http.put(served.url + "/shelves/x", json={"limit": 2}) as response:
            assert (await response.json())["limit"] == 2
        status, answer = await served.get("/books?shelf=low&limit=many")
        assert (status, answer["error"]["code"]) == (400, -32602)
        status, answer = await served.get("/books?shelf=a&shelf=b")
        assert (status, answer["error"]["code"]) == (400, -32602)
        status, answer = await served.get("/books?shelf=a&nothing=1")
        assert (status, answer["error"]["code"]) == (400, -32602)


async def test_events_can_be_followed_over_http_and_not_in_one_answer() -> None:
    async with serving() as served:
        status, answer = await served.get("/v1/events")
        assert (status, answer["error"]["data"]["code"]) == (406, "not_acceptable")
        followed = events(served, "/v1/events?types=text", method="GET")
        assert (await anext(followed))[0] == "result"
        await served.post("/v1/turns", {"content": "x"})
        kind, data = await anext(followed)
        await followed.aclose()
    assert (kind, data["type"], data["data"]) == ("event", "text", {"text": "well"})


async def test_health_and_readiness_say_what_a_probe_needs_and_no_more() -> None:
    async with serving() as served:
        assert await served.get("/health") == (200, {"status": "ok", "degraded": []})
        served.gate.host.standing("storage").bad("/secret/path is gone")
        expected = {"status": "degraded", "degraded": ["storage"]}
        assert await served.get("/health") == (200, expected)
        assert await served.get("/ready") == (200, {"ready": True})
        served.server.stopping = True
        assert await served.get("/ready") == (503, {"ready": False})
        async with served.http.head(served.url + "/health") as response:
            assert (response.status, await response.read()) == (200, b"")


async def test_balancers_are_sent_elsewhere_while_a_part_says_so_or_too_many_come() -> None:
    async with serving(wire={"limits": {"ready_streams": 1}}) as served:
        part = served.gate.host.standing("storage")
        part.unready("/secret/path is full")
        assert await served.get("/ready") == (503, {"ready": False})
        assert await served.get("/health") == (200, {"status": "ok", "degraded": []})
        assert (await served.post("/v1/turns", {"content": "x"}))[0] == 200, "what comes is taken"
        part.unready("")
        async with served.socket():
            assert (await served.get("/ready"))[0] == 200
            async with served.socket():
                assert (await served.get("/ready"))[0] == 503
            await until(lambda: len(served.server.clients) == 1)
            assert (await served.get("/ready"))[0] == 200


async def test_a_gateway_that_will_stop_keeps_no_connection_for_another_request() -> None:
    async with serving() as served:
        for path in ("/health", "/nowhere"):
            async with served.http.get(served.url + path) as answer:
                assert "Connection" not in answer.headers
        served.server.leaving = True
        for path in ("/health", "/nowhere", "/v1/status"):
            async with served.http.get(served.url + path) as answer:
                assert answer.headers["Connection"] == "close"
        ask = f"GET /health HTTP/1.1\r\nHost: {served.host}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        writer.write(ask.encode())
        assert b"200 OK" in await reader.read(), "it is closed, too"
        writer.close()
        async with served.socket() as socket:
            assert await socket.result("ping") == {"pong": True}
        served.server.stopping = True
        async with served.http.post(served.url + "/v1/turns", json={"content": "x"}) as answer:
            assert (answer.status, answer.headers["Connection"]) == (503, "close")
            assert answer.headers["Retry-After"] == "5"


async def test_while_the_gateway_stops_it_takes_no_new_turns_and_answers_the_rest() -> None:
    async with serving() as served, served.socket() as socket:
        served.server.stopping = True
        status, answer = await served.post("/v1/turns", {"content": "x"})
        assert (status, answer["error"]["data"]["code"]) == (503, "stopping")
        async with served.http.post(served.url + "/v1/turns", json={"content": "x"}) as response:
            assert response.headers["Retry-After"] == "5"
        answer = await socket.call("chat.send", content="x")
        assert answer["error"]["code"] == -32011
        assert await socket.result("ping") == {"pong": True}
        assert (await served.get("/v1/status"))[0] == 200


async def test_an_answer_says_that_nobody_may_keep_or_embed_it() -> None:
    async with serving() as served, served.http.get(served.url + "/v1/status") as response:
        headers = response.headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "hookgate"
    assert "Access-Control-Allow-Origin" not in headers


class Door:
    """A plugin whose own route and method start a turn, and fail as the turn does."""

    name = "door"

    @hookimpl
    def add_routes(self, host: Any, routes: Any) -> None:
        async def ask(request: web.Request) -> web.Response:
            content = await request.text()
            error = await self.error_of(host, content or "x" * 30_000)
            raise error

        routes.add("POST", "/door", ask, access=Access.scoped("chat"))

    @hookimpl
    def list_operations(self, host: Any) -> list[Operation[Any, Any]]:
        async def ask(invocation: Invocation, params: Content) -> Content:
            raise await self.error_of(host, params.content or "x" * 30_000)

        return [
            Operation(name="door.ask", summary="Asks.", params=Content, result=Content, handler=ask)
        ]

    async def error_of(self, host: Any, content: str) -> Exception:
        request = TurnRequest(content=content, address=Address(channel="web"))
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="door")
        handle = host.start_turn(Principal.owner(), origin, request)
        turn = await handle.wait()
        assert turn.error is not None
        return turn.error


class Content(OperationModel):
    content: str = ""


@pytest.mark.parametrize(
    ("model", "content", "status", "number", "name"),
    [
        ("script/one", "", 413, -32026, "message_too_long"),
        ("nobody/one", "x", 404, -32027, "unknown_provider"),
    ],
)
async def test_what_the_caller_got_wrong_is_no_fault_of_the_gateway(
    model: str, content: str, status: int, number: int, name: str
) -> None:
    async with (
        serving(Door(), Scripted(Script(say("x"))), agents={"main": {"model": model}}) as served,
        served.http.post(served.url + "/door", data=content) as response,
        served.socket() as socket,
    ):
        over_http = (await response.json())["error"]
        assert (response.status, over_http["code"]) == (status, number)
        over_socket = (await socket.call("door.ask", content=content))["error"]
        assert (over_socket["code"], over_socket["data"]["code"]) == (number, name)
        answer = (await served.post("/v1/turns", {"content": content or "x" * 30_000}))[1]
        assert answer["error"]["code"] == name
        assert answer["error"]["action"] == over_http["data"]["action"]


@pytest.mark.parametrize(
    ("error", "status", "number", "name"),
    [
        (ProviderError("rejected", "no", code="unknown_model"), 404, -32029, "unknown_model"),
        (ProviderError("context_overflow", "too long"), 413, -32013, "provider_failed"),
        (ProviderError("rejected", "no"), 502, -32013, "provider_failed"),
    ],
    ids=["unknown model", "too long for the model", "anything else"],
)
async def test_what_no_second_try_mends_has_a_status_that_no_client_tries_again(
    error: ProviderError, status: int, number: int, name: str
) -> None:
    class Direct:
        @hookimpl
        def add_routes(self, host: Any, routes: Any) -> None:
            async def fail(request: web.Request) -> web.Response:
                raise error

            routes.add("GET", "/direct", fail, access=Access.scoped("chat"))

    script = Script([error], [error])
    async with serving(Door(), Direct(), Scripted(script)) as served:
        for method, path in (("POST", "/door"), ("GET", "/direct")):
            async with served.http.request(method, served.url + path, data=b"x") as response:
                said = (await response.json())["error"]
            assert (response.status, said["code"]) == (status, number)
            assert said["data"]["code"] == name
            assert said["data"]["kind"] == error.kind


async def test_a_refusal_by_a_name_of_the_gateways_own_has_its_status() -> None:
    class Short:
        name = "short"

        @hookimpl
        def before_turn(self, turn: Any) -> Refusal | None:
            return Refusal(code="message_too_long", message="too long", action="send less")

    async with serving(Door(), Short(), Scripted(Script(say("x")))) as served:
        async with served.http.post(served.url + "/door", data=b"x") as response:
            said = await response.json()
        assert (response.status, said["error"]["data"]["code"]) == (413, "message_too_long")
