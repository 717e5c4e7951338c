from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import FrameType
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.core.gateway.test_chat import Gate
from tests.support.script import Script, Scripted, gateway, say, until
from tests.support.wire import bearer, serving, tokens

from hookgate import __version__
from hookgate.core.domain.events import Event
from hookgate.core.domain.ports import LANES
from hookgate.core.domain.turn import Principal, SessionKey
from hookgate.core.gateway.app import build_app
from hookgate.core.gateway.operations import Empty, Invocation, Operation, OperationModel
from hookgate.hookspecs import hookimpl

CORE = {
    *("ping", "status", "chat.send", "chat.cancel", "plugins.list", "sessions.list"),
    *("sessions.show", "operations.list", "reload", "events.subscribe", "request.cancel"),
    *("token.list", "token.revoke", "sessions.export", "sessions.delete"),
}


CHAT = '{"jsonrpc":"2.0","id":1,"method":"chat.send","params":{"content":"x"}}'


class Counted(OperationModel):
    counted: int


class Counter:
    """A plugin with an operation that streams, and one that waits for a test."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.ended: list[str] = []

    @hookimpl
    def list_operations(self, host: Any) -> list[Operation[Any, Any]]:
        async def count(invocation: Invocation, _: Empty) -> Counted:
            for number in range(3):
                invocation.emit(Event("number", {"number": number}))
            return Counted(counted=3)

        async def hold(invocation: Invocation, _: Empty) -> Counted:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.ended.append("gone" if invocation.disconnected() else "cancelled")
                raise
            return Counted(counted=0)

        async def fail(_: Invocation, __: Empty) -> Counted:
            raise KeyError("the plugin's own fault")

        def make(name: str, handler: Any, **more: Any) -> Operation[Any, Any]:
            return Operation(
                name=name, summary=name, params=Empty, result=Counted, handler=handler, **more
            )

        return [
            make("count", count, streams=True),
            make("hold", hold),
            make("fail", fail),
            make("fail.quickly", fail, quick=True),
        ]


async def test_the_core_has_its_operations_and_plugins_add_theirs() -> None:
    async with serving(Counter()) as served, served.socket() as socket:
        rows = (await socket.result("operation.list"))["operations"]
        named = {row["name"]: row for row in rows}
        assert named.keys() >= CORE
        assert named["count"]["streams"] is True
        assert named["chat.send"]["params"]["properties"]["content"]["description"]
        assert named["chat.send"]["result"]["required"] == ["turn", "session"]
        some = (await socket.result("operation.list", name="chat.*"))["operations"]
        assert {row["name"] for row in some} == {"chat.send", "chat.cancel"}


async def test_a_former_name_works_and_is_not_listed() -> None:
    async with serving() as served, served.socket() as socket:
        assert await socket.result("plugin.list") == await socket.result("plugins.list")
        named = (await socket.result("operations.list", name="plugin.list"))["operations"]
        assert [row["name"] for row in named] == ["plugins.list"]


async def test_every_operation_has_the_route_of_its_name() -> None:
    async with serving(Counter()) as served:
        assert (await served.post("/v1/hold/on"))[0] == 404
        status, body = await served.post("/v1/plugins/list")
    assert (status, [row["name"] for row in body["plugins"]]) == (200, ["control", "counter"])


async def test_the_list_shows_what_the_client_may_call() -> None:
    section, made = tokens(chatter={"scopes": ["chat"]})
    async with serving(wire=section) as served, served.socket(**bearer(made["chatter"])) as socket:
        rows = (await socket.result("operation.list"))["operations"]
        assert {row["name"] for row in rows} == {
            *("ping", "operations.list", "chat.send", "chat.cancel", "tools.call")
        }


async def test_status_says_how_the_gateway_is() -> None:
    async with serving() as served, served.socket() as socket:
        served.gate.host.standing("storage").bad("gone")
        status = await socket.result("status")
    assert (status["version"], status["protocol"], status["ready"]) == (__version__, 1, True)
    assert status["degraded"] == {"storage": "gone"}
    assert status["agents"] == ["main"]


async def test_plugins_are_listed() -> None:
    async with serving(Counter()) as served, served.socket() as socket:
        rows = (await socket.result("plugin.list"))["plugins"]
    assert [row["name"] for row in rows] == ["control", "counter"]
    assert {row["state"] for row in rows} == {"running"}
    assert not any("content" in row for row in rows), "it is a place on this machine"
    assert [row["hooks"] for row in rows] == [
        ["before_turn", "lifespan", "list_operations"],
        ["list_operations"],
    ]


async def test_a_reload_says_what_it_changed() -> None:
    async with serving() as served, served.socket() as socket:
        result = await socket.result("reload")
    assert result["restart"] == []
    assert result["changed"]["agents"] == ["main"]


# -- sessions ------------------------------------------------------------------------------


async def test_sessions_and_their_history_are_shown_to_whom_they_belong() -> None:
    section, made = tokens(
        ann={"scopes": ["chat", "read"], "peers": ["ann"]},
        ops={"scopes": ["chat", "read", "operate"], "peers": ["nobody"]},
    )
    async with (
        serving(wire=section) as served,
        served.socket(**bearer(made["ann"])) as ann,
        served.socket(**bearer(made["ops"])) as ops,
    ):
        await ann.send("chat.send", content="hi", peer="ann")
        session = (await ann.until("done"))["session"]
        await ops.send("chat.send", content="hi", peer="nobody")
        other = (await ops.until("done"))["session"]
        seen = (await ann.result("session.list"))["sessions"]
        assert [row["session"] for row in seen] == [session]
        everything = (await ops.result("session.list"))["sessions"]
        assert {row["session"] for row in everything} == {session, other}
        history = await ann.result("session.history", session=session, turns=1)
        assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
        assert "result" in await ops.call("session.history", session=session)
        for wrong, code in ((other, -32006), ("main:cli:local:none", -32006), ("x", -32602)):
            answer = await ann.call("session.history", session=wrong)
            assert answer["error"]["code"] == code


async def test_a_session_is_exported_to_whom_it_belongs_and_deleted_by_an_operator() -> None:
    section, made = tokens(
        ann={"scopes": ["chat", "read"], "peers": ["ann"]},
        bob={"scopes": ["chat", "read"], "peers": ["bob"]},
        ops={"scopes": ["chat", "read", "operate"]},
    )
    async with (
        serving(wire=section) as served,
        served.socket(**bearer(made["ann"])) as ann,
        served.socket(**bearer(made["bob"])) as bob,
        served.socket(**bearer(made["ops"])) as ops,
    ):
        for text in ("one", "two"):
            await ann.send("chat.send", content=text, peer="ann")
            session = (await ann.until("done"))["session"]
        pages, after = [], ""
        while True:
            page = await ann.result("session.export", session=session, after=after, limit=3)
            pages.append([message["role"] for message in page["messages"]])
            after = page["next"]
            if not after:
                break
        assert pages == [["user", "assistant", "user"], ["assistant"]]
        wrong = await ann.call("session.export", session=session, after="here")
        assert wrong["error"]["code"] == -32602
        assert (await bob.call("session.export", session=session))["error"]["code"] == -32006
        for socket in (ann, bob):
            refused = await socket.call("session.delete", session=session)
            assert refused["error"]["code"] == -32002
        turn = page["messages"][-1]["turn"]
        gone = await ops.result("session.delete", session=session, turns=[turn])
        assert gone == {"session": session, "messages": 2}
        left = (await ann.result("session.export", session=session))["messages"]
        assert [(message["role"], message["turn"] == turn) for message in left] == [
            ("user", False),
            ("assistant", False),
        ]
        gone = await ops.result("session.delete", session=session)
        assert gone == {"session": session, "messages": 2}
        assert (await ann.result("session.list"))["sessions"] == []
        for method in ("session.export", "session.delete", "session.history"):
            answer = await ops.call(method, session=session)
            assert answer["error"]["code"] == -32006, method
        assert (await ops.call("session.delete", session="x"))["error"]["code"] == -32602


async def test_a_session_in_which_a_turn_runs_is_not_deleted() -> None:
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served, served.socket() as socket:
        sent = await socket.send("chat.send", content="hi")
        session = (await socket.answer(sent))["result"]["session"]
        async with served.socket() as other:
            answer = await other.call("session.delete", session=session)
            assert answer["error"]["data"]["code"] == "lane_held"
            gate.open.set()
            await socket.until("done")
            await until(lambda: not served.gate.host[LANES].ahead(SessionKey.parse(session)))
            assert (await other.result("session.delete", session=session))["messages"] == 2


# -- events ----------------------------------------------------------------------------------


async def test_events_of_a_turn_reach_a_subscriber_until_it_ends_the_subscription() -> None:
    async with serving() as served, served.socket() as watcher, served.socket() as chatter:
        number = await watcher.send("events.subscribe", types=["text", "done"])
        answer = await watcher.answer(number)
        assert answer["result"]["scopes"] == ["approve", "chat", "operate", "read"]
        turn = (await chatter.result("chat.send", content="x"))["turn"]
        kinds = []
        while "done" not in kinds:
            event = await watcher.until("event")
            assert (event["request"], event["turn"]) == (number, turn)
            assert event["session"] == "main:cli:local:main"
            kinds.append(event["type"])
        assert set(kinds) == {"text", "done"}
        assert await watcher.result("events.unsubscribe", request=number) == {"cancelled": True}
        again = await watcher.call("events.unsubscribe", request=number)
        assert again["error"]["code"] == -32006
        assert not served.gate.host.events.watched


async def test_a_subscriber_sees_what_its_scopes_and_bindings_cover() -> None:
    section, made = tokens(
        ann={"scopes": ["chat", "read"], "peers": ["ann"]}, ops={"scopes": ["chat", "operate"]}
    )
    async with (
        serving(wire=section) as served,
        served.socket(**bearer(made["ann"])) as ann,
        served.socket(**bearer(made["ops"])) as ops,
    ):
        await ann.result("events.subscribe")
        spans = await ann.call("events.subscribe", spans=True)
        assert spans["error"]["code"] == -32002
        assert (await ops.call("events.subscribe"))["error"]["code"] == -32002
        await ops.send("chat.send", content="a secret", peer="bob")
        await ops.until("done")
        served.gate.host.events.publish(Event("internals", {}, scope="operate"))
        served.gate.host.standing("part").bad("why")
        event = await ann.until("event")
        assert (event["type"], event["data"]) == ("degraded", {"part": "part", "why": "why"})


async def test_hook_spans_are_made_while_somebody_wants_them() -> None:
    async with serving(Counter(), Scripted(Script(say("x")))) as served:
        async with served.socket() as watcher:
            await watcher.result("events.subscribe", types=["hook"], spans=True)
            assert served.gate.plugins.hooks.spans is not None
            async with served.socket() as chatter:
                await chatter.send("chat.send", content="x")
                await chatter.until("done")
            await watcher.raw.close()
        async with served.socket() as other:
            assert await other.result("ping") == {"pong": True}
        assert served.gate.plugins.hooks.spans is None


async def test_a_subscriber_gets_many_events_of_one_moment_in_their_order() -> None:
    async with serving() as served, served.socket() as watcher:
        await watcher.result("events.subscribe", types=["many"])
        for number in range(1100):
            served.gate.host.events.publish(Event("many", {"number": number}, scope="read"))
        for number in range(1100):
            assert (await watcher.until("event"))["data"] == {"number": number}


async def test_an_event_costs_nothing_where_nobody_wants_it_and_little_for_ten_tabs() -> None:
    section, made = tokens(ann={})
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serving(wire=section))
        bus = served.gate.host.events
        tabs = [
            await stack.enter_async_context(served.socket(**bearer(made["ann"]))) for _ in range(10)
        ]
        for tab in tabs:
            await tab.result("events.subscribe", types=["done", "approval"])

        def calls(kind: str) -> int:
            first, event = (Event(kind, {"ending": "done"}, scope="read") for _ in range(2))
            bus.publish(first)
            return count_calls(partial(bus.publish, event))

        # A turn makes some 3,050: ten tabs may cost 3 % of them.
        assert calls("text") == 1
        assert 10 < calls("done") <= 90
        for tab in tabs:
            assert [(await tab.until("event"))["type"] for _ in range(2)] == ["done", "done"]


def count_calls(work: Callable[[], object]) -> int:
    """Return how many Python functions `work` calls, the event loop's own left out."""
    count = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/asyncio/" not in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


