"""The author's kit for tests, used as an author would."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hookgate import CLOCK, Flags, Section, ToolCall, Verdict, hookimpl, tool
from hookgate.kit.testing.gateway import TurnedClock, started
from hookgate.kit.testing.model import ScriptedModel, call, say


async def shout(text: str) -> str:
    """Write in capitals."""
    return text.upper()


class NightSettings(Section):
    hour: int = 22


class Night:
    """Denies every call from an hour on."""

    name = "night"
    Settings = NightSettings
    requires = (CLOCK,)

    def __init__(self, settings: NightSettings) -> None:
        self.settings = settings

    @hookimpl
    def before_tool_call(self, turn: Any, call: ToolCall) -> Verdict | None:
        late = turn.message.created.hour >= self.settings.hour
        return Verdict.deny("it is night") if late else None


SHOUT = tool(shout, flags=Flags.none())


async def test_the_model_follows_its_script(gateway: Callable, model: ScriptedModel) -> None:
    model.steps = [call("shout", text="hello"), say("it said HELLO")]

    async with gateway(tools=[SHOUT]) as running:
        turn = await running.chat("shout hello")

    assert turn.answer == "it said HELLO"
    assert turn.calls[0].result.content == "HELLO"
    assert len(model.requests) == 2


async def test_of_the_builtin_plugins_those_run_that_are_named(gateway: Callable) -> None:
    async with gateway(Night, only=["control", "policy"]) as running:
        there = {info.name for info in running.plugins.infos() if info.state == "running"}

    assert there == {"around", "control", "policy", "night"}


async def test_a_step_may_fail_and_may_look_at_the_request(
    gateway: Callable, model: ScriptedModel
) -> None:
    model.steps = [lambda request: say(f"you said: {request.messages[-1].text}")]

    async with gateway() as running:
        turn = await running.chat("good morning")

    assert turn.answer == "you said: good morning"


async def test_plugins_have_their_settings(gateway: Callable, model: ScriptedModel) -> None:
    model.steps = [call("shout", text="hello"), say("no")]

    async with gateway(Night, tools=[SHOUT], plugin={"night": {"hour": 0}}) as running:
        turn = await running.chat("shout hello")

    assert turn.calls[0].result.status == "denied"
    assert running.settings.plugin["embedding"]["embedder"] == "none"


async def test_the_clock_is_the_gateways(gateway: Callable, clock: TurnedClock) -> None:
    async with gateway() as running:
        before = running.host.clock.now()
        clock.turn(hours=2, minutes=30)

        assert running.host[CLOCK].now().isoformat() == "2026-03-01T14:30:00+00:00"
        assert (running.host.clock.now() - before).total_seconds() == clock.monotonic() == 9000


async def test_what_is_said_is_said_by_the_gateways_clock(
    gateway: Callable, model: ScriptedModel, clock: TurnedClock
) -> None:
    model.steps = [say("noted")]
    async with gateway() as running:
        clock.turn(hours=2, minutes=30)
        turn = await running.chat("remember this")

    assert [(one.role, one.created.isoformat()) for one in turn.messages] == [
        ("user", "2026-03-01T14:30:00+00:00"),
        ("assistant", "2026-03-01T14:30:00+00:00"),
    ]


def test_a_clock_begins_where_a_test_says() -> None:
    assert TurnedClock(datetime(2030, 1, 1, tzinfo=UTC)).now().year == 2030


async def test_a_builtin_can_be_left_out(gateway: Callable) -> None:
    async with gateway(disabled=["memory"]) as running:
        assert "remember" not in running.host.tools.view()


async def test_a_plugin_that_does_not_load_says_so(gateway: Callable) -> None:
    with pytest.raises(Exception, match="before_tol_call"):
        async with gateway(Misspelt):
            raise AssertionError("it must not start")


class Misspelt:
    name = "misspelt"

    @hookimpl
    def before_tol_call(self) -> None: ...


async def test_a_gateway_without_embedding_has_no_section_of_it(tmp_path: Path) -> None:
    for more in ({"only": ["policy"]}, {"disabled": ["embedding"]}):
        model = ScriptedModel(say("hello"))
        async with started(home=tmp_path, model=model, **more) as gateway:  # type: ignore[arg-type]
            assert gateway.host.settings.plugin == {}
    async with started(home=tmp_path, model=ScriptedModel(say("hello"))) as gateway:
        assert gateway.host.settings.plugin == {"embedding": {"embedder": "none"}}
