from __future__ import annotations

from typing import Any

import pytest
from tests.support.script import Script, Scripted, gateway, say

from hookgate.core.domain.errors import ConfigError
from hookgate.core.runtime import Gateway
from hookgate.core.settings.schema import Section, Settings
from hookgate.hookspecs import hookimpl


class Level(Section):
    level: int = 1


class Heard:
    """Does nothing, and so counts as a plugin."""

    @hookimpl
    def after_turn(self, turn: Any) -> None:
        return None


class Live(Heard):
    """Takes over a changed section while it runs."""

    name = "live"
    Settings = Level

    def __init__(self, settings: Level) -> None:
        self.level = settings.level

    def take_settings(self, settings: Level) -> list[str]:
        self.level = settings.level
        return ["level"] if settings.level > 8 else []


class Fixed(Heard):
    """Reads its section once."""

    name = "fixed"
    Settings = Level

    def __init__(self, settings: Level) -> None:
        self.level = settings.level


def settings(**plugins: Any) -> Settings:
    return Settings.model_validate({"plugin": plugins, "plugins": {"entry_points": False}})


async def reloaded(*steps: dict[str, Any]) -> tuple[Gateway, list[dict[str, Any]]]:
    read = [settings(**step) for step in steps]
    gate = Gateway(
        settings(),
        plugins=[Scripted(Script(say("ok"))), Live, Fixed],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        return gate, [dict(await gate.reload()) for _ in steps]


async def test_a_plugin_that_takes_settings_gets_a_changed_section_without_a_restart() -> None:
    gate, (first, second) = await reloaded({"live": {"level": 5}}, {})
    assert first["restart"] == second["restart"] == []
    live = gate.plugins.get("live")
    assert isinstance(live, Live)
    assert live.level == 1  # the second reload took it back


async def test_a_plugin_may_name_keys_that_wait_for_a_restart_all_the_same() -> None:
    _, (result,) = await reloaded({"live": {"level": 9}})
    assert result["restart"] == ["plugin.live.level"]


async def test_a_changed_section_of_another_plugin_is_named_as_waiting_for_a_restart() -> None:
    gate, (result,) = await reloaded({"fixed": {"level": 5}})
    assert result["restart"] == ["plugin.fixed"]
    fixed = gate.plugins.get("fixed")
    assert isinstance(fixed, Fixed)
    assert fixed.level == 1


async def test_a_section_that_is_wrong_changes_nothing() -> None:
    read = [settings(live={"level": "high"})]
    gate = Gateway(
        settings(),
        plugins=[Scripted(Script(say("ok"))), Live],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        with pytest.raises(ConfigError, match=r"plugin\.live\.level"):
            await gate.reload()
        live = gate.plugins.get("live")
        assert isinstance(live, Live)
        assert live.level == 1


async def test_a_notice_is_shown_until_it_is_withdrawn_and_is_no_fault() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        before = gate.status()["notices"]
        gate.host.announce("cards", "the card a has changed")
        assert gate.status()["notices"] == {**before, "cards": "the card a has changed"}
        assert gate.status()["degraded"] == {}
        gate.host.withdraw("cards")
        assert gate.status()["notices"] == before
