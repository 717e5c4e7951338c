"""Tampering with the record: each kind is found, or fails against an exported head."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, insert, select, update
from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import KnownSecrets, TurnedClock, make_host

from hookgate.builtin_plugins.audit.plugin import Plugin
from hookgate.builtin_plugins.audit.seals import (
    Findings,
    Head,
    Sealer,
    Verifier,
    key_from_file,
    key_from_secret,
    parse_head,
)
from hookgate.builtin_plugins.audit.settings import AuditSettings
from hookgate.builtin_plugins.audit.tables import ENTRIES, METADATA, SCRIPTS, AuditKeeper
from hookgate.builtin_plugins.audit.trail import Trail
from hookgate.core.domain.errors import StartError, StoreUnavailableError
from hookgate.core.domain.ports import AUDIT
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.host import Host
from hookgate.kit.records import MemoryStore
from hookgate.ports import STORE, Store

KEY = b"k" * 32
SEALER = Sealer(KEY)

Change = Callable[[Connection, list[dict[str, Any]]], None]


@asynccontextmanager
async def recorded(home: Path, *, chains: int = 2, rows: int = 4) -> AsyncIterator[Store]:
    """A store with some chains of rows, as so many starts of a gateway leave them."""
    clock = TurnedClock()
    async with opened_store(home) as store:
        await store.migrate("audit", METADATA, SCRIPTS)
        for chain in range(chains):
            clock.advance(60)
            trail = Trail(AuditKeeper(store, SEALER, ring=1), clock, KnownSecrets())
            for number in range(rows):
                await trail.append("kind", {"chain": chain, "n": number})
        yield store


async def verified(store: Store, *heads: Head, sealer: Sealer = SEALER) -> Findings:
    trail = Trail(AuditKeeper(store, SEALER, ring=1), TurnedClock(), KnownSecrets())
    return await trail.verify(sealer, heads)


async def changed(store: Store, change: Change) -> list[dict[str, Any]]:
    def work(connection: Connection) -> list[dict[str, Any]]:
        query = select(ENTRIES).order_by(ENTRIES.c.chain, ENTRIES.c.seq)
        rows = [dict(row) for row in connection.execute(query).mappings()]
        change(connection, rows)
        return rows

    return await store.write(work)


def at(row: dict[str, Any]) -> Any:
    return (ENTRIES.c.chain == row["chain"]) & (ENTRIES.c.seq == row["seq"])


def edited(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(update(ENTRIES).where(at(rows[2])).values(data='{"n":9}'))


def cut_out(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(at(rows[2])))


def cut_at_the_beginning(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(at(rows[4])))


def swapped(connection: Connection, rows: list[dict[str, Any]]) -> None:
    for one, other in ((1, 2), (2, 1)):
        held = {key: rows[other][key] for key in ("at", "kind", "data", "seal")}
        connection.execute(update(ENTRIES).where(at(rows[one])).values(held))


def put_in(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(at(rows[3])))
    connection.execute(insert(ENTRIES).values({**rows[3], "data": '{"n":9}'}))


def seal_taken_off(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(update(ENTRIES).where(at(rows[2])).values(seal="", key=""))


def seals_emptied(connection: Connection, rows: list[dict[str, Any]]) -> None:
    first = ENTRIES.c.chain == rows[0]["chain"]
    connection.execute(update(ENTRIES).where(first).values(seal="", key="", previous=""))


def seals_of_the_first_rows_emptied(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(ENTRIES.c.chain == rows[4]["chain"]))
    for row in rows[:2]:
        connection.execute(update(ENTRIES).where(at(row)).values(seal="", key="", previous=""))


def one_seal_emptied_and_its_key_left(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(update(ENTRIES).where(at(rows[0])).values(seal=""))


def renumbered(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(update(ENTRIES).where(at(rows[3])).values(seq=7))


def moved_to_another_chain(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(at(rows[3])))
    held = {**rows[3], "chain": rows[4]["chain"], "seq": 5}
    connection.execute(insert(ENTRIES).values(held))


async def test_what_nobody_touched_is_verified(tmp_path: Path) -> None:
    async with recorded(tmp_path) as store:
        found = await verified(store)
        assert (found.ok, found.rows, found.unsealed, found.fault) == (True, 8, 0, None)
        assert [head.seq for head in found.heads.values()] == [4, 4]
        assert (await verified(store, *found.heads.values())).ok


@pytest.mark.parametrize(
    ("change", "chain", "seq"),
    [
        (edited, 0, 3),
        (cut_out, 0, 3),
        (cut_at_the_beginning, 1, 1),
        (swapped, 0, 2),
        (put_in, 0, 4),
        (seal_taken_off, 0, 3),
        (seals_emptied, 1, 1),
        (seals_of_the_first_rows_emptied, 0, 2),
        (one_seal_emptied_and_its_key_left, 0, 1),
        (renumbered, 0, 4),
        (moved_to_another_chain, 1, 1),
    ],
)
async def test_a_change_is_found_and_the_first_bad_row_named(
    tmp_path: Path, change: Change, chain: int, seq: int
) -> None:
    async with recorded(tmp_path) as store:
        rows = await changed(store, change)
        fault = (await verified(store)).fault
    assert fault is not None
    names = sorted({row["chain"] for row in rows})
    assert (fault.chain, fault.seq) == (names[chain], seq)


@pytest.mark.parametrize("column", ["at", "kind", "turn", "tool", "outcome", "data", "previous"])
async def test_no_column_can_be_changed(tmp_path: Path, column: str) -> None:
    def change(connection: Connection, rows: list[dict[str, Any]]) -> None:
        connection.execute(update(ENTRIES).where(at(rows[0])).values({column: "other"}))

    async with recorded(tmp_path) as store:
        await changed(store, change)
        fault = (await verified(store)).fault
    assert fault is not None
    assert fault.seq == 1


async def test_a_chain_that_is_gone_is_missed_by_the_next_one(tmp_path: Path) -> None:
    def change(connection: Connection, rows: list[dict[str, Any]]) -> None:
        connection.execute(delete(ENTRIES).where(ENTRIES.c.chain == rows[0]["chain"]))

    async with recorded(tmp_path) as store:
        rows = await changed(store, change)
        fault = (await verified(store)).fault
    assert fault is not None
    assert (fault.chain, fault.seq) == (rows[-1]["chain"], 1)
    assert "is gone" in fault.what


async def test_an_end_that_was_cut_off_fails_against_the_exported_head(tmp_path: Path) -> None:
    def change(connection: Connection, rows: list[dict[str, Any]]) -> None:
        connection.execute(delete(ENTRIES).where(at(rows[-1])))

    async with recorded(tmp_path) as store:
        heads = tuple((await verified(store)).heads.values())
        await changed(store, change)
        assert (await verified(store)).ok  # by itself, a shorter chain is a whole one
        fault = (await verified(store, *heads)).fault
    assert fault is not None
    assert fault.seq == 4
    assert "exported head names it, and it is gone" in fault.what


async def test_a_record_that_was_rebuilt_with_the_key_fails_against_the_exported_head(
    tmp_path: Path,
) -> None:
    def rebuild(connection: Connection, rows: list[dict[str, Any]]) -> None:
        connection.execute(delete(ENTRIES))
        head: Head | None = None
        for row in rows:
            base = {key: row[key] for key in row if key not in ("seq", "previous", "key", "seal")}
            if base["data"].endswith('"n":2}'):
                base["data"] = '{"n":"harmless"}'
            sealed = SEALER.chained(base, head)
            head = Head(chain=sealed["chain"], seq=sealed["seq"], seal=sealed["seal"])
            connection.execute(insert(ENTRIES).values(sealed))

    async with recorded(tmp_path) as store:
        heads = tuple((await verified(store)).heads.values())
        await changed(store, rebuild)
        assert (await verified(store)).ok
        fault = (await verified(store, *heads)).fault
    assert fault is not None
    assert "not the row that the exported head names" in fault.what


async def test_rows_of_another_key_are_counted_and_are_not_verified(tmp_path: Path) -> None:
    async with recorded(tmp_path) as store:
        found = await verified(store, sealer=Sealer(b"o" * 32))
    assert not found.ok
    assert found.foreign == {SEALER.name: 8}


async def test_rows_of_a_former_key_are_verified_with_it(tmp_path: Path) -> None:
    rotated = Sealer(b"o" * 32, since="2999-01-01T00:00:00.000000+00:00", former=[SEALER])
    async with recorded(tmp_path) as store:
        assert (await verified(store, sealer=rotated)).ok
        others = await verified(store, sealer=Sealer(b"o" * 32, former=[Sealer(b"p" * 32)]))
        assert others.foreign == {SEALER.name: 8}

        def alter(connection: Connection, rows: list[dict[str, Any]]) -> None:
            connection.execute(update(ENTRIES).where(at(rows[2])).values(tool="other"))

        await changed(store, alter)
        fault = (await verified(store, sealer=rotated)).fault
    assert fault is not None
    assert "its seal does not fit" in fault.what


async def test_who_has_a_former_key_cannot_seal_in_the_name_of_the_new_one(tmp_path: Path) -> None:
    rotated = Sealer(b"o" * 32, former=[SEALER])

    def forge(connection: Connection, rows: list[dict[str, Any]]) -> None:
        *_, before, last = rows
        forged = {**last, "key": rotated.name}
        seal = SEALER.seal(forged, before["seal"])
        connection.execute(update(ENTRIES).where(at(last)).values(key=rotated.name, seal=seal))

    async with recorded(tmp_path) as store:
        await changed(store, forge)
        fault = (await verified(store, sealer=rotated)).fault
    assert fault is not None
    assert "its seal does not fit" in fault.what


def test_what_is_newer_than_the_first_of_the_keys_has_a_seal() -> None:
    first = Sealer(KEY, since="2026-01-01T00:00:00.000000+00:00")
    rotated = Sealer(b"o" * 32, since="2026-06-01T00:00:00.000000+00:00", former=[first])
    assert rotated.since == first.since


async def test_rows_from_before_there_were_seals_are_counted_and_cannot_come_later(
    tmp_path: Path,
) -> None:
    def old(connection: Connection, rows: list[dict[str, Any]]) -> None:
        first = ENTRIES.c.chain == rows[0]["chain"]
        plain = {"seal": "", "key": "", "previous": ""}
        connection.execute(update(ENTRIES).where(first).values(plain))
        link = f"{rows[0]['chain']}/4/"
        sealed = SEALER.chained(
            {key: rows[4][key] for key in rows[4] if key not in ("seq", "previous", "key", "seal")},
            Head(chain=rows[0]["chain"], seq=4, seal=""),
        )
        assert sealed["previous"] == link
        connection.execute(update(ENTRIES).where(at(rows[4])).values(sealed))
        connection.execute(
            delete(ENTRIES).where(ENTRIES.c.chain == rows[4]["chain"], ENTRIES.c.seq > 1)
        )

    async with recorded(tmp_path) as store:
        await changed(store, old)
        found = await verified(store)
    assert (found.ok, found.unsealed, found.rows) == (True, 4, 5)


def all_emptied(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(update(ENTRIES).values(seal="", key="", previous=""))


def all_emptied_and_backdated(connection: Connection, rows: list[dict[str, Any]]) -> None:
    plain = {"seal": "", "key": "", "previous": "", "at": "2000-01-01T00:00:00.000000+00:00"}
    connection.execute(update(ENTRIES).values(plain))


def all_deleted(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES))


def the_last_row_deleted(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(ENTRIES).where(at(rows[-1])))


async def test_a_row_without_a_seal_that_is_newer_than_the_key_is_none_from_before(
    tmp_path: Path,
) -> None:
    async with recorded(tmp_path) as store:
        rows = await changed(store, all_emptied)
        assert (await verified(store)).unsealed == 8
        old, young = rows[0]["at"], "2999-01-01T00:00:00.000000+00:00"
        fault = (await verified(store, sealer=Sealer(KEY, since=old))).fault
        late = await verified(store, sealer=Sealer(KEY, since=young))
    assert fault is not None
    assert (fault.chain, fault.seq) == (rows[4]["chain"], 1)
    assert "newer than the key" in fault.what
    assert (late.ok, late.unsealed) == (True, 8)


async def test_a_row_without_a_seal_cannot_be_put_before_the_one_that_was_the_first(
    tmp_path: Path,
) -> None:
    def put_before(connection: Connection, rows: list[dict[str, Any]]) -> None:
        plain = {"chain": "20000101T000000Z-a", "seal": "", "key": "", "previous": ""}
        connection.execute(insert(ENTRIES).values({**rows[0], **plain}))

    async with recorded(tmp_path) as store:
        await changed(store, put_before)
        fault = (await verified(store)).fault
    assert fault is not None
    assert (fault.chain, fault.seq) == ("20000101T000000Z-a", 1)
    assert "was the first of all" in fault.what


async def test_a_sealed_row_behind_emptied_ones_of_its_own_process_gives_them_away(
    tmp_path: Path,
) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("audit", METADATA, SCRIPTS)
        trail = Trail(AuditKeeper(store, SEALER, ring=1), TurnedClock(), KnownSecrets())
        for number in range(3):
            await trail.append("kind", {"n": number})
        await changed(store, all_emptied)
        await trail.append("kind", {"n": 4})
        fault = (await trail.verify(SEALER)).fault
    assert fault is not None
    assert (fault.seq, "a sealed row stands behind it" in fault.what) == (3, True)


async def test_a_row_that_could_not_be_committed_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_store(tmp_path) as store:
        write = store.write

        async def undone(work: Any) -> Any:
            def fails(connection: Any) -> None:
                work(connection)
                raise StoreUnavailableError("the disk is full")

            return await write(fails)

        await store.migrate("audit", METADATA, SCRIPTS)
        keeper = AuditKeeper(store, SEALER, ring=1)
        trail = Trail(keeper, TurnedClock(), KnownSecrets())
        await trail.append("kind", {"n": 1})
        with pytest.raises(Exception, match=r"NOT NULL|kind"):
            await keeper.keep({"chain": trail.chain, "at": "now"})
        await trail.append("kind", {"n": 2})
        with monkeypatch.context() as patched, pytest.raises(StoreUnavailableError):
            patched.setattr(store, "write", undone)
            await trail.append("kind", {"n": 3})
        await trail.append("kind", {"n": 4})
        found = await trail.verify(SEALER)
    assert (found.ok, found.rows) == (True, 3)


async def test_a_ring_that_has_lost_its_first_rows_is_verified_as_far_as_it_goes() -> None:
    trail = Trail(AuditKeeper(MemoryStore(METADATA), SEALER, ring=3), TurnedClock(), KnownSecrets())
    for number in range(7):
        await trail.append("kind", {"n": number})
    found = await trail.verify(SEALER)
    assert (found.ok, found.rows) == (True, 3)


# -- what the gateway itself remembers --------------------------------------------------


@asynccontextmanager
async def started(home: Path, store: Store) -> AsyncIterator[tuple[Host, Plugin]]:
    """The plugin as a gateway opens it on a store that outlives it."""
    host = make_host(home)
    host.provide(STORE, store)
    plugin = Plugin(AuditSettings())
    async with plugin.lifespan(host):
        yield host, plugin


async def verify(plugin: Plugin, host: Host) -> Any:
    operation = next(o for o in plugin.list_operations(host) if o.name == "audit.verify")
    invocation = Invocation(host=host, principal=Principal.owner())
    return await operation.handler(invocation, operation.params())


EVERY = [all_emptied, all_emptied_and_backdated, all_deleted, the_last_row_deleted, edited]


@pytest.mark.parametrize("change", EVERY)
async def test_what_is_done_to_the_store_while_the_gateway_is_down_is_found_at_the_next_start(
    tmp_path: Path, change: Change
) -> None:
    async with opened_store(tmp_path) as store:
        async with started(tmp_path, store) as (host, _):
            for number in range(4):
                await host[AUDIT].append("kind", {"n": number})
        await changed(store, change)
        for _ in range(2):  # the second start finds it too: nothing has covered it up
            async with started(tmp_path, store) as (host, plugin):
                assert (change is edited) or "audit verify" in host.degraded["audit.head"]
                await host[AUDIT].append("kind", {"n": 5})
                found = await verify(plugin, host)
                assert not found.ok
                assert found.bad


@pytest.mark.parametrize("change", EVERY)
async def test_what_is_done_to_the_store_while_the_gateway_runs_is_found(
    tmp_path: Path, change: Change
) -> None:
    async with opened_store(tmp_path) as store, started(tmp_path, store) as (host, plugin):
        for number in range(4):
            await host[AUDIT].append("kind", {"n": number})
        assert (await verify(plugin, host)).ok
        await changed(store, change)
        assert not (await verify(plugin, host)).ok
        await host[AUDIT].append("kind", {"n": 5})
        assert not (await verify(plugin, host)).ok


async def test_the_kept_head_is_for_its_owner_and_a_wrong_one_is_said_and_stays(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.head"
    async with opened_store(tmp_path) as store:
        for number in range(2):
            async with started(tmp_path, store) as (host, plugin):
                await host[AUDIT].append("kind", {"n": number})
                assert host.degraded == {}
                assert (await verify(plugin, host)).ok
        assert path.stat().st_mode & 0o777 == 0o600
        assert parse_head(path.read_text().strip()) is not None
        path.write_text("nonsense")
        async with started(tmp_path, store) as (host, _):
            await host[AUDIT].append("kind", {"n": 3})
            assert "expected CHAIN/SEQ/SEAL" in host.degraded["audit.head"]
        assert path.read_text() == "nonsense"


@given(st.lists(st.integers(0, 2), max_size=12), st.data())
def test_any_single_change_of_a_chain_is_found(kinds: list[int], data: st.DataObject) -> None:
    rows: list[dict[str, Any]] = []
    head: Head | None = None
    for number, kind in enumerate([0, *kinds]):
        texts = dict.fromkeys(
            ("at", "turn", "session", "call", "tool", "category", "outcome"), str(number)
        )
        base = {"chain": "c", "kind": str(kind), "data": "{}", **texts}
        rows.append(SEALER.chained(base, head))
        head = Head(chain="c", seq=rows[-1]["seq"], seal=rows[-1]["seal"])
    assert ok(rows)
    place = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(["kind", "data", "at", "outcome", "seal", "seq"]))
    broken = [dict(row) for row in rows]
    value = broken[place][name]
    broken[place][name] = value + 1 if name == "seq" else f"{value}x"
    assert not ok(broken)
    assert ok(rows[:place] + rows[place + 1 :]) == (place == len(rows) - 1)


def ok(rows: list[dict[str, Any]]) -> bool:
    verifier = Verifier(SEALER)
    verifier.take(rows)
    return verifier.finish().ok


# -- keys -----------------------------------------------------------------------------


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "audit.key"
    key = key_from_file(path)
    assert len(key) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_from_file(path) == key


def test_a_key_that_is_too_short_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short")
    with pytest.raises(StartError, match="found 5 bytes"):
        key_from_file(tmp_path / "key")
    with pytest.raises(StartError, match="at least 32"):
        key_from_secret("short", "AUDIT_KEY")
    with pytest.raises(StartError, match="cannot be read"):
        key_from_file(tmp_path)


def test_a_key_that_cannot_be_made_is_told_from_one_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> bytes:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("hookgate.builtin_plugins.audit.seals._made", full)
    with pytest.raises(StartError, match=r"cannot be made: expected a folder .*Read-only"):
        key_from_file(tmp_path / "key")


def test_the_name_of_a_key_does_not_tell_it() -> None:
    assert Sealer(b"a" * 32).name != Sealer(b"b" * 32).name
    assert "a" * 8 not in Sealer(b"a" * 32).name


@pytest.mark.parametrize("text", ["", "c", "c/", "c/x/s", "/1/s", "c/-1/s", "c/\u0661/s"])
def test_what_is_no_head_is_none(text: str) -> None:
    assert parse_head(text) is None


def test_a_head_is_read_as_it_was_written() -> None:
    head = Head(chain="20240229T120000Z-abc", seq=3, seal="ff")
    assert parse_head(str(head)) == head
