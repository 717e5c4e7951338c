"""`SqlStore`: the store that plugins share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, MetaData, Table, false, update
from sqlalchemy.exc import SQLAlchemyError

from hookgate import StoreError
from hookgate.builtin_plugins.storage import migrate
from hookgate.builtin_plugins.storage.engine.readers import Readers
from hookgate.builtin_plugins.storage.engine.sqlite import mark
from hookgate.builtin_plugins.storage.migrate import PluginTables, TableStatus
from hookgate.builtin_plugins.storage.tables import SWITCH_ROWS

if TYPE_CHECKING:
    from hookgate import PartStanding
    from hookgate.builtin_plugins.storage.engine.group import Handle
    from hookgate.builtin_plugins.storage.engine.writer import StoreWriter

T = TypeVar("T")


class SqlStore:
    """One SQL database for all plugins; see `hookgate.core.domain.ports.Store`.

    Args:
        writer: Writes.
        readers: Read; None where only the writer's connection sees the database.
        place: Where the database is, for people, without a password.
        problem: Why the store is ephemeral, or "" where it is durable.
        auto_upgrade: Whether `migrate` may change tables.
        shared: Whether other gateways may hold the same database.
    """

    def __init__(
        self,
        writer: StoreWriter,
        readers: Readers | None,
        *,
        place: str,
        problem: str = "",
        auto_upgrade: bool = True,
        shared: bool = False,
    ) -> None:
        self.shared = shared
        self._writer = writer
        self._readers = readers
        self._place = place
        self._problem = problem
        self._auto_upgrade = auto_upgrade or bool(problem)
        self._tables: dict[str, PluginTables] = {}

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        return self._place

    @property
    def durable(self) -> bool:
        """False where the store is ephemeral because the real one is corrupt or gone."""
        return not self._problem

    @property
    def problem(self) -> str:
        """Why the store is ephemeral, or ""."""
        return self._problem

    @property
    def outside(self) -> int | None:
        """What changes when anybody beside this process has written; see `Store.outside`."""
        return None if self.shared else self._writer.outside

    async def migrate(self, plugin: str, metadata: MetaData, scripts: Path) -> None:
        """Bring the plugin's tables up to date with its Alembic scripts.

        Args:
            plugin: The plugin's name; its version table is ``alembic_version_NAME``.
            metadata: Its tables, in a `MetaData` of its own.
            scripts: The folder whose ``versions/*.py`` are the scripts.

        Raises:
            StartError: The database is newer than the code, or outdated while
                ``auto_upgrade`` is off, or a script failed. Nothing was changed.
            StoreUnavailableError: The database cannot be written; nothing was changed.
        """
        await self.upgrade(PluginTables(plugin, metadata, scripts), allowed=self._auto_upgrade)

    async def upgrade(self, tables: PluginTables, *, allowed: bool = True) -> TableStatus:
        """Do what `migrate` does, and return how far the tables are now."""
        self._tables[tables.plugin] = tables
        return await self._writer.alone(
            lambda connection: migrate.upgrade(connection, tables, allowed=allowed)
        )

    async def upgrade_all(self) -> Sequence[TableStatus]:
        """Bring the tables of all plugins that called `migrate` up to date."""
        return [await self.upgrade(tables) for tables in tuple(self._tables.values())]

    async def status(self) -> Sequence[TableStatus]:
        """Return how far each plugin's tables are; those of absent plugins come last."""
        known = tuple(self._tables.values())

        def look(connection: Connection) -> list[TableStatus]:
            present = [migrate.status(connection, tables) for tables in known]
            return present + migrate.version_tables(connection, [t.plugin for t in known])

        return await self.read(look)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction, off the event loop.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """
        if self._readers is None:
            return await self._writer.work(work)
        return await self._readers.run(work)

    async def write(self, work: Callable[[Connection], T], *, order: str = "") -> T:
        """Run `work` in a write transaction, off the event loop; return once it is committed.

        `work` runs in a savepoint: if it raises, its own changes are undone and nobody
        else's. It leaves commit and rollback to the store, and should be short, since
        every other write waits for it.

        Args:
            work: The function.
            order: When it runs among those that are committed together, where it changes rows
                that other gateways change, too; see `hookgate.core.domain.ports.Store.write`.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """
        return await self._writer.work(work, order)

    async def write_together(self, handle: Handle, item: Any) -> Any:
        """Write `item` by `handle`, which gets all items that are committed together.

        Args:
            handle: Always the same function, so that items meet. It returns, for each item
                in order, a value, or an exception where it has written nothing for it; if
                it raises, it is called again for each item alone.
            item: What is to be written.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """
        return await self._writer.item(handle, item)

    async def alone(self, work: Callable[[Connection], T]) -> T:
        """Run `work` with the writer's connection for itself; it begins and commits by itself.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """
        return await self._writer.alone(work)

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> Coroutine[Any, Any, None]:
        """Insert `rows`, all or none; return once they are committed.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """
        return self._writer.insert(table, rows)

    def insert_soon(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> asyncio.Future[None]:
        """Insert `rows` with the next write, or a tenth of a second later; never waits.

        Args:
            table: The table.
            rows: The rows, not none.

        Returns:
            Is done once they are committed. Others may hold the same one: it is not cancelled.
        """
        return self._writer.insert_soon(table, rows)

    def write_soon(self, work: Callable[[Connection], T], *, order: str = "") -> asyncio.Future[T]:
        """Run `work` with the next write, or a tenth of a second later; never waits.

        Args:
            work: The function.
            order: See `write`.

        Returns:
            Is done once what it wrote is committed.
        """
        return self._writer.work_soon(work, order)

    async def close(self) -> None:
        """Finish the writes that were handed over, and close the database."""
        try:
            if self._readers is not None:
                await self._readers.close()
        finally:
            await self._writer.close()


# -- readiness -------------------------------------------------------------------

# Whether the store takes writes, for load balancers: found out also while nobody writes.

LOOK_SECONDS = 1.0
"""Seconds between two attempts to write."""

SLOW_SECONDS = 5.0
"""Seconds that a write may take before the store counts as one that cannot be written."""

_NOTHING = update(SWITCH_ROWS).where(false()).values(version=SWITCH_ROWS.c.version)


class Readiness:
    """Says how the store stands, and takes the gateway out of balancers while it takes no writes.

    A server is asked all the time, since it may go while nobody writes. A file is written again
    only once a write has failed: nobody but this process could tell it that it works again.

    Args:
        standing: How the store stands, for operators and for balancers.
    """

    def __init__(self, standing: PartStanding) -> None:
        self._standing = standing
        self._failed = asyncio.Event()

    def tell(self, why: str) -> None:
        """Take what is wrong with the store's writes, "" where they work again."""
        self._standing.bad(why)
        self._standing.unready(why)
        if why:
            self._failed.set()
        else:
            self._failed.clear()

    async def follow(self, store: SqlStore) -> None:
        """Try whether `store` takes writes, for as long as it runs."""
        while True:
            if not store.shared:
                await self._failed.wait()
            await asyncio.sleep(LOOK_SECONDS)
            # What a statement or the database has against it, the store has told by `tell`.
            with suppress(StoreError, SQLAlchemyError):
                await self._try(store)

    async def _try(self, store: SqlStore) -> None:
        written = asyncio.ensure_future(store.write(_write))
        _, slow = await asyncio.wait([written], timeout=SLOW_SECONDS)
        if slow:
            self._standing.unready(f"a write has taken longer than {SLOW_SECONDS:g} s")
        await written
        if slow:
            self._standing.unready("")


def _write(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        mark(connection)
    else:
        # Refused by a server that only reads, and costs nothing.
        connection.execute(_NOTHING)
