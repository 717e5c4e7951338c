"""The engine: keeps an index for each version of a snapshot, and filters what it finds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.discovery.lexical import Hit, LexicalIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.core.descriptors import Capabilities, Capability

__all__ = ["Engine"]

INLINE_ROWS = 1000
"""Up to so many rows a search takes less time than the way to a thread and back."""

VERSIONS = 2
"""Indexes that are kept: a running turn may still search the version before the newest."""


class Engine:
    """Searches the capabilities of a snapshot. Cards are not among them: they select themselves."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[int, LexicalIndex] = OrderedDict()
        self._building = asyncio.Lock()

    async def find(
        self,
        capabilities: Capabilities,
        query: str,
        *,
        shown: Callable[[Capability], bool] = lambda _: True,
        limit: int,
        floor: float = 0.0,
    ) -> list[Hit]:
        """Return what fits `query` best.

        Args:
            capabilities: All that the snapshot holds. The index is built from it once for
                each version, off the event loop.
            query: What is looked for, in anybody's words.
            shown: Whether a capability may be found at all.
            limit: So many at most.
            floor: The least relevance, 0 to 1.
        """
        index = await self._index(capabilities)
        if len(index) <= INLINE_ROWS:
            hits = index.search(query)
        else:
            hits = await asyncio.to_thread(index.search, query)
        fitting = (hit for hit in hits if hit.relevance >= floor and shown(hit.row))
        return [hit for _, hit in zip(range(limit), fitting, strict=False)]

    async def _index(self, capabilities: Capabilities) -> LexicalIndex:
        version = capabilities.version
        async with self._building:
            index = self._indexes.get(version)
            if index is None:
                rows = [row for row in capabilities if row.kind != "card"]
                index = await asyncio.to_thread(LexicalIndex, rows)
                self._indexes[version] = index
                if len(self._indexes) > VERSIONS:
                    self._indexes.popitem(last=False)
            return index
