"""A few threads that read, each with a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar, cast

from hookgate import StoreUnavailableError
from hookgate.builtin_plugins.storage.engine.faults import broken, contain, fault
from hookgate.builtin_plugins.storage.engine.lock import DatabaseLink

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")


class Readers:
    """Threads that read.

    Args:
        connect: Makes a link; called once on each thread.
        count: How many threads.
    """

    def __init__(self, connect: Callable[[], DatabaseLink], count: int) -> None:
        self._connect = connect
        self._links: list[DatabaseLink] = []
        self._mine = threading.local()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="hookgate-read")
        self._closed = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """
        if self._closed:
            raise StoreUnavailableError("the store is closed: the gateway is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    async def close(self) -> None:
        """Finish what was begun, and close the connections."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for link in self._links:
            await asyncio.to_thread(link.close)
        self._links.clear()

    def _read(self, work: Callable[[Connection], T]) -> T:
        link: DatabaseLink | None = getattr(self._mine, "link", None)
        if link is None:
            link = self._mine.link = self._connect()
            self._links.append(link)

        own: BaseException | None = None

        def read(connection: Connection) -> T | None:
            nonlocal own
            transaction = connection.begin()
            try:
                return work(connection)
            except BaseException as error:  # noqa: BLE001 - raised below, once all is undone
                own = error
                return None
            finally:
                transaction.rollback()

        try:
            value = link.run(read)
            reason, cause = fault(own), own
        except Exception as error:  # noqa: BLE001 - raised below
            reason, cause = broken(error) or f"{type(error).__name__}: {error}", error
        if reason:
            self._give_up(link)
            raise StoreUnavailableError(f"the store cannot be read: {reason}") from cause
        if own is not None:
            raise contain(own) from own.__cause__
        return cast("T", value)

    @staticmethod
    def _give_up(link: DatabaseLink) -> None:
        try:
            link.reset()
        except Exception:  # noqa: BLE001
            # It was broken, which is why it is given up; the next read opens another one.
            return
