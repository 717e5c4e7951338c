"""A real store for the tests of the plugins that keep something, and the check of their tables."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.kit.acceptance.acceptances import AcceptanceBook
from hookgate.kit.acceptance.tables import Accepted
from hookgate.kit.records import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sqlalchemy import Connection, MetaData

    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.ports import Store


@asynccontextmanager
async def opened_store(home: Path) -> AsyncIterator[SqlStore]:
    """Open a SQLite store in `home`, and close it at the end."""
    store = await open_store(StorageSettings(), home)
    try:
        yield store
    finally:
        await store.close()


NOW = "2026-01-01T00:00:00+00:00"


def book_of(store: Any, *, now: str = NOW, trusts_first: bool = True) -> AcceptanceBook:
    """Return what one gateway keeps of what was accepted; nothing is read yet."""
    return AcceptanceBook(Accepted.records(store), lambda: now, trusts_first=trusts_first)


@asynccontextmanager
async def kept_in(kind: str, home: Path, plugin: str, tables: Any) -> AsyncIterator[Store]:
    """Open what a plugin's tables are kept in: a real ``store``, or that of the ``process``."""
    if kind == "process":
        yield MemoryStore(tables.METADATA)
        return
    async with opened_store(home) as store:
        await store.migrate(plugin, tables.METADATA, tables.SCRIPTS)
        yield store


async def differences(store: SqlStore, metadata: MetaData) -> list[Any]:
    """Return what the migrations made otherwise than `metadata` says."""
    mine = set(metadata.tables)

    def compare(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_object": lambda item, name, kind, reflected, other: (
                    (name if kind == "table" else item.table.name) in mine
                )
            },
        )
        return list(compare_metadata(context, metadata))

    return await store.read(compare)


class BrokenStore:
    """A store that fails until it is told that it works again; it keeps nothing."""

    broken = True
    durable = True
    problem = ""
    shared = False
    outside = None

    async def migrate(self, *_: Any) -> None:
        return None

    async def read(self, work: Any) -> Any:
        raise StoreUnavailableError("the disk is gone")

    async def write(self, work: Any, *, order: str = "") -> Any:
        if self.broken:
            raise StoreUnavailableError("the disk is gone")

    def write_soon(self, work: Any, *, order: str = "") -> asyncio.Future[Any]:
        return asyncio.ensure_future(self.write(work, order=order))

    async def insert(self, table: Any, rows: Any) -> None:
        if self.broken:
            raise StoreUnavailableError("the disk is gone")
