from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.script import (
    USAGE,
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

from hookgate.core.domain.descriptors import Capability, Flags, Selection
from hookgate.core.domain.errors import (
    LaneFullError,
    LaneHeldError,
    NoAgentError,
    NotAllowedError,
    ProviderError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.messages import Provenance, ToolResultPart
from hookgate.core.domain.models import (
    ModelEvent,
    ModelRequest,
    Refusal,
    TextDelta,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import Ask, Decision, Tool, ToolCall, ToolResult, Verdict
from hookgate.core.domain.turn import (
    Address,
    Agent,
    Claim,
    Origin,
    Principal,
    Turn,
    TurnRequest,
)
from hookgate.core.registry.agents import Router
from hookgate.core.settings.schema import BindingSettings
from hookgate.hookspecs import hookimpl

USER = Origin(provenance=Provenance.EXTERNAL_USER, path="test")


async def test_an_answer_streams_chunk_by_chunk_and_ends_with_one_done() -> None:
    events = Events()
    async with gateway(Scripted(Script(say("one two three")))) as gate:
        turn = await gate.chat("hi", sink=events)
    assert turn.ending == "done"
    assert turn.answer == "one two three"
    assert [data["text"] for data in events.of("text")] == ["one", " two", " three"]
    assert events.types()[-1] == "done"
    assert events.types().count("done") == 1
    assert events.of("usage") == [USAGE.to_json()]
    assert {event.turn for event in events} == {turn.id}


async def test_the_next_turn_reads_the_one_before() -> None:
    script = Script(say("first"), say("second"))
    async with gateway(Scripted(script)) as gate:
        await gate.chat("one")
        await gate.chat("two")
    texts = [message.text for message in script.requests[1].messages]
    assert texts == ["one", "first", "two"]


async def test_two_sessions_do_not_see_each_other() -> None:
    script = Script(say("ok"))
    async with gateway(Scripted(script)) as gate:
        await gate.chat("mine", address=Address(peer="a"))
        await gate.chat("yours", address=Address(peer="b"))
    assert [message.text for message in script.requests[1].messages] == ["yours"]


async def test_a_tool_is_called_and_its_result_goes_back_to_the_model() -> None:
    script = Script(call(("c1", "echo", {"text": "pong"})), say("it said pong"))
    recorder, events = Recorder(), Events()
    async with gateway(Scripted(script), Allow(), Tools(echo_tool()), recorder) as gate:
        turn = await gate.chat("ping", sink=events)
        await settled(gate)
    assert turn.answer == "it said pong"
    results = script.requests[1].messages[-1].tool_results
    assert [(part.tool_use_id, part.content, part.is_error) for part in results] == [
        ("c1", "pong", False)
    ]
    assert events.of("tool_use") == [{"id": "c1", "name": "echo", "input": {"text": "pong"}}]
    assert [data["content"] for data in events.of("tool_result")] == ["pong"]
    assert recorder.decided == [("c1", "ALLOW")]
    assert recorder.finished == [("c1", "done")]


async def test_without_any_policy_a_tool_call_is_denied_and_says_so() -> None:
    script = Script(call(("c1", "echo", {"text": "x"})), say("denied"))
    async with gateway(Scripted(script), Tools(echo_tool())) as gate:
        turn = await gate.chat("go")
    result = turn.calls[0].result
    assert result.status == "denied"
    assert "turn.default_verdict" in result.content


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        (("c", "nothing", {}), "unknown tool 'nothing'"),
        (("c", "echo", {"text": 3}), "text"),
        (("c", "echo", {}), "text"),
        (("c", "echo", {"text": "a", "more": 1}), "more"),
        (("c", "echo", '{"text": '), "no JSON object"),
    ],
)
async def test_what_a_model_gets_wrong_is_an_error_result_for_it(
    use: tuple[str, str, Any], wanted: str
) -> None:
    script = Script(call(use), say("sorry"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        turn = await gate.chat("go")
    part = script.requests[1].messages[-1].tool_results[0]
    assert part.is_error
    assert wanted in part.content
    assert turn.ending == "done"
    (done,) = turn.calls
    assert (done.call.id, done.call.name, done.result.status) == ("c", use[1], "failed")
    assert not done.decision.allowed
    assert wanted in done.decision.reason


async def test_parallel_calls_run_side_by_side_and_answer_in_the_order_of_the_message() -> None:
    both = asyncio.Barrier(2)

    async def meet(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await both.wait()
        return str(arguments["text"])

    script = Script(call(("c1", "echo", {"text": "a"}), ("c2", "echo", {"text": "b"})), say("done"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=meet))) as gate:
        await gate.chat("go")
    parts = script.requests[1].messages[-1].tool_results
    assert [part.content for part in parts] == ["a", "b"]


async def test_calls_are_judged_in_order_before_any_of_them_runs() -> None:
    log: list[str] = []

    class Judge:
        name = "judge"

        @hookimpl
        async def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            await asyncio.sleep(0)
            log.append(f"judge {call.id} {call.index}")
            return Verdict.allow()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        log.append(f"run {arguments['text']}")
        return ""

    script = Script(call(("c1", "echo", {"text": "a"}), ("c2", "echo", {"text": "b"})), say("done"))
    async with gateway(Scripted(script), Judge(), Tools(echo_tool(run=run))) as gate:
        log.clear()
        await gate.chat("go")
    assert log == ["judge c1 0", "judge c2 1", "run a", "run b"]


async def test_rounds_of_tools_end_at_the_limit_with_an_error() -> None:
    script = Script(call(("c", "echo", {"text": "again"})))
    parts = (Scripted(script), Allow(), Tools(echo_tool()))
    async with gateway(*parts, turn={"max_iterations": 2}) as gate:
        turn = await gate.chat("go")
    assert turn.ending == "failed"
    assert turn.error is not None
    assert turn.error.code == "max_iterations"
    assert len(turn.calls) == 2
    assert all(message.tool_uses or message.role != "assistant" for message in turn.messages)
    assert turn.messages[-1].role == "tool"


async def test_a_tool_that_another_tool_reveals_is_called_in_the_same_turn() -> None:
    async def find(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(content="found: hidden", reveal=("hidden",))

    finder = echo_tool("finder", run=find, always_on=True)

    class SelectNothing:
        name = "select_nothing"

        @hookimpl
        def select_capabilities(self, turn: Turn) -> list[Any]:
            return []

    script = Script(
        call(("c1", "finder", {"text": "?"})), call(("c2", "hidden", {"text": "here"})), say("ok")
    )
    parts = (Scripted(script), Allow(), Tools(finder, echo_tool("hidden")), SelectNothing())
    async with gateway(*parts, turn={"tool_selection": "discovered"}) as gate:
        turn = await gate.chat("go")
    assert [tool.name for tool in script.requests[0].tools] == ["finder"]
    assert [tool.name for tool in script.requests[1].tools] == ["finder", "hidden"]
    assert turn.calls[1].result.content == "here"


@pytest.mark.parametrize(
    ("turn", "offered"),
    [
        ({}, ["echo", "other"]),
        ({"whole_tool_tokens": 20}, ["echo"]),
        ({"whole_tool_tokens": 20, "tool_selection": "all"}, ["echo", "other"]),
        ({"tool_selection": "discovered"}, ["echo"]),
    ],
)
async def test_all_tools_are_offered_while_they_are_few(
    turn: dict[str, Any], offered: list[str]
) -> None:
    class SelectEcho:
        name = "select_echo"

        @hookimpl
        def select_capabilities(self, turn: Turn) -> list[Selection]:
            return [Selection(id="tool:echo", score=1.0)]

    script = Script(say("ok"))
    parts = (Scripted(script), Allow(), Tools(echo_tool(), echo_tool("other")), SelectEcho())
    async with gateway(*parts, turn=turn) as gate:
        await gate.chat("go")
    assert [tool.name for tool in script.requests[0].tools] == offered


async def test_without_a_selector_many_tools_are_offered_too() -> None:
    script = Script(say("ok"))
    parts = (Scripted(script), Allow(), Tools(echo_tool(), echo_tool("other")))
    async with gateway(*parts, turn={"whole_tool_tokens": 20}) as gate:
        await gate.chat("go")
    assert [tool.name for tool in script.requests[0].tools] == ["echo", "other"]


async def test_an_agent_calls_only_the_tools_that_its_settings_name() -> None:
    script = Script(call(("c", "other", {"text": "x"})), say("ok"))
    agents = {"main": {"model": "script/one", "tools": ["ec*"]}}
    parts = (Scripted(script), Allow(), Tools(echo_tool(), echo_tool("other")))
    async with gateway(*parts, agents=agents) as gate:
        await gate.chat("go")
    assert [tool.name for tool in script.requests[0].tools] == ["echo"]
    assert "unknown tool" in script.requests[1].messages[-1].tool_results[0].content


async def test_what_is_withheld_is_neither_selected_nor_callable() -> None:
    class Withhold:
        name = "withhold"

        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> set[str]:
            return {"tool:echo"}

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool()), Withhold()) as gate:
        await gate.chat("go")
    assert script.requests[0].tools == ()
    assert "unknown tool" in script.requests[1].messages[-1].tool_results[0].content


class FailingSelector:
    name = "failing_selector"

    @hookimpl
    def select_capabilities(self, turn: Turn) -> list[Any]:
        raise RuntimeError("the index is gone")


async def test_failed_discovery_falls_back_to_all_tools_under_the_cap() -> None:
    script = Script(say("ok"))
    events = Events()
    parts = (Scripted(script), Allow(), Tools(echo_tool(), echo_tool("b")), FailingSelector())
    async with gateway(*parts, turn={"tool_selection": "discovered"}) as gate:
        turn = await gate.chat("go", sink=events)
    assert turn.ending == "done"
    assert [tool.name for tool in script.requests[0].tools] == ["b", "echo"]
    assert "the index is gone" in events.of("discovery_failed")[0]["reason"]


@pytest.mark.parametrize("name", ["toolFailureMode", "tool_failure_mode", "failMode"])
async def test_fail_closed_of_the_request_ends_the_turn_when_discovery_fails(name: str) -> None:
    class Forgetful:
        name = "forgetful"

        @hookimpl
        def plan_turn(self, turn: Turn, plan: Any) -> Any:
            return replace(plan, failure_mode="fail_open")

    script = Script(say("ok"))
    async with gateway(Scripted(script), FailingSelector(), Forgetful()) as gate:
        options = {"customFlags": {name: "fail_closed"}}
        turn = await gate.chat("go", options=options)
    assert turn.ending == "failed"
    assert turn.error is not None
    assert turn.error.code == "discovery_failed"
    assert script.requests == []


CLOSED = {"customFlags": {"toolFailureMode": "fail_closed"}}


async def broken(turn: Turn, arguments: Mapping[str, Any]) -> str:
    raise RuntimeError("the disk is gone")


@pytest.mark.parametrize(
    "run",
    [
        broken,
        # A tool that says itself that it failed.
        lambda _, __: asyncio.sleep(0, ToolResult.error("the disk is gone")),
        lambda _, __: asyncio.sleep(0, ToolResult(content="the disk is gone", is_error=True)),
    ],
)
async def test_fail_closed_ends_the_turn_with_the_error_of_a_tool(run: Any) -> None:
    script, events = Script(call(("1", "echo", {"text": "x"})), say("never")), Events()
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        turn = await gate.chat("go", options=CLOSED, sink=events)
        assert turn.ending == "failed"
        assert turn.error is not None and turn.error.code == "tool_failed"
        assert "'echo' failed" in str(turn.error) and "the disk is gone" in str(turn.error)
        assert len(script.requests) == 1
        # The call has its result all the same, for the client and in what is kept.
        assert [data["is_error"] for data in events.of("tool_result")] == [True]
        kept = await gate.host[CONVERSATIONS].history(turn.session, turns=1)
        assert kept[-1].tool_results[0].is_error


async def test_the_settings_fail_closed_holds_for_tools_whatever_a_planner_says() -> None:
    class Lenient:
        name = "lenient"

        @hookimpl
        def plan_turn(self, turn: Turn, plan: Any) -> Any:
            return replace(plan, failure_mode="fail_open")

    script = Script(call(("1", "echo", {"text": "x"})), say("never"))
    parts = (Scripted(script), Allow(), Lenient(), Tools(echo_tool(run=broken)))
    async with gateway(*parts, turn={"failure_mode": "fail_closed"}) as gate:
        turn = await gate.chat("go")
    assert turn.error is not None and turn.error.code == "tool_failed"


async def test_fail_closed_goes_on_after_a_wrong_call_and_after_a_denial() -> None:
    script = Script(
        call(("1", "nothing", {}), ("2", "echo", {"text": 5})),
        call(("3", "echo", {"text": "x"})),
        say("so be it"),
    )
    async with gateway(Scripted(script), Tools(echo_tool())) as gate:  # nobody allows anything
        turn = await gate.chat("go", options=CLOSED)
    assert (turn.ending, turn.answer) == ("done", "so be it")
    assert [item.result.status for item in turn.calls] == ["failed", "failed", "denied"]


class Refuse:
    name = "refuse"

    def __init__(self, hook: str) -> None:
        self.hook = hook

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal | None:
        return Refusal(code="maintenance", message="later") if self.hook == "turn" else None

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        return Refusal(code="budget", message="used up") if self.hook == "model" else None


@pytest.mark.parametrize(("hook", "code"), [("turn", "maintenance"), ("model", "budget")])
async def test_a_refusal_ends_the_turn_and_nothing_is_sent(hook: str, code: str) -> None:
    script, recorder, events = Script(say("no")), Recorder(), Events()
    async with gateway(Scripted(script), Refuse(hook), recorder) as gate:
        turn = await gate.chat("go", sink=events)
        await settled(gate)
    assert turn.ending == "refused"
    assert events.of("error")[0]["code"] == code
    assert script.requests == []
    assert recorder.turns == [turn]
    statuses = [status for _, status, _ in recorder.after]
    assert statuses == (["refused"] if hook == "model" else [])


async def test_a_failing_model_is_followed_by_the_next_one_each_reserved_and_settled() -> None:
    broken = Script([ProviderError("server", "boom")], name="broken")
    script, recorder, events = Script(say("from the second")), Recorder(), Events()
    agents = {"main": {"model": "broken/a", "fallback": ["script/b"]}}
    async with gateway(Scripted(broken, script), recorder, agents=agents) as gate:
        turn = await gate.chat("go", sink=events)
    assert turn.answer == "from the second"
    assert [status for _, status, _ in recorder.after] == ["failed", "failed", "done"]
    assert [call_id for call_id, _, _ in recorder.after] == recorder.before
    assert len(set(recorder.before)) == 3
    assert [request.attempt for request in (*broken.requests, *script.requests)] == [0, 1, 2]
    assert len(events.of("attempt_failed")) == 2


async def test_a_model_that_rejects_the_request_is_not_asked_twice() -> None:
    broken = Script([ProviderError("rejected", "bad request")], name="broken")
    agents = {"main": {"model": "broken/a"}}
    async with gateway(Scripted(broken), agents=agents) as gate:
        turn = await gate.chat("go")
    assert len(broken.requests) == 1
    assert turn.error is not None
    assert turn.error.data["kind"] == "rejected"


async def test_retry_after_is_honoured_up_to_its_limit() -> None:
    broken = Script([ProviderError("rate_limited", "slow down", retry_after=3600)], name="broken")
    agents = {"main": {"model": "broken/a"}}
    async with gateway(Scripted(broken), agents=agents) as gate:
        turn = await gate.chat("go")
    assert len(broken.requests) == 1
    assert turn.error is not None
    assert turn.error.data["retry_after"] == 3600


async def test_an_answer_that_is_cut_is_not_tried_again_and_keeps_what_was_seen() -> None:
    cut = Script([TextDelta("half an"), ProviderError("cut", "gone")])
    recorder = Recorder()
    async with gateway(Scripted(cut), recorder) as gate:
        turn = await gate.chat("go")
        stored = await gate.host[CONVERSATIONS].history(turn.session, turns=5)
    assert len(cut.requests) == 1
    assert turn.ending == "failed"
    assert [message.text for message in stored] == ["go", "half an"]
    assert [status for _, status, _ in recorder.after] == ["cut"]


async def test_a_stream_that_ends_without_a_stop_is_cut() -> None:
    async with gateway(Scripted(Script([TextDelta("half")]))) as gate:
        turn = await gate.chat("go")
    assert turn.error is not None
    assert turn.error.data["kind"] == "cut"


async def test_a_filter_that_swallows_usage_hides_it_from_nobody() -> None:
    class Swallow:
        name = "swallow"

        @hookimpl
        def filter_stream(
            self, turn: Turn, events: AsyncIterator[ModelEvent]
        ) -> AsyncIterator[ModelEvent]:
            async def kept() -> AsyncIterator[ModelEvent]:
                async for event in events:
                    if not isinstance(event, UsageEvent):
                        yield event

            return kept()

    recorder, events = Recorder(), Events()
    async with gateway(Scripted(Script(say("hi"))), Swallow(), recorder) as gate:
        turn = await gate.chat("go", sink=events)
    assert turn.usage == USAGE
    assert recorder.after[0][2] == USAGE
    assert events.of("usage") == [USAGE.to_json()]


async def test_an_ask_is_resolved_from_elsewhere_while_the_lane_is_held() -> None:
    class Asking:
        name = "asking"

        def __init__(self) -> None:
            self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self.asked = asyncio.Event()

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            return Verdict.ask(Ask(title="May it?"))

        @hookimpl
        async def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
            self.asked.set()
            allowed = await self.answer
            return Decision.allow(by="a person") if allowed else Decision.deny("no")

    asking = Asking()
    script = Script(call(("c", "echo", {"text": "x"})), say("first"), say("second"))
    answers = {"answerers": ["asking"]}
    async with gateway(Scripted(script), asking, Tools(echo_tool()), turn=answers) as gate:
        first = asyncio.create_task(gate.chat("one"))
        await asking.asked.wait()
        second = asyncio.create_task(gate.chat("two"))
        await until(lambda: len(gate.host.running()) == 2)
        assert not second.done()
        asking.answer.set_result(True)
        turn, after = await first, await second
    assert turn.calls[0].decision.by == "a person"
    assert turn.calls[0].result.status == "done"
    assert turn.answer == "first"
    assert after.answer == "second"


async def test_an_ask_that_nobody_answers_is_a_denial() -> None:
    class Asking:
        name = "asking"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            return Verdict.ask(Ask(title="May it?", timeout=0.01))

    class Silent:
        name = "silent"

        @hookimpl
        async def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> None:
            await asyncio.Event().wait()

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    for parts in ((Asking(),), (Asking(), Silent())):
        script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
        answers = {"answerers": ["silent"]}
        async with gateway(Scripted(script), Tools(echo_tool()), *parts, turn=answers) as gate:
            turn = await gate.chat("go")
        assert turn.calls[0].result.status == "denied"


CLIENT = Tool(
    name="on_client", description="", schema={"type": "object"}, owner="client", flags=Flags.none()
)
OWNER = Principal.owner("test")


@pytest.mark.parametrize("answer", ["", "not any more", None])
async def test_a_verdict_that_no_longer_stands_when_a_call_is_to_run_denies_it(
    answer: str | None,
) -> None:
    """What runs in between, here the first call, may change what the verdict rested on."""
    over: list[bool] = []

    class Rechecking:
        name = "rechecking"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            return Verdict.allow(recheck=self.recheck)

        def recheck(self, turn: Turn, call: ToolCall) -> str:
            if call.name == "echo":
                return ""
            assert over, "the client is told once the gateway's own calls are over"
            if answer is None:
                raise RuntimeError("lost")
            return answer

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        over.append(True)
        return "echoed"

    recorder, events = Recorder(), Events()
    script = Script(call(("c1", "on_client", {}), ("c2", "echo", {"text": "h"})), say("no then"))
    tools = Tools(echo_tool(run=run))
    async with gateway(Scripted(script), Rechecking(), tools, recorder) as gate:
        request = TurnRequest(content="go", client_tools=(CLIENT,))
        turn = await gate.host.start_turn(OWNER, USER, request, sink=events).wait()
    told = [data["name"] for data in events.of("tool_use") if data.get("owner") == "client"]
    if answer == "":
        assert (turn.ending, told) == ("awaiting_client", ["on_client"])
    else:
        assert (turn.ending, told) == ("done", [])
        assert recorder.finished == [("c2", "done"), ("c1", "denied")]
        denied = turn.calls[-1]
        assert denied.result.content == f"denied: {denied.decision.reason}"
        assert ("not any more" if answer else "RuntimeError('lost')") in denied.result.content


async def test_a_client_owned_tool_ends_the_turn_and_its_result_comes_back() -> None:
    recorder, events = Recorder(), Events()
    script = Script(call(("c1", "on_client", {}), ("c2", "echo", {"text": "h"})), say("thanks"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool()), recorder) as gate:
        request = TurnRequest(content="go", client_tools=(CLIENT,))
        turn = await gate.host.start_turn(OWNER, USER, request, sink=events).wait()
        assert turn.ending == "awaiting_client"
        assert [data["name"] for data in events.of("tool_use")] == ["echo", "on_client"]
        assert recorder.finished == [("c2", "done")]
        back = TurnRequest(
            content="",
            client_tools=(CLIENT,),
            tool_results=(ToolResultPart(tool_use_id="c1", content="from the client"),),
        )
        turn = await gate.host.start_turn(OWNER, USER, back).wait()
        await settled(gate)
    assert turn.answer == "thanks"
    assert recorder.finished == [("c2", "done"), ("c1", "done")]
    parts = [part for message in script.requests[1].messages for part in message.tool_results]
    assert {part.tool_use_id: part.content for part in parts} == {
        "c1": "from the client",
        "c2": "h",
    }


async def test_a_message_with_a_denied_client_call_goes_back_whole() -> None:
    class DenyClients:
        name = "deny_clients"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            if call.tool.owner == "client":
                return Verdict.deny("not from here")
            return Verdict.allow()

    recorder = Recorder()
    script = Script(call(("c1", "echo", {"text": "h"}), ("c2", "on_client", {})), say("ok"))
    async with gateway(Scripted(script), DenyClients(), Tools(echo_tool()), recorder) as gate:
        request = TurnRequest(content="go", client_tools=(CLIENT,))
        turn = await gate.host.start_turn(OWNER, USER, request).wait()
    assert turn.ending == "done"
    assert sorted(recorder.finished) == [("c1", "denied"), ("c2", "denied")]
    assert all(part.is_error for part in script.requests[1].messages[-1].tool_results)


async def test_a_client_that_moves_on_leaves_no_call_without_a_result() -> None:
    recorder = Recorder()
    script = Script(call(("c1", "on_client", {})), say("ok"))
    async with gateway(Scripted(script), Allow(), recorder) as gate:
        request = TurnRequest(content="go", client_tools=(CLIENT,))
        await gate.host.start_turn(OWNER, USER, request).wait()
        turn = await gate.chat("never mind")
    assert turn.answer == "ok"
    assert recorder.finished == [("c1", "cancelled")]
    roles = [message.role for message in script.requests[1].messages]
    assert roles == ["user", "assistant", "tool", "user"]


async def test_results_that_no_call_waits_for_are_refused() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        part = ToolResultPart(tool_use_id="never", content="x")
        with pytest.raises(TurnError) as caught:
            await gate.host.start_turn(
                OWNER, USER, TurnRequest(content="", tool_results=(part,))
            ).wait()
    assert caught.value.code == "unknown_tool_use"


def nesting_tool(gate: list[Any], **kwargs: Any) -> Tool:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        child = await gate[0].host.nested_turn(turn, str(arguments["text"]), tool="nest", **kwargs)
        return f"child said: {child.answer}"

    return echo_tool("nest", run=run)


async def test_a_nested_turn_has_its_own_session_and_taints_its_parent() -> None:
    holder: list[Any] = []
    seen: list[Turn] = []

    class Watch:
        name = "watch"

        @hookimpl
        def before_turn(self, turn: Turn) -> None:
            seen.append(turn)

    web = echo_tool("web", flags=replace(Flags.none(), reads_external_data=True))
    script = Script(
        call(("p1", "nest", {"text": "look it up"})),
        call(("n1", "web", {"text": "a page"})),
        say("the page says so"),
        say("done"),
    )
    tools = Tools(nesting_tool(holder), web)
    async with gateway(Scripted(script), Allow(), tools, Watch()) as gate:
        holder.append(gate)
        turn = await gate.chat("go")
    parent, child = seen
    assert child.origin.provenance == Provenance.INTER_SESSION
    assert child.origin.session == str(parent.session)
    assert child.session != parent.session
    assert child.depth == 1
    assert turn.calls[0].result.content == "child said: the page says so"
    assert "tool:web" in turn.taint


async def test_nesting_stops_at_its_limit() -> None:
    holder: list[Any] = []
    script = Script(call(("c", "nest", {"text": "deeper"})))
    parts = (Scripted(script), Allow(), Tools(nesting_tool(holder)))
    async with gateway(*parts, turn={"max_depth": 2, "max_iterations": 1}) as gate:
        holder.append(gate)
        await gate.chat("go")
        await settled(gate)
    deepest = max(len(request.messages) for request in script.requests)
    assert deepest >= 3
    errors = [
        part.content
        for request in script.requests
        for message in request.messages
        for part in message.tool_results
        if part.is_error
    ]
    assert any("2 is the limit" in error for error in errors)


async def test_a_lane_that_an_ancestor_holds_is_refused_at_once() -> None:
    caught: list[BaseException] = []
    holder: list[Any] = []

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        try:
            await holder[0].turns.nested(turn, "again", session=turn.session)
        except LaneHeldError as error:
            caught.append(error)
        return "x"

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        holder.append(gate)
        await gate.chat("go")
    assert len(caught) == 1


async def test_taint_is_stored_and_is_there_in_the_next_turn() -> None:
    web = echo_tool("web", flags=replace(Flags.none(), reads_external_data=True))
    seen: list[frozenset[str]] = []

    class Watch:
        name = "watch"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            seen.append(turn.taint)
            return Verdict.allow()

    script = Script(
        call(("c1", "web", {"text": "page"})),
        say("read it"),
        call(("c2", "echo", {"text": "x"})),
        say("ok"),
    )
    async with gateway(Scripted(script), Watch(), Tools(web, echo_tool())) as gate:
        seen.clear()
        await gate.chat("read")
        await gate.chat("send")
    assert seen == [frozenset(), frozenset({"tool:web"})]


async def test_an_undeclared_tool_taints_like_one_that_reads_external_data() -> None:
    script = Script(call(("c1", "echo", {"text": "page"})), say("read it"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(flags=Flags()))) as gate:
        turn = await gate.chat("read")
    assert turn.taint == {"tool:echo"}


async def test_a_principal_speaks_only_as_what_it_is_bound_to() -> None:
    bound = Principal(id="t", scopes=frozenset(("chat",)), bindings=(Claim(peer="ann"),))
    mute = Principal(id="m", scopes=frozenset(("read",)), bindings=(Claim(),))
    script = Script(say("ok"))
    async with gateway(Scripted(script)) as gate:
        request = TurnRequest(content="x", address=Address(peer="bob"))
        with pytest.raises(NotAllowedError):
            await gate.host.start_turn(bound, USER, request).wait()
        with pytest.raises(NotAllowedError):
            await gate.host.start_turn(mute, USER, request).wait()
        allowed = TurnRequest(content="x", address=Address(peer="ann"))
        assert (await gate.host.start_turn(bound, USER, allowed).wait()).ending == "done"


@pytest.mark.parametrize("bindings", [(Claim(),), (Claim(channel="wasm.desk"),)])
async def test_nobody_speaks_in_a_channel_of_the_sandbox_but_who_writes_in_it(
    bindings: tuple[Claim, ...],
) -> None:
    principal = Principal(id="t", scopes=frozenset(("chat",)), bindings=bindings)
    there = Address("wasm.desk", "a", "ann")
    request = TurnRequest(content="x", address=there)
    script = Script(say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        host = gate.host
        for origin in (USER, replace(USER, channel="wasm.other"), replace(USER, channel="desk")):
            with pytest.raises(NotAllowedError, match=r"wasm\.desk"):
                await host.start_turn(principal, origin, request).wait()
        with pytest.raises(NotAllowedError):
            await host.call_tool(principal, USER, there, "echo", {"text": "x"})
        with pytest.raises(NotAllowedError):
            await host.offered(principal, there)
        brought = Origin(provenance=Provenance.CHANNEL, path="wasm.desk", channel="wasm.desk")
        turn = await host.start_turn(principal, brought, request).wait()
    assert (turn.ending, str(turn.session)) == ("done", "main:wasm.desk:a:ann")


@pytest.mark.parametrize(
    ("binding", "agent"),
    [
        ({"peer": "ann"}, "usual"),
        ({"account": "a"}, "usual"),
        ({"channel": "wasm.desk", "peer": "ann"}, "bound"),
        ({"channel": "wasm.desk"}, "bound"),
        ({}, "bound"),
    ],
)
def test_a_peer_that_a_stranger_names_is_bound_where_its_channel_is(
    binding: dict[str, str], agent: str
) -> None:
    agents = {name: Agent(name=name, models=()) for name in ("usual", "bound")}
    router = Router(agents, [BindingSettings(agent="bound", **binding)], "usual")
    assert router.resolve(Address("wasm.desk", "a", "ann")).agent.name == agent


async def test_no_agent_is_an_error_that_names_the_settings() -> None:
    agents = {"a": {"model": "script/x"}, "b": {"model": "script/y"}}
    async with gateway(Scripted(Script(say("ok"))), agents=agents, default_agent=None) as gate:
        with pytest.raises(NoAgentError, match="no binding matches") as caught:
            await gate.chat("x")
    assert "bindings" in caught.value.action


async def test_a_message_behind_a_running_turn_hears_that_it_waits() -> None:
    release = asyncio.Event()
    script = Script([release.wait, *say("ok")])
    async with gateway(Scripted(script)) as gate:
        first = asyncio.create_task(gate.chat("1"))
        await until(lambda: bool(script.requests))
        events = Events()
        second = asyncio.create_task(gate.chat("2", sink=events))
        await until(lambda: bool(events))
        waiting = gate.host.running()[1].id
        assert events.of("queued") == [{"turn": waiting, "before": 1}]
        release.set()
        await asyncio.gather(first, second)


async def test_a_full_lane_refuses_and_says_so() -> None:
    release = asyncio.Event()
    script = Script([release.wait, *say("ok")])
    async with gateway(Scripted(script), turn={"lane_queue": 1}) as gate:
        first = asyncio.create_task(gate.chat("1"))
        await until(lambda: bool(script.requests))
        events = Events()
        second = asyncio.create_task(gate.chat("2", sink=events))
        await until(lambda: len(gate.host.running()) == 2)
        await asyncio.sleep(0)
        with pytest.raises(LaneFullError):
            await gate.chat("3")
        release.set()
        await asyncio.gather(first, second)


async def test_a_turn_that_waits_for_its_lane_can_be_cancelled_and_frees_its_place() -> None:
    release = asyncio.Event()
    script = Script([release.wait, *say("ok")])
    async with gateway(Scripted(script)) as gate:
        first = asyncio.create_task(gate.chat("1"))
        await until(lambda: bool(script.requests))
        second = asyncio.create_task(gate.chat("2"))
        await until(lambda: len(gate.host.running()) == 2)
        waiting = gate.host.running()[1]
        await asyncio.sleep(0)
        assert gate.host.cancel(waiting.id, "changed my mind")
        with pytest.raises(TurnCancelledError, match="changed my mind"):
            await second
        release.set()
        await first
        assert (await gate.chat("3")).ending == "done"


async def test_a_message_longer_than_the_budget_is_refused_with_the_key_to_raise() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        turn = await gate.chat("x" * 30_000)
    assert turn.error is not None
    assert turn.error.code == "message_too_long"
    assert "context.budget_tokens" in turn.error.action


async def test_a_capability_that_is_withheld_is_not_in_the_selectors_view() -> None:
    views: list[Sequence[str]] = []

    class Rows:
        name = "rows"

        @hookimpl
        def list_capabilities(self, host: Any) -> list[Capability]:
            return [Capability(id=f"skill:{n}", kind="skill", name=str(n)) for n in range(3)]

        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> list[str]:
            return ["skill:1"]

        @hookimpl
        def select_capabilities(self, turn: Turn, capabilities: Any) -> None:
            views.append([row.id for row in capabilities])
            assert capabilities.get("skill:1") is None
            assert len(capabilities) == 2
            assert set(capabilities.of_kind("skill")) == {"skill:0", "skill:2"}

    async with gateway(Scripted(Script(say("ok"))), Rows()) as gate:
        turn = await gate.chat("x")
    assert turn.ending == "done"
    assert views == [["skill:0", "skill:2"]]


async def test_usage_adds_up_over_the_calls_of_a_turn() -> None:
    script = Script(call(("c1", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        turn = await gate.chat("x")
    assert turn.usage == Usage(input_tokens=22, output_tokens=14)
