"""Adding rows of the ledger to the sums by day, beside the turns.

Reports are exact without it: they read the sums and all rows that are in none. It keeps those few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hookgate import Store, StoreError
from hookgate.builtin_plugins.metering.tables import sums

EVERY = 10.0
"""Seconds between two times that rows are added."""
AT_ONCE = 2000
"""So many rows of a writer are added in one transaction."""
ORDER = "metering.sums"
"""Where adding comes among the functions that change shared rows."""


class Rollup:
    """Adds rows to the sums. Several gateways may do so at once.

    Args:
        store: Has the tables.
        failed: Told when rows could not be added; they stay where they are.
    """

    def __init__(
        self, store: Store, *, failed: Callable[[BaseException], None] = lambda _: None
    ) -> None:
        self._store = store
        self._failed = failed

    async def run(self) -> None:
        """Do so until it is cancelled. What was begun is committed, or nothing of it."""
        while True:
            try:
                await self.roll()
            except StoreError as error:
                self._failed(error)
            await asyncio.sleep(EVERY)

    async def roll(self) -> int:
        """Add all rows that are in no sum yet; return how many this gateway has added.

        Raises:
            StoreError: The store could not be read or written.
        """
        count = 0
        while chunks := await self._store.read(sums.next_chunk(AT_ONCE)):
            for chunk in chunks:
                if await self._store.write(sums.added(chunk), order=ORDER):
                    count += chunk.to - chunk.after
        return count
