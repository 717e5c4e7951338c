"""Any builtin can be taken away: the gateway still answers, or says what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import Events

from hookgate.builtin_plugins import BUILTIN
from hookgate.core.settings.schema import PluginsSettings, Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

QUESTION = "what is 17*23, and what time is it?"


ANSWERING = ("storage", "policy", "tools", "sanitizer", "discovery", "metering")
"""What a turn asks most of; the others are taken away by `make test-slow`."""


def several(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, marks=() if name in ANSWERING else pytest.mark.slow) for name in names
    ]


def settings(home: Path) -> Settings:
    return Settings(home=home, plugins={"entry_points": False})  # type: ignore[arg-type]


async def test_all_builtins_together_answer_with_tools(tmp_path: Path) -> None:
    events = Events()
    async with Gateway(settings(tmp_path)) as gate:
        turn = await gate.chat(QUESTION, sink=events)
        assert gate.host.degraded == {}
    assert turn.ending == "done"
    assert "391" in turn.answer
    assert {data["name"] for data in events.of("tool_use")} == {"calculate", "clock"}
    assert all(not data["is_error"] for data in events.of("tool_result"))


@pytest.mark.parametrize("name", several(name for name in BUILTIN if name != "providers"))
async def test_the_gateway_answers_without(name: str, tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), disabled=[name]) as gate:
        turn = await gate.chat(QUESTION)
        status = gate.host.status()
        cards = gate.host.cards.view()
    assert turn.ending == "done"
    assert turn.answer
    assert name not in status["plugins"]
    assert name not in cards
    if name == "storage":
        assert not status["durable"]
    if name == "policy":
        assert {call.result.status for call in turn.calls} == {"denied"}
        assert "is the policy plugin enabled?" in turn.calls[0].result.text
    elif name == "tools":
        assert turn.calls == []
    else:
        assert "391" in turn.answer
    assert ("sanitizing" in status["notices"]) == (name == "sanitizer")


async def test_a_replaced_builtin_takes_its_card_with_it(tmp_path: Path) -> None:
    class Other:
        name = "acme_memory"

        @hookimpl
        def after_turn(self, turn: Any) -> None:
            return None

    async with Gateway(settings(tmp_path)) as gate:
        assert "memory" in gate.host.cards.view()
    replaced = PluginsSettings(entry_points=False, replace={"memory": "acme_memory"})
    other = settings(tmp_path).model_copy(update={"plugins": replaced})
    async with Gateway(other, plugins=[Other]) as gate:
        assert "memory" not in gate.host.cards.view()
        assert "policy" in gate.host.cards.view()


async def test_without_providers_a_turn_says_what_is_missing(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), disabled=["providers"]) as gate:
        turn = await gate.chat(QUESTION)
    assert turn.ending == "failed"
    assert "no provider is called 'demo'" in str(turn.error)


async def test_without_any_builtin_the_gateway_starts_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    async with Gateway(settings(tmp_path), builtin=()) as gate:
        turn = await gate.chat(QUESTION)
    assert "no provider" in str(turn.error)


async def test_two_gateways_run_side_by_side_and_do_not_see_each_other(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with Gateway(settings(one)) as first, Gateway(settings(two)) as second:
        await first.chat("/say first")
        turn = await second.chat("/say second")
        assert [message.text for message in turn.history] == []
        assert turn.answer == "second"


async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path)) as gate:
        await gate.chat("/say one")
    async with Gateway(settings(tmp_path)) as gate:
        turn = await gate.chat("/say two")
    assert [message.text for message in turn.history] == ["/say one", "one"]
