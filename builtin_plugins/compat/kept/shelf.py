"""The rows that are kept for clients, opened when the first one is asked for."""

from __future__ import annotations

import asyncio
import zlib
from types import ModuleType
from typing import Any

from hookgate import STORE, Host, StoreError
from hookgate.kit.tables import tables_of
from hookgate.ports import Store
from hookgate.wire import dumps, loads

MODULE = "hookgate.builtin_plugins.compat.kept.tables"
INLINE = 64 * 1024
"""Bytes from which on packing is done beside the event loop."""


class Shelf:
    """Opens the tables once.

    Args:
        host: The host.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._opening = asyncio.Lock()
        self._opened: tuple[ModuleType, Store] | None = None

    def now(self) -> int:
        """Return the time in seconds since 1970."""
        return int(self._host.clock.now().timestamp())

    async def open(self) -> tuple[Any, Store]:
        """Return the module of the tables, and the store that has them.

        Raises:
            StoreError: They cannot be opened.
        """
        async with self._opening:
            if self._opened is None:
                store = self._host.get(STORE)
                if store is not None and store.problem:
                    raise StoreError(f"what is kept for clients cannot be read: {store.problem}")
                self._opened = await tables_of(store, "compat", MODULE)
            return self._opened


async def packed(value: Any) -> bytes:
    """Return a value as a row has it."""
    written = dumps(value)
    if len(written) < INLINE:
        return zlib.compress(written, 1)
    return await asyncio.to_thread(zlib.compress, written, 1)


async def unpacked(data: bytes) -> Any:
    """Return what `packed` has made of a value."""
    if len(data) < INLINE:
        return loads(zlib.decompress(data))
    return await asyncio.to_thread(lambda: loads(zlib.decompress(data)))
