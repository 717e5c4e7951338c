"""What reading 10,000 records of five runtimes takes, and a page of them.

    python -m benchmarks.inventory [--quick]

Each source makes its 2,000 records anew at every read, as one does that reads files; what it takes
to read these files is no part of it. The gateway has a store. "Warm" is a read that finds nothing
new. The first one finds all records new, and keeps them. A page has 100 records, with and without
a filter, as it goes over the wire. Figures are the processor time of the whole process, threads
included: medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, report
from hookgate import (
    CapabilityChange,
    CapabilityRecord,
    Gateway,
    Invocation,
    Principal,
    Settings,
    UnsupportedCapabilityWriteError,
    hookimpl,
)

SOURCES = ("one", "two", "three", "four", "five")


class Runtime:
    """A runtime with very many skills."""

    def __init__(self, name: str, count: int) -> None:
        self.id = name
        self.count = count
        self.day = 0

    async def read(self) -> Sequence[CapabilityRecord]:
        return [
            CapabilityRecord.of(
                self.id,
                f"folder/skill-{number}",
                kind="skill",
                source="filesystem-skill-md",
                manageability="observe-only",
                agent_id=f"agent-{number % 10}",
                description=f"Does the thing number {number}, and nothing else, on day "
                f"{self.day if number % 100 == 0 else 0}.",
                provenance=f"/home/somebody/.{self.id}/folder/skill-{number}/SKILL.md",
            )
            for number in range(self.count)
        ]

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        raise UnsupportedCapabilityWriteError(f"{self.id} is only looked at")


class House:
    """Brings the runtimes."""

    name = "house"

    def __init__(self, runtimes: Sequence[Runtime]) -> None:
        self.runtimes = runtimes

    @hookimpl(of="inventory")
    def inventory_sources(self) -> Sequence[Any]:
        return self.runtimes


async def taken(work: Callable[[], Awaitable[Any]], times: int) -> float:
    """Return the median milliseconds of processor time that `work` takes."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        await work()
        found.append((time.process_time() - begun) * 1000)
    return statistics.median(found)


async def measured(home: Path, records: int, times: int) -> list[Figure]:
    """Return the figures of a gateway with so many records."""
    runtimes = [Runtime(name, records // len(SOURCES)) for name in SOURCES]
    section = {"refresh_seconds": 0, "fresh_seconds": 3600, "read_seconds": 30}
    settings = Settings.model_validate(
        {
            "home": home,
            "plugins": {"entry_points": False},
            "plugin": {"inventory": section},
            "log": {"level": "error"},
        }
    )
    builtin = ("control", "storage", "providers", "inventory")
    async with Gateway(settings, builtin=builtin, plugins=[House(runtimes)]) as gateway:
        operation = gateway.host.operations["inventory.list"]
        invocation = Invocation(host=gateway.host, principal=Principal.owner())

        async def page(**params: Any) -> bytes:
            listed = await operation.handler(invocation, operation.params(**params))
            return bytes(listed.__pydantic_serializer__.to_json(listed))

        async def changed() -> None:
            for runtime in runtimes:
                runtime.day += 1
            await page(refresh=True, limit=1)

        first = await taken(lambda: page(refresh=True, limit=1), 1)
        warm = await taken(lambda: page(refresh=True, limit=1), times)
        made = await taken(lambda: asyncio.gather(*(one.read() for one in runtimes)), times)
        some = await taken(changed, times)
        last = f"five:five:agent:agent-0:skill:folder/skill-{records // 10 // 5}"
        pages = await taken(lambda: page(limit=100, after=last), times)
        filtered = await taken(
            lambda: page(limit=100, runtime="four", kind="skill", agent="agent-7"), times
        )
    of = f"of {records:,} records, five sources"
    return [
        Figure(name="the first read", value=first, unit="ms", against=of),
        Figure(name="a warm read", value=warm, unit="ms", against=of, goal=100),
        Figure(name="of that: the sources make their records", value=made, unit="ms", against=of),
        Figure(name="a read that finds 1 in 100 changed", value=some, unit="ms", against=of),
        Figure(name="a page", value=pages, unit="ms", against=of, goal=20),
        Figure(name="a page, filtered", value=filtered, unit="ms", against=of, goal=20),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records and runs")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measured(Path(folder), 1000 if quick else 10_000, 3 if quick else 15))
    report("inventory", figures)


if __name__ == "__main__":
    main()
