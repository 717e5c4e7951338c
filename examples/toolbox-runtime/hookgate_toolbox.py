"""A hookgate plugin: a folder of tools as a runtime of the inventory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import (
    CapabilityRecord,
    Section,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    hookimpl,
)
from hookgate.settings import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate import CapabilityChange, RuntimeSource


class ToolboxSettings(Section):
    """``[plugin.toolbox]``."""

    folder: Path = Path("~/.toolbox")
    """The folder with a JSON file for each tool."""


class Toolbox:
    """Reads the folder, and switches what is in it."""

    id = "toolbox"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Sequence[CapabilityRecord]:
        """Return a record for each file. A plain function may block: it has a thread of its own."""
        return [self.record(path) for path in sorted(self.folder.glob("*.json"))]

    def record(self, path: Path) -> CapabilityRecord:
        """Return the record of one file, whatever stands in it."""
        problem, data = "", {}
        try:
            data = load(path)
        except (OSError, ValueError) as error:
            problem = f"{path.name} cannot be read: {error}"
        ready = "ready" if data.get("enabled", True) else "disabled"
        return CapabilityRecord.of(
            self.id,
            path.stem,
            kind="tool",
            source="external-vendor-cli",
            manageability="external-write",
            description=str(data.get("description", ""))[:1000],
            available=not problem,
            diagnostics=(problem,) if problem else (),
            status="unavailable" if problem else ready,
            provenance=str(path),
        )

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Switch a tool on or off."""
        if change.record is None or change.action not in ("enable", "disable"):
            raise UnsupportedCapabilityWriteError(f"a toolbox cannot {change.action} anything")
        path = self.folder / f"{change.record.source_key}.json"
        return await asyncio.to_thread(self.switch, path, change.action == "enable")

    def switch(self, path: Path, enabled: bool) -> CapabilityRecord:
        """Write a file anew; what else stands in it stays."""
        try:
            data = {**load(path), "enabled": enabled}
        except FileNotFoundError:
            raise UnknownCapabilityError(f"{path.name} is not there any more") from None
        except ValueError as error:
            raise UnsupportedCapabilityWriteError(f"{path.name} is broken: {error}") from None
        write_whole(path, json.dumps(data, indent=2).encode(), durable=True)
        return self.record(path)


def load(path: Path) -> dict[str, Any]:
    """Return what a file holds.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no JSON object.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"found a {type(data).__name__}, expected an object")
    return data


class Plugin:
    """Brings the folder to the inventory."""

    Settings = ToolboxSettings

    def __init__(self, settings: ToolboxSettings) -> None:
        self.settings = settings

    @hookimpl(of="inventory")
    def inventory_sources(self) -> Sequence[RuntimeSource]:
        """Return the one source."""
        return [Toolbox(self.settings.folder)]
