"""Opening the inventory: its tables, its sources, and what follows changes beside the turns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hookgate import STORE, SWITCHES, Host, StoreError, Switch
from hookgate.builtin_plugins.inventory.kept.keeping import NATIVE, Keeping
from hookgate.builtin_plugins.inventory.multiplexer import Multiplexer
from hookgate.builtin_plugins.inventory.projection import RECORDS, Projection
from hookgate.builtin_plugins.inventory.service import Inventory
from hookgate.builtin_plugins.inventory.sources.source import RuntimeSource, inventory_sources
from hookgate.builtin_plugins.inventory.writing.writes import Writes
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.kept.tables import StoreProjection
    from hookgate.builtin_plugins.inventory.settings import InventorySettings

PART = "inventory switches"
"""What `status` calls what is switched off, where it is not known for sure."""

CHANGED = "inventory.changed"
"""The small value by which gateways on one store hear of each other's switches."""


class Opened:
    """The inventory of a gateway that runs.

    Attributes:
        inventory: What there is.
        writes: What changes it.
        all_open: Set once all plugins are open; before that, sources of others may not work yet.
    """

    def __init__(
        self,
        host: Host,
        settings: InventorySettings,
        keeping: Keeping,
        multiplexer: Multiplexer,
        projection: Projection,
    ) -> None:
        self.inventory = Inventory(host, multiplexer, projection, keeping, settings)
        self.writes = Writes(host, self.inventory, multiplexer, self.announce)
        self._host = host
        self._keeping = keeping
        self._seconds = settings.refresh_seconds
        self._changed = asyncio.Event()
        self.all_open = asyncio.Event()

    async def follow(self) -> None:
        """Read all runtimes now and then, and switches whenever another gateway has set one."""
        await self.all_open.wait()
        self._host.tools.watch(self._changed.set)
        undo = self._host[SWITCHES].watch(CHANGED, self._noticed)
        try:
            while True:
                await self._load()
                await self.inventory.read(refresh=True)
                self._changed.clear()
                try:
                    async with asyncio.timeout(self._seconds or None):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            undo()

    def _noticed(self, switch: Switch) -> None:
        del switch
        self._changed.set()

    async def _load(self) -> None:
        try:
            await self._keeping.load()
        except StoreError as error:
            self._host.standing(PART).bad(f"what other gateways switch off is not known: {error}")
        else:
            self._host.standing(PART).good()

    async def announce(self) -> None:
        """Let other gateways on the same store know that something was switched or installed."""
        store = self._host.get(STORE)
        if store is None or not store.shared:
            return
        switches = self._host[SWITCHES]
        try:
            known = await switches.get(CHANGED)
            # Where another one was faster, all have heard.
            await switches.put(CHANGED, known.version + 1, version=known.version)
        except StoreError as error:
            self._host.standing(PART).bad(f"other gateways hear of a change later: {error}")


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""The id of a source, which its records' ids begin with."""


@asynccontextmanager
async def opened(
    host: Host, settings: InventorySettings, keeping: Keeping
) -> AsyncIterator[Opened]:
    """Open the inventory, and close it at the end.

    What is switched off is known before anything else: no turn gets what it should not have.

    Raises:
        StoreError: What is switched off cannot be read.
    """
    kept = await _tables(host, keeping)
    multiplexer = Multiplexer(
        await _sources(host),
        read_seconds=settings.read_seconds,
        write_seconds=settings.write_seconds,
    )
    projection = Projection(
        kept, host.clock.now, host.clock.monotonic, standing=host.standing(RECORDS)
    )
    try:
        yield Opened(host, settings, keeping, multiplexer, projection)
    finally:
        await multiplexer.close()


async def _tables(host: Host, keeping: Keeping) -> StoreProjection | None:
    """Know what is switched off; return where records are kept, if they outlive the process."""
    module = "hookgate.builtin_plugins.inventory.kept.tables"
    tables, store = await tables_of(host.get(STORE), "inventory", module)
    await keeping.open(tables.Toggle.records(store), tables.Skill.records(store))
    if store.problem:
        host.standing(PART).bad(
            "the store of earlier runs is lost, and with it what was switched off"
        )
    return tables.StoreProjection(store) if host.get(STORE) is not None else None


async def _sources(host: Host) -> dict[str, RuntimeSource]:
    """Return the sources of all plugins by id; those of builtin plugins count before others."""
    sources: dict[str, RuntimeSource] = {}
    brought = await host.hooks.each_by_plugin(inventory_sources, host)
    for answer in sorted(brought, key=lambda one: host.rank(one.plugin)):
        if answer.failure is not None:
            host.standing(f"inventory sources of {answer.plugin}").bad(answer.failure.message)
        for source in answer.value or ():
            name = str(source.id)
            wrong = ""
            if not _ID.fullmatch(name):
                wrong = "found no id of 1 to 32 lower-case letters, digits, _ and -: give it one"
            elif name in sources:
                wrong = "left out, since another one has this id: rename one of the two"
            if wrong:
                host.standing(f"inventory source {name[:80]} of {answer.plugin}").bad(wrong)
            else:
                sources[name] = source
    assert NATIVE in sources, "this plugin brings it, and whatever it brings comes first"
    return sources
