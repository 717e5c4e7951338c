"""What the tests of the ledger are made with: calls, prices, a store that fails as it is told."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hookgate.builtin_plugins.metering import tables
from hookgate.builtin_plugins.metering.calls import COUNTS, LedgerRow
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.core.domain.models import Usage
from hookgate.kit.records import MemoryStore

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore

_numbers = itertools.count(1)

PLAIN = LedgerRow(
    id="",
    at="2026-11-21T12:00:00.000000+00:00",
    day="2026-11-21",
    turn="turn_1",
    session="main:cli:local:main",
    agent="main",
    channel="cli",
    account="local",
    principal="loopback",
    key="",
    cause="chat",
    plugin="",
    tool="",
    provider="acme",
    model="large",
    attempt=0,
    iteration=0,
    status="done",
    kind="",
    sent=True,
    usage=Usage(input_tokens=100, output_tokens=10),
    cost=1_000_000,
    saved=0,
    price="settings 1",
)


def in_memory() -> MemoryStore:
    """Return the store of a gateway in which no plugin provides one."""
    return MemoryStore(tables.METADATA)


def made_call(**changes: Any) -> LedgerRow:
    """Return a call with an id of its own; `day` sets its time as well, counts are its usage's."""
    if "day" in changes and "at" not in changes:
        changes["at"] = f"{changes['day']}T12:00:00.000000+00:00"
    counts = {name: changes.pop(name) for name in (*COUNTS, "reported") if name in changes}
    usage = replace(PLAIN.usage, **counts)
    return PLAIN._replace(**{"id": f"call_{next(_numbers)}", "usage": usage, **changes})


@dataclass
class FixedPrice:
    """A tariff: so many units for each token of input, and ten times that for output."""

    each: int = 1
    known: bool = True
    version: str = "settings 1"

    def cost(self, usage: Usage) -> int:
        return self.each * (usage.total_input + 10 * usage.total_output)

    def saved(self, usage: Usage) -> int:
        return self.each * usage.cache_read_tokens


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class UnsteadyStore:
    """A real store in front of which writes fail as the next of `moods` says.

    ``fails``; ``commits``: written, and said to have failed; ``slow``; ``cancelled``: the task
    that writes is cancelled first; ``cancelled late``: it is afterwards; "" for none of it.
    While the store is `away`, all fail.
    """

    store: SqlStore
    moods: list[str] = field(default_factory=list)
    away: bool = False
    durable: bool = True
    problem: str = ""

    async def write(self, work: Any, *, order: str = "") -> Any:
        return await self._moody(lambda: self.store.write(work, order=order))

    def insert_soon(self, table: Any, rows: Any) -> asyncio.Future[None]:
        if not self.moods and not self.away:
            return self.store.insert_soon(table, rows)
        work = self._moody(lambda: self.store.insert(table, rows))
        return asyncio.create_task(work, name="rows of the ledger")

    async def read(self, work: Any) -> Any:
        return await self.store.read(work)

    async def _moody(self, write: Any) -> Any:
        mood = self.moods.pop(0) if self.moods else "fails" if self.away else ""
        if mood == "fails":
            raise StoreUnavailableError("the disk is gone")
        if mood == "slow":
            for _ in range(20):
                await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        own = task.get_name().endswith("of the ledger")
        if mood == "cancelled" and own:
            task.cancel()
            await asyncio.sleep(0)
        value = await write()
        if mood == "commits":
            raise StoreUnavailableError("the answer of the database was lost")
        if mood == "cancelled late" and own:
            task.cancel()
            await asyncio.sleep(0)
        return value


async def rows_of(store: SqlStore | MemoryStore) -> list[dict[str, Any]]:
    """Return all rows of the ledger, by writer and number."""
    calls = tables.CALLS
    query = sa.select(calls).order_by(calls.c.writer, calls.c.seq)
    return await store.read(
        lambda connection: [dict(r) for r in connection.execute(query).mappings()]
    )
