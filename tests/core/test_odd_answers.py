"""What a turn's user is told: of empty and cut answers, why it stopped, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from tests.support.script import (
    Allow,
    Events,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
)

from hookgate.core.domain.errors import HookError, ProviderError, ProviderErrorKind, StoreError
from hookgate.core.domain.models import ModelEvent, ReasoningDelta, StopEvent, TextDelta
from hookgate.core.domain.turn import Turn
from hookgate.core.gateway.codes import describe_error
from hookgate.hookspecs import hookimpl


async def told(*steps: Sequence[ModelEvent]) -> tuple[Turn, Events]:
    events = Events()
    async with gateway(Scripted(Script(*steps)), Tools(echo_tool()), Allow()) as gate:
        turn = await gate.chat("go", sink=events)
    assert events.types()[-1] == "done"
    return turn, events


async def test_a_whole_answer_has_no_warning_and_says_why_it_stopped() -> None:
    turn, events = await told(call(("c", "echo", {"text": "x"})), say("fine"))
    assert events.of("warning") == []
    assert events.of("done")[0]["stop"] == turn.stop == "end"


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_answer_is_said(text: str) -> None:
    answer = [ReasoningDelta("hm"), *([TextDelta(text)] if text else []), StopEvent("end")]
    turn, events = await told(answer)
    (warning,) = events.of("warning")
    assert turn.ending == "done"
    assert warning["code"] == "empty_answer"
    assert "script/one answered with nothing" in warning["message"]
    assert warning["action"]


async def test_an_answer_that_its_limit_has_cut_is_said() -> None:
    turn, events = await told([TextDelta("and then"), StopEvent("max_tokens")])
    (warning,) = events.of("warning")
    assert (turn.ending, turn.answer) == ("done", "and then")
    assert warning["code"] == "answer_cut"
    assert "1024 tokens" in warning["message"]
    assert "agents.main.max_output_tokens" in warning["action"]
    assert events.of("done")[0]["stop"] == "max_tokens"


async def test_a_limit_that_was_spent_on_reasoning_is_named() -> None:
    _, events = await told([ReasoningDelta("hm" * 100), StopEvent("max_tokens")])
    (warning,) = events.of("warning")
    assert warning["code"] == "empty_answer"
    assert "1024 tokens" in warning["message"]
    assert "agents.main.max_output_tokens" in warning["action"]


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("<think>\nhm</think>It is 42.", 'think_tags = "on"'),
        ('Let me see.\n<tool_call>\n{"name": "echo"}</tool_call>', "tool_call_tags = true"),
        ("The tag <think> begins what a model thinks.", ""),
        ("A <tool_call> is such a tag.", ""),
    ],
)
async def test_tags_that_nobody_reads_are_named_with_the_setting(text: str, setting: str) -> None:
    turn, events = await told(say(text))
    warnings = events.of("warning")
    assert turn.answer == text
    assert [one["code"] for one in warnings] == (["unread_tags"] if setting else [])
    for one in warnings:
        assert f'`{setting}` in [plugin.providers.script.models."one"]' in one["action"]


async def test_a_turn_whose_model_did_not_stop_says_so() -> None:
    turn, events = await told([TextDelta("some"), ProviderError("cut", "gone")])
    assert turn.stop is None
    assert events.of("done")[0]["stop"] is None


KINDS: tuple[ProviderErrorKind, ...] = get_args(ProviderErrorKind)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_failure_of_a_provider_says_what_to_do(kind: ProviderErrorKind) -> None:
    _, events = await told([ProviderError(kind, "it failed", retry_after=3600.0)])
    (error,) = events.of("error")
    assert (error["code"], error["kind"]) == ("provider_failed", kind)
    assert error["action"] == ProviderError(kind, "").action
    assert len(error["action"]) > 10


async def test_a_providers_own_advice_comes_first() -> None:
    _, events = await told([ProviderError("auth", "no key", action="set ACME_KEY")])
    assert events.of("error")[0]["action"] == "set ACME_KEY"


@pytest.mark.parametrize(
    "error",
    [
        *(ProviderError(kind, "it failed") for kind in KINDS),
        HookError("before_turn", "bad", "it broke"),
        StoreError("disk full"),
        ValueError("a fault"),
    ],
    ids=repr,
)
async def test_an_error_of_an_operation_says_what_to_do(error: Exception) -> None:
    async with gateway(Scripted(Script(say("fine")))) as gate:
        assert describe_error(gate.host, error).data["action"]


@pytest.mark.parametrize("fault", [RuntimeError("it broke"), SystemExit()])
async def test_a_turn_that_a_plugin_fails_says_what_to_do(fault: BaseException) -> None:
    class Bad:
        name = "bad"

        @hookimpl
        def before_turn(self, turn: Turn) -> Any:
            raise fault

    events = Events()
    async with gateway(Scripted(Script(say("fine"))), Bad()) as gate:
        await gate.chat("go", sink=events)
    (error,) = events.of("error")
    assert error["code"] == "hook_failed"
    assert error["action"]
