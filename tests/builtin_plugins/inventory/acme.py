"""A runtime that a third party brings, and a gateway around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.script import settings

from hookgate import (
    CapabilityChange,
    CapabilityRecord,
    Gateway,
    Invocation,
    Principal,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    hookimpl,
)
from hookgate.builtin_plugins.inventory.record import refusal

NATIVE = "native:native:global:global"
OWNER = Principal.owner()


def record(key: str = "search", source_id: str = "acme", **changes: Any) -> CapabilityRecord:
    given: dict[str, Any] = {
        "kind": "connector",
        "source": "mcp-connector",
        "manageability": "external-write",
    }
    return CapabilityRecord.of(source_id, key, **{**given, **changes})


class Acme:
    """A runtime in memory. It keeps an allow list, which each change writes anew as a whole.

    Attributes:
        records: What it has, by id.
        wrong: What its reads do: nothing for "", else ``raise`` or ``hang``.
        broken: What its writes raise.
        changes: The changes that it was asked for.
    """

    def __init__(self, *records: CapabilityRecord, name: str = "acme") -> None:
        self.id = name
        self.records = {one.id: one for one in records}
        self.wrong = ""
        self.broken: Exception | None = None
        self.reads = 0
        self.changes: list[CapabilityChange] = []
        self.busy = 0

    async def read(self) -> Sequence[CapabilityRecord]:
        self.reads += 1
        if self.wrong == "raise":
            raise ConnectionError("the socket is gone")
        if self.wrong == "hang":
            await asyncio.Event().wait()
        return [replace(one) for one in self.records.values()]

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        self.changes.append(change)
        assert self.busy == 0, "two changes at once"
        self.busy += 1
        await asyncio.sleep(0)
        self.busy -= 1
        if self.broken is not None:
            raise self.broken
        if change.install is not None:
            made = record(
                change.install.key, agent_id=change.install.agent_id, runtime=change.install.runtime
            )
        else:
            assert change.record is not None
            known = self.records.get(change.record.id)
            if known is None:
                raise UnknownCapabilityError("it is gone")
            if why := refusal(known, change.action):
                raise UnsupportedCapabilityWriteError(why)
            made = replace(known, status="disabled" if change.action == "disable" else "ready")
        self.records[made.id] = made
        return made


class House:
    """The third party's plugin: it brings its sources by the published hook."""

    name = "house"

    def __init__(self, *sources: Any) -> None:
        self.sources = sources

    @hookimpl(of="inventory")
    def inventory_sources(self) -> Sequence[Any]:
        return self.sources


class Running:
    """A gateway that runs, and its operations at hand."""

    def __init__(self, gate: Gateway) -> None:
        self.gate = gate
        self.host = gate.host

    async def ask(self, name: str, principal: Principal = OWNER, **params: Any) -> Any:
        operation = self.host.operations[f"inventory.{name}"]
        given = operation.params.model_validate(params)
        return await operation.handler(Invocation(host=self.host, principal=principal), given)

    async def listed(self, **params: Any) -> Any:
        return await self.ask("list", refresh=True, **params)

    async def ids(self, **params: Any) -> list[str]:
        return [one.id for one in (await self.listed(**params)).records]

    def degraded(self) -> Mapping[str, str]:
        """Return what of the inventory does not work."""
        return {part: why for part, why in self.host.degraded.items() if "inventory" in part}

    async def statuses(self) -> Mapping[str, Any]:
        return {one.id: one for one in (await self.listed()).sources}


@asynccontextmanager
async def running(
    *sources: Any,
    home: Path | None = None,
    plugins: Sequence[object] = (),
    builtin: Sequence[str] = ("control", "storage", "egress", "sanitizer", "inventory"),
    inventory: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Running]:
    """Run a gateway with `sources`, which reads nothing by itself after the start."""
    section = {
        "runtimes": [],
        "refresh_seconds": 0,
        "read_seconds": 0.2,
        "fresh_seconds": 3600,
        **(inventory or {}),
    }
    plugin = {**sections.pop("plugin", {}), "inventory": section}
    config = settings(home, plugin=plugin, **sections)
    gate = Gateway(config, builtin=tuple(builtin), plugins=[House(*sources), *plugins])
    async with gate:
        yield Running(gate)
