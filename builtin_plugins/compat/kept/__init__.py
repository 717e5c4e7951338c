"""The rows that are kept for clients, opened when the first one is asked for."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hookgate import STORE, Host, StoreError
from hookgate.kit.tables import tables_of
from hookgate.ports import Store
from hookgate.wire import dumps, loads

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate.builtin_plugins.compat.answers import WireFrame

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


# -- an answer with many readers ---------------------------------------------------


@dataclass(slots=True)
class KeptRun:
    """An answer on its way to whoever asks for it, as far as it has come.

    Attributes:
        digest: Tells its request from others of the key.
        headers: The headers of its answer.
        frames: What was written so far.
        failure: What it has ended with before anything was written.
        torn: Whether it has failed after that.
        over: Whether nothing follows.
        readers: The requests that it answers.
    """

    digest: str
    headers: dict[str, str] = field(default_factory=dict)
    frames: list[WireFrame] = field(default_factory=list)
    failure: Exception | None = None
    torn: bool = False
    over: bool = False
    readers: list[web.Request] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self) -> None:
        """Wake who waits."""
        self.news.set()
        self.news = asyncio.Event()

    @property
    def is_read(self) -> bool:
        """Whether one of its clients is still there."""
        transports = [request.transport for request in self.readers]
        return any(one is not None and not one.is_closing() for one in transports)

    async def follow(self) -> AsyncIterator[WireFrame]:
        """Yield what was written, and what follows.

        Raises:
            Exception: What it has ended with before anything was written.
        """
        seen = 0
        while True:
            while seen < len(self.frames):
                yield self.frames[seen]
                seen += 1
            if self.failure is not None:
                raise self.failure
            if self.over:
                return
            await self.news.wait()


@asynccontextmanager
async def beside(pulse: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run what gives signs of life, as long as something else runs."""
    task = asyncio.ensure_future(pulse)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
