"""Opening what a plugin keeps in the store."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from hookgate.core.domain.ports import Store

__all__ = ["tables_of"]


async def tables_of(store: Store, plugin: str, module: str) -> ModuleType:
    """Return the module of a plugin's tables, which are up to date then.

    Args:
        store: The store.
        plugin: The plugin's name; it names its table of versions.
        module: The module; it has ``METADATA``, and ``SCRIPTS`` with the migrations.

    Raises:
        StoreError: The tables cannot be made.
    """
    # SQLAlchemy takes a third of a second to import: not on the event loop.
    tables = await asyncio.to_thread(import_module, module)
    await store.migrate(plugin, tables.METADATA, tables.SCRIPTS)
    return tables
