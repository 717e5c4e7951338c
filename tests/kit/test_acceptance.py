"""What was accepted: kept, known to other gateways, and taken over from versions before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.stores import BrokenStore, book_of, opened_store
from tests.support.script import Script, Scripted, gateway, until

from hookgate.builtin_plugins.storage.plugin import Plugin as Storage
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.errors import StoreError, StoreUnavailableError
from hookgate.kit.acceptance import tables
from hookgate.kit.acceptance.acceptances import AcceptanceBook, acceptances_of
from hookgate.kit.acceptance.tables import Accepted
from hookgate.kit.records import MemoryStore
from hookgate.ports import ACCEPTANCES, STORE, Subject

ONE, OTHER = Subject(name="weather", digest="a" * 64), Subject(name="weather", digest="b" * 64)


async def test_what_cannot_be_kept_is_not_accepted() -> None:
    book = book_of(BrokenStore())
    with pytest.raises(StoreUnavailableError):
        await book.accept("guest", [ONE], by="ops")
    assert book.of("guest") == {}
    assert book.problem


async def test_what_was_accepted_is_forgotten(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("acceptance", tables.METADATA, tables.SCRIPTS)
        book = book_of(store)
        await book.load()
        await book.accept("guest", [ONE], by="ops")
        assert book.of("guest")["weather"].accepted_by == "ops"
        assert await book.forget("guest", "weather")
        assert not await book.forget("guest", "weather")
        await book.load()
        assert book.of("guest") == {}


async def test_what_is_taken_back_waits_and_is_not_the_first_of_its_name(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("acceptance", tables.METADATA, tables.SCRIPTS)
        book, told = book_of(store), list[str]()
        book.watch(lambda: told.append("woken"))
        await book.load()
        assert not await book.take_back("guest", "weather", by="ops")
        await book.add("guest", [ONE])
        assert await book.take_back("guest", "weather", by="ops")
        assert not await book.take_back("guest", "weather", by="ops")
        await book.add("guest", [ONE])
        row = book.of("guest")["weather"]
        assert (row.digest, row.accepted_by, told) == ("", "ops", ["woken"])


async def test_without_a_store_guests_are_kept_in_a_file_and_tools_in_the_process(
    tmp_path: Path,
) -> None:
    file = tmp_path / "home" / "accepted.json"

    def opened() -> AcceptanceBook:
        records = Accepted.records(MemoryStore(tables.METADATA))
        return AcceptanceBook(records, lambda: "now", file=file)

    book = opened()
    await book.load()
    await book.accept("tool", [ONE], by="ops")
    assert not file.exists()
    await book.accept("guest", [ONE], by="ops")
    again = opened()
    await again.load()
    assert (list(again.of("guest")), list(again.of("tool"))) == (["weather"], [])
    await again.forget("guest", "weather")
    file.write_text("{")
    broken = opened()
    with pytest.raises(StoreError, match=r"accepted\.json"):
        await broken.load()
    assert "move the file away" in broken.problem


async def test_what_versions_before_kept_of_tools_and_cards_is_taken_over(tmp_path: Path) -> None:
    columns = {
        "policy_tool_pin": ("tool", "accepted", "seen", "identity", "accepted_by", "changed"),
        "awareness_pin": ("id", "approved", "seen", "source", "changed"),
    }
    async with opened_store(tmp_path) as store:

        def before(connection: sa.Connection) -> None:
            for table, names in columns.items():
                listed = ", ".join(f"{name} TEXT NOT NULL" for name in names)
                connection.execute(sa.text(f"CREATE TABLE {table} ({listed})"))
                values = ", ".join(f"'{name}'" for name in names)
                connection.execute(sa.text(f"INSERT INTO {table} VALUES ({values})"))

        await store.write(before)
        await store.migrate("acceptance", tables.METADATA, tables.SCRIPTS)
        book = book_of(store)
        await book.load()
        tool, card = book.of("tool")["tool"], book.of("card")["id"]
        assert (tool.digest, tool.seen, tool.detail) == ("accepted", "seen", "identity")
        assert (tool.accepted_by, tool.changed) == ("accepted_by", "changed")
        assert (card.digest, card.seen, card.changed) == ("approved", "seen", "changed")


async def test_what_another_gateway_accepts_is_heard(tmp_path: Path) -> None:
    async with gateway(Scripted(Script()), Storage(StorageSettings())) as gate:
        book = await acceptances_of(gate.host)
        assert gate.host[ACCEPTANCES] is book
        assert await acceptances_of(gate.host) is book
        heard = asyncio.Event()
        book.watch(heard.set)
        elsewhere = book_of(gate.host[STORE])
        elsewhere.follow(gate.host)
        await elsewhere.load()
        await elsewhere.accept("guest", [OTHER], by="ops")
        await until(heard.is_set)
        assert book.of("guest")["weather"].digest == OTHER.digest
