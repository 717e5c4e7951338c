"""Budgets on a real store, and a look at what the store has of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from tests.builtin_plugins.metering.support import made_call
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.metering import tables
from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.budgets.windows import CallRecord, Hold, Short, Want
from hookgate.builtin_plugins.metering.tables import CALLS, GATEWAYS, LEASES, OPEN, WINDOWS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.core.domain.ports import Signals
    from hookgate.ports import Store

T = TypeVar("T")

DAY = "daily/agent:main/day:2026-11-22"


async def prepared(store: SqlStore, *, shared: bool = False) -> SqlStore:
    """Make the tables; a store that is `shared` is treated as one of several gateways."""
    await store.migrate("metering", tables.METADATA, tables.SCRIPTS)
    store.shared = store.shared or shared
    return store


@asynccontextmanager
async def opened(
    store: Store, clock: Any = None, signals: Signals | None = None, **more: Any
) -> AsyncIterator[Budgets]:
    """Open budgets that do nothing by themselves, and close them at the end."""
    options: dict[str, Any] = {"gateway": "here", "poll": None, **more}
    budgets = Budgets(store, clock or TurnedClock(), signals, **options)
    await budgets.open()
    try:
        yield budgets
    finally:
        await budgets.close()


async def expect_hold(budgets: Budgets, *wants: Want) -> Hold:
    """Reserve what must fit, for a call that is sent."""
    outcome = await budgets.reserve(wants, made_record())
    assert isinstance(outcome, Hold), outcome
    return outcome


def made_record() -> CallRecord:
    """Return what a crash leaves of a call with an id of its own."""
    call = made_call(status="lost", reported=False)
    return CallRecord(call.id, json.dumps(call.to_row()))


async def in_ledger(
    store: SqlStore, hold: Hold, wants: Sequence[Want], used: Sequence[int]
) -> None:
    """Write the row of a call that has used so much."""
    charged = {want.key: each for want, each in zip(wants, used, strict=True) if want.lasting}
    call = made_call(id=hold.call, windows=json.dumps(charged))
    await store.insert(CALLS, [{**call.to_row(), "writer": f"of {hold.call}", "seq": 1}])


async def ledger(store: SqlStore) -> dict[str, str]:
    """Return how the calls ended that are in the ledger, by id."""
    query = sa.select(CALLS.c.id, CALLS.c.status)
    return await store.read(lambda c: {row.id: row.status for row in c.execute(query)})


async def open_calls(store: SqlStore) -> set[str]:
    """Return the calls that are open in the store."""
    return await store.read(lambda c: set(c.execute(sa.select(OPEN.c.call)).scalars()))


async def expect_short(budgets: Budgets, *wants: Want) -> Short:
    """Try to reserve what must not fit."""
    outcome = await budgets.reserve(wants, made_record())
    assert isinstance(outcome, Short), outcome
    return outcome


def want(amount: int = 1, limit: int = 10, key: str = DAY, **more: Any) -> Want:
    return Want(key, limit, amount, **more)


class SlowStore:
    """A store that takes its time, by a clock that is turned."""

    def __init__(self, store: SqlStore, clock: TurnedClock) -> None:
        self.shared = store.shared
        self.before_read: Callable[[], Awaitable[None]] | None = None
        self.before_write: Callable[[], Awaitable[None]] | None = None
        self.write_seconds = 0.0
        self._store = store
        self._clock = clock

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        if self.before_read is not None:
            await self.before_read()
        return await self._store.read(work)

    async def write(self, work: Callable[[sa.Connection], T], *, order: str = "") -> T:
        if self.before_write is not None:
            await self.before_write()
        found = await self._store.write(work, order=order)
        self._clock.advance(self.write_seconds)
        return found


async def row(store: SqlStore, key: str = DAY) -> dict[str, int]:
    """Return what the store has of a window, and that its leases add up."""

    def read(connection: sa.Connection) -> dict[str, int]:
        # One statement: both at one moment.
        amounts = sa.select(sa.func.sum(LEASES.c.amount)).where(LEASES.c.key == key)
        query = sa.select(WINDOWS, amounts.scalar_subquery().label("amounts"))
        found = connection.execute(query.where(WINDOWS.c.key == key)).mappings().one_or_none()
        if found is None:
            return {"settled": 0, "leased": 0, "lost": 0}
        assert found["leased"] == (found["amounts"] or 0)
        return {name: found[name] for name in ("settled", "leased", "lost")}

    return await store.read(read)


async def gateways(store: SqlStore) -> int:
    """Return how many gateways the store knows."""
    query = sa.select(sa.func.count()).select_from(GATEWAYS)
    count: int = await store.read(lambda connection: connection.execute(query).scalar_one())
    return count
