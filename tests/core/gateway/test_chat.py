from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.script import (
    USAGE,
    Allow,
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    until,
)
from tests.support.wire import serving

from hookgate.clients import call_operation
from hookgate.core.domain.errors import HookgateError, ProviderError
from hookgate.core.domain.events import Event
from hookgate.core.domain.models import Refusal, TextDelta
from hookgate.core.domain.turn import Claim, Principal, Turn
from hookgate.hookspecs import hookimpl

IMAGE = {"media_type": "image/png", "data": "iVBORw0KGgo="}


class Gate:
    """A provider's step that stands still until a test lets it go on."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()

    def stops(self, before: str = "one", after: str = " two") -> list[Any]:
        async def wait() -> None:
            self.reached.set()
            await self.open.wait()

        return [TextDelta(before), wait, *say(after)]


async def turn_frames(socket: Any, number: int) -> list[dict[str, Any]]:
    """Return all frames of a request, its answer among them, up to `done`."""
    frames = []
    while True:
        frame = await socket.next()
        if frame.get("id") == number or frame.get("params", {}).get("request") == number:
            frames.append(frame)
            if frame.get("method") == "done":
                return frames


async def test_the_result_comes_first_then_every_chunk_and_one_done_last() -> None:
    script = Script(say("one two three"))
    async with serving(Scripted(script)) as served, served.socket() as socket:
        number = await socket.send("chat.send", content="hi", channel="cli", account="local")
        frames = await turn_frames(socket, number)
        assert (await socket.result("ping")) == {"pong": True}
    result, *events = frames
    turn, session = result["result"]["turn"], result["result"]["session"]
    assert set(result["result"]) == {"turn", "session"}
    assert session == "main:cli:local:main"
    methods = [event["method"] for event in events]
    assert methods == ["context", "text", "text", "text", "usage", "done"]
    assert [event["params"]["text"] for event in events[1:4]] == ["one", " two", " three"]
    assert events[4]["params"] == {"request": number, **USAGE.to_json()}
    assert events[5]["params"] == {
        "request": number,
        "turn": turn,
        "session": session,
        "ending": "done",
        "text": "one two three",
        "stop": "end",
        "usage": USAGE.to_json(),
    }
    assert len(socket.heard) == 1 + len(events)


class Busy:
    """Refuses every model call, and says when to come back."""

    def __init__(self, seconds: float | None) -> None:
        self.refusal = Refusal(
            code="rate_limited", message="too fast", action="later", retry_after=seconds
        )

    @hookimpl
    def before_model_call(self, turn: Turn) -> Refusal:
        return self.refusal


WAITS = [
    ([Busy(41.2)], "refused", 41.2, "42"),
    ([Scripted(Script([ProviderError("rejected", "x", retry_after=9)]))], "failed", 9.0, "9"),
    ([Busy(None)], "refused", None, None),
    ([Busy(float("nan"))], "refused", None, None),
    ([Busy(10.0**300)], "refused", 366 * 86_400.0, "31622400"),
]


@pytest.mark.parametrize(("plugins", "ending", "seconds", "header"), WAITS)
async def test_seconds_to_wait_reach_the_client_on_every_wire(
    plugins: list[Any], ending: str, seconds: float | None, header: str | None
) -> None:
    provider = [] if len(plugins) > 1 or ending == "failed" else [Scripted(Script(say("x")))]
    body = {"content": "hi"}
    events = {"Accept": "text/event-stream"}
    async with serving(*plugins, *provider) as served:
        async with served.socket() as socket:
            await socket.send("chat.send", **body)
            told, done = await socket.until("error"), await socket.until("done")
        async with served.http.post(f"{served.url}/v1/turns", json=body) as response:
            answer, heads = await response.json(), response.headers
        async with served.http.post(
            f"{served.url}/v1/turns", json=body, headers=events
        ) as response:
            streamed = await response.text()
    told.pop("request")
    assert told == done["error"] == answer["error"]
    assert told.get("retry_after") == seconds
    assert ("retry_after" in told) == (seconds is not None)
    assert (done["ending"], answer["ending"]) == (ending, ending)
    assert heads.get("Retry-After") == header
    last = json.loads(streamed.strip().rsplit("data: ", 1)[1].split("\n")[0])
    assert last["error"] == told


async def test_events_carry_an_id_that_is_a_text_as_a_text() -> None:
    async with serving() as served, served.socket() as socket:
        frame = {"jsonrpc": "2.0", "id": 'a"b', "method": "chat.send", "params": {"content": "x"}}
        await socket.raw.send_str(json.dumps(frame))
        done = await socket.until("done")
    assert done["request"] == 'a"b'


async def test_a_chunk_arrives_before_the_next_one_is_made() -> None:
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served, served.socket() as socket:
        await socket.send("chat.send", content="hi")
        assert (await socket.until("text"))["text"] == "one"
        assert not gate.open.is_set()
        gate.open.set()
        assert (await socket.until("done"))["text"] == "one two"


async def test_a_socket_answers_everything_else_while_a_turn_streams() -> None:
    gate = Gate()
    script = Script(gate.stops(), say("other"))
    async with serving(Scripted(script)) as served, served.socket() as socket:
        await socket.send("chat.send", content="slow")
        await gate.reached.wait()
        assert await socket.result("ping") == {"pong": True}
        assert (await socket.result("status"))["turns"] == 1
        other = await socket.send("chat.send", content="quick", peer="somebody")
        done = await socket.until("done")
        assert (done["request"], done["text"]) == (other, "other")
        gate.open.set()
        assert (await socket.until("done"))["text"] == "one two"


async def test_tool_calls_and_their_results_are_told() -> None:
    script = Script(call(("c1", "echo", {"text": "hey"})), say("it said hey"))
    async with (
        serving(Scripted(script), Tools(echo_tool()), Allow()) as served,
        served.socket() as socket,
    ):
        await socket.send("chat.send", content="use it")
        use = await socket.until("tool_use")
        result = await socket.until("tool_result")
        done = await socket.until("done")
    assert {key: use[key] for key in ("id", "name", "input")} == {
        "id": "c1",
        "name": "echo",
        "input": {"text": "hey"},
    }
    assert {key: result[key] for key in ("tool_use_id", "content", "is_error")} == {
        "tool_use_id": "c1",
        "content": "hey",
        "is_error": False,
    }
    assert done["text"] == "it said hey"


async def test_what_a_plugin_emits_reaches_the_client_whatever_it_holds() -> None:
    class Odd:
        @hookimpl
        def before_turn(self, turn: Turn) -> None:
            turn.emit(Event("odd", {"request": "mine", "what": {1, 2}, "half": "\ud83d"}))

    async with serving(Odd(), Scripted(Script(say("x")))) as served, served.socket() as socket:
        number = await socket.send("chat.send", content="hi")
        odd = await socket.until("odd")
        await socket.until("done")
    assert odd == {"request": number, "what": [1, 2], "half": "\N{REPLACEMENT CHARACTER}"}


# -- what goes wrong ------------------------------------------------------------------


async def test_no_agent_is_an_error_before_anything_else() -> None:
    async with (
        serving(default_agent=None, bindings=[{"agent": "main", "channel": "irc"}]) as served,
        served.socket() as socket,
    ):
        answer = await socket.call("chat.send", content="hi")
        assert await socket.result("ping") == {"pong": True}
    assert answer["error"]["code"] == -32003
    assert answer["error"]["data"]["code"] == "no_agent"
    assert "bindings" in answer["error"]["data"]["action"]
    assert [frame["method"] for frame in socket.heard] == ["hello"]


async def test_what_fails_after_the_message_is_committed_is_an_event_before_done() -> None:
    script = Script([ProviderError("rejected", "it said no", provider="script")])
    async with serving(Scripted(script)) as served, served.socket() as socket:
        number = await socket.send("chat.send", content="hi")
        frames = await turn_frames(socket, number)
    assert "result" in frames[0]
    error, done = frames[-2:]
    assert error["method"] == "error"
    assert "it said no" in error["params"]["message"]
    assert done["params"]["ending"] == "failed"
    assert [frame.get("method") for frame in frames].count("done") == 1


async def test_a_refused_turn_says_who_refused_and_ends() -> None:
    class Closed:
        @hookimpl
        def before_turn(self, turn: Turn) -> Refusal:
            return Refusal(code="maintenance", message="Back at 18:00 UTC.", action="come back")

    async with (
        serving(Closed(), Scripted(Script(say("x")))) as served,
        served.socket() as socket,
    ):
        await socket.send("chat.send", content="hi")
        error = await socket.until("error")
        done = await socket.until("done")
    assert (error["code"], error["message"]) == ("maintenance", "Back at 18:00 UTC.")
    assert done["ending"] == "refused"


async def test_a_full_lane_is_an_error_with_a_number_of_its_own() -> None:
    gate = Gate()
    async with (
        serving(Scripted(Script(gate.stops(), say("x"))), turn={"lane_queue": 0}) as served,
        served.socket() as socket,
    ):
        await socket.send("chat.send", content="first")
        await gate.reached.wait()
        answer = await socket.call("chat.send", content="second")
        assert answer["error"]["code"] == -32004
        assert answer["error"]["data"]["code"] == "lane_full"
        gate.open.set()
        await socket.until("done")


async def test_more_turns_than_a_socket_may_have_are_refused_until_one_ends() -> None:
    gate = Gate()
    limits = {"turns_per_connection": 2}
    script = Script(gate.stops(), gate.stops(), say("x"))
    async with (
        serving(Scripted(script), wire={"limits": limits}) as served,
        served.socket() as socket,
    ):
        await socket.send("chat.send", content="a", peer="a")
        await socket.send("chat.send", content="b", peer="b")
        answer = await socket.call("chat.send", content="c", peer="c")
        assert answer["error"]["code"] == -32007
        assert await socket.result("ping") == {"pong": True}
        gate.open.set()
        await socket.until("done")
        await socket.until("done")
        await socket.send("chat.send", content="c", peer="c")
        assert (await socket.until("done"))["text"] == "x"


# -- cancelling --------------------------------------------------------------------------


async def test_a_turn_is_cancelled_by_its_id() -> None:
    gate, recorder = Gate(), Recorder()
    async with (
        serving(Scripted(Script(gate.stops())), recorder) as served,
        served.socket() as socket,
    ):
        number = await socket.send("chat.send", content="hi")
        turn = (await socket.answer(number))["result"]["turn"]
        await gate.reached.wait()
        assert await socket.result("chat.cancel", turn=turn) == {"cancelled": True}
        done = await socket.until("done")
        again = await socket.call("chat.cancel", turn=turn)
    assert done["ending"] == "cancelled"
    assert again["error"]["code"] == -32006
    assert [status for _, status, _ in recorder.after] == ["cancelled"]


async def test_a_turn_is_cancelled_by_the_id_of_its_request() -> None:
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served, served.socket() as socket:
        number = await socket.send("chat.send", content="hi")
        await gate.reached.wait()
        assert await socket.result("chat.cancel", request=number) == {"cancelled": True}
        assert (await socket.until("done"))["ending"] == "cancelled"


async def test_a_turn_that_waits_for_its_lane_tells_its_id_and_can_be_cancelled() -> None:
    gate = Gate()
    script = Script(gate.stops(), say("never"))
    async with serving(Scripted(script)) as served, served.socket() as socket:
        await socket.send("chat.send", content="first")
        await gate.reached.wait()
        second = await socket.send("chat.send", content="second")
        assert (await socket.until("queued"))["request"] == second
        for by in ("turn", "request"):
            third = await socket.send("chat.send", content="third")
            queued = await socket.until("queued")
            assert queued["request"] == third
            chosen = {"turn": queued["turn"]} if by == "turn" else {"request": third}
            await socket.send("chat.cancel", **chosen)
            assert (await socket.answer(third))["error"]["code"] == -32009
        await socket.send("chat.cancel", request=second)
        assert (await socket.answer(second))["error"]["code"] == -32009
        gate.open.set()
        assert (await socket.until("done"))["text"] == "one two"
    assert len(script.requests) == 1


@pytest.mark.parametrize("params", [{}, {"turn": "turn_x", "request": 1}, {"turn": "turn_x"}])
async def test_cancelling_nothing_is_an_error(params: dict[str, Any]) -> None:
    async with serving() as served, served.socket() as socket:
        answer = await socket.call("chat.cancel", **params)
    assert answer["error"]["code"] == (-32006 if params == {"turn": "turn_x"} else -32602)


async def test_the_turns_of_a_client_that_goes_away_are_cancelled_and_settled() -> None:
    gate, recorder = Gate(), Recorder()
    async with serving(Scripted(Script(gate.stops(), say("x"))), recorder) as served:
        async with served.socket() as socket:
            await socket.send("chat.send", content="running")
            await gate.reached.wait()
            await socket.send("chat.send", content="waiting")
            await until(lambda: len(served.gate.host.running()) == 2)
        await until(lambda: len(recorder.turns) == 1)
        assert recorder.turns[0].ending == "cancelled"
        assert "went away" in str(recorder.turns[0].error)
        assert [status for _, status, _ in recorder.after] == ["cancelled"]
        await until(lambda: not served.gate.host.running())
        async with served.socket() as socket:
            await socket.send("chat.send", content="the lane is free")
            assert (await socket.until("done"))["ending"] == "done"


async def test_a_client_that_goes_away_may_have_its_turns_finished() -> None:
    gate, recorder = Gate(), Recorder()
    async with serving(
        Scripted(Script(gate.stops())), recorder, wire={"on_disconnect": "finish"}
    ) as served:
        async with served.socket() as socket:
            await socket.send("chat.send", content="running")
            await gate.reached.wait()
        await until(lambda: not len(served.server.clients))
        gate.open.set()
        await until(lambda: len(recorder.turns) == 1)
        assert (recorder.turns[0].ending, recorder.turns[0].answer) == ("done", "one two")


# -- what a message may hold ---------------------------------------------------------------


async def test_images_and_options_reach_the_turn() -> None:
    recorder, script = Recorder(), Script(say("a picture"))
    async with serving(Scripted(script), recorder) as served, served.socket() as socket:
        options = {"customFlags": {"toolFailureMode": "fail_closed"}}
        await socket.send("chat.send", images=[IMAGE], options=options, guild="g", team="t")
        await socket.until("done")
        await until(lambda: len(recorder.turns) == 1)
    turn = recorder.turns[0]
    assert turn.message.parts[1].media_type == "image/png"  # type: ignore[union-attr] - an image
    assert turn.options == options
    assert (turn.address.guild, turn.address.team) == ("g", "t")
    assert (turn.origin.path, turn.origin.provenance.value) == ("ws", "external_user")


async def test_a_client_runs_its_own_tools() -> None:
    script = Script(call(("c1", "lamp", {"on": True})), say("the lamp is on"))
    tool = {
        "name": "lamp",
        "description": "Switches the lamp.",
        "schema": {"type": "object", "properties": {"on": {"type": "boolean"}}},
    }
    async with serving(Scripted(script), Allow()) as served, served.socket() as socket:
        await socket.send("chat.send", content="light", client_tools=[tool])
        use = await socket.until("tool_use")
        assert (use["id"], use["name"], use["input"]) == ("c1", "lamp", {"on": True})
        assert (await socket.until("done"))["ending"] == "awaiting_client"
        result = {"tool_use_id": "c1", "content": "it is on"}
        await socket.send("chat.send", tool_results=[result], client_tools=[tool])
        assert (await socket.until("done"))["text"] == "the lamp is on"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"content": ""},
        {"content": "x", "channel": ""},
        {"content": "x", "peer": "a\nb"},
        {"content": "x", "account": "a" * 257},
        {"content": "x", "images": [{"media_type": "text/html", "data": "AAAA"}]},
        {"content": "x", "images": [{"media_type": "image/png", "data": "not base64"}]},
        {"content": "x", "images": [{"media_type": "image/png", "data": "aGVsbG8="}]},
        {"content": "x", "images": [IMAGE] * 17},
        {"content": "x", "client_tools": [{"name": "no spaces"}]},
        {"content": "x", "client_tools": [{"name": "same"}, {"name": "same"}]},
        {"content": "x", "tool_results": [{"tool_use_id": "a"}]},
        {"content": "x", "provenance": "internal_system"},
        {"content": "x", "agent": ""},
        {"content": "x", "options": []},
    ],
)
async def test_a_message_that_is_not_right_reaches_no_session(params: dict[str, Any]) -> None:
    recorder = Recorder()
    async with (
        serving(Scripted(Script(say("x"))), recorder) as served,
        served.socket() as socket,
    ):
        answer = await socket.call("chat.send", **params)
        assert answer["error"]["code"] == -32602
        assert (await socket.result("session.list"))["sessions"] == []
    assert recorder.turns == []


async def test_an_agent_is_chosen_by_who_may_choose_and_no_further_than_their_agents() -> None:
    agents = {name: {"model": "script/one"} for name in ("main", "other")}
    async with gateway(Scripted(Script(*[say("hi")] * 2)), agents=agents) as gate:

        async def session(agent: str | None, **who: Any) -> str:
            chosen = Principal(id="ann", bindings=(Claim(),), **who)
            params = {"content": "hi", "agent": agent}
            answer = await call_operation(gate.host, chosen, "chat.send", params, path="test")
            return str(answer.session)

        chat = frozenset({"chat"})
        assert await session("other", scopes=chat | {"operate"}) == "other:cli:local:main"
        assert await session("other", scopes=chat, agents=("o*",)) == "other:cli:local:main"
        with pytest.raises(HookgateError, match="bindings choose it"):
            await session("other", scopes=chat)
        with pytest.raises(HookgateError, match="may not speak to agent 'main'"):
            await session("main", scopes=chat, agents=("o*",))
