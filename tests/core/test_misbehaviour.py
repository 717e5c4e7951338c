"""A plugin that misbehaves in any hook of a turn: the turn goes on or fails closed, and
the failure names hook and plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.examples import sampled
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

from hookgate.core.domain.errors import HookError, PluginError
from hookgate.core.domain.tools import Ask, Verdict
from hookgate.hookspecs import hookimpl


async def raises(*args: Any) -> Any:
    raise RuntimeError("it broke")


async def hangs(*args: Any) -> Any:
    await asyncio.Event().wait()


async def junk(*args: Any) -> Any:
    return object()


async def exits(*args: Any) -> Any:
    raise SystemExit(4)


async def cancels(*args: Any) -> Any:
    raise asyncio.CancelledError


FAULTS = (raises, hangs, junk, exits, cancels)
ARGUMENTS = {
    "before_turn": ("turn",),
    "tag_turn": ("turn",),
    "plan_turn": ("turn", "plan"),
    "withhold_capabilities": ("turn", "capabilities"),
    "select_capabilities": ("turn", "capabilities"),
    "before_context_build": ("turn", "context"),
    "prepare_model_call": ("turn", "request"),
    "before_model_call": ("turn", "request"),
    "filter_stream": ("turn", "events"),
    "after_model_call": ("turn", "request", "ending", "usage"),
    "before_tool_call": ("turn", "call"),
    "resolve_ask": ("turn", "call", "ask"),
    "tool_decided": ("turn", "call", "decision"),
    "after_tool_call": ("turn", "call", "result"),
    "tool_finished": ("turn", "call", "result"),
    "judge_turn": ("turn",),
    "after_turn": ("turn", "outcome"),
    "log_metrics": ("record",),
}
GOES_ON = {
    "tag_turn",
    "plan_turn",
    "select_capabilities",
    "before_context_build",
    "judge_turn",
    "after_turn",
    "log_metrics",
}
DENIES = {"before_tool_call", "resolve_ask", "tool_decided"}
ERROR_RESULT = {"after_tool_call"}


def bad_plugin(hook: str, fault: Callable[..., Any]) -> object:
    """A plugin called `bad` whose implementation of `hook` is `fault`."""
    names = ARGUMENTS[hook]
    source = f"async def {hook}(self, {', '.join(names)}):\n    return await fault()"
    scope: dict[str, Any] = {"fault": fault}
    exec(source, scope)
    return type("Bad", (), {"name": "bad", hook: hookimpl(scope[hook])})()


class Asking:
    name = "asking"

    @hookimpl
    def before_tool_call(self) -> Verdict:
        return Verdict.ask(Ask(title="?"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("hook", sampled(ARGUMENTS, every=3))
async def test_a_misbehaving_plugin_costs_what_its_hooks_contract_says(
    hook: str, fault: Callable[..., Any]
) -> None:
    recorder, events = Recorder(), Events()
    script = Script(call(("c", "echo", {"text": "x"})), say("fine"))
    judge = Asking() if hook == "resolve_ask" else Allow()
    parts = [Scripted(script), judge, Tools(echo_tool()), recorder, bad_plugin(hook, fault)]
    tight = {hook: {"limit": 0.02}}
    async with gateway(*parts, hooks=tight, turn={"answerers": ["bad"]}) as gate:
        recorder.failures.clear()
        turn = await gate.chat("go", sink=events)
        await settled(gate)
        await gate.drain(0)
        await gate.plugins.hooks.reported()
    assert {(failure.hook, failure.plugin) for failure in recorder.failures} == {(hook, "bad")}
    assert events.types().count("done") == 1
    assert recorder.turns == [turn]
    # A begun attempt is settled, also where the failing plugin was asked before the recorder.
    assert set(recorder.before) <= {call_id for call_id, _, _ in recorder.after}
    assert len({call_id for call_id, _, _ in recorder.after}) == len(recorder.after)
    if hook in GOES_ON:
        assert turn.answer == "fine"
        assert turn.calls[0].result.status == "done"
    elif hook in DENIES:
        assert turn.answer == "fine"
        assert turn.calls[0].result.status == "denied"
        assert "bad" in turn.calls[0].result.content
    elif hook in ERROR_RESULT:
        assert turn.answer == "fine"
        assert turn.calls[0].result.is_error
    else:
        assert turn.ending == "failed"
        error = events.of("error")[0]
        assert error["code"] == "hook_failed"
        assert hook in error["message"]
        assert "'bad'" in error["message"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("hook", ["list_tools", "list_cards", "list_capabilities"])
async def test_a_source_that_fails_at_start_is_degraded_and_the_gateway_answers(
    hook: str, fault: Callable[..., Any]
) -> None:
    ARGUMENTS[hook] = ("host",)
    parts = (Scripted(Script(say("fine"))), bad_plugin(hook, fault))
    async with gateway(*parts, hooks={hook: {"limit": 0.02}}) as gate:
        assert any("bad" in part for part in gate.host.degraded)
        assert (await gate.chat("go")).answer == "fine"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("hook", ["lifespan", "list_providers", "list_operations"])
async def test_wiring_that_fails_stops_the_start_and_names_the_plugin(
    hook: str, fault: Callable[..., Any]
) -> None:
    ARGUMENTS[hook] = ("host",)
    gate = gateway(bad_plugin(hook, fault), hooks={hook: {"limit": 0.02}})
    with pytest.raises((HookError, PluginError)) as caught:
        async with gate:
            raise AssertionError("it must not start")
    assert caught.value.plugin == "bad"
    assert hook in str(caught.value)
