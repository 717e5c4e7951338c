"""Models, providers, tools and policies that break the rules: the turn goes on or fails closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
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
)
from tests.support.stored import (
    CLIENT,
    OWNER,
    SESSION,
    USER,
    Strict,
    asking,
    brought,
    stored,
    unpaired,
)

from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.models import (
    ModelRequest,
    StopEvent,
    SystemText,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.ports import CONVERSATIONS, LANES
from hookgate.core.domain.tools import Decision, Effect, ToolCall, ToolResult, Verdict
from hookgate.core.domain.turn import Turn, TurnRequest
from hookgate.hookspecs import hookimpl


class Judge:
    """A plugin that judges by a function."""

    def __init__(self, name: str, judge: Callable[[ToolCall], Verdict | None]) -> None:
        self.name = name
        self.judge = judge

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        return self.judge(call)


# -- what a model writes ----------------------------------------------------


async def test_calls_of_one_message_with_the_same_id_each_get_their_own_result() -> None:
    script = Script(call(("x", "echo", {"text": "1"}), ("x", "echo", {"text": "2"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        await gate.chat("go")
        messages = await stored(gate)
    parts = [part for message in messages for part in message.tool_results]
    assert [part.content for part in parts] == ["1", "2"]
    assert len({part.tool_use_id for part in parts}) == 2
    assert unpaired(messages) == set()


async def test_a_call_without_an_id_gets_one() -> None:
    script = Script(call(("", "echo", {"text": "1"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        turn = await gate.chat("go")
    assert turn.calls[0].call.id
    assert turn.calls[0].result.content == "1"


async def test_a_client_call_with_an_id_from_before_still_waits_for_its_client() -> None:
    script = Script(
        call(("call_0", "on_client", {})), say("first"), call(("call_0", "on_client", {}))
    )
    script.steps.append(say("second"))
    async with gateway(Scripted(script), Allow()) as gate:
        await asking(gate, content="one")
        await asking(gate, tool_results=brought(("call_0", "r1")))
        turn = await asking(gate, content="two")
        use = turn.messages[-1].tool_uses[0].id
        turn = await asking(gate, tool_results=brought((use, "r2")))
        assert unpaired(await stored(gate)) == set()
    assert turn.answer == "second"


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "\ud800"},
        {"text": 2**70},
        {"text": 2**60},
        {"text": object()},
        {"text": float("nan")},
        {1: "a", "1": "b"},
        ["no", "object"],
        None,
    ],
    ids=["surrogate", "2**70", "2**60", "object", "nan", "two-names", "array", "nothing"],
)
async def test_arguments_that_json_cannot_hold_are_an_error_result_and_the_turn_goes_on(
    arguments: Any,
) -> None:
    events = Events()
    script = Script(
        [ToolUseEvent(id="c", name="echo", input=arguments), StopEvent("tool_use")], say("ok")
    )
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        gate.host.provide(CONVERSATIONS, Strict())
        turn = await gate.chat("go", sink=events)
        assert unpaired(await stored(gate)) == set()
    assert (turn.ending, turn.answer) == ("done", "ok")
    assert events.of("tool_result")[0]["is_error"]


async def test_deeply_nested_arguments_are_an_error_result() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    script = Script(call(("c", "echo", {"text": deep})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        gate.host.provide(CONVERSATIONS, Strict())
        turn = await gate.chat("go")
    (done,) = turn.calls
    assert (turn.ending, done.decision.allowed, done.result.status) == ("done", False, "failed")


async def test_half_a_surrogate_pair_in_an_answer_is_stored_as_a_replacement() -> None:
    events = Events()
    script = Script([TextDelta("a\ud83d"), TextDelta("\ude00b\ud800"), StopEvent("end")])
    async with gateway(Scripted(script)) as gate:
        gate.host.provide(CONVERSATIONS, Strict())
        turn = await gate.chat("go", sink=events)
    assert turn.ending == "done"
    assert turn.answer == "a\N{GRINNING FACE}b\ufffd"
    assert events.types()[-1] == "done"


async def test_the_list_of_tools_in_an_unknown_tool_error_is_cut_to_the_limit() -> None:
    tools = [echo_tool(f"tool_with_a_long_name_{number}") for number in range(300)]
    script = Script(call(("c", "nope", {})), say("ok"))
    async with gateway(
        Scripted(script), Allow(), Tools(*tools), context={"result_tokens": 100}
    ) as gate:
        await gate.chat("go")
    (part,) = script.requests[1].messages[-1].tool_results
    assert len(part.content) < 1000


# -- providers ---------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), SystemExit(3), asyncio.CancelledError(), TimeoutError("slow")],
    ids=repr,
)
async def test_a_provider_that_breaks_is_followed_by_the_next_model(error: BaseException) -> None:
    recorder = Recorder()
    agents = {"main": {"model": "script/one", "fallback": ["other/two"]}}
    plugins = (Scripted(Script([error]), Script(say("from the other"), name="other")), recorder)
    async with gateway(*plugins, agents=agents) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "from the other"
    assert [status for _, status, _ in recorder.after] == ["failed", "done"]


async def test_a_provider_that_breaks_in_its_answer_fails_the_turn_and_nothing_else() -> None:
    events = Events()
    script = Script([TextDelta("some"), SystemExit(1)], say("again"))
    async with gateway(Scripted(script)) as gate:
        turn = await gate.chat("go", sink=events)
        assert (await gate.chat("go")).answer == "again"
    assert (turn.ending, turn.answer) == ("failed", "some")
    assert events.types().count("done") == 1


@pytest.mark.parametrize(
    "usage", [Usage(input_tokens=-5), Usage(output_tokens=1.5), {"input": 3}], ids=str
)
async def test_usage_that_is_no_count_is_settled_as_an_estimate(usage: Any) -> None:
    recorder = Recorder()
    script = Script([TextDelta("hi"), UsageEvent(usage), StopEvent("end")])
    async with gateway(Scripted(script), recorder) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "hi"
    assert not turn.usage.reported
    assert turn.usage.total_output == 1
    assert [usage for _, _, usage in recorder.after] == [turn.usage]


async def test_what_a_plugin_adds_to_a_request_taints_the_answer() -> None:
    class Adds:
        name = "adds"

        @hookimpl
        def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest:
            extra = SystemText(text="from a page", taint=frozenset(("web",)))
            return replace(request, system=(*request.system, extra))

    async with gateway(Scripted(Script(say("hi"))), Adds()) as gate:
        turn = await gate.chat("go")
    assert "web" in turn.messages[-1].taint
    assert "web" in turn.taint


@pytest.mark.parametrize("by", ["request", "turn"])
async def test_a_torn_answer_is_tainted_by_what_its_model_had_read(by: str) -> None:
    class Adds:
        name = "adds"

        @hookimpl
        def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest:
            if by == "turn":
                turn.extra_taint |= {"web"}
                return request
            extra = SystemText(text="from a page", taint=frozenset(("web",)))
            return replace(request, system=(*request.system, extra))

    torn = [TextDelta("send it to"), ProviderError("cut", "gone")]
    script, parts = Script(torn, say("hi")), Adds()
    async with gateway(Scripted(script), parts) as gate:
        turn = await gate.chat("go")
        assert (turn.ending, turn.messages[-1].text) == ("failed", "send it to")
        assert turn.messages[-1].taint == {"web"}
        stored = await gate.host[CONVERSATIONS].history(turn.session, turns=5)
        assert [message.taint for message in stored] == [frozenset(), {"web"}]
        again = await gate.chat("and now?")
    assert "web" in script.requests[1].messages[1].taint
    assert "web" in again.taint


@pytest.mark.parametrize("history", ["server", "client"])
async def test_what_was_added_to_a_session_taints_every_turn_that_begins_afterwards(
    history: str,
) -> None:
    judged: list[frozenset[str]] = []

    class Judge:
        name = "judge"

        @hookimpl
        def before_tool_call(self, turn: Turn) -> Verdict:
            judged.append(turn.taint)
            return Verdict.allow()

    def rounds(_: ModelRequest) -> Any:
        return call((f"c{len(judged)}", "echo", {"text": "x"}))

    script = Script(rounds, say("ok"), rounds, say("ok"), rounds, say("ok"))
    request = TurnRequest(content="go", client_history=() if history == "client" else None)
    async with gateway(Scripted(script), Judge(), Tools(echo_tool())) as gate:
        judged.clear()  # the gateway has asked whether somebody judges
        await gate.host.start_turn(OWNER, USER, request).wait()
        async with gate.host[LANES].hold(SESSION) as lease:
            web = frozenset({"tool:web"})
            await gate.host[CONVERSATIONS].add_taint(SESSION, web, fence=lease.fence)
        for _ in range(2):
            await gate.host.start_turn(OWNER, USER, request).wait()
    assert judged == [frozenset(), web, web]


# -- judging ---------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict.rewrite({"text": object()}),
        Verdict.rewrite({"text": 2**70}),
        Verdict(effect=2, reason="no", arguments={"text": "y"}),  # type: ignore[arg-type]
        Verdict(effect="deny", reason="no"),  # type: ignore[arg-type]
    ],
    ids=["object", "2**70", "effect-number", "effect-text"],
)
async def test_a_verdict_that_is_junk_is_a_denial_and_the_turn_goes_on(verdict: Verdict) -> None:
    script, recorder = Script(call(("c", "echo", {"text": "x"})), say("ok")), Recorder()
    judge = Judge("junk", lambda call: verdict if call.arguments.get("text") == "x" else None)
    async with gateway(Scripted(script), Allow(), judge, Tools(echo_tool()), recorder) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "ok"
    assert recorder.finished == [("c", "denied")]
    assert turn.calls[0].decision.by == "junk"


async def test_a_rewriter_that_always_returns_the_same_arguments_does_not_deny() -> None:
    script = Script(call(("c", "echo", {"text": " x "})), say("ok"))
    tidy = Judge(
        "tidy", lambda call: Verdict.rewrite({"text": str(call.arguments["text"]).strip()})
    )
    async with gateway(Scripted(script), tidy, Tools(echo_tool())) as gate:
        # The self-test's call has no text, which fails there and is fine.
        turn = await gate.chat("go")
    assert turn.calls[0].result.content == "x"


async def test_arguments_changed_after_the_judging_do_not_reach_the_tool() -> None:
    class Meddler:
        name = "meddler"

        @hookimpl
        def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
            call.arguments["text"] = "changed"  # type: ignore[index]

    script = Script(call(("c", "echo", {"text": "judged"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Meddler(), Tools(echo_tool())) as gate:
        turn = await gate.chat("go")
    assert "changed it in place" in str(turn.calls[0].result.content)
    assert turn.calls[0].decision.effect is Effect.DENY
    assert turn.messages[1].tool_uses[0].input == {"text": "judged"}


async def test_a_client_is_told_the_arguments_that_were_judged() -> None:
    events = Events()
    script = Script(call(("c", "on_client", {"path": "/etc"})), say("ok"))
    judge = Judge(
        "sandbox",
        lambda call: (
            Verdict.allow()
            if call.arguments.get("path") == "/tmp"
            else Verdict.rewrite({"path": "/tmp"})
        ),
    )
    async with gateway(Scripted(script), judge) as gate:
        request = TurnRequest(content="go", client_tools=(CLIENT,))
        await gate.host.start_turn(OWNER, USER, request, sink=events).wait()
    assert [data["input"] for data in events.of("tool_use")] == [{"path": "/tmp"}]


# -- results -----------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content="x", taint=None),  # type: ignore[arg-type]
        ToolResult(content="x", reveal=None),  # type: ignore[arg-type]
        ToolResult(content="x", taint=frozenset((7,))),  # type: ignore[arg-type]
    ],
    ids=["no-taint", "no-reveal", "taint-of-numbers"],
)
@pytest.mark.parametrize("who", ["tool", "plugin"])
async def test_a_result_that_is_junk_is_an_error_result(who: str, result: ToolResult) -> None:
    class After:
        name = "after"

        @hookimpl
        def after_tool_call(self) -> ToolResult | None:
            return result if who == "plugin" else None

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult | str:
        return result if who == "tool" else "fine"

    script, recorder = Script(call(("c", "echo", {"text": "x"})), say("ok")), Recorder()
    parts = (Scripted(script), Allow(), Tools(echo_tool(run=run)), After(), recorder)
    async with gateway(*parts) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "ok"
    assert recorder.finished == [("c", "failed")]


async def test_half_a_surrogate_pair_in_a_result_is_replaced() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return "file\udcff"

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        gate.host.provide(CONVERSATIONS, Strict())
        turn = await gate.chat("go")
    assert (turn.ending, turn.calls[0].result.content) == ("done", "file\ufffd")


async def test_a_result_that_a_plugin_makes_longer_is_cut_again() -> None:
    class Longer:
        name = "longer"

        @hookimpl
        def after_tool_call(self, result: ToolResult) -> ToolResult:
            return replace(result, content="long " * 10_000)

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(
        Scripted(script), Allow(), Tools(echo_tool()), Longer(), context={"result_tokens": 100}
    ) as gate:
        turn = await gate.chat("go")
    assert len(turn.calls[0].result.content) < 1000


async def test_a_call_that_was_cancelled_while_it_ran_is_stored_as_cancelled() -> None:
    begun = asyncio.Event()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    script = Script(call(("c", "echo", {"text": "x"})))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        task = asyncio.create_task(gate.chat("go"))
        await begun.wait()
        gate.host.cancel(gate.host.running()[0].id, "enough")
        await task
        (part,) = (await stored(gate))[-1].tool_results
    assert part.content == "the call was cancelled"


async def test_a_call_that_ran_keeps_its_result_where_it_cannot_be_noted() -> None:
    class BrokenAudit:
        name = "broken_audit"

        @hookimpl
        def tool_finished(self) -> None:
            raise OSError("disk full")

    script = Script(call(("c", "echo", {"text": "it ran"})))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool()), BrokenAudit()) as gate:
        turn = await gate.chat("go")
        (part,) = (await stored(gate))[-1].tool_results
    assert turn.ending == "failed"
    assert part.content == "it ran"
