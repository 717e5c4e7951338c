"""What operators are told of parts, and taken back; and when the start is over."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import gateway, until

from hookgate.core.host import Host
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

SECRET = "sk-live-abcdefghijklmnop"


async def test_a_part_whose_name_holds_a_secret_recovers_and_is_withdrawn() -> None:
    async with gateway() as gate:
        host = gate.host
        host.secrets.register(SECRET)
        part = f"cards of https://cards.example/{SECRET}"
        host.standing(part).bad("it does not answer")
        host.standing(part).note("it has changed")
        masked = host.secrets.redact(part)
        assert masked in host.degraded
        assert masked in host.notices
        assert SECRET not in repr((host.degraded, host.notices))
        host.standing(part).good()
        host.standing(part).note("")
        assert masked not in host.degraded
        assert masked not in host.notices


class Patient:
    """Does nothing of its own before the gateway has started."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        waiting = host.spawn(self._begin(host), name="patient")
        yield
        waiting.cancel()

    async def _begin(self, host: Host) -> None:
        await host.started()
        self.seen.append("ready" if host.ready else "not ready")

    @hookimpl
    async def list_tools(self) -> list[Any]:
        await asyncio.sleep(0)
        self.seen.append("asked for tools")
        return []


async def test_who_waits_for_the_start_goes_on_once_it_is_over() -> None:
    plugin = Patient()
    async with gateway(plugin) as gate:
        await asyncio.sleep(0)
        assert plugin.seen == ["asked for tools", "ready"]
        await gate.host.started()


class Late:
    """Names modules that its first turn would take."""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        host.load_later("broken_by_hand", "missing_by_hand", "colorsys")
        assert "colorsys" not in sys.modules
        yield


@pytest.fixture
def on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_by_hand.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)


@pytest.mark.usefixtures("on_the_path")
async def test_modules_are_loaded_behind_the_start_and_one_that_cannot_be_is_told() -> None:
    async with gateway(Late()) as gate:
        await until(lambda: "colorsys" in sys.modules)
        told = {part: why for part, why in gate.host.degraded.items() if part.startswith("module")}
    assert told == {
        "module broken_by_hand": "it cannot be loaded: ZeroDivisionError: division by zero",
        "module missing_by_hand": "it cannot be loaded: ModuleNotFoundError: "
        "No module named 'missing_by_hand'",
    }


@pytest.mark.usefixtures("on_the_path")
async def test_a_gateway_for_one_command_loads_nothing_ahead() -> None:
    async with Gateway(builtin=(), plugins=[Late()], for_command=True) as gate:
        await gate.host.started()
        assert not [task for task in asyncio.all_tasks() if "first turn" in task.get_name()]
