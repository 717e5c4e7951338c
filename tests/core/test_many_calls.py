"""A model that calls very many tools in one message: a cap, linear work, valid messages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
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
)

from hookgate.builtin_plugins.providers.anthropic import AnthropicReader
from hookgate.builtin_plugins.providers.openai import OpenAIReader
from hookgate.core.domain.messages import Message, Provenance
from hookgate.core.domain.models import ToolUseEvent
from hookgate.core.domain.turn import Origin, Principal, TurnRequest
from hookgate.core.turn.model.reply import MAX_CALLS
from hookgate.core.turn.talk import BREATH

OWNER, USER = Principal.owner("test"), Origin(provenance=Provenance.EXTERNAL_USER)
TEXT = {"text": "x"}


def paired(message: Message, results: Message) -> bool:
    """Whether each call has its own result, in order."""
    made = [use.id for use in message.tool_uses]
    return made == [part.tool_use_id for part in results.tool_results] and len(set(made)) == len(
        made
    )


async def many(number: int, *, limit: int = 64, **more: Any) -> tuple[Any, Events, Recorder]:
    recorder, events = Recorder(), Events()
    script = Script(call(*((f"c{n}", "echo", TEXT) for n in range(number))), say("fine"))
    turn_settings = {"max_tool_calls": limit, **more}
    parts = (Scripted(script), Tools(echo_tool()), Allow(), recorder)
    async with gateway(*parts, turn=turn_settings) as gate:
        turn = await gate.chat("go", sink=events)
    assert (turn.ending, turn.answer) == ("done", "fine")
    return script.requests[1], events, recorder


@pytest.mark.parametrize(("number", "limit"), [(4, 3), (65, 64), (500, 64), (3, 3)])
async def test_calls_past_the_limit_get_an_error_and_do_not_run(number: int, limit: int) -> None:
    request, events, recorder = await many(number, limit=limit)
    message, results = request.messages[-2:]
    assert len(message.tool_uses) == number
    assert paired(message, results)
    assert [part.is_error for part in results.tool_results] == [n >= limit for n in range(number)]
    assert len(recorder.finished) == limit
    assert len(events.of("tool_use")) == len(events.of("tool_result")) == limit
    if number > limit:
        assert f"at most {limit} calls" in results.tool_results[-1].content
        (warning,) = events.of("warning")
        assert warning["code"] == "too_many_tool_calls"
        assert str(number) in warning["message"]
        assert "turn.max_tool_calls" in warning["action"]
    else:
        assert events.of("warning") == []


async def test_past_all_use_calls_are_counted_and_not_kept() -> None:
    request, events, recorder = await many(10_000)
    message, results = request.messages[-2:]
    assert len(message.tool_uses) == MAX_CALLS
    assert paired(message, results)
    assert len(recorder.finished) == 64
    assert "10000 tools" in events.of("warning")[0]["message"]


class Ticker:
    """Counts how often the event loop came round."""

    def __init__(self) -> None:
        self.ticks = 0
        self._over = False

    async def __aenter__(self) -> Ticker:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await self._task

    async def _tick(self) -> None:
        while not self._over:
            self.ticks += 1
            await asyncio.sleep(0)


async def ticks_of(number: int, **options: int) -> int:
    """How often the event loop came round while so many calls were read and judged."""
    async with Ticker() as ticker:
        _, _, recorder = await many(number, **options)
    assert len(recorder.decided) == min(number, 64)
    return ticker.ticks


async def test_others_get_their_turn_while_calls_are_read_and_judged() -> None:
    # It comes round while a thread is awaited, too: the least of several is what has to be.
    few = min([await ticks_of(2, max_iterations=1) for _ in range(5)])
    assert await ticks_of(10_000) - few > 10_000 / BREATH + 60


async def test_the_work_grows_as_the_calls_do() -> None:
    """Ten times the calls cost about ten times the processor; a hundred, were it squared."""

    async def cost(number: int) -> float:
        before = time.process_time()
        await many(number, limit=1000, max_iterations=1)
        return time.process_time() - before

    await cost(100)
    base = await cost(1)
    # What a loaded machine adds is in some of them: the least of each is what the work takes.
    small, large = [min([await cost(number) for _ in range(3)]) for number in (100, 1000)]
    assert (large - base) < 30 * max(small - base, 0.005)


async def test_reading_calls_is_linear_in_both_protocols() -> None:
    def openai(number: int) -> int:
        reader = OpenAIReader("acme", str)
        for n in range(number):
            function = {"name": "echo", "arguments": '{"text": "x"}'}
            calls = [{"index": n, "id": f"c{n}", "function": function}]
            list(reader.read(json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode()))
        return len(list(reader.read(b"[DONE]")))

    def anthropic(number: int) -> int:
        reader, said = AnthropicReader("acme", str), 0
        for n in range(number):
            block = {"type": "tool_use", "id": f"c{n}", "name": "echo", "input": TEXT}
            start = {"type": "content_block_start", "index": n, "content_block": block}
            said += len(list(reader.read(json.dumps(start).encode())))
            stop = {"type": "content_block_stop", "index": n}
            said += len(list(reader.read(json.dumps(stop).encode())))
        return said

    def cost(read: Any, number: int) -> float:
        before = time.process_time()
        assert read(number) >= number
        return time.process_time() - before

    for read in (openai, anthropic):
        cost(read, 100)
        assert cost(read, 10_000) < 40 * max(cost(read, 1000), 0.005)


@pytest.mark.parametrize(
    "ids",
    [["a", "a", "a"], ["", "", ""], ["a", "", "a"], [None, 3, "a"], ["c\ud800", "c\ud800", "x"]],
)
async def test_each_call_of_a_message_has_an_id_of_its_own(ids: list[Any]) -> None:
    texts = [f"t{n}" for n in range(len(ids))]
    uses = [
        ToolUseEvent(id=one, name="echo", input={"text": text})
        for one, text in zip(ids, texts, strict=True)
    ]
    script = Script([*uses, *call()], say("fine"))
    async with gateway(Scripted(script), Tools(echo_tool()), Allow()) as gate:
        turn = await gate.chat("go")
    message, results = script.requests[1].messages[-2:]
    assert turn.answer == "fine"
    assert paired(message, results)
    assert [part.content for part in results.tool_results] == texts


async def test_an_id_of_an_earlier_message_is_not_given_again() -> None:
    script = Script(
        call(("a", "echo", TEXT)), call(("a", "echo", TEXT), ("b", "echo", TEXT)), say("fine")
    )
    async with gateway(Scripted(script), Tools(echo_tool()), Allow()) as gate:
        await gate.chat("go")
    uses = [use.id for message in script.requests[2].messages for use in message.tool_uses]
    assert len(uses) == len(set(uses)) == 3


async def test_a_message_past_the_limit_with_a_clients_call_goes_back_whole() -> None:
    ran: list[Mapping[str, Any]] = []

    async def run(turn: Any, arguments: Mapping[str, Any]) -> str:
        ran.append(arguments)
        return "ran"

    theirs = echo_tool("theirs", run=None, owner="client", sandbox="client", plugin="client")
    uses = [("a", "echo", TEXT), ("b", "theirs", TEXT), ("c", "echo", TEXT)]
    script = Script(call(*uses), say("fine"))
    config = {"max_tool_calls": 2}
    async with gateway(Scripted(script), Tools(echo_tool(run=run)), Allow(), turn=config) as gate:
        request = TurnRequest(content="go", client_tools=(theirs,))
        turn = await gate.host.start_turn(OWNER, USER, request).wait()
    assert turn.ending == "done"
    assert ran == []
    message, results = script.requests[1].messages[-2:]
    assert all(part.is_error for part in results.tool_results)
    assert paired(message, results)
