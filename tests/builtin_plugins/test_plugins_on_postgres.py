"""What plugins keep, on a real PostgreSQL server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from tests.builtin_plugins.stores import book_of, differences
from tests.builtin_plugins.turns import KnownSecrets, TurnedClock

from hookgate.builtin_plugins.audit import tables as audit_tables
from hookgate.builtin_plugins.audit.seals import Sealer
from hookgate.builtin_plugins.audit.trail import Trail
from hookgate.builtin_plugins.awareness.cards.shelf import Pins
from hookgate.builtin_plugins.inventory import tables as inventory_tables
from hookgate.builtin_plugins.planning import tables as planning_tables
from hookgate.builtin_plugins.planning.kpi import KeptWindows
from hookgate.builtin_plugins.planning.settings import OutcomeSettings, PlanningSettings
from hookgate.builtin_plugins.policy.desk import tables as policy_tables
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.wasm import tables as wasm_tables
from hookgate.core.domain.descriptors import Card
from hookgate.kit.acceptance import tables as acceptance_tables
from hookgate.kit.records.statements import Prepared, Trim
from hookgate.ports import OutcomeEntry

pytestmark = pytest.mark.slow

SEALER = Sealer(b"k" * 32)
TABLES = {
    "acceptance": acceptance_tables,
    "audit": audit_tables,
    "inventory": inventory_tables,
    "planning": planning_tables,
    "policy": policy_tables,
    "wasm": wasm_tables,
}


@pytest.fixture
async def store(url: str, tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
    assert store.durable, store.problem
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("plugin", TABLES)
async def test_migrations_make_the_tables_that_the_code_knows(store: SqlStore, plugin: str) -> None:
    tables = TABLES[plugin]
    await store.migrate(plugin, tables.METADATA, tables.SCRIPTS)
    assert await differences(store, tables.METADATA) == []


async def test_records_are_the_same_on_this_database(store: SqlStore) -> None:
    await store.migrate("acceptance", acceptance_tables.METADATA, acceptance_tables.SCRIPTS)
    pins = acceptance_tables.Accepted.records(store)
    values = dict.fromkeys(("digest", "seen", "detail", "accepted_by", "changed"), "x")
    made = [pins.row(kind="tool", name=name, **values) for name in "abcd"]
    assert await pins.add(made[:2]) == made[:2]
    other = made[0].model_copy(update={"seen": "y"})
    assert await pins.add([other, made[2]]) == [made[0], made[2]]
    await pins.save([made[3], other])
    assert [pin.seen for pin in await pins.page(limit=2, newest=False)] == ["y", "x"]
    assert await pins.page(after=("tool", "c")) == [made[1], other]
    trim = Trim((pins.c.seen, pins.c.kind, pins.c.name), ())
    await store.write(lambda c: trim(c, 2))
    assert await pins.all() == [other, made[3]]
    assert await pins.get("tool", "a") == other
    move = Prepared(pins.row.table.update().values(digest=sa.bindparam("to")))
    assert await store.write(lambda c: move.count(c, to="z")) == 2
    assert await pins.remove(pins.c.name == "d") == 1


async def test_the_chain_of_the_audit_holds_and_a_change_is_found(store: SqlStore) -> None:
    await store.migrate("audit", audit_tables.METADATA, audit_tables.SCRIPTS)
    clock = TurnedClock()
    trails = []
    for _ in range(2):
        clock.advance(1)
        trails.append(Trail(audit_tables.AuditKeeper(store, SEALER, ring=1), clock, KnownSecrets()))
    # Two gateways on one database, each with a chain of its own.
    await asyncio.gather(
        *(trail.append("kind", {"n": number}) for trail in trails for number in range(20))
    )
    found = await trails[0].verify(SEALER)
    assert (found.ok, found.rows) == (True, 40)
    assert [head.seq for head in found.heads.values()] == [20, 20]

    def change(connection: sa.Connection) -> None:
        entries = audit_tables.ENTRIES
        connection.execute(sa.update(entries).where(entries.c.seq == 7).values(data="{}"))

    await store.write(change)
    fault = (await trails[0].verify(SEALER)).fault
    assert fault is not None
    assert fault.seq == 7


async def test_pins_of_cards_are_shared_by_gateways(store: SqlStore) -> None:
    await store.migrate("acceptance", acceptance_tables.METADATA, acceptance_tables.SCRIPTS)
    one, other = (Pins(book_of(store), "strict") for _ in range(2))
    card = Card(id="a", text="text")
    await one.kept.load()
    await one.keep([card], [])
    await one.approve([card], by="ops")
    await other.kept.load()
    assert other.waiting([card]) == frozenset()


async def test_windows_of_outcomes_are_shared_by_gateways_and_stay_within_their_size(
    store: SqlStore,
) -> None:
    await store.migrate("planning", planning_tables.METADATA, planning_tables.SCRIPTS)
    settings = PlanningSettings(
        outcomes=OutcomeSettings(rolling_window_size=5, alert_min_samples=1)
    )
    gateways = [
        KeptWindows(settings, planning_tables.StoreWindows(store, lambda: 5), shared=True)
        for _ in range(2)
    ]
    for number in range(8):
        entry = OutcomeEntry(turn=f"t{number}", at=number, status="success", score=0.95)
        gateways[number % 2].add("global", entry)
    await asyncio.gather(*(gateway.flush() for gateway in gateways))
    await asyncio.gather(*(gateway.flush() for gateway in gateways))
    seen = [[one.turn for one in gateway.all()["global"].entries] for gateway in gateways]
    assert seen == [["t3", "t4", "t5", "t6", "t7"]] * 2


async def test_a_namespace_of_guests_holds_its_quota_at_two_gateways(store: SqlStore) -> None:
    await store.migrate("wasm", wasm_tables.METADATA, wasm_tables.SCRIPTS)
    gateways = [wasm_tables.Values(store) for _ in range(2)]
    kept = wasm_tables.KeptValue("x" * 100, frozenset())

    async def keep(number: int) -> bool:
        values = gateways[number % 2]
        try:
            await values.set("p", "notes", f"o{number}", "key", kept, quota=1000)
        except wasm_tables.QuotaError:
            return False
        return True

    done = await asyncio.gather(*map(keep, range(20)))
    assert sum(done) == 1000 // (100 + len("key") + wasm_tables.ROW_BYTES)
    found = [await gateways[0].get("p", "notes", f"o{number}", "key") for number in range(20)]
    assert [one is not None for one in found] == list(done)
