"""A turn can be cancelled in every step, and what was begun is settled exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.support.script import (
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
)

from hookgate.core.domain.models import ModelEvent, ModelRequest, TextDelta
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import Ask, Decision, Tool, ToolCall, ToolResult, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl

STEPS = (
    "before_turn",
    "tag_turn",
    "plan_turn",
    "withhold_capabilities",
    "select_capabilities",
    "before_context_build",
    "prepare_model_call",
    "before_model_call",
    "filter_stream",
    "stream",
    "after_model_call",
    "before_tool_call",
    "resolve_ask",
    "tool_decided",
    "run",
    "after_tool_call",
    "tool_finished",
)


ANSWERS = {"answerers": ["pause"]}


class Pause:
    """Stops in one step, once, until the turn is cancelled or it is let go."""

    name = "pause"

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached = asyncio.Event()
        self.release = asyncio.Event()
        self.armed = False

    @hookimpl
    async def before_turn(self, turn: Turn) -> None:
        # From the first real turn on: the self-test at start is none.
        self.armed = True
        await self.at("before_turn")

    async def at(self, step: str) -> None:
        if self.armed and step == self.step and not self.reached.is_set():
            self.reached.set()
            await self.release.wait()

    @hookimpl
    async def tag_turn(self, turn: Turn) -> None:
        await self.at("tag_turn")

    @hookimpl
    async def plan_turn(self, turn: Turn) -> None:
        await self.at("plan_turn")

    @hookimpl
    async def withhold_capabilities(self, turn: Turn) -> None:
        await self.at("withhold_capabilities")

    @hookimpl
    async def select_capabilities(self, turn: Turn) -> None:
        await self.at("select_capabilities")

    @hookimpl
    async def before_context_build(self, turn: Turn) -> None:
        await self.at("before_context_build")

    @hookimpl
    async def prepare_model_call(self, turn: Turn) -> None:
        await self.at("prepare_model_call")

    @hookimpl
    async def before_model_call(self, turn: Turn, request: ModelRequest) -> None:
        await self.at("before_model_call")

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        async def paused() -> AsyncIterator[ModelEvent]:
            async for event in events:
                await self.at("filter_stream")
                yield event

        return paused()

    @hookimpl
    async def after_model_call(self, turn: Turn) -> None:
        await self.at("after_model_call")

    @hookimpl
    async def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        await self.at("before_tool_call")
        return Verdict.ask(Ask(title="?"))

    @hookimpl
    async def resolve_ask(self, turn: Turn) -> Decision:
        await self.at("resolve_ask")
        return Decision.allow()

    @hookimpl
    async def tool_decided(self, turn: Turn) -> None:
        await self.at("tool_decided")

    @hookimpl
    async def after_tool_call(self, turn: Turn) -> None:
        await self.at("after_tool_call")

    @hookimpl
    async def tool_finished(self, turn: Turn) -> None:
        await self.at("tool_finished")


def parts(pause: Pause) -> tuple[Script, Tools]:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await pause.at("run")
        return "ran"

    script = Script(
        [TextDelta("some"), lambda: pause.at("stream"), *call(("c1", "echo", {"text": "x"}))],
        say("ok"),
    )
    return script, Tools(echo_tool(run=run))


@pytest.mark.parametrize("step", STEPS)
async def test_a_cancelled_turn_settles_what_it_had_begun_exactly_once(step: str) -> None:
    pause, recorder, events = Pause(step), Recorder(), Events()
    script, tools = parts(pause)
    async with gateway(Scripted(script), pause, tools, recorder, turn=ANSWERS) as gate:
        task = asyncio.create_task(gate.chat("go", sink=events))
        await pause.reached.wait()
        assert gate.host.cancel(gate.host.running()[0].id, "a test wants it")
        # What is shielded from the cancellation goes on until it is let go.
        asyncio.get_running_loop().call_soon(pause.release.set)
        turn = await task
        await settled(gate)
        stored = await gate.host[CONVERSATIONS].history(turn.session, turns=5)
        settled_calls = list(zip(recorder.before, recorder.after, strict=True))
        finished = [use for use, _ in recorder.finished]
        following = await gate.chat("again")
    assert turn.ending == "cancelled"
    assert events.of("error")[0]["message"] == "a test wants it"
    assert events.types().count("done") == 1
    assert events.types()[-1] == "done"
    assert all(before == after[0] for before, after in settled_calls)
    assert recorder.turns[0] is turn
    judged = STEPS.index(step) >= STEPS.index("before_tool_call")
    assert finished == (["c1"] if judged else [])
    uses = {use.id for message in stored for use in message.tool_uses}
    answered = {part.tool_use_id for message in stored for part in message.tool_results}
    assert uses == answered
    assert following.ending == "done"


@pytest.mark.parametrize("step", ["stream", "run", "resolve_ask"])
async def test_a_deadline_cancels_the_turn_and_says_so(step: str) -> None:
    pause, recorder, events = Pause(step), Recorder(), Events()
    script, tools = parts(pause)
    limits = {"deadline_seconds": 0.05, **ANSWERS}
    async with gateway(Scripted(script), pause, tools, recorder, turn=limits) as gate:
        turn = await gate.chat("go", sink=events)
        await settled(gate)
    assert turn.ending == "cancelled"
    assert events.of("error")[0]["code"] == "deadline"
    assert len(recorder.after) == len(recorder.before) == 1
    assert recorder.turns == [turn]


async def test_a_cancelled_caller_cancels_its_turn_and_the_lane_is_free() -> None:
    pause, recorder = Pause("stream"), Recorder()
    script, tools = parts(pause)
    async with gateway(Scripted(script), pause, tools, recorder, turn=ANSWERS) as gate:
        task = asyncio.create_task(gate.chat("go"))
        await pause.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.host.running() == ()
        assert [status for _, status, _ in recorder.after] == ["cancelled"]
        assert (await gate.chat("again")).ending == "done"
        await settled(gate)
    assert [turn.ending for turn in recorder.turns] == ["cancelled", "done"]


async def test_a_second_cancellation_does_not_cut_the_settling_short() -> None:
    pause, recorder, events = Pause("after_model_call"), Recorder(), Events()
    script, tools = parts(pause)
    async with gateway(Scripted(script), pause, tools, recorder, turn=ANSWERS) as gate:
        task = asyncio.create_task(gate.chat("go", sink=events))
        await pause.reached.wait()
        running = gate.host.running()[0].id
        for _ in range(3):
            gate.host.cancel(running, "impatient")
            await asyncio.sleep(0)
        pause.release.set()
        turn = await task
        await settled(gate)
    assert turn.ending == "cancelled"
    assert len(recorder.after) == 1
    assert events.types().count("done") == 1


async def test_draining_lets_turns_finish_and_then_cancels_the_rest() -> None:
    pause, recorder = Pause("stream"), Recorder()
    script, tools = parts(pause)
    async with gateway(Scripted(script), pause, tools, recorder, turn=ANSWERS) as gate:
        task = asyncio.create_task(gate.chat("go"))
        await pause.reached.wait()
        await gate.drain(0.01)
        turn = await task
    assert turn.ending == "cancelled"
    assert turn.error is not None
    assert str(turn.error) == "the gateway stops"
    assert recorder.turns == [turn]


async def test_a_nested_turn_is_cancelled_with_its_parent() -> None:
    pause, recorder, holder = Pause("stream"), Recorder(), []
    script, _ = parts(pause)

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
        child = await holder[0].host.nested_turn(turn, "below")
        return ToolResult(content=child.answer)

    schema = {"type": "object"}
    nest = Tool(name="nest", description="", schema=schema, run=run)
    script.steps.insert(0, call(("p", "nest", {})))
    async with gateway(Scripted(script), pause, Tools(nest), recorder, turn=ANSWERS) as gate:
        holder.append(gate)
        task = asyncio.create_task(gate.chat("go"))
        await pause.reached.wait()
        parent = next(turn for turn in gate.host.running() if turn.depth == 0)
        gate.host.cancel(parent.id, "enough")
        turn = await task
        await settled(gate)
    assert turn.ending == "cancelled"
    assert sorted(item.depth for item in recorder.turns) == [0, 1]
    assert {item.ending for item in recorder.turns} == {"cancelled"}
    assert recorder.finished == [("p", "cancelled")]
