"""Whether the store takes writes, for load balancers: found out also while nobody writes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import false, update
from sqlalchemy.exc import SQLAlchemyError

from hookgate import StoreError
from hookgate.builtin_plugins.storage.engine.sqlite import mark
from hookgate.builtin_plugins.storage.tables import SWITCH_ROWS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate import PartStanding
    from hookgate.builtin_plugins.storage.store import SqlStore

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
