"""Reading the inventory: who asks once the gateway is whole gets what is there then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from hookgate.builtin_plugins.inventory.multiplexer import Multiplexer, Projection
from hookgate.builtin_plugins.inventory.record import CapabilityRecord
from hookgate.builtin_plugins.inventory.service import Inventory
from hookgate.builtin_plugins.inventory.settings import InventorySettings
from hookgate.builtin_plugins.inventory.switches import Keeping
from hookgate.core.domain.events import Standings


class Opening:
    """The source of a gateway that has its tools only once it is whole."""

    id = "native"

    def __init__(self) -> None:
        self.tools: tuple[str, ...] = ()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def read(self) -> Sequence[CapabilityRecord]:
        made = [
            CapabilityRecord.of(
                "native", name, kind="tool", source="runtime-builtin", manageability="managed"
            )
            for name in self.tools
        ]
        self.begun.set()
        await self.go_on.wait()
        return made


async def test_who_asks_while_a_read_from_the_opening_is_under_way_gets_a_whole_one() -> None:
    source = Opening()
    host: Any = SimpleNamespace(
        ready=False,
        clock=SimpleNamespace(monotonic=time.monotonic, now=lambda: datetime.now(UTC)),
        spawn=lambda work, name: asyncio.create_task(work, name=name),
        standing=Standings(),
        agents=lambda: (),
        capabilities=SimpleNamespace(apply=lambda *_, **__: None),
    )
    projection = Projection(None, host.clock.now, time.monotonic, standing=host.standing("records"))
    sources: Any = {"native": source}
    keeping = Keeping()
    multiplexer = Multiplexer(sources)
    inventory = Inventory(host, multiplexer, projection, keeping, InventorySettings())
    source.go_on.set()
    await inventory.read()

    source.go_on.clear()
    source.begun.clear()
    opening = asyncio.create_task(inventory.read(refresh=True))
    await source.begun.wait()
    host.ready, source.tools = True, ("clock",)
    asking = asyncio.create_task(inventory.read())
    await asyncio.sleep(0)
    source.go_on.set()
    merged = await asking
    assert [record.source_key for record in merged.records] == ["clock"]
    await opening
    await multiplexer.close()
