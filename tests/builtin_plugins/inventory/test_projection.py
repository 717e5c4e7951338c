"""The last good records: served while a source cannot be read, and lost without harm."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.inventory.acme import Acme, record, running
from tests.builtin_plugins.stores import differences, opened_store

from hookgate import CapabilityRecord
from hookgate.builtin_plugins.inventory import tables
from hookgate.builtin_plugins.inventory.tables import CAPABILITIES, METADATA, StoreProjection
from hookgate.ports import STORE

A, B = record("a"), record("b")
OTHER = record("o", "other")
NOW = "2026-03-01T12:00:00+00:00"


def ids(*records: CapabilityRecord) -> list[str]:
    return sorted(one.id for one in records)


async def test_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("inventory", METADATA, tables.SCRIPTS)

        assert await differences(store, METADATA) == []


async def test_each_source_reconciles_its_own_rows_and_nobody_elses(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("inventory", METADATA, tables.SCRIPTS)
        kept = StoreProjection(store)
        await kept.reconcile("acme", [A, B], NOW)
        await kept.reconcile("other", [OTHER], NOW)
        changed = replace(B, status="disabled", diagnostics=("why",))
        await kept.reconcile("acme", [changed], NOW)

        assert await kept.load("acme") == ((changed,), NOW)
        assert await kept.load("other") == ((OTHER,), NOW)
        await kept.reconcile("acme", [], NOW)
        assert await kept.load("acme") == ((), NOW)
        assert await kept.load("other") == ((OTHER,), NOW)
        assert await kept.load("nobody") == ((), "")


async def test_two_gateways_that_reconcile_at_once_leave_one_whole_reading(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("inventory", METADATA, tables.SCRIPTS)
        first, second = StoreProjection(store), StoreProjection(store)
        some = [record(f"k{number}") for number in range(20)]
        for _ in range(5):
            await asyncio.gather(
                first.reconcile("acme", some[:15], NOW), second.reconcile("acme", some[5:], NOW)
            )

        assert len((await first.load("acme"))[0]) == 15


async def test_what_is_derived_is_not_kept(tmp_path: Path) -> None:
    dead = record("a", manageability="runtime-of-record", writable=False, synced_at=NOW)
    async with opened_store(tmp_path) as store:
        await store.migrate("inventory", METADATA, tables.SCRIPTS)
        kept = StoreProjection(store)
        await kept.reconcile("acme", [dead], NOW)
        ((back,), _) = await kept.load("acme")

        def read(connection: sa.Connection) -> str:
            return str(connection.execute(sa.select(CAPABILITIES.c.data)).scalar_one())

        assert "writable" not in await store.read(read)
    assert back == replace(dead, writable=True, synced_at="")


async def test_a_row_that_nobody_understands_is_passed_over(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("inventory", METADATA, tables.SCRIPTS)
        kept = StoreProjection(store)
        await kept.reconcile("acme", [A, B], NOW)

        def spoil(connection: sa.Connection) -> None:
            where = CAPABILITIES.c.id == A.id
            connection.execute(sa.update(CAPABILITIES).where(where).values(data='{"id": 1}'))

        await store.write(spoil)
        assert (await kept.load("acme"))[0] == (B,)


# -- in a gateway --------------------------------------------------------------------


async def test_a_degraded_source_is_served_from_its_last_good_read(tmp_path: Path) -> None:
    acme, other = Acme(A, B), Acme(OTHER, name="other")
    async with running(acme, other, home=tmp_path) as gate:
        assert await gate.ids(runtime="acme") == ids(A, B)
        synced = (await gate.statuses())["acme"].synced_at
        acme.wrong = "raise"
        del other.records[OTHER.id]
        listed = await gate.listed()
        shown = {one.id: one for one in listed.sources}
        rows = {one.id: one for one in listed.records if one.runtime != "native"}
        degraded = gate.degraded()
        acme.wrong = ""
        await gate.listed()
        recovered = gate.degraded()

    assert rows.keys() == {A.id, B.id}, "an empty healthy read clears that source alone"
    assert (shown["acme"].ok, shown["acme"].stale, shown["acme"].records) == (False, True, 2)
    assert shown["acme"].why == "ConnectionError: the socket is gone"
    assert rows[A.id].synced_at == shown["acme"].synced_at == synced
    assert (shown["other"].ok, shown["other"].records) == (True, 0)
    assert degraded == {
        "inventory: acme": "ConnectionError: the socket is gone; what it had last is shown"
    }
    assert recovered == {}


@pytest.mark.parametrize("wrong", ["raise", "hang"])
async def test_what_was_good_is_served_after_a_restart(tmp_path: Path, wrong: str) -> None:
    acme = Acme(A, record("dead", manageability="runtime-of-record"))
    async with running(acme, home=tmp_path) as gate:
        before = [replace(one, synced_at="") for one in (await gate.listed()).records]
    acme.wrong = wrong
    async with running(acme, home=tmp_path) as gate:
        listed = await gate.listed()
        status = (await gate.statuses())["acme"]

    assert [replace(one, synced_at="") for one in listed.records] == before
    assert (status.ok, status.stale) == (False, True)
    dead = next(one for one in listed.records if one.source_key == "dead")
    assert (dead.writable, dead.buttons) == (False, ())


async def test_deleting_the_table_loses_nothing(tmp_path: Path) -> None:
    acme = Acme(A, B)
    async with running(acme, home=tmp_path) as gate:
        before = await gate.ids()
        await gate.ask("disable", id=A.id)

        def emptied(connection: sa.Connection) -> None:
            connection.execute(sa.delete(CAPABILITIES))
            connection.execute(sa.delete(METADATA.tables["inventory_source"]))

        await gate.host[STORE].write(emptied)
        acme.wrong = "raise"
        assert await gate.ids() == before, "what is known here is served on"
    acme.wrong = ""
    async with running(acme, home=tmp_path) as gate:
        assert await gate.ids() == before
        assert {one.id for one in (await gate.listed(status="disabled")).records} == {A.id}


async def test_a_source_that_was_never_read_well_has_nothing(tmp_path: Path) -> None:
    acme = Acme(A)
    acme.wrong = "raise"
    async with running(acme, home=tmp_path) as gate:
        status = (await gate.statuses())["acme"]
        told = gate.host.degraded["inventory: acme"]

    assert (status.ok, status.stale, status.records, status.synced_at) == (False, False, 0, "")
    assert told.endswith("nothing of it is known")


async def test_without_a_store_the_inventory_ends_with_the_process(tmp_path: Path) -> None:
    acme = Acme(A)
    async with running(acme, home=tmp_path, builtin=("control", "inventory")) as gate:
        assert A.id in await gate.ids()
        acme.wrong = "raise"
        assert A.id in await gate.ids()
