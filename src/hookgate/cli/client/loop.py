"""An event loop on a thread of its own: it goes on while the main thread draws or waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class LoopThread:
    """Runs coroutines beside the main thread, where Ctrl-C arrives."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and return its result; Ctrl-C cancels it, and waits for its end."""
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self.start(whole())
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""

        async def last() -> None:
            await self._loop.shutdown_asyncgens()
            await self._loop.shutdown_default_executor()

        self.run(last())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
