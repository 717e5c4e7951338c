"""`Turn.call`: a tool, a provider or a plugin calls a tool within its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from tests.core.test_call_tool import BOB, FETCHES, HOME, SCHEDULE, SENDS, SESSION, Careful
from tests.support.script import (
    Allow,
    Events,
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    settled,
    until,
)

from hookgate import (
    CONVERSATIONS,
    Ask,
    Decision,
    FinishedCall,
    Flags,
    Host,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Provider,
    Selection,
    StopEvent,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    TurnError,
    TurnRequest,
    UsageEvent,
    Verdict,
    hookimpl,
)
from hookgate.core.domain.errors import LaneHeldError
from hookgate.core.domain.turn import Principal
from hookgate.kit.testing.model import USAGE
from hookgate.metrics import waterfall

OWNER = Principal.owner()
Run = Callable[[Turn, Mapping[str, Any]], Awaitable[ToolResult | str]]


def outer_tool(run: Run, name: str = "outer", **more: Any) -> Tool:
    """A tool of another author that calls tools of others."""
    more.setdefault("flags", Flags.none())
    return Tool(name=name, description="", schema={"type": "object"}, run=run, **more)


async def echoes(turn: Turn, arguments: Mapping[str, Any]) -> str:
    finished = await turn.call("echo", {"text": "inner"})
    return f"got {finished.result.content}"


async def turned(host: Host, events: Events | None = None, text: str = "go") -> Turn:
    request = TurnRequest(content=text, address=HOME)
    return await host.start_turn(
        BOB, SCHEDULE, request, sink=Events() if events is None else events
    ).wait()


def model(*uses: tuple[str, str, Mapping[str, Any]]) -> Scripted:
    return Scripted(Script(call(*(uses or (("c1", "outer", {}),))), say("done")))


async def test_a_tool_calls_another_one_in_its_turn_judged_and_recorded_as_a_models_call() -> None:
    recorder, events = Recorder(), Events()
    tools = Tools(outer_tool(echoes), echo_tool())
    async with gateway(model(), Allow(), tools, recorder) as gate:
        recorder.decided.clear()
        turn = await turned(gate.host, events)
        await settled(gate)

    inner, outer = turn.calls
    assert (inner.call.name, inner.result.content) == ("echo", "inner")
    assert (outer.call.name, outer.result.content) == ("outer", "got inner")
    assert (inner.call.within, inner.call.depth, outer.call.within) == (outer.call.id, 1, "")
    assert {inner.call.index, outer.call.index} == {0, 1}
    assert recorder.decided == [(outer.call.id, "ALLOW"), (inner.call.id, "ALLOW")]
    assert recorder.finished == [(inner.call.id, "done"), (outer.call.id, "done")]
    assert len(recorder.turns) == 1  # no turn of its own
    uses = events.of("tool_use")
    assert [(one["name"], one.get("within", "")) for one in uses] == [
        ("outer", ""), ("echo", outer.call.id)
    ]  # fmt: skip
    results = {one["tool_use_id"]: one.get("within", "") for one in events.of("tool_result")}
    assert results == {inner.call.id: outer.call.id, outer.call.id: ""}
    # The model sees its own calls alone.
    assert [part.tool_use_id for message in turn.messages for part in message.tool_results] == [
        outer.call.id
    ]


async def test_a_waterfall_shows_calls_below_the_tool_that_made_them() -> None:
    events = Events()
    async with gateway(model(), Allow(), Tools(outer_tool(echoes), echo_tool())) as gate:
        await turned(gate.host, events)

    heard = [{"type": one.type, "at": one.at, "data": one.data} for one in events]
    rows = [row for row in waterfall(heard) if row.kind == "tool"]
    assert [(row.name, row.depth) for row in rows] == [("outer", 0), ("echo", 1)]
    assert rows[1].to_json()["depth"] == 1


async def test_what_policy_denies_does_not_run_within_a_tool_either() -> None:
    class NoEcho:
        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            return Verdict.deny("no") if call.name == "echo" else Verdict.allow()

    ran: list[FinishedCall] = []

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        ran.append(await turn.call("echo", {"text": "x"}))
        return "went on"

    async with gateway(model(), NoEcho(), Tools(outer_tool(run), echo_tool())) as gate:
        turn = await turned(gate.host)
    assert (ran[0].result.status, ran[0].decision.allowed) == ("denied", False)
    assert turn.calls[-1].result.content == "went on"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("nothing", {}, "unknown tool 'nothing'"),
        ("hidden", {"text": "x"}, "unknown tool 'hidden'"),
        ("other", {"text": "x"}, "unknown tool 'other'"),
        ("clients", {"text": "x"}, "unknown tool 'clients'"),
        ("echo", {"text": 1}, "arguments of 'echo' are wrong"),
    ],
)
async def test_only_what_the_turn_may_use_can_be_called(
    name: str, arguments: dict[str, Any], told: str
) -> None:
    class Withholds:
        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> Sequence[str]:
            return ["tool:hidden"]

    made: list[FinishedCall] = []

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        made.append(await turn.call(name, arguments))
        return "ok"

    agents = {"main": {"model": "script/one", "tools": ["outer", "echo", "hidden"]}}
    tools = Tools(outer_tool(run), *(echo_tool(one) for one in ("echo", "hidden", "other")))
    client = echo_tool("clients", run=None)
    async with gateway(model(), Withholds(), Allow(), tools, agents=agents) as gate:
        request = TurnRequest(content="go", address=HOME, client_tools=(client,))
        await gate.host.start_turn(BOB, SCHEDULE, request).wait()
    assert (made[0].result.status, made[0].decision.allowed) == ("failed", False)
    assert told in made[0].result.text


async def test_a_tool_that_was_not_offered_to_the_model_can_be_called() -> None:
    class Chooses:
        @hookimpl
        def select_capabilities(self, turn: Turn) -> Sequence[Selection]:
            return [Selection(id="tool:outer", score=1.0)]

    tools = Tools(outer_tool(echoes), echo_tool())
    chosen = {"tool_selection": "discovered"}
    async with gateway(model(), Chooses(), Allow(), tools, turn=chosen) as gate:
        turn = await turned(gate.host)
    assert "echo" not in turn.offered
    assert [one.result.content for one in turn.calls] == ["inner", "got inner"]


# -- taint -----------------------------------------------------------------------------


async def test_what_an_inner_call_has_read_taints_turn_result_and_session() -> None:
    careful = Careful()

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        before = await turn.call("send", {"text": "x"})
        await turn.call("fetch", {"text": "page"})
        after = await turn.call("send", {"text": "x"})
        return f"{before.result.status} {after.result.status}"

    tools = Tools(
        outer_tool(run), echo_tool("fetch", flags=FETCHES), echo_tool("send", flags=SENDS)
    )
    async with gateway(model(), careful, tools) as gate:
        turn = await turned(gate.host)
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=5)
    assert turn.calls[-1].result.content == "done denied"
    assert turn.calls[-1].result.taint == {"tool:fetch"} == turn.taint == kept


async def test_an_inner_call_is_judged_as_tainted_by_what_its_caller_reads() -> None:
    careful = Careful()

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await turn.call("send", {"text": "what I have just fetched"})).result.status

    tools = Tools(outer_tool(run, flags=FETCHES), echo_tool("send", flags=SENDS))
    async with gateway(model(), careful, tools) as gate:
        turn = await turned(gate.host)
    assert turn.calls[-1].result.content == "denied"
    assert turn.calls[0].call.name == "send"


async def test_the_taint_that_its_caller_tells_of_is_joined() -> None:
    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        done = await turn.call("send", {"text": "x"}, taint=frozenset({"mail:eve"}))
        return done.result.status

    tools = Tools(outer_tool(run), echo_tool("send", flags=SENDS))
    async with gateway(model(), Careful(), tools) as gate:
        turn = await turned(gate.host)
    assert turn.calls[-1].result.content == "denied"
    assert "mail:eve" in turn.taint


@pytest.mark.parametrize("task", ["spawned", "spawned in what was spawned"])
async def test_work_that_a_tool_has_spawned_calls_as_tainted_as_the_tool(task: str) -> None:
    async def send(turn: Turn, made: asyncio.Future[FinishedCall], again: bool) -> None:
        if again:
            gate.host.spawn(send(turn, made, False), name="again")
        else:
            made.set_result(await turn.call("send", {"text": "what I have just fetched"}))

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        made: asyncio.Future[FinishedCall] = asyncio.get_running_loop().create_future()
        gate.host.spawn(send(turn, made, task != "spawned"), name="send")
        return (await made).result.status

    tools = Tools(outer_tool(run, flags=FETCHES), echo_tool("send", flags=SENDS))
    gate = gateway(model(), Careful(), tools)
    async with gate:
        turn = await turned(gate.host)
    assert turn.calls[-1].result.content == "denied"


async def test_a_call_in_the_turn_that_one_is_nested_in_is_tainted_by_both() -> None:
    """What a nested turn has read goes out by the turn above no more than by itself."""
    told: list[tuple[str, frozenset[str]]] = []

    async def inner(turn: Turn, _: Mapping[str, Any]) -> str:
        assert turn.parent is not None
        turn.extra_taint |= {"mail:eve"}
        sent = await turn.parent.call("send", {"text": "what the nested turn has read"})
        await turn.parent.call("fetch", {"text": "page"})
        told.append((sent.result.status, turn.taint))
        return "done"

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await gate.host.nested_turn(turn, "more")).answer

    tools = Tools(
        outer_tool(run),
        outer_tool(inner, "inner"),
        echo_tool("send", flags=SENDS),
        echo_tool("fetch", flags=FETCHES),
    )
    script = Script(call(("c1", "outer", {})), call(("c2", "inner", {})), say("in"), say("out"))
    gate = gateway(Scripted(script), Careful(), tools)
    async with gate:
        turn = await turned(gate.host)
    assert told == [("denied", {"mail:eve", "tool:fetch"})]
    assert turn.taint == {"mail:eve", "tool:fetch"}


async def test_a_call_without_a_model_keeps_what_its_inner_calls_have_read() -> None:
    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        await turn.call("fetch", {"text": "page"})
        return "mine"

    looks = Flags.from_mapping({**Flags.none().to_json(), "reads_external_data": True})
    tools = Tools(outer_tool(run), echo_tool("fetch", flags=looks))
    async with gateway(Careful(), tools) as gate:
        made = await gate.host.call_tool(BOB, SCHEDULE, HOME, "outer", {})
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=0)
    assert made.call.name == "outer"
    assert made.result.taint == {"tool:fetch"} == kept


# -- bounds ----------------------------------------------------------------------------


async def test_a_tool_that_calls_itself_ends_at_the_depth() -> None:
    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await turn.call("outer", {})).result.text

    async with gateway(
        model(), Allow(), Tools(outer_tool(run)), turn={"max_depth": 2, "max_iterations": 1}
    ) as gate:
        turn = await turned(gate.host)
    assert [one.call.depth for one in turn.calls] == [2, 1, 0]
    assert "2 is the limit" in turn.calls[0].result.text
    assert "turn.max_depth" in turn.calls[0].result.text


async def test_the_depth_holds_where_a_tool_calls_from_a_task_of_another() -> None:
    """A worker of the plugin's own has nothing of the call about it, and is none the less in it."""
    asked: asyncio.Queue[tuple[Turn, asyncio.Future[FinishedCall]]] = asyncio.Queue()

    async def one(turn: Turn, done: asyncio.Future[FinishedCall]) -> None:
        try:
            done.set_result(await turn.call("outer", {}))
        except Exception as error:
            done.set_exception(error)

    async def worker() -> None:
        started = []
        while True:
            started.append(asyncio.create_task(one(*await asked.get())))

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        done: asyncio.Future[FinishedCall] = asyncio.get_running_loop().create_future()
        asked.put_nowait((turn, done))
        return (await done).result.text

    work = asyncio.create_task(worker())
    async with gateway(
        model(), Allow(), Tools(outer_tool(run)), turn={"max_depth": 2, "max_iterations": 1}
    ) as gate:
        turn = await turned(gate.host)
    work.cancel()
    assert max(one.call.depth for one in turn.calls) <= 2
    assert len(turn.calls) <= 4


