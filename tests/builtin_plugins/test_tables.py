"""Tables of the builtin plugins: made at once in a new store, and brought up from before."""

from __future__ import annotations

import importlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool
from tests.builtin_plugins.stores import differences, opened_store

from hookgate.builtin_plugins.storage import migrate
from hookgate.builtin_plugins.storage import tables as storage
from hookgate.builtin_plugins.storage.migrate import PluginTables

EARLIER = Path(__file__).parent / "earlier_store.sql"
# Acceptance first: it takes over what others let go of then.
MODULES = {
    "acceptance": "hookgate.kit.acceptance.tables",
    "audit": "audit.tables",
    "channels": "channels.book.tables",
    "discovery": "discovery.learn.store",
    "inventory": "inventory.tables",
    "memory": "memory.tables",
    "metering": "metering.tables",
    "planning": "planning.tables",
    "policy": "policy.desk.tables",
    "schedules": "schedules.tables",
    "wasm": "wasm.tables",
}


def tables_of(plugin: str) -> Any:
    if plugin == "storage":
        return storage
    module = MODULES[plugin]
    whole = module if module.startswith("hookgate.") else f"hookgate.builtin_plugins.{module}"
    return importlib.import_module(whole)


def made(plugin: str, metadata: sa.MetaData) -> dict[str, Any]:
    """Return what a new database holds once the tables of a plugin are made."""
    engine = sa.create_engine("sqlite://", poolclass=StaticPool)
    tables = tables_of(plugin)
    with engine.connect() as connection:
        if plugin != "storage":
            migrate.upgrade(connection, PluginTables("storage", storage.METADATA, storage.SCRIPTS))
        migrate.upgrade(connection, PluginTables(plugin, metadata, tables.SCRIPTS))
        driver: Any = connection.connection.driver_connection
        return shape(driver)


def shape(driver: sqlite3.Connection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name, table, sql in driver.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master"
    ):
        if kind != "table":
            found[name] = (table, " ".join((sql or "").replace('"', "").split()))
            continue
        columns = {row[1]: row[2:] for row in driver.execute(f"PRAGMA table_info({name})")}
        keys = driver.execute(f"PRAGMA foreign_key_list({name})").fetchall()
        options = [word for word in ("AUTOINCREMENT", "WITHOUT ROWID", "CHECK") if word in sql]
        rows = driver.execute(f"SELECT * FROM {name}").fetchall()
        found[name] = (columns, keys, options, rows)
    return found


@pytest.mark.parametrize("plugin", [*MODULES, "storage"])
def test_tables_that_are_made_at_once_are_those_that_the_scripts_make(plugin: str) -> None:
    metadata = tables_of(plugin).METADATA
    assert metadata.info["complete"]
    # A copy that does not say that it is complete.
    bare = sa.MetaData()
    for table in metadata.tables.values():
        table.to_metadata(bare)
    assert made(plugin, metadata) == made(plugin, bare)


async def test_a_store_of_before_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "hookgate.db")) as database:
        database.executescript(EARLIER.read_text())
        before = {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    async with opened_store(tmp_path) as store:
        for plugin in MODULES:
            tables = tables_of(plugin)
            await store.migrate(plugin, tables.METADATA, tables.SCRIPTS)
            assert await differences(store, tables.METADATA) == []
        assert all(status.current for status in await store.status())
        acceptance = tables_of("acceptance")
        taken = [before.pop(name) for name in acceptance.BEFORE]
        accepted = await acceptance.Accepted.records(store).all()
        assert [row.kind for row in accepted] == ["card", "tool"]
        assert taken == [(1,), (1,)]
        before["storage_scripts"] = (len(MODULES) + 2,)  # the store's own, and awareness, once
        for name, count in before.items():
            rows = sa.select(sa.func.count()).select_from(sa.table(name))
            assert (await store.read(lambda c, q=rows: c.scalar(q)),) == count, name
        grants = await tables_of("policy").StandingGrant.records(store).all()
        assert [grant.session for grant in grants] == ["main:cli:local:me"]
