"""Whatever code of a plugin raises, of whatever class, is that code's own error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
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

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.models import ModelEvent, ModelInfo, ModelRequest, StopEvent, TextDelta
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool


class Unprintable(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


RAISED = [
    GeneratorExit,
    KeyboardInterrupt,
    SystemExit,
    asyncio.CancelledError,
    StopAsyncIteration,
    TimeoutError,
    Unprintable,
]


async def one_call(made: Tool, *others: Tool) -> tuple[Turn, Events, Recorder, Script]:
    """Run a turn that calls `made`, and all `others` beside it."""
    recorder, events = Recorder(), Events()
    uses = [(f"c{n}", one.name, {"text": "x"}) for n, one in enumerate((made, *others))]
    script = Script(call(*uses), say("fine"))
    async with gateway(Scripted(script), Tools(made, *others), Allow(), recorder) as gate:
        turn = await gate.chat("go", sink=events)
        await settled(gate)
        assert (await gate.chat("again")).answer == "fine"
    return turn, events, recorder, script


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("beside", [False, True])
async def test_what_a_tool_raises_is_its_error_and_the_turn_goes_on(
    error: type[BaseException], suspends: bool, beside: bool
) -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        if suspends:
            await asyncio.sleep(0)
        raise error

    others = [echo_tool("other")] if beside else []
    turn, events, recorder, script = await one_call(echo_tool(run=run), *others)
    assert (turn.ending, turn.answer) == ("done", "fine")
    assert events.types().count("done") == 1
    assert ("c0", "failed") in recorder.finished
    assert len(recorder.finished) == 1 + beside
    (broken,) = [one for one in turn.calls if one.call.id == "c0"]
    assert "echo" in broken.result.content
    results = script.requests[1].messages[-1].tool_results
    assert [part.is_error for part in results] == [True, *([False] if beside else [])]


async def test_a_tool_that_raises_without_being_awaited_is_in_error() -> None:
    def run(turn: Turn, arguments: Mapping[str, Any]) -> Any:
        raise KeyboardInterrupt

    turn, _, recorder, _ = await one_call(echo_tool(run=run))
    assert (turn.ending, recorder.finished) == ("done", [("c0", "failed")])


@pytest.mark.parametrize("error", [*RAISED, StopIteration])
async def test_what_a_tool_raises_on_a_thread_is_its_error(error: type[BaseException]) -> None:
    def echo(text: str) -> str:
        """Break."""
        raise error

    turn, _, recorder, _ = await one_call(tool(echo, flags=Flags.none()))
    assert (turn.ending, recorder.finished) == ("done", [("c0", "failed")])


async def test_a_tool_that_cancels_its_own_task_cancels_nothing_else() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "and returns"

    turn, _, recorder, _ = await one_call(echo_tool(run=run), echo_tool("other"))
    assert turn.ending == "done"
    assert sorted(recorder.finished) == [("c0", "failed"), ("c1", "done")]


async def test_a_timeout_of_the_tools_own_is_not_called_the_gateways() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        raise TimeoutError("the server was slow")

    turn, _, _, _ = await one_call(echo_tool(run=run))
    assert turn.calls[0].result.status == "failed"
    assert "the server was slow" in turn.calls[0].result.content


async def test_a_tool_that_goes_on_after_its_time_is_left_alone() -> None:
    over, goes_on = asyncio.Event(), asyncio.Event()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                goes_on.set()
        return "late"

    turn, _, recorder, _ = await one_call(echo_tool(run=run, timeout=0.01))
    assert goes_on.is_set()
    assert (turn.ending, recorder.finished) == ("done", [("c0", "timeout")])
    over.set()


async def test_a_cancelled_turn_cancels_the_tools_task_and_hears_of_its_clean_up() -> None:
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()
        return "never"

    recorder, events = Recorder(), Events()
    script = Script(call(("c", "echo", {"text": "x"})), say("fine"))
    async with gateway(Scripted(script), Tools(echo_tool(run=run)), Allow(), recorder) as gate:
        asked = asyncio.create_task(gate.chat("go", sink=events))
        await began.wait()
        (running,) = gate.host.running()
        gate.host.cancel(running.id, "enough")
        turn = await asked
        assert cleaned.is_set()
    assert turn.ending == "cancelled"
    assert recorder.finished == [("c", "cancelled")]
    assert events.types()[-1] == "done"


class Raising:
    """A provider that raises at one of three places."""

    name = "script"

    def __init__(self, error: type[BaseException], where: str) -> None:
        self.error, self.where = error, where
        self.sound = False

    def models(self) -> list[ModelInfo]:
        return [ModelInfo(name="*")]

    def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self.where == "call" and not self.sound:
            raise self.error
        return self._events()

    async def _events(self) -> AsyncIterator[ModelEvent]:
        if self.where == "start" and not self.sound:
            raise self.error
        yield TextDelta("some")
        if self.where == "middle" and not self.sound:
            raise self.error
        yield StopEvent("end")


@pytest.mark.parametrize("error", [one for one in RAISED if one is not StopAsyncIteration])
@pytest.mark.parametrize("where", ["call", "start", "middle"])
async def test_what_a_provider_raises_fails_that_turn_alone(
    error: type[BaseException], where: str
) -> None:
    recorder, events, provider = Recorder(), Events(), Raising(error, where)
    async with gateway(Scripted(provider), recorder) as gate:  # type: ignore[arg-type]
        turn = await gate.chat("go", sink=events)
        provider.sound = True
        assert (await gate.chat("again")).answer == "some"
    assert turn.ending == "failed"
    assert turn.error is not None
    assert turn.error.code == "provider_failed"
    assert events.types()[-1] == "done"
    assert [status for _, status, _ in recorder.after] == [
        "cut" if where == "middle" else "failed",
        "done",
    ]


@pytest.mark.parametrize("error", RAISED[:4])
async def test_what_a_filter_raises_fails_that_turn_alone(error: type[BaseException]) -> None:
    class Filter:
        name = "filter"
        sound = False

        @hookimpl
        def filter_stream(self, turn: Turn, events: Any) -> Any:
            async def stream() -> AsyncIterator[Any]:
                async for event in events:
                    if not self.sound:
                        raise error
                    yield event

            return stream()

    events, bad = Events(), Filter()
    async with gateway(Scripted(Script(say("fine"))), bad) as gate:
        turn = await gate.chat("go", sink=events)
        bad.sound = True
        assert (await gate.chat("again")).answer == "fine"
    assert turn.error is not None
    assert turn.error.code == "hook_failed"
    assert events.types()[-1] == "done"


@pytest.mark.parametrize("error", RAISED[:3])
async def test_what_background_work_raises_does_not_stop_the_loop(
    error: type[BaseException],
) -> None:
    async def breaks() -> None:
        raise error

    async with gateway(Scripted(Script(say("fine")))) as gate:
        task = gate.host.spawn(breaks(), name="breaks")
        await until(task.done)
        assert (await gate.chat("go")).answer == "fine"


@pytest.mark.parametrize("error", RAISED[:3])
async def test_a_store_that_raises_anything_fails_its_turn_alone(
    error: type[BaseException],
) -> None:
    events, script = Events(), Script(say("fine"))
    async with gateway(Scripted(script)) as gate:
        store = gate.host[CONVERSATIONS]
        append, count = store.append, 0

        async def breaks(*args: Any, **kwargs: Any) -> None:
            nonlocal count
            count += 1
            if count == 2:
                raise error
            await append(*args, **kwargs)

        store.append = breaks  # type: ignore[method-assign]
        turn = await gate.chat("go", sink=events)
        assert (turn.ending, events.types()[-1]) == ("failed", "done")
        assert (await gate.chat("again")).answer == "fine"