async def test_an_event_that_cannot_be_sent_ends_its_subscription_alone() -> None:
    def broken(event: Event) -> None:
        if event.type == "event":
            raise RuntimeError("the way out is gone")

    async with serving() as served, served.socket() as watcher:
        host = served.gate.host
        await watcher.result("events.subscribe", types=["some*"])
        operation = host.operations["events.subscribe"]
        invocation = Invocation(host=host, principal=Principal.owner(), emit=broken)
        task = asyncio.ensure_future(operation.handler(invocation, operation.params()))
        await until(lambda: len(host.events._subscriptions) == 2)
        host.events.publish(Event("something", {}, scope="read"))
        with pytest.raises(RuntimeError, match="the way out is gone"):
            await task
        assert (await watcher.until("event"))["type"] == "something"


# -- operations of plugins ---------------------------------------------------------------------


async def test_an_operation_may_emit_events_before_its_result() -> None:
    async with serving(Counter()) as served, served.socket() as socket:
        number = await socket.send("count")
        frames = [await socket.next() for _ in range(4)]
        assert [frame["params"] for frame in frames[:3]] == [
            {"request": number, "number": index} for index in range(3)
        ]
        assert frames[3] == {"jsonrpc": "2.0", "id": number, "result": {"counted": 3}}
        headers = {"Accept": "text/event-stream"}
        async with served.http.post(
            served.url + "/v1/operations/count", json={}, headers=headers
        ) as answer:
            text = await answer.text()
        assert text.count("event: number\n") == 3
        assert text.endswith('event: result\ndata: {"counted":3}\n\n')
        assert await served.post("/v1/operations/count") == (200, {"counted": 3})


