"""The operations of the store: how far its tables are, and upgrading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hookgate import Empty, Invocation, Operation, OperationModel

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.migrate import TableStatus
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


def store_operations(current: Callable[[], SqlStore]) -> list[Operation[Any, Any]]:
    """Return the operations on the store that `current` returns when one of them is called."""

    def describe(store: SqlStore, found: Sequence[TableStatus]) -> StoreStatus:
        return StoreStatus(
            place=store.place,
            durable=store.durable,
            problem=store.problem,
            tables=tuple(
                TablesModel(
                    plugin=each.plugin, version=each.version, head=each.head, current=each.current
                )
                for each in found
            ),
        )

    async def status(_: Invocation, __: Empty) -> StoreStatus:
        store = current()
        return describe(store, await store.status())

    async def upgrade(_: Invocation, __: Empty) -> StoreStatus:
        store = current()
        await store.upgrade_all()
        return describe(store, await store.status())

    return [
        Operation(
            name="db.status",
            summary="Show where the store is, and the version of each plugin's tables.",
            params=Empty,
            result=StoreStatus,
            handler=status,
            scope="read",
            rest=("GET", "/v1/db"),
        ),
        Operation(
            name="db.upgrade",
            summary="Bring the tables of every plugin up to date.",
            params=Empty,
            result=StoreStatus,
            handler=upgrade,
            scope="operate",
        ),
    ]
