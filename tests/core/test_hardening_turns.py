"""Cancellations, stores, clients and budgets at their worst: the turn ends in good order."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
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
)
from tests.support.stored import (
    CLIENT,
    asking,
    brought,
    stored,
    unpaired,
)

from hookgate.core.domain.errors import ClientToolError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import (
    ModelEvent,
    StopEvent,
)
from hookgate.core.domain.parts import Text
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import ToolCall, Verdict
from hookgate.core.domain.turn import Fence, SessionKey, Turn, TurnPlan
from hookgate.core.turn.context import Block, ContextBuilder
from hookgate.hookspecs import hookimpl
from hookgate.sessions import InProcessConversations

# -- cancellation ------------------------------------------------------------


class Swallows:
    """Waits in a tool or in a filter, and does not let itself be cancelled."""

    name = "swallows"

    def __init__(self, where: str) -> None:
        self.where = where
        self.reached = asyncio.Event()

    async def hold(self) -> None:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async def run(self, turn: Turn, arguments: Mapping[str, Any]) -> str:
        if self.where == "tool":
            await self.hold()
        return "ran"

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        async def held() -> AsyncIterator[ModelEvent]:
            async for event in events:
                if self.where == "filter" and isinstance(event, StopEvent):
                    await self.hold()
                yield event

        return held()


@pytest.mark.parametrize("where", ["tool", "filter"])
@pytest.mark.parametrize("deadline", [0.05, 600.0])
async def test_a_cancellation_that_a_plugin_swallows_still_ends_the_turn(
    where: str, deadline: float
) -> None:
    swallows, recorder, events = Swallows(where), Recorder(), Events()
    script = Script(call(("c", "echo", {"text": "x"})), say("more"))
    parts = (Scripted(script), Allow(), Tools(echo_tool(run=swallows.run)), swallows, recorder)
    async with gateway(*parts, turn={"deadline_seconds": deadline}) as gate:
        task = asyncio.create_task(gate.chat("go", sink=events))
        await swallows.reached.wait()
        if deadline == 600.0:
            gate.host.cancel(gate.host.running()[0].id, "enough")
        turn = await task
        messages = await stored(gate)
    assert turn.ending == "cancelled"
    assert len(script.requests) == 1
    assert events.types().count("done") == 1
    assert unpaired(messages) == set()


async def test_further_cancellations_leave_no_call_without_its_end() -> None:
    class Impatient:
        name = "impatient"
        reached = asyncio.Event()

        @hookimpl
        async def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            if call.id == "c3":
                self.reached.set()
                await asyncio.Event().wait()
            return Verdict.allow()

        @hookimpl
        async def tool_finished(self, turn: Turn, call: ToolCall) -> None:
            gate.host.cancel(turn.id, "impatient")
            await asyncio.sleep(0)

    impatient, recorder = Impatient(), Recorder()
    uses = [(f"c{number}", "echo", {"text": "x"}) for number in (1, 2, 3)]
    gate = gateway(Scripted(Script(call(*uses))), impatient, Tools(echo_tool()), recorder)
    async with gate:
        task = asyncio.create_task(gate.chat("go"))
        await impatient.reached.wait()
        gate.host.cancel(gate.host.running()[0].id, "impatient")
        await task
    assert sorted(recorder.finished) == [(f"c{number}", "cancelled") for number in (1, 2, 3)]


async def test_calls_that_waited_for_a_client_end_once_when_the_turn_is_cut_short() -> None:
    begun, recorder = asyncio.Event(), Recorder()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    script = Script(call(("h", "echo", {"text": "x"}), ("c", "on_client", {})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run)), recorder) as gate:
        task = asyncio.create_task(asking(gate, content="go"))
        await begun.wait()
        gate.host.cancel(gate.host.running()[0].id, "enough")
        await task
        assert unpaired(await stored(gate)) == set()
        await gate.chat("again")
    assert sorted(recorder.finished) == [("c", "cancelled"), ("h", "cancelled")]


async def test_a_message_committed_in_the_moment_of_its_cancellation_is_a_turn_that_ends() -> None:
    class Slow(InProcessConversations):
        reached = asyncio.Event()

        async def append(self, *args: Any, **kwargs: Any) -> None:
            await super().append(*args, **kwargs)
            if not self.reached.is_set():
                self.reached.set()
                await asyncio.sleep(0)

    recorder, events = Recorder(), Events()
    async with gateway(Scripted(Script(say("ok"))), recorder) as gate:
        conversations = Slow()
        gate.host.provide(CONVERSATIONS, conversations)
        task = asyncio.create_task(gate.chat("go", sink=events))
        await conversations.reached.wait()
        gate.host.cancel(gate.host.running()[0].id, "enough")
        turn = await task
        await settled(gate)
        assert len(await stored(gate)) == 1
    assert turn.ending == "cancelled"
    assert events.types().count("done") == 1
    assert recorder.turns == [turn]


async def test_a_caller_that_is_cancelled_twice_still_waits_for_its_turn_to_settle() -> None:
    class Settles:
        name = "settles"
        reached, release = asyncio.Event(), asyncio.Event()

        @hookimpl
        async def after_model_call(self) -> None:
            self.reached.set()
            await self.release.wait()

    settles = Settles()
    async with gateway(Scripted(Script(say("ok"))), settles) as gate:
        task = asyncio.create_task(gate.chat("go"))
        await settles.reached.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        settles.release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.host.running() == ()


async def test_a_turn_that_fails_while_its_caller_is_cancelled_leaves_no_failure_unseen() -> None:
    class Fails(InProcessConversations):
        reached = asyncio.Event()

        async def history(self, *args: Any, **kwargs: Any) -> Sequence[Message]:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError("cut")

    seen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    async with gateway(Scripted(Script(say("ok")))) as gate:
        conversations = Fails()
        gate.host.provide(CONVERSATIONS, conversations)
        waiting = asyncio.create_task(gate.chat("go"))
        await conversations.reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        del waiting
        gc.collect(1)  # what is as young as this test
    assert seen == []


# -- the end of a turn -----------------------------------------------------


async def test_done_goes_out_whatever_a_store_raises() -> None:
    class Broken(InProcessConversations):
        async def append(self, session: Any, messages: Sequence[Message], *, fence: Fence) -> None:
            if messages[0].role == "assistant":
                raise TypeError("not JSON")
            await super().append(session, messages, fence=fence)

    recorder, events = Recorder(), Events()
    async with gateway(Scripted(Script(say("ok"))), recorder) as gate:
        gate.host.provide(CONVERSATIONS, Broken())
        turn = await gate.chat("go", sink=events)
        await settled(gate)
    assert turn.ending == "failed"
    assert events.types()[-2:] == ["error", "done"]
    assert recorder.turns == [turn]


async def test_a_sink_that_fails_does_not_end_the_turn() -> None:
    def sink(event: Any) -> None:
        raise BrokenPipeError

    recorder = Recorder()
    async with gateway(Scripted(Script(say("whole answer"))), recorder) as gate:
        turn = await gate.chat("go", sink=sink)
        await settled(gate)
        assert len(await stored(gate)) == 2
    assert (turn.ending, turn.answer) == ("done", "whole answer")
    assert recorder.turns == [turn]


@pytest.mark.parametrize("hook", ["judge_turn", "after_turn"])
async def test_what_follows_a_turn_fails_quietly_also_where_it_is_required(hook: str) -> None:
    def fails(self: Any) -> None:
        raise OSError("broken")

    fails.__name__ = hook
    plugin = type("Bad", (), {"name": "bad", hook: hookimpl(fails)})()
    seen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    recorder = Recorder()
    parts = (recorder, plugin) if hook == "judge_turn" else (plugin, recorder)
    async with gateway(
        Scripted(Script(say("ok"))), *parts, hooks={hook: {"required": True}}
    ) as gate:
        turn = await gate.chat("go")
        await settled(gate)
    assert recorder.turns == [turn]
    assert seen == []


async def test_a_turn_that_may_finish_may_also_nest_while_the_gateway_stops() -> None:
    begun, release, holder = asyncio.Event(), asyncio.Event(), []

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        begun.set()
        await release.wait()
        child = await holder[0].host.nested_turn(turn, "below")
        return str(child.answer)

    script = Script(call(("c", "echo", {"text": "x"})), say("child"), say("parent"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        holder.append(gate)
        task = asyncio.create_task(gate.chat("go"))
        await begun.wait()
        draining = asyncio.create_task(gate.drain(5))
        await asyncio.sleep(0)
        release.set()
        turn = await task
        await draining
    assert turn.answer == "parent"
    assert turn.calls[0].result.content == "child"


# -- client-owned tools ------------------------------------------------------


async def test_a_long_chain_of_client_calls_keeps_its_question_and_its_calls() -> None:
    steps = [call((f"c{number}", "on_client", {})) for number in range(9)]
    script = Script(*steps, say("done"))
    async with gateway(Scripted(script), Allow()) as gate:
        await asking(gate, content="the question")
        for number in range(9):
            turn = await asking(gate, tool_results=brought((f"c{number}", f"r{number}")))
    assert turn.answer == "done"
    for request in script.requests:
        assert request.messages[0].text == "the question"
        assert unpaired(request.messages) == set()
    assert len(script.requests[-1].messages) == 19


async def test_a_chain_beyond_the_budget_drops_its_oldest_rounds_first() -> None:
    steps = [call((f"c{number}", "on_client", {})) for number in range(6)]
    script = Script(*steps, say("done"))
    async with gateway(Scripted(script), Allow(), context={"budget_tokens": 1000}) as gate:
        await asking(gate, content="the question")
        for number in range(6):
            text = f"r{number} " + "x" * 1000
            turn = await asking(gate, tool_results=brought((f"c{number}", text)))
    assert turn.answer == "done"
    last = script.requests[-1].messages
    assert last[0].text == "the question"
    assert unpaired(last) == set()
    results = [part.content[:2] for message in last for part in message.tool_results]
    assert results == ["r4", "r5"] or results == ["r3", "r4", "r5"]


async def test_results_of_a_client_come_with_their_calls_where_no_history_is_wanted() -> None:
    script = Script(call(("c", "on_client", {})), say("done"))
    async with gateway(Scripted(script), Allow(), context={"history_turns": 0}) as gate:
        await asking(gate, content="before")
        await asking(gate, tool_results=brought(("c", "r")))
    assert [message.role for message in script.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
    ]


async def test_results_that_could_not_be_committed_may_be_brought_again() -> None:
    class Flaky(InProcessConversations):
        fails = True

        async def append(self, session: Any, messages: Sequence[Message], *, fence: Fence) -> None:
            if messages[0].role == "tool" and self.fails:
                self.fails = False
                raise OSError("disk full")
            await super().append(session, messages, fence=fence)

    recorder = Recorder()
    script = Script(call(("c", "on_client", {})), say("done"))
    async with gateway(Scripted(script), Allow(), recorder) as gate:
        gate.host.provide(CONVERSATIONS, Flaky())
        await asking(gate, content="go")
        with pytest.raises(OSError, match="disk full"):
            await asking(gate, tool_results=brought(("c", "r")))
        assert recorder.finished == []
        turn = await asking(gate, tool_results=brought(("c", "r")))
    assert turn.answer == "done"
    assert recorder.finished == [("c", "done")]


async def test_a_client_tool_of_a_host_tools_name_is_refused_before_anything_is_kept() -> None:
    script = Script(say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        with pytest.raises(ClientToolError, match="'echo'"):
            await asking(gate, content="go", client_tools=(replace(CLIENT, name="echo"),))
        turn = await asking(gate, content="go")
    assert turn.answer == "ok"
    assert len(script.requests[0].messages) == 1


# -- the context -------------------------------------------------------------


async def test_blocks_behind_tool_calls_fit_what_results_have_left() -> None:
    class Recalls:
        name = "recalls"

        @hookimpl
        def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
            if context.stage == "after_tool":
                context.add(Block(kind="recall", text="recalled " * 100))

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return "x" * 2800

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    parts = (Scripted(script), Allow(), Recalls(), Tools(echo_tool(run=run)))
    async with gateway(*parts, context={"budget_tokens": 900}) as gate:
        await gate.chat("go")
    assert not any("recalled" in message.text for message in script.requests[1].messages)


@pytest.mark.parametrize(
    "block",
    [
        Block(kind="no name", text="x"),
        Block(kind="card", text="x"),
        Block(kind="recall", text="x", taint=None),  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_a_block_that_is_junk_is_its_plugins_failure_and_not_the_turns(block: Block) -> None:
    class Adds:
        name = "adds"

        @hookimpl
        def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
            context.add(block)

    recorder = Recorder()
    async with gateway(Scripted(Script(say("ok"))), Adds(), recorder) as gate:
        turn = await gate.chat("go")
        await gate.plugins.hooks.reported()
    assert turn.answer == "ok"
    assert {failure.plugin for failure in recorder.failures} == {"adds"}


async def test_a_plan_without_rounds_of_tools_ends_at_the_first_call() -> None:
    class Plans:
        name = "plans"

        @hookimpl
        def plan_turn(self, plan: TurnPlan) -> TurnPlan:
            return replace(plan, max_iterations=-1)

    async with gateway(Scripted(Script(call(("c", "echo", {"text": "x"})))), Plans()) as gate:
        turn = await gate.chat("go")
        assert unpaired(await stored(gate)) == set()
    assert turn.error is not None
    assert turn.error.code == "max_iterations"


# -- memory --------------------------------------------------------------------


async def test_conversations_in_the_process_are_bounded_and_the_oldest_sessions_go_first() -> None:
    conversations = InProcessConversations(total=10)
    for number in range(20):
        key = SessionKey("main", "nested", "local", str(number))
        message = Message(role="user", parts=(Text(str(number)),), turn=str(number))
        await conversations.append(key, [message, message], fence=Fence())
    kept = await conversations.sessions()
    assert len(kept) == 5
    last = SessionKey("main", "nested", "local", "19")
    assert len(await conversations.history(last, turns=5)) == 2