async def test_a_turn_has_so_many_inner_calls_and_no_more() -> None:
    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        for _number in range(10):
            await turn.call("echo", {"text": "x"})
        return "never"

    tools = Tools(outer_tool(run), echo_tool())
    async with gateway(model(), Allow(), tools, turn={"max_inner_calls": 3}) as gate:
        turn = await turned(gate.host)
    assert [one.call.name for one in turn.calls] == ["echo"] * 3 + ["outer"]
    assert "turn.max_inner_calls" in turn.calls[-1].result.text


async def test_a_nested_turn_begins_at_the_depth_of_the_call_that_it_is_of() -> None:
    depths: list[int] = []

    class Deep:
        @hookimpl
        async def before_turn(self, turn: Turn) -> None:
            depths.append(turn.depth)

    async def inner(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await gate.host.nested_turn(turn, "more")).answer

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await turn.call("inner", {})).result.text

    tools = Tools(outer_tool(run), outer_tool(inner, "inner"))
    gate = gateway(model(), Deep(), Allow(), tools)
    async with gate:
        await turned(gate.host)
    assert depths == [0, 2]


# -- when it can be called ---------------------------------------------------------------


async def test_before_tools_are_chosen_and_after_the_end_nothing_can_be_called() -> None:
    told: dict[str, str] = {}

    async def tries(turn: Turn, where: str) -> None:
        try:
            await turn.call("echo", {"text": "x"})
        except TurnError as error:
            told[where] = error.code

    class Eager:
        @hookimpl
        async def before_turn(self, turn: Turn) -> None:
            await tries(turn, "before_turn")

        @hookimpl
        async def turn_ended(self, turn: Turn) -> None:
            await tries(turn, "turn_ended")

        @hookimpl
        async def after_turn(self, turn: Turn) -> None:
            await tries(turn, "after_turn")

    async with gateway(Scripted(Script(say("hi"))), Eager(), Allow(), Tools(echo_tool())) as gate:
        turn = await turned(gate.host)
        await settled(gate)
    assert told == dict.fromkeys(("before_turn", "turn_ended", "after_turn"), "no_calls_now")
    assert turn.calls == []