async def test_a_fault_of_a_plugin_is_an_id_for_the_client_and_the_rest_for_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with serving(Counter()) as served, served.socket() as socket:
        answers = [await socket.call("fail"), await socket.call("fail.quickly")]
        status, over_http = await served.post("/v1/operations/fail")
        assert await socket.result("ping") == {"pong": True}
    assert status == 500
    log = capfd.readouterr().err
    for answer in (*answers, over_http):
        error = answer["error"]
        assert error["code"] == -32603
        assert "own fault" not in str(answer)
        assert error["data"]["id"] in error["message"]
        assert error["data"]["id"] in log
    assert "the plugin's own fault" in log


async def test_a_request_of_a_client_that_goes_away_is_cancelled() -> None:
    counter = Counter()
    async with serving(counter) as served:
        async with served.socket() as socket:
            await socket.send("hold")
            assert await socket.result("ping") == {"pong": True}
            number = await socket.send("hold")
            assert await socket.result("ping") == {"pong": True}
            await socket.send("chat.cancel", request=number)
            assert (await socket.answer(number))["error"]["code"] == -32009
        async with served.socket() as other:
            assert await other.result("ping") == {"pong": True}
    assert sorted(counter.ended) == ["cancelled", "gone"]


async def test_only_so_many_requests_of_one_socket_run_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.core.gateway.wire.websocket.MAX_REQUESTS", 2)
    counter = Counter()
    async with serving(counter) as served, served.socket() as socket:
        first, second = await socket.send("hold"), await socket.send("hold")
        assert (await socket.call("hold"))["error"]["data"]["code"] == "too_many_requests"
        counter.gate.set()
        for number in (first, second):
            assert "result" in await socket.answer(number)


