from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.stores import BrokenStore, differences, kept_in, opened_store
from tests.builtin_plugins.turns import KnownSecrets, TurnedClock

from hookgate.builtin_plugins.audit import tables
from hookgate.builtin_plugins.audit.entries import Entry
from hookgate.builtin_plugins.audit.seals import Sealer
from hookgate.builtin_plugins.audit.tables import METADATA, SCRIPTS, AuditKeeper
from hookgate.builtin_plugins.audit.trail import Place, Trail
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.kit.records import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SEALER = Sealer(b"k" * 32)


@pytest.fixture(params=["process", "store"])
async def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AuditKeeper]:
    async with kept_in(request.param, tmp_path, "audit", tables) as store:
        yield AuditKeeper(store, SEALER, ring=100)


def trail_of(keeper: AuditKeeper, clock: TurnedClock | None = None, **more: Any) -> Trail:
    return Trail(keeper, clock or TurnedClock(), KnownSecrets("s3cret"), **more)


async def test_rows_come_back_newest_first_with_place_and_time(keeper: AuditKeeper) -> None:
    clock = TurnedClock()
    trail = trail_of(keeper, clock)
    for number in range(3):
        await trail.write(Entry(kind="k", tool=f"t{number}", data={"n": number}))
        clock.advance(1)
    rows = await trail.newest({}, limit=2)
    assert [(row["seq"], row["tool"], row["data"]) for row in rows] == [
        (3, "t2", {"n": 2}),
        (2, "t1", {"n": 1}),
    ]
    assert rows[0]["at"] == "2024-02-29T12:00:02.000000+00:00"
    assert rows[0]["chain"] == trail.chain
    assert trail.chain.startswith("20240229T120000.000000Z-")


async def test_rows_can_be_paged_through_even_where_their_times_are_equal(
    keeper: AuditKeeper,
) -> None:
    first, second = trail_of(keeper), trail_of(keeper)
    for number in range(7):
        await (first, second)[number % 2].append("k", {"n": number})
    seen: list[int] = []
    before: Place | None = None
    while rows := await first.newest({}, limit=2, before=before):
        seen += [row["data"]["n"] for row in rows]
        before = Place.parse(str(Place.of(rows[-1])))
    assert sorted(seen) == list(range(7))
    assert len(seen) == 7


async def test_rows_are_filtered_by_any_column(keeper: AuditKeeper) -> None:
    trail = trail_of(keeper)
    for tool, outcome in [("a", "allow"), ("a", "deny"), ("b", "deny")]:
        await trail.write(Entry(kind="k", tool=tool, outcome=outcome))
    rows = await trail.newest({"tool": "a", "outcome": "deny"}, limit=9)
    assert [row["seq"] for row in rows] == [2]
    await trail.write(Entry(kind="k", call="call_1"))
    assert [row["seq"] for row in await trail.newest({"call": "call_1"}, limit=9)] == [4]


async def test_secrets_are_masked_at_any_depth_and_the_row_says_so(keeper: AuditKeeper) -> None:
    trail = trail_of(keeper)
    await trail.append("k", {"a": [{"b": "has s3cret in it"}], "s3cret": 1})
    await trail.append("k", {"a": "clean"})
    clean, masked = await trail.newest({}, limit=2)
    assert masked["data"] == {"a": [{"b": "has *** in it"}], "***": 1, "redacted": True}
    assert clean["data"] == {"a": "clean"}


async def test_what_was_handed_over_is_written_in_order(keeper: AuditKeeper) -> None:
    trail = trail_of(keeper)
    for number in range(20):
        trail.hand_over(Entry(kind="k", data={"n": number}))
    await trail.flush()
    rows = await trail.newest({}, limit=100)
    assert [row["data"]["n"] for row in reversed(rows)] == list(range(20))


async def test_rows_outlive_the_store_that_took_them(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("audit", METADATA, SCRIPTS)
        await trail_of(AuditKeeper(store, SEALER, ring=1)).append("k", {"n": 1})
    async with opened_store(tmp_path) as store:
        await store.migrate("audit", METADATA, SCRIPTS)
        trail = trail_of(AuditKeeper(store, SEALER, ring=1))
        await trail.append("k", {"n": 2})
        rows = await trail.newest({}, limit=9)
        assert sorted(row["data"]["n"] for row in rows) == [1, 2]
        assert len({row["chain"] for row in rows}) == 2
        assert {row["seq"] for row in rows} == {1}


async def test_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("audit", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []


async def test_ring_keeps_the_last_rows() -> None:
    trail = trail_of(AuditKeeper(MemoryStore(METADATA), SEALER, ring=3))
    for number in range(10):
        await trail.append("k", {"n": number})
    assert [row["data"]["n"] for row in await trail.newest({}, limit=9)] == [9, 8, 7]


async def test_what_cannot_be_written_raises_and_what_was_handed_over_is_said() -> None:
    failures: list[BaseException] = []
    trail = trail_of(AuditKeeper(BrokenStore(), SEALER, ring=1), failed=failures.append)
    with pytest.raises(StoreUnavailableError):
        await trail.append("k", {})
    trail.hand_over(Entry(kind="k"))
    await trail.flush()
    await asyncio.sleep(0)
    assert [str(error) for error in failures] == ["the disk is gone"]


async def test_rows_of_a_filter_are_found_by_indexes(tmp_path: Path) -> None:
    def plans(connection: sa.Connection) -> dict[str, str]:
        found = {}
        for name in ("session", "turn", "call", "tool", "outcome"):
            query = sa.select(tables.ENTRIES).where(tables.ENTRIES.c[name] == "x")
            query = query.order_by(*(column.desc() for column in AuditKeeper.place)).limit(50)
            sql = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")
            found[name] = rows.first()[3]
        return found

    async with kept_in("store", tmp_path, "audit", tables) as store:
        found = await store.read(plans)
    for name, plan in found.items():
        assert f"USING INDEX audit_entry_by_{name} ({name}=?)" in plan