async def test_a_call_that_nobody_waits_for_ends_before_its_turn_does() -> None:
    recorder, began, tasks = Recorder(), asyncio.Event(), []

    async def waits(turn: Turn, _: Mapping[str, Any]) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        tasks.append(asyncio.create_task(turn.call("slow", {})))
        await began.wait()
        return "left it"

    tools = Tools(outer_tool(run), outer_tool(waits, "slow"))
    async with gateway(model(), Allow(), tools, recorder) as gate:
        turn = await turned(gate.host)
        assert turn.ending == "done"
        assert [(one.call.name, one.result.status) for one in turn.calls] == [
            ("outer", "done"), ("slow", "cancelled")
        ]  # fmt: skip
        with pytest.raises((TurnError, asyncio.CancelledError)):
            await tasks[0]
    assert [status for _, status in recorder.finished] == ["done", "cancelled"]


async def test_a_cancelled_turn_ends_its_inner_calls() -> None:
    recorder, began = Recorder(), asyncio.Event()

    async def waits(turn: Turn, _: Mapping[str, Any]) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        return (await turn.call("slow", {})).result.text

    tools = Tools(outer_tool(run), outer_tool(waits, "slow"))
    async with gateway(model(), Allow(), tools, recorder) as gate:
        handle = gate.host.start_turn(BOB, SCHEDULE, TurnRequest(content="go", address=HOME))
        await began.wait()
        handle.cancel("enough")
        turn = await handle.wait()
    assert turn.ending == "cancelled"
    assert [(one.call.name, one.result.status) for one in turn.calls] == [
        ("slow", "cancelled"), ("outer", "cancelled")
    ]  # fmt: skip
    assert [status for _, status in recorder.finished] == ["cancelled", "cancelled"]