async def test_only_so_many_clients_are_served_at_once() -> None:
    async with serving(wire={"limits": {"connections": 2}}) as served, served.socket():
        async with served.socket():
            status, answer = await served.get("/v1/status")
            assert (status, answer["error"]["data"]["code"]) == (429, "too_many_requests")
        assert (await served.get("/v1/status"))[0] == 200


# -- as part of another application ------------------------------------------------------------


async def test_two_gateways_are_mounted_in_one_application() -> None:
    gate = Gate()
    async with (
        gateway(Scripted(Script(say("from one")))) as one,
        gateway(Scripted(Script(gate.stops("from two", "")))) as two,
    ):
        gate.open.set()
        parent = web.Application()
        parent.add_subapp("/one", build_app(one))
        parent.add_subapp("/two/deep", build_app(two))
        runner = web.AppRunner(parent)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        base = f"http://127.0.0.1:{site.port}"
        async with aiohttp.ClientSession() as http:
            for prefix, text in (("/one", "from one"), ("/two/deep", "from two")):
                async with http.ws_connect(f"{base}{prefix}/ws") as socket:
                    assert (await socket.receive_json())["method"] == "hello"
                    await socket.send_json(
                        {
                            "jsonrpc": "2.0",
                            "id": 1,
                            "method": "chat.send",
                            "params": {"content": "x"},
                        }
                    )
                    frame: dict[str, Any] = {}
                    while frame.get("method") != "done":
                        frame = await socket.receive_json()
                    assert frame["params"]["text"].strip() == text
                async with http.get(f"{base}{prefix}/v1/sessions") as answer:
                    assert len((await answer.json())["sessions"]) == 1
                evil = {"Host": "evil.example"}
                async with http.get(f"{base}{prefix}/v1/sessions", headers=evil) as answer:
                    assert answer.status == 421
        await runner.cleanup()
