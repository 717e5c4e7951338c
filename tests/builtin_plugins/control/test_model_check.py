"""At start the agents' models are held against the providers; nothing of it stops the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.script import Script, Scripted, say

from hookgate.core.domain.models import ModelInfo, ProviderInfo
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

ACTION = "set TOY_KEY"


class Lacking:
    """Describes a provider without a key, and so does not bring it."""

    name = "lacking"

    @hookimpl
    def describe_providers(self) -> Sequence[ProviderInfo]:
        return [ProviderInfo(name="toy", missing="no key for toy", action=ACTION)]


class Small(Script):
    """Has one model and takes no other name."""

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name="small")]


def settings(**agents: Any) -> Settings:
    return Settings.model_validate({"agents": agents, "plugins": {"entry_points": False}})


async def degraded(config: Settings, *plugins: object) -> dict[str, str]:
    async with Gateway(config, builtin=("control",), plugins=plugins) as gate:
        return dict(gate.host.status()["degraded"])


async def test_a_missing_key_is_said_and_the_next_model_answers() -> None:
    config = settings(main={"model": "toy/a", "fallback": ["script/x"]})
    plugins = [Lacking(), Scripted(Script(say("hello back")))]
    async with Gateway(config, builtin=("control",), plugins=plugins) as gate:
        assert gate.host.status()["degraded"]["provider toy"] == f"no key for toy: {ACTION}"
        turn = await gate.chat("hello")
    assert turn.answer == "hello back"


async def test_a_turn_that_no_model_answers_says_which_key_is_missing() -> None:
    async with Gateway(
        settings(main={"model": "toy/a"}), builtin=("control",), plugins=[Lacking()]
    ) as gate:
        turn = await gate.chat("hello")
    assert f"no key for toy: {ACTION}" in str(turn.error)


async def test_a_key_that_no_agent_needs_is_not_missed() -> None:
    config = settings(main={"model": "script/x"})
    assert await degraded(config, Lacking(), Scripted(Script(say("ok")))) == {}


@pytest.mark.parametrize(
    ("model", "nearest"), [("scirpt/small", "script/small"), ("script/smal", "script/small")]
)
async def test_a_model_that_nobody_has_is_said_with_the_nearest(model: str, nearest: str) -> None:
    told = await degraded(settings(main={"model": model}), Scripted(Small(say("ok"))))
    assert set(told) == {"agent main"}
    assert "`agents.main.model`" in told["agent main"]
    assert f"did you mean `{nearest}`?" in told["agent main"]


async def test_what_is_mended_in_the_settings_is_taken_back_at_a_reload() -> None:
    read = [settings(main={"model": "script/small"}), settings(main={"model": "script/large"})]
    gate = Gateway(
        settings(main={"model": "script/large"}),
        builtin=("control",),
        plugins=[Scripted(Small(say("ok")))],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        assert "agent main" in gate.host.degraded
        await gate.reload()
        assert gate.host.degraded == {}
        await gate.reload()
        assert "agent main" in gate.host.degraded


async def test_a_description_that_fails_does_not_stop_the_start() -> None:
    class Broken:
        name = "broken"

        @hookimpl
        def describe_providers(self) -> Sequence[ProviderInfo]:
            raise OSError("the disk is gone")

    config = settings(main={"model": "script/x"})
    assert await degraded(config, Broken(), Scripted(Script(say("ok")))) == {}