async def test_whoever_is_asked_does_not_count_as_time_of_the_outer_tool() -> None:
    answered = asyncio.Event()

    class Asks:
        name = "asks"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            if call.name == "echo":
                return Verdict.ask(Ask(title="May it?", timeout=60))
            return Verdict.allow()

        @hookimpl
        async def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
            asyncio.get_running_loop().call_later(0.3, answered.set)
            await answered.wait()
            return Decision.allow("yes", by="somebody")

    tools = Tools(outer_tool(echoes, timeout=0.1), echo_tool())
    async with gateway(model(), Asks(), tools, turn={"answerers": ["asks"]}) as gate:
        turn = await turned(gate.host)
    assert [one.result.content for one in turn.calls] == ["inner", "got inner"]


async def test_the_outer_tools_own_time_has_its_limit_still() -> None:
    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        await turn.call("echo", {"text": "x"})
        await asyncio.Event().wait()
        return "never"

    tools = Tools(outer_tool(run, timeout=0.1), echo_tool())
    async with gateway(model(), Allow(), tools) as gate:
        turn = await turned(gate.host)
    assert turn.calls[-1].result.status == "timeout"


async def test_a_record_that_fails_within_a_tool_ends_the_turn_as_it_would_elsewhere() -> None:
    class Broken:
        @hookimpl
        def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
            if call.name == "echo":
                raise OSError("disk full")

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        try:
            await turn.call("echo", {"text": "x"})
        except Exception:
            return "never mind"
        return "fine"

    async with gateway(model(), Broken(), Allow(), Tools(outer_tool(run), echo_tool())) as gate:
        turn = await turned(gate.host)
    assert (turn.ending, turn.error and turn.error.code) == ("failed", "hook_failed")


