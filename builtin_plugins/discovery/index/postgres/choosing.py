"""Vectors that are kept in the store's database, where the settings ask for it."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from hookgate import STORE, Host, StoreError
from hookgate.builtin_plugins.discovery.index.vectors import Vectors, VectorsError

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.postgres.table import VectorTable

PART = "discovery: vectors in PostgreSQL"

KEEP_SECONDS = 3600.0
"""The time between two marks of what is used; what has had none for a day is deleted."""


class Elsewhere:
    """The vectors of one gateway that are not in its memory; none before `open`."""

    def __init__(self) -> None:
        self._table: VectorTable | None = None

    async def open(self, host: Host, collection: str) -> None:
        """Find the tables; without them, say so, and leave the vectors to the memory."""
        self._table = None
        store = host.get(STORE)
        try:
            if store is None:
                raise VectorsError(
                    "no plugin provides a store: enable the plugin `storage`, with a `url` of a "
                    "PostgreSQL database"
                )
            # SQLAlchemy takes a third of a second to import: not on the event loop.
            await asyncio.to_thread(
                import_module, "hookgate.builtin_plugins.discovery.index.postgres.vectors"
            )
            from hookgate.builtin_plugins.discovery.index.postgres.table import VectorTable

            self._table = await VectorTable.open(store, collection, now=host.clock.now)
        except (VectorsError, StoreError) as error:
            host.standing(PART).bad(f"{error}. Until a restart, vectors are kept in memory")
        else:
            host.standing(PART).good()

    def of(self, fingerprint: str) -> Vectors | None:
        """Return the vectors of an embedder; None where the memory keeps them."""
        if self._table is None:
            return None
        from hookgate.builtin_plugins.discovery.index.postgres.vectors import PostgresVectors

        return PostgresVectors(self._table, fingerprint)

    async def keep(self, host: Host) -> None:
        """Mark what is used from time to time, as long as the gateway runs."""
        while self._table is not None:
            await asyncio.sleep(KEEP_SECONDS)
            try:
                await asyncio.to_thread(self._table.keep)
            except VectorsError as error:
                # A search says so in `status`; a day's marks may be missed.
                host.log.warning("vectors not marked", why=str(error))
