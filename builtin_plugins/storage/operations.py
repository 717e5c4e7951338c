"""The operations of the store: how far its tables are, and upgrading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hookgate import Invocation, OperationModel, operation

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore


class TablesModel(OperationModel):
    """How far the tables of one plugin are."""

    plugin: str
    """The plugin."""
    version: str
    """The revision of the database; empty where there are no tables yet."""
    head: str
    """The newest revision that the plugin knows; empty where the plugin does not run."""
    current: bool
    """Whether nothing is to be done."""


class StoreStatus(OperationModel):
    """Where the store is, and how far its tables are."""

    place: str
    """The SQLite file, the PostgreSQL URL without its password, or `memory`."""
    durable: bool
    """Whether the store outlives the process."""
    problem: str
    """Why it does not; empty where it does."""
    tables: tuple[TablesModel, ...]
    """One row for each plugin that has tables."""


class StoreOperations:
    """The store: where it is, and its tables."""

    def __init__(self, current: Callable[[], SqlStore]) -> None:
        self._current = current

    @operation("db.status", rest=("GET", "/v1/db"))
    async def status(self, _: Invocation) -> StoreStatus:
        """Show where the store is, and the version of each plugin's tables."""
        store = self._current()
        tables = tuple(map(TablesModel.of_record, await store.status()))
        return StoreStatus.of_record(store, tables=tables)

    @operation("db.upgrade", scope="operate")
    async def upgrade(self, invocation: Invocation) -> StoreStatus:
        """Bring the tables of every plugin up to date.

        It is needed where `plugin.storage.auto_upgrade` is false; otherwise a start does it.
        """
        await self._current().upgrade_all()
        return await self.status(invocation)
