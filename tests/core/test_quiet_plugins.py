"""A plugin that has nothing to say in a turn costs it nothing: counted in calls."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hookgate import Card, Gateway, Host, Tool, Turn, hookimpl
from hookgate.core import runtime
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say

MANY = 20
TURNS = 10


@pytest.fixture(autouse=True)
def gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand on no figures that were gathered: on a busy machine it would fall into a turn."""
    monkeypatch.setattr(runtime, "GATHER_SECONDS", 3600)


class Quiet:
    """Is there, and brings nothing."""

    def __init__(self, number: int) -> None:
        self.name = f"quiet-{number}"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        yield

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        return []

    @hookimpl
    def list_cards(self) -> Sequence[Card]:
        return []


class Silent(Quiet):
    """Is asked in every turn, and has nothing to say."""

    @hookimpl
    def before_turn(self, turn: Turn) -> None:
        return None


async def calls_of(gateway: Gateway, model: ScriptedModel) -> Counter[str]:
    """Return the Python calls of so many turns on the event loop's thread, by function."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            counted[frame.f_code.co_qualname] += 1

    # What tests before this one left behind is not cleared away while calls are counted.
    gc.collect()
    gc.disable()
    try:
        for number in range(2 * TURNS):
            model.steps = [say("Hello.")]
            # The first ones fill what later ones know.
            sys.setprofile(count if number >= TURNS else None)
            try:
                turn = await gateway.chat("hello")
            finally:
                sys.setprofile(None)
            assert turn.answer == "Hello."
    finally:
        gc.enable()
    return counted


async def calls_with(home: Path, *plugins: object) -> Counter[str]:
    """Return the calls of turns of a gateway with `plugins` and none of the builtin ones."""
    model = ScriptedModel()
    async with started(*plugins, home=home, model=model, only=[]) as gateway:
        return await calls_of(gateway, model)


def more(among: Counter[str], alone: Counter[str]) -> dict[str, int]:
    """Return the calls that are more by one a plugin, or by as many a turn."""
    return {name: count for name, count in (among - alone).items() if count >= MANY}


async def test_plugins_without_a_hook_of_the_turn_cost_it_no_call(tmp_path: Path) -> None:
    alone = await calls_with(tmp_path / "alone")
    among = await calls_with(tmp_path / "among", *map(Quiet, range(MANY)))

    assert alone.total() > 1000
    assert more(among, alone) == {}


async def test_plugins_that_are_asked_in_vain_cost_one_call_a_hook(tmp_path: Path) -> None:
    alone = await calls_with(tmp_path / "alone")
    among = await calls_with(tmp_path / "among", *map(Silent, range(MANY)))

    assert more(among, alone) == {"Silent.before_turn": MANY * TURNS}
