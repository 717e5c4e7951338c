"""Opening what a plugin keeps in the store."""

from __future__ import annotations

import asyncio
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.ports import Store

__all__ = ["tables_of"]


async def tables_of(store: Store | None, plugin: str, module: str) -> tuple[ModuleType, Store]:
    """Return the module of a plugin's tables, and the store, where they are up to date then.

    Args:
        store: The store; None where there is none: then one in the memory of the process is made.
        plugin: The plugin's name; it names its table of versions.
        module: The module; it has ``METADATA``, and ``SCRIPTS`` with the migrations.

    Raises:
        StoreError: The tables cannot be made.
    """
    # SQLAlchemy takes a third of a second to import: not on the event loop.
    tables = await asyncio.to_thread(import_module, module)
    if store is None:
        records = await asyncio.to_thread(import_module, "hookgate.kit.records")
        return tables, records.MemoryStore(tables.METADATA)
    await store.migrate(plugin, tables.METADATA, tables.SCRIPTS)
    return tables, store
