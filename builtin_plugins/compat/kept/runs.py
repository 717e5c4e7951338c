"""An answer on its way to more readers than one, and what goes on while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate.builtin_plugins.compat.answers import WireFrame


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
