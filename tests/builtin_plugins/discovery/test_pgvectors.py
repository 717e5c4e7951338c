from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from tests.builtin_plugins.discovery.searching import FakeEmbedder, row, snapshot
from tests.builtin_plugins.turns import make_host
from tests.support.postgres import Server

from hookgate.builtin_plugins.discovery.index import Surroundings
from hookgate.builtin_plugins.discovery.index.build import Saved
from hookgate.builtin_plugins.discovery.index.engine import RETRY_SECONDS, SearchEngine
from hookgate.builtin_plugins.discovery.index.pgvector import PostgresVectors, VectorTable
from hookgate.builtin_plugins.discovery.index.vectors import Elsewhere, VectorsError, VectorStore
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.domain.events import Standings
from hookgate.ports import STORE

if TYPE_CHECKING:
    from hookgate.core.domain.descriptors import Capability

pytestmark = pytest.mark.slow

OpenTable = Callable[[], Awaitable[VectorTable]]

DIMENSION = 64
START = datetime(2030, 1, 1, tzinfo=UTC)


class Now:
    """A time that the tests turn."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
async def opened(url: str, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[SqlStore]]]:
    async with AsyncExitStack() as stack:

        async def open_one() -> SqlStore:
            store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
            assert store.durable, store.problem
            stack.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def table(opened: Callable[[], Awaitable[SqlStore]], now: Now) -> OpenTable:
    """Open the tables as one more gateway would."""

    async def open_one() -> VectorTable:
        return await VectorTable.open(await opened(), "capability_index", now=now)

    return open_one


def directions(count: int, seed: int = 0) -> Any:
    made = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def keys(count: int, prefix: str = "") -> list[bytes]:
    return [
        hashlib.blake2b(f"{prefix}{at}".encode(), digest_size=16).digest() for at in range(count)
    ]


def rows_of(table: VectorTable, name: str) -> int:
    return table.read(
        lambda c: int(c.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar_one())
    )


async def test_search_finds_what_faiss_finds(table: OpenTable) -> None:
    view, exact = PostgresVectors(await table(), "model"), VectorStore(DIMENSION)
    matrix, queries = directions(2000), directions(20, seed=1)
    await asyncio.to_thread(view.add, keys(2000), matrix)
    exact.add(keys(2000), matrix)
    cosines, slots = await asyncio.to_thread(view.search, queries, 10)
    wanted_cosines, wanted = exact.search(queries, 10)
    names = {slot: key for key, slot in view.slots.items()}
    wanted_names = {slot: key for key, slot in exact.slots.items()}
    shared = sum(
        len({names[one] for one in found} & {wanted_names[one] for one in best})
        for found, best in zip(slots.tolist(), wanted.tolist(), strict=True)
    )
    assert shared >= 0.95 * wanted.size
    assert np.allclose(cosines[:, 0], wanted_cosines[:, 0], atol=2e-3)
    assert (np.diff(cosines, axis=1) <= 0).all()


async def test_large_search_goes_on_past_the_effort_of_the_graph(table: OpenTable) -> None:
    view = PostgresVectors(await table(), "model")
    await asyncio.to_thread(view.add, keys(1500), directions(1500))
    _, slots = await asyncio.to_thread(view.search, directions(1, seed=1), 1400)
    assert len(set(slots[0].tolist())) == 1400


async def test_vectors_come_back_as_they_were_in_the_order_of_the_slots(table: OpenTable) -> None:
    view = PostgresVectors(await table(), "model")
    matrix = directions(70)
    await asyncio.to_thread(view.add, keys(70), matrix)
    wanted = [69, 3, 3, 41]
    slots = np.array([view.slots[keys(70)[at]] for at in wanted])
    got = await asyncio.to_thread(view.vectors, slots)
    assert np.array_equal(got, matrix[wanted].astype(np.float16).astype(np.float32))


async def test_search_on_the_graph_uses_it(table: OpenTable) -> None:
    one = await table()
    view = PostgresVectors(one, "model")
    await asyncio.to_thread(view.add, keys(3000), directions(3000))

    def plan(connection: sa.Connection) -> str:
        near = "[" + ",".join(["0.5"] * DIMENSION) + "]"
        lines = connection.execute(
            sa.text(
                f"EXPLAIN SELECT slot, CAST(embedding AS halfvec(64)) <#> CAST(:near AS "
                f"halfvec(64)) AS away FROM {one.table} WHERE embedder = '{view.embedder}' "
                "ORDER BY away LIMIT 10"
            ),
            {"near": near},
        )
        return "\n".join(line for (line,) in lines)

    assert "Index Scan using" in await asyncio.to_thread(one.read, plan)


async def test_two_gateways_share_what_one_has_added(table: OpenTable) -> None:
    one, other = PostgresVectors(await table(), "model"), PostgresVectors(await table(), "model")
    await asyncio.gather(
        asyncio.to_thread(one.add, keys(100), directions(100)),
        asyncio.to_thread(other.add, keys(100), directions(100)),
    )
    assert await asyncio.to_thread(rows_of, await table(), '"discovery_capability_index"') == 100
    third = PostgresVectors(await table(), "model")
    await asyncio.to_thread(third.know, [*keys(100), b"unknown"])
    assert set(third.slots) == set(keys(100))
    _, slots = await asyncio.to_thread(third.search, directions(100)[:1], 1)
    assert slots[0, 0] == third.slots[keys(100)[0]]


async def test_vectors_of_two_embedders_do_not_mix(table: OpenTable) -> None:
    one = await table()
    small, large = PostgresVectors(one, "small"), PostgresVectors(one, "large")
    await asyncio.to_thread(small.add, keys(50), directions(50)[:, :32])
    await asyncio.to_thread(large.add, keys(50, "l"), directions(50))
    _, slots = await asyncio.to_thread(small.search, directions(1)[:, :32], 40)
    assert len(small) == 50
    assert (slots >= 0).all()
    await asyncio.to_thread(small.know, keys(50, "l"))
    assert len(small) == 50


async def test_vector_that_only_another_gateway_uses_has_no_slot(table: OpenTable) -> None:
    one, other = PostgresVectors(await table(), "model"), PostgresVectors(await table(), "model")
    await asyncio.to_thread(one.add, keys(20), directions(20))
    await asyncio.to_thread(other.know, keys(20)[:5])
    _, slots = await asyncio.to_thread(other.search, directions(1), 20)
    assert sorted(slots[0].tolist()) == [-1] * 15 + [0, 1, 2, 3, 4]


async def test_what_no_gateway_has_used_for_a_day_is_deleted(table: OpenTable, now: Now) -> None:
    one, other = await table(), await table()
    mine, theirs = PostgresVectors(one, "model"), PostgresVectors(other, "older model")
    await asyncio.to_thread(mine.add, keys(10), directions(10))
    await asyncio.to_thread(theirs.add, keys(10), directions(10))
    now.time += timedelta(hours=20)
    kept = mine.without(keys(10)[:4], approximate=False)
    del mine
    await asyncio.to_thread(one.keep)
    assert await asyncio.to_thread(rows_of, one, one.table) == 20
    now.time += timedelta(hours=25)
    await asyncio.to_thread(one.keep)
    assert await asyncio.to_thread(rows_of, one, one.table) == 4
    assert await asyncio.to_thread(rows_of, one, one.used) == 4
    assert len(await asyncio.to_thread(kept.vectors, np.arange(4))) == 4
    with pytest.raises(VectorsError, match="lacks 10 vectors of 10"):
        await asyncio.to_thread(theirs.vectors, np.arange(10))


async def test_looking_up_keeps_what_was_not_used_for_a_day(table: OpenTable, now: Now) -> None:
    one = await table()
    await asyncio.to_thread(PostgresVectors(one, "model").add, keys(10), directions(10))
    now.time += timedelta(days=3)
    later = await table()
    view = PostgresVectors(later, "model")
    await asyncio.to_thread(view.know, keys(10))
    await asyncio.to_thread(later.keep)
    assert await asyncio.to_thread(rows_of, later, later.table) == 10


async def test_sqlite_store_leaves_the_vectors_in_memory_and_says_so(tmp_path: Path) -> None:
    host, elsewhere = make_host(tmp_path), Elsewhere()
    store = await open_store(StorageSettings(), tmp_path)
    try:
        host.provide(STORE, store)
        await elsewhere.open(host, "capability_index")
    finally:
        await store.close()
    assert elsewhere.of("model") is None
    assert (
        "the store is sqlite, expected PostgreSQL"
        in host.degraded["discovery: vectors in PostgreSQL"]
    )


async def test_store_on_postgresql_keeps_the_vectors(
    opened: Callable[[], Awaitable[SqlStore]],
) -> None:
    host, elsewhere = make_host(), Elsewhere()
    host.provide(STORE, await opened())
    assert elsewhere.of("model") is None
    await elsewhere.open(host, "a-Name_" + 57 * "x")
    kept = elsewhere.of("model")
    assert isinstance(kept, PostgresVectors)
    await asyncio.to_thread(kept.add, keys(3), directions(3))
    assert host.degraded == {}


async def test_user_who_may_not_create_the_extension_is_told_so(
    url: str, server: Server, tmp_path: Path
) -> None:
    server.ask("CREATE ROLE plain LOGIN")
    server.ask("ALTER DATABASE hookgate OWNER TO plain")
    host, elsewhere = make_host(), Elsewhere()
    plain = url.replace("//postgres:", "//plain:")
    store = await open_store(StorageSettings(url=SecretStr(plain)), tmp_path)
    try:
        assert store.durable, store.problem
        host.provide(STORE, store)
        await elsewhere.open(host, "capability_index")
        assert store.durable
    finally:
        await store.close()
    assert elsewhere.of("model") is None
    why = host.degraded["discovery: vectors in PostgreSQL"]
    assert 'permission denied to create extension "vector"' in why


async def test_gateway_without_a_store_says_so() -> None:
    host, elsewhere = make_host(), Elsewhere()
    await elsewhere.open(host, "capability_index")
    assert elsewhere.of("model") is None
    assert "no plugin provides a store" in host.degraded["discovery: vectors in PostgreSQL"]


class Around:
    """An engine's surroundings, with vectors in PostgreSQL."""

    def __init__(self, table: VectorTable, path: Path | None = None) -> None:
        self.embedder = FakeEmbedder()
        standings = Standings()
        self.degraded = standings.degraded
        self.seconds = 1000.0
        self.table = table
        self.engine = SearchEngine(
            Surroundings(
                embedder=lambda: self.embedder,
                standing=standings,
                path=path,
                clock=lambda: self.seconds,
                elsewhere=partial(PostgresVectors, table),
            )
        )