# -- who else ------------------------------------------------------------------------------


async def test_a_provider_and_a_hook_call_tools_in_their_turn() -> None:
    class Looks:
        name = "looks"

        def models(self) -> Sequence[ModelInfo]:
            return [ModelInfo(name="*")]

        async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            found = await turn.call("fetch", {"text": "found"})
            yield TextDelta(found.result.text)
            yield UsageEvent(USAGE)
            yield StopEvent("end")

    class Plugin:
        @hookimpl
        def list_providers(self) -> Sequence[Provider]:
            return [Looks()]

        @hookimpl
        async def before_context_build(self, turn: Turn, context: Any) -> None:
            await turn.call("echo", {"text": "hook"})

    tools = Tools(echo_tool("fetch", flags=FETCHES), echo_tool())
    agents = {"main": {"model": "looks/one"}}
    async with gateway(Plugin(), Allow(), tools, agents=agents) as gate:
        turn = await turned(gate.host)
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=5)
    assert turn.answer == "found"
    assert [(one.call.name, one.call.within, one.call.depth) for one in turn.calls] == [
        ("echo", "", 0), ("fetch", "", 0)
    ]  # fmt: skip
    assert kept == {"tool:fetch"}


async def test_a_call_without_a_model_from_within_its_own_session_is_told_what_to_do() -> None:
    told: list[LaneHeldError] = []

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        try:
            await gate.host.call_tool(OWNER, SCHEDULE, turn.address, "echo", {"text": "x"})
        except LaneHeldError as error:
            told.append(error)
        other = await gate.host.call_tool(
            OWNER, SCHEDULE, type(HOME)("mail", "acme", "eve"), "echo", {"text": "elsewhere"}
        )
        return other.result.text

    gate = gateway(model(), Allow(), Tools(outer_tool(run), echo_tool()))
    async with gate:
        turn = await turned(gate.host)
    assert "turn.call" in told[0].action
    assert turn.calls[-1].result.content == "elsewhere"


async def test_work_that_was_spawned_within_a_turn_waits_for_its_lane() -> None:
    made: list[FinishedCall] = []

    async def later(turn: Turn) -> None:
        made.append(await gate.host.call_tool(OWNER, SCHEDULE, HOME, "echo", {"text": "later"}))

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        gate.host.spawn(later(turn), name="later")
        await asyncio.sleep(0)
        return "now"

    gate = gateway(model(), Allow(), Tools(outer_tool(run), echo_tool()))
    async with gate:
        turn = await turned(gate.host)
        await until(lambda: bool(made))
    assert turn.ending == "done"
    assert made[0].result.content == "later"
