"""Switches in a file of the home folder: what there is without a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import structlog

from hookgate.core.domain.errors import StoreError, StoreUnavailableError
from hookgate.core.domain.ports import Switch
from hookgate.core.settings.whole_file import write_whole

FILE = "switches.json"


class Watchers:
    """Who is told of changes, by the name of the switch."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[Callable[[Switch], None]]] = {}

    def add(self, name: str, watcher: Callable[[Switch], None]) -> Callable[[], None]:
        """Tell `watcher` of changes; return what undoes it."""
        watchers = self._watchers.setdefault(name, [])
        watchers.append(watcher)
        return lambda: watchers.remove(watcher)

    def tell(self, switch: Switch) -> None:
        """Tell all who watch `switch` what it is now.

        Whoever fails to take it keeps nobody else from hearing of it, nor of later changes.
        """
        for watcher in tuple(self._watchers.get(switch.name, ())):
            try:
                watcher(switch)
            except Exception as error:
                log = structlog.get_logger("hookgate")
                log.error("a watcher of a switch failed", switch=switch.name, exc_info=error)


class FileSwitches:
    """Switches in ``switches.json``; see `hookgate.core.domain.ports.Switches`.

    Where a store holds them, the file is a copy of what the store said last, and is gone by
    when the store cannot be opened: so a damaged database turns nothing back on.

    Args:
        home: The folder of the file.
    """

    def __init__(self, home: Path) -> None:
        self._file = home.expanduser() / FILE
        self._watchers = Watchers()
        self._changing = asyncio.Lock()

    async def get(self, name: str) -> Switch:
        """Return a switch as it is now.

        Raises:
            StoreError: The file cannot be read.
        """
        found = await asyncio.to_thread(self._read)
        return found.get(name, Switch(name))

    async def put(self, name: str, value: Any, *, version: int) -> Switch | None:
        """Set a switch, if nobody has done so since `version`.

        Raises:
            StoreError: The file cannot be read, or not be written; nothing was.
        """
        async with self._changing:
            there = await asyncio.to_thread(self._read)
            if there.get(name, Switch(name)).version != version:
                return None
            made = Switch(name, value, version + 1)
            await asyncio.to_thread(self._write, {**there, name: made}.values())
        self._watchers.tell(made)
        return made

    def watch(self, name: str, watcher: Callable[[Switch], None]) -> Callable[[], None]:
        """Call `watcher` with each change of a switch; return what undoes it."""
        return self._watchers.add(name, watcher)

    def behind(self) -> float:
        """Return 0: nobody else sets what is in this file."""
        return 0.0

    async def keep(self, switches: Iterable[Switch]) -> None:
        """Put `switches` in the place of all that the file holds.

        Raises:
            StoreUnavailableError: The file cannot be written.
        """
        async with self._changing:
            await asyncio.to_thread(self._write, tuple(switches))

    def _read(self) -> dict[str, Switch]:
        try:
            held = json.loads(self._file.read_bytes())["switches"]
            return {
                name: Switch(name, row["value"], int(row["version"])) for name, row in held.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(
                f"{self._file} cannot be read ({error}): put a backup in its place, or remove it, "
                "which sets every switch back"
            ) from error

    def _write(self, switches: Iterable[Switch]) -> None:
        held = {one.name: {"value": one.value, "version": one.version} for one in switches}
        try:
            write_whole(self._file, json.dumps({"switches": held}).encode(), durable=True)
        except OSError as error:
            raise StoreUnavailableError(f"{self._file} cannot be written: {error}") from error