def capabilities() -> list[Capability]:
    words = ["mail", "weather", "calendar", "music", "printer", "camera", "ticket", "garden"]
    return [
        row(f"{word}_{at}", f"Handles the {word} of kind k{at} in room r{at % 9}.")
        for at in range(300)
        for word in words[at % 8 :][:1]
    ]


@pytest.fixture
def unready(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vectors at hand, as with many: each search goes to the database."""
    monkeypatch.setattr("hookgate.builtin_plugins.discovery.index.READY_VECTORS", 0)


@pytest.mark.usefixtures("unready")
async def test_restart_and_second_gateway_embed_nothing(table: OpenTable, tmp_path: Path) -> None:
    rows, path = snapshot(capabilities()), tmp_path / "index.npz"
    first = Around(await table(), path)
    assert (await first.engine.ready(rows)).dense is not None
    found = await first.engine.find(rows, "the printer in room r4", limit=5)
    assert found.dense
    await first.engine.close()
    saved = Saved.read(path)
    assert saved is not None
    assert saved.store is None
    for place in (path, None):
        again = Around(await table(), place)
        assert (await again.engine.ready(rows)).dense is not None
        assert again.embedder.texts == []
        same = await again.engine.find(rows, "the printer in room r4", limit=5)
        assert [one.row.id for one in same.found] == [one.row.id for one in found.found]
        assert again.degraded == {}
        await again.engine.close()


@pytest.mark.usefixtures("unready")
async def test_gateway_whose_database_is_gone_searches_by_words_until_it_is_back(
    opened: Callable[[], Awaitable[SqlStore]], now: Now, server: Server
) -> None:
    store = await opened()
    around = Around(await VectorTable.open(store, "capability_index", now=now))
    rows = snapshot(capabilities())
    await around.engine.ready(rows)
    server.ask("ALTER DATABASE hookgate ALLOW_CONNECTIONS false")
    server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'hookgate'")
    lost = await around.engine.find(rows, "the printer in room r4", limit=5)
    assert not lost.dense
    assert "printer" in lost.found[0].row.name
    assert "search goes by words alone" in around.degraded["discovery: vectors"]

    around.seconds += RETRY_SECONDS + 1
    assert (await around.engine.ready(rows)).dense is None
    new = snapshot([*capabilities(), row("stapler", "Joins sheets.")], 2)
    (first,) = (await around.engine.find(new, "join the sheets", limit=1)).found
    assert first.row.name == "stapler"

    server.ask("ALTER DATABASE hookgate ALLOW_CONNECTIONS true")
    around.seconds += RETRY_SECONDS + 1
    embedded = len(around.embedder.texts)
    assert (await around.engine.ready(new)).dense is not None
    assert len(around.embedder.texts) == embedded + 1
    assert around.degraded == {}
    assert (await around.engine.find(new, "the printer in room r4", limit=5)).dense
    await around.engine.close()


@pytest.mark.usefixtures("unready")
async def test_vectors_that_vanish_are_made_again(table: OpenTable) -> None:
    around = Around(await table())
    rows = snapshot(capabilities())
    await around.engine.ready(rows)
    drop = sa.text(f"DROP TABLE {around.table.table}, {around.table.used}")
    await asyncio.to_thread(around.table.write, lambda c: c.execute(drop).rowcount)
    assert not (await around.engine.find(rows, "the printer in room r4", limit=5)).dense
    around.seconds += RETRY_SECONDS + 1
    await around.engine.ready(rows)
    assert (await around.engine.find(rows, "the printer in room r4", limit=5)).dense
    assert around.degraded == {}
    await around.engine.close()


async def test_call_on_the_event_loop_is_refused_before_it_can_hang(table: OpenTable) -> None:
    view = PostgresVectors(await table(), "model")
    with pytest.raises(RuntimeError, match="event loop"):
        view.know(keys(1))
