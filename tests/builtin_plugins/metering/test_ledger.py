"""Rows on their way to the store: once each, in order, whatever the store does."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.metering.support import UnsteadyStore, in_memory, made_call, rows_of
from tests.builtin_plugins.stores import differences, opened_store
from tests.support.examples import sampled

from hookgate.builtin_plugins.metering import tables
from hookgate.builtin_plugins.metering.ledger import MOST_REFUSED, Ledger
from hookgate.builtin_plugins.storage.engine import writer
from hookgate.core.domain.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hookgate.builtin_plugins.storage.store import SqlStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        await store.migrate("metering", tables.METADATA, tables.SCRIPTS)
        yield store


async def test_a_call_is_a_row_with_all_that_is_known_of_it(store: SqlStore) -> None:
    ledger = Ledger(store)
    call = made_call(cost=None, cache_read_tokens=7, tool="research", sent=True)
    ledger.hand_over(call)
    await ledger.close()
    (row,) = await rows_of(store)
    assert row == {**call.to_row(), "writer": ledger.writer, "seq": 1}
    assert not ledger.behind


async def test_what_is_written_after_a_call_is_committed_after_it(store: SqlStore) -> None:
    other = sa.Table("other", sa.MetaData(), sa.Column("seen", sa.Integer, primary_key=True))
    await store.write(other.create)
    ledger = Ledger(store)

    def count(connection: sa.Connection) -> int:
        # In the group of the row, or in one behind it.
        return connection.execute(sa.text("SELECT count(*) FROM metering_call")).scalar_one()

    for expected in range(1, 21):
        ledger.hand_over(made_call())
        assert await store.write(count) == expected
    await ledger.close()


async def test_who_waits_for_a_row_waits_for_no_other_write(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SOON", 3600.0)
    ledger, call = Ledger(store), made_call()
    ledger.hand_over(call)
    await ledger.committed(call.turn)
    assert len(await rows_of(store)) == 1
    await ledger.close()


async def test_handing_over_starts_nothing(store: SqlStore) -> None:
    ledger = Ledger(store)
    ledger.hand_over(made_call())
    await ledger.flush()
    tasks = asyncio.all_tasks()
    for _ in range(64):
        ledger.hand_over(made_call())
    assert asyncio.all_tasks() == tasks
    await ledger.close()
    assert [row["seq"] for row in await rows_of(store)] == list(range(1, 66))


@pytest.mark.parametrize("mood", ["fails", "commits", "cancelled", "cancelled late"])
@pytest.mark.parametrize("first", [True, False])
async def test_a_row_that_could_not_be_written_is_written_later_and_once(
    store: SqlStore, mood: str, first: bool
) -> None:
    unsteady = UnsteadyStore(store)
    told: list[str] = []
    failed = asyncio.Event()

    def tell(error: BaseException) -> None:
        told.append(type(error).__name__)
        failed.set()

    ledger = Ledger(unsteady, failed=tell, worked=lambda: told.append("works"))  # type: ignore[arg-type]
    if not first:
        ledger.hand_over(made_call(id="earlier"))
        await ledger.flush()
    unsteady.moods = [mood, "fails", "commits"]
    ledger.hand_over(made_call(id="once"))
    await failed.wait()
    assert ledger.behind
    ledger.hand_over(made_call(id="meanwhile"))
    await ledger.close()
    ids = [row["id"] for row in await rows_of(store)]
    assert ids == [*([] if first else ["earlier"]), "once", "meanwhile"]
    assert not ledger.behind
    assert told[-1] == "works"
    assert len(told) >= 3


async def test_it_tries_again_by_itself(store: SqlStore) -> None:
    worked = asyncio.Event()
    unsteady = UnsteadyStore(store, ["fails", "fails"])
    ledger = Ledger(unsteady, worked=worked.set)  # type: ignore[arg-type]
    ledger.hand_over(made_call())
    await worked.wait()
    assert not ledger.behind
    assert len(await rows_of(store)) == 1
    await ledger.close()


@pytest.mark.parametrize("seed", sampled(range(20), every=4))
async def test_whatever_fails_there_is_a_row_for_each_call_and_no_other(
    store: SqlStore, seed: int
) -> None:
    chance = random.Random(seed)
    moods = ["fails", "commits", "slow", "cancelled", "cancelled late", "", ""]
    unsteady = UnsteadyStore(store)
    ledger = Ledger(unsteady)  # type: ignore[arg-type]
    handed: list[str] = []

    async def caller() -> None:
        for _ in range(chance.randrange(1, 12)):
            call = made_call()
            handed.append(call.id)
            ledger.hand_over(call)
            unsteady.moods.append(chance.choice(moods))
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)

    await asyncio.gather(*(caller() for _ in range(chance.randrange(1, 20))))
    if chance.random() < 0.5:
        for task in list(ledger._under_way):
            task.cancel()
    await ledger.close()
    rows = await rows_of(store)
    assert sorted(row["id"] for row in rows) == sorted(handed)
    # None is missing in between: sums go by these numbers.
    assert [row["seq"] for row in rows] == list(range(1, len(handed) + 1))


@pytest.mark.slow
async def test_refused_calls_do_not_fill_the_memory_while_the_store_is_away(
    store: SqlStore,
) -> None:
    unsteady = UnsteadyStore(store, away=True)
    ledger = Ledger(unsteady)  # type: ignore[arg-type]
    for _ in range(MOST_REFUSED):
        ledger.hand_over(made_call(sent=False, status="refused"))
    await ledger.flush()
    for _ in range(10):
        ledger.hand_over(made_call(sent=False, status="refused"))
    ledger.hand_over(made_call(id="used"))
    unsteady.away = False
    await ledger.close()
    rows = await rows_of(store)
    assert (len(rows), rows[-1]["id"], ledger.dropped) == (MOST_REFUSED + 1, "used", 10)


async def test_a_row_that_no_database_takes_holds_up_no_other(store: SqlStore) -> None:
    told: list[BaseException] = []
    ledger = Ledger(UnsteadyStore(store, ["fails"]), failed=told.append)  # type: ignore[arg-type]
    ledger.hand_over(made_call(id="bad", turn=None))
    ledger.hand_over(made_call(id="good"))
    await ledger.close(limit=0.5)
    assert [row["id"] for row in await rows_of(store)] == ["good"]
    assert ledger.behind
    assert "lacks" in str(told[-1])


async def test_a_store_that_stays_away_is_said_at_the_end() -> None:
    class Away:
        durable = True

        async def write(self, work: object) -> None:
            raise StoreUnavailableError("the disk is gone")

        def insert_soon(self, table: object, rows: object) -> asyncio.Future[None]:
            return asyncio.ensure_future(self.write(rows))

    told: list[str] = []
    ledger = Ledger(Away(), failed=lambda error: told.append(str(error)))  # type: ignore[arg-type]
    for _ in range(3):
        ledger.hand_over(made_call())
    await ledger.close(limit=0.3)
    assert told[0] == "the disk is gone"
    assert told[-1] == "the gateway stops, and the ledger lacks 3 rows"


async def test_without_a_store_the_last_calls_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.builtin_plugins.metering.tables.MOST_IN_MEMORY", 3)
    ledger = Ledger(in_memory())
    for number in range(5):
        ledger.hand_over(made_call(id=str(number)))
    await ledger.flush()
    await ledger.trim()
    await ledger.close()
    assert [row["id"] for row in await rows_of(ledger.store)] == ["2", "3", "4"]
    assert not ledger.store.durable
    assert not ledger.behind


async def test_without_a_store_the_windows_are_kept_that_were_used_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = "hookgate.builtin_plugins.metering.tables.MOST_WINDOWS_IN_MEMORY"
    monkeypatch.setattr(here, 2)
    ledger, windows = Ledger(in_memory()), tables.WINDOWS
    made = {"lasting": True, "settled": 1, "lost": 0, "asked": 0}
    rows = [
        {**made, "key": f"{number}", "touched": number, "leased": number == 0}
        for number in range(5)
    ]
    await ledger.store.insert(windows, rows)
    await ledger.trim()
    left = await ledger.store.read(lambda c: set(c.execute(sa.select(windows.c.key)).scalars()))
    assert left == {"0", "3", "4"}  # what is leased is in use


async def test_two_starts_of_a_gateway_are_two_writers(store: SqlStore) -> None:
    for _ in range(2):
        ledger = Ledger(store)
        ledger.hand_over(made_call())
        await ledger.close()
    rows = await rows_of(store)
    assert [row["seq"] for row in rows] == [1, 1]
    assert len({row["writer"] for row in rows}) == 2


async def test_migrations_make_the_tables_that_the_code_knows(store: SqlStore) -> None:
    assert await differences(store, tables.METADATA) == []
