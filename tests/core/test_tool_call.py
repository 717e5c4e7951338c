from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.script import (
    Allow,
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
)

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.tools import Ask, Decision, Effect, ToolCall, ToolResult, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl

VERDICTS = {
    "abstain": None,
    "allow": Verdict.allow(),
    "ask": Verdict.ask(Ask(title="?")),
    "deny": Verdict.deny("no"),
    "raise": lambda _: RuntimeError("broken"),
    "junk": "yes",
}


class Judge:
    """Answers with what it is given, by hook."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.answer = answer

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Any:
        answer = self.answer(call) if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer  # made anew for each call: a raised one keeps growing
        return answer


class Person:
    name = "person"

    @hookimpl
    def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        return Decision.allow(by="person")


async def outcome(*plugins: object, arguments: Mapping[str, Any] | None = None) -> Any:
    """Run one call of `echo` and return what it came to."""
    script = Script(call(("c", "echo", arguments or {"text": "x"})), say("ok"))
    answers = {"answerers": ["person", "meddler"]}
    async with gateway(Scripted(script), Tools(echo_tool()), *plugins, turn=answers) as gate:
        turn = await gate.chat("go")
    return turn.calls[0]


def expected(names: tuple[str, ...]) -> str:
    """The strictest wins; a failure and junk deny; where all abstain, the default denies."""
    if {"deny", "raise", "junk"} & set(names):
        return "denied"
    return "done" if {"ask", "allow"} & set(names) else "denied"


@pytest.mark.parametrize("names", list(itertools.combinations_with_replacement(VERDICTS, 2)))
async def test_the_strictest_verdict_wins_whatever_the_order(names: tuple[str, ...]) -> None:
    for order in (names, names[::-1]):
        judges = [Judge(f"j{n}", VERDICTS[name]) for n, name in enumerate(order)]
        assert (await outcome(*judges, Person())).result.status == expected(names)


@given(st.permutations(["allow", "deny", "abstain", "ask", "allow"]))
def test_no_order_of_plugins_turns_a_denial_into_anything_else(order: list[str]) -> None:
    judges = [Judge(f"j{n}", VERDICTS[name]) for n, name in enumerate(order)]
    finished = asyncio.run(outcome(*judges, Person()))
    assert finished.result.status == "denied"
    assert finished.decision.effect is Effect.DENY


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_questions_of_several_plugins_are_put_as_one(order: tuple[int, int]) -> None:
    asks = (
        Ask(
            title="May it send?",
            description="to mail.example",
            timeout=60.0,
            choices=("allow-once", "allow-always", "deny"),
        ),
        Ask(title="It costs money", severity="critical", timeout=20.0),
    )
    seen: list[Ask] = []

    class Asked(Person):
        @hookimpl
        def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
            seen.append(ask)
            return Decision.allow(by="person")

    judges = [Judge(f"j{n}", Verdict.ask(asks[n])) for n in order]
    assert (await outcome(*judges, Asked())).result.status == "done"
    assert seen == [
        Ask(
            title="2 plugins ask before this call",
            description="j0: May it send?\nto mail.example\n\nj1: It costs money",
            severity="critical",
            timeout=20.0,
            choices=("allow-once", "deny"),
        )
    ]


def rewrite_to(text: str) -> Any:
    def answer(call: ToolCall) -> Verdict | None:
        if call.arguments["text"] == text:
            return Verdict.allow()
        return Verdict.rewrite({"text": text})

    return answer


async def test_a_rewrite_is_judged_again_and_is_what_the_tool_gets() -> None:
    seen: list[str] = []

    def note(call: ToolCall) -> Verdict:
        seen.append(call.arguments["text"])
        return Verdict.allow()

    finished = await outcome(Judge("note", note), Judge("mask", rewrite_to("masked")))
    assert finished.result.content == "masked"
    assert finished.call.rewritten_by == ("mask",)
    assert finished.decision.rounds == 2
    assert seen[-2:] == ["x", "masked"]


async def test_a_rewrite_cannot_slip_past_a_judge() -> None:
    def forbid(call: ToolCall) -> Verdict:
        return Verdict.deny("evil") if call.arguments["text"] == "evil" else Verdict.allow()

    for judges in (
        (Judge("a", forbid), Judge("b", rewrite_to("evil"))),
        (Judge("b", rewrite_to("evil")), Judge("a", forbid)),
    ):
        assert (await outcome(*judges)).result.status == "denied"


async def test_two_different_rewrites_in_one_round_deny() -> None:
    finished = await outcome(Judge("a", rewrite_to("one")), Judge("b", rewrite_to("two")))
    assert finished.result.status == "denied"
    assert "a and b" in finished.decision.reason


async def test_two_equal_rewrites_are_one() -> None:
    finished = await outcome(Judge("a", rewrite_to("one")), Judge("b", rewrite_to("one")))
    assert finished.result.content == "one"


async def test_a_rewriter_that_never_rests_is_a_denial() -> None:
    def longer(call: ToolCall) -> Verdict:
        return Verdict.rewrite({"text": call.arguments["text"] + "x"})

    finished = await outcome(Judge("a", longer))
    assert finished.result.status == "denied"
    assert "3 rounds" in finished.decision.reason


async def test_a_rewrite_that_does_not_fit_the_schema_is_a_denial() -> None:
    finished = await outcome(Judge("a", lambda _: Verdict.rewrite({"text": 7})))
    assert finished.result.status == "denied"
    assert "wrongly" in finished.decision.reason


async def test_arguments_that_a_judge_changes_in_place_are_a_denial() -> None:
    def meddle(call: ToolCall) -> Verdict:
        if call.name == "echo":
            call.arguments["text"] = "changed"  # type: ignore[index]
        return Verdict.allow()

    finished = await outcome(Judge("a", meddle))
    assert finished.result.status == "denied"
    assert "in place" in finished.decision.reason


@pytest.mark.parametrize("new", ["changed", object()], ids=["text", "object"])
async def test_an_answer_that_changes_the_arguments_is_a_denial(new: Any) -> None:
    class Meddler:
        name = "meddler"

        @hookimpl
        def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
            call.arguments["text"] = new  # type: ignore[index]
            return Decision.allow()

    finished = await outcome(Judge("a", VERDICTS["ask"]), Meddler())
    assert finished.result.status == "denied"
    assert finished.call.arguments == {"text": "x"}


def set_effect(effect: Effect) -> Callable[[ToolCall, Decision], None]:
    return lambda call, decision: object.__setattr__(decision, "effect", effect)


def set_arguments(call: ToolCall, decision: Decision) -> None:
    call.arguments["text"] = "changed"  # type: ignore[index]


def set_tool(call: ToolCall, decision: Decision) -> None:
    object.__setattr__(call, "tool", echo_tool("another"))


@pytest.mark.parametrize(
    ("verdict", "meddle"),
    [
        (Verdict.deny("no"), set_effect(Effect.ALLOW)),
        (Verdict.allow(), set_effect(Effect.DENY)),
        (Verdict.allow(), set_arguments),
        (Verdict.allow(), set_tool),
    ],
    ids=["allows", "denies", "arguments", "tool"],
)
async def test_whoever_takes_note_of_a_decision_changes_neither_it_nor_what_runs(
    verdict: Verdict, meddle: Callable[[ToolCall, Decision], None]
) -> None:
    class Notes:
        name = "notes"

        @hookimpl
        def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
            meddle(call, decision)

    finished = await outcome(Judge("a", verdict), Notes())
    # What was recorded behind it may be something else, so it does not happen.
    assert finished.result.status == "denied"
    assert finished.decision.effect is Effect.DENY
    assert "changed it in place" in finished.decision.reason
    assert (finished.call.name, finished.call.arguments) == ("echo", {"text": "x"})


async def test_a_tool_gets_a_copy_of_what_was_judged() -> None:
    kept: list[dict[str, Any]] = []

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        kept.append(dict(arguments))
        arguments["text"] = "meddled"  # type: ignore[index]
        return "ok"

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        turn = await gate.chat("go")
    assert kept == [{"text": "x"}]
    assert turn.calls[0].call.arguments == {"text": "x"}


async def test_a_decision_that_cannot_be_recorded_is_a_denial() -> None:
    ran: list[str] = []

    class BrokenAudit:
        name = "broken_audit"

        @hookimpl
        def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
            raise OSError("disk full")

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        ran.append("ran")
        return ""

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    parts = (Scripted(script), Allow(), Tools(echo_tool(run=run)), BrokenAudit())
    async with gateway(*parts) as gate:
        turn = await gate.chat("go")
    assert ran == []
    assert turn.calls[0].result.status == "denied"
    assert "broken_audit" in turn.calls[0].decision.reason


@pytest.mark.parametrize("failure", [RuntimeError("x"), SystemExit(3), asyncio.CancelledError()])
async def test_a_tool_that_fails_is_an_error_result_and_the_turn_goes_on(
    failure: BaseException,
) -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        raise failure

    recorder = Recorder()
    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run)), recorder) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "ok"
    assert recorder.finished == [("c", "failed")]
    assert "echo" in turn.calls[0].result.content


async def test_a_tool_that_hangs_ends_at_its_limit() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    tools = Tools(echo_tool(run=run, timeout=0.02))
    async with gateway(Scripted(script), Allow(), tools) as gate:
        turn = await gate.chat("go")
    assert turn.calls[0].result.status == "timeout"


async def test_a_tool_that_returns_junk_is_an_error_that_names_it() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> Any:
        return {"a": 1}

    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(echo_tool(run=run))) as gate:
        turn = await gate.chat("go")
    assert "'echo' returned dict" in turn.calls[0].result.content


async def test_a_long_result_is_cut_at_the_limit_with_a_marker() -> None:
    script = Script(call(("c", "echo", {"text": "y" * 9000})), say("ok"))
    parts = (Scripted(script), Allow(), Tools(echo_tool()))
    async with gateway(*parts, context={"result_tokens": 100}) as gate:
        turn = await gate.chat("go")
    content = turn.calls[0].result.content
    assert content.startswith("y" * 400 + "\n[cut here: the result was 2250 tokens")


async def test_taint_can_be_added_to_a_result_but_not_taken_away() -> None:
    class Launder:
        name = "launder"

        @hookimpl
        def after_tool_call(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
            return replace(result, taint=frozenset({"more"}))

    web = echo_tool(flags=replace(Flags.none(), reads_external_data=True))
    script = Script(call(("c", "echo", {"text": "x"})), say("ok"))
    async with gateway(Scripted(script), Allow(), Tools(web), Launder()) as gate:
        turn = await gate.chat("go")
    assert turn.calls[0].result.taint == {"tool:echo", "more"}


async def test_a_failing_after_tool_call_makes_an_error_result() -> None:
    class Broken:
        name = "broken"

        @hookimpl
        def after_tool_call(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
            raise RuntimeError("no")

    finished = await outcome(Allow(), Broken())
    assert finished.result.is_error
    assert "'broken'" in finished.result.content
    assert finished.result.content != "x"


async def test_a_verdict_that_falls_while_a_call_waits_for_a_place_denies_it() -> None:
    ran: list[str] = []

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        ran.append(str(arguments["text"]))
        return "ran"

    def recheck(turn: Turn, call: ToolCall) -> str:
        return "the rules changed" if ran else ""

    script = Script(call(("1", "echo", {"text": "1"}), ("2", "echo", {"text": "2"})), say("ok"))
    judge = Judge("a", Verdict.allow(recheck=recheck))
    one = {"tool_concurrency": 1}
    async with gateway(Scripted(script), judge, Tools(echo_tool(run=run)), turn=one) as gate:
        turn = await gate.chat("go")
    assert ran == ["1"]
    assert [item.result.status for item in turn.calls] == ["done", "denied"]
    assert "the rules changed" in turn.calls[1].decision.reason
