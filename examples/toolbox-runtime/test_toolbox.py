"""The installed plugin in a real gateway: its folder is read, switched, and found again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hookgate import (
    Gateway,
    Invocation,
    Principal,
    Settings,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)

SAW = "toolbox:toolbox:global:global:tool:saw"


class Running:
    """A gateway with the installed plugin."""

    def __init__(self, gateway: Gateway) -> None:
        self.host = gateway.host

    async def ask(self, name: str, **params: Any) -> Any:
        operation = self.host.operations[f"inventory.{name}"]
        invocation = Invocation(host=self.host, principal=Principal.owner())
        return await operation.handler(invocation, operation.params(**params))

    async def rows(self) -> dict[str, Any]:
        listed = await self.ask("list", runtime="toolbox", refresh=True)
        return {row.source_key: row for row in listed.records}


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Running]:
    section = {"toolbox": {"folder": home / "toolbox"}}
    settings = Settings.model_validate({"home": home, "plugin": section})
    async with Gateway(settings) as gateway:
        yield Running(gateway)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "toolbox"
    made.mkdir()
    saw = {"description": "Cuts wood.", "enabled": True, "teeth": 24}
    (made / "saw.json").write_text(json.dumps(saw))
    (made / "broken.json").write_text("[1, 2")
    return made


async def test_the_folder_is_read_and_what_is_broken_says_why(tmp_path: Path, folder: Path) -> None:
    async with running(tmp_path) as gateway:
        rows = await gateway.rows()

    assert rows.keys() == {"saw", "broken"}
    assert (rows["saw"].status, rows["saw"].description) == ("ready", "Cuts wood.")
    assert [button.action for button in rows["saw"].buttons] == ["disable"]
    assert (rows["broken"].status, rows["broken"].buttons) == ("unavailable", ())
    assert rows["broken"].diagnostics[0].startswith("broken.json cannot be read")


async def test_a_switch_keeps_what_it_does_not_know(tmp_path: Path, folder: Path) -> None:
    async with running(tmp_path) as gateway:
        await gateway.ask("disable", id=SAW)
        off = json.loads((folder / "saw.json").read_text())
        assert (await gateway.rows())["saw"].status == "disabled"
        await gateway.ask("enable", id=SAW)

    assert off == {"description": "Cuts wood.", "enabled": False, "teeth": 24}
    assert json.loads((folder / "saw.json").read_text())["enabled"] is True


async def test_what_is_gone_or_broken_is_refused(tmp_path: Path, folder: Path) -> None:
    async with running(tmp_path) as gateway:
        with pytest.raises(UnsupportedCapabilityWriteError, match="cannot be read"):
            await gateway.ask("disable", id=SAW.replace("saw", "broken"))
        (folder / "saw.json").unlink()
        with pytest.raises(UnknownCapabilityError):
            await gateway.ask("disable", id=SAW)


async def test_a_toolbox_that_is_not_there_is_empty_and_healthy(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        listed = await gateway.ask("list", runtime="toolbox", refresh=True)

    assert listed.records == ()
    assert {source.id: source.ok for source in listed.sources}["toolbox"]
