"""A few threads that read, each with a connection of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from hookgate import StoreUnavailableError
from hookgate.builtin_plugins.storage.engine.faults import broken, contain, fault
from hookgate.builtin_plugins.storage.engine.lock import DatabaseLink

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")
_Read: TypeAlias = "tuple[asyncio.Future[Any], Callable[[Connection], Any]]"


class Readers:
    """Threads that read, as many as are needed at once.

    An executor of the standard library takes some fifty calls to hand a function over and back.

    Args:
        connect: Makes a link; called once on each thread.
        count: How many threads.
    """

    def __init__(self, connect: Callable[[], DatabaseLink], count: int) -> None:
        self._connect = connect
        self._count = count
        self._jobs: queue.SimpleQueue[_Read | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._reading = 0
        self._closed = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """
        if self._closed:
            raise StoreUnavailableError("the store is closed: the gateway is stopping")
        if self._reading >= len(self._threads) < self._count:
            name = f"hookgate-read_{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._reading += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, work))
        return await future

    async def close(self) -> None:
        """Finish what was begun, and close the connections."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _settle(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._reading -= 1
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    # -- on their threads --------------------------------------------------

    def _run(self) -> None:
        link = self._connect()
        # Nothing of what was read is held while nobody reads.
        while self._next(link):
            continue
        self._give_up(link)
        link.close()

    def _next(self, link: DatabaseLink) -> bool:
        """Do what is asked for next; return whether there may be more."""
        job = self._jobs.get()
        if job is None:
            return False
        (future, work), value, failed = job, None, None
        try:
            if not future.cancelled():
                value = self._read(link, work)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            failed = error
        with suppress(RuntimeError):  # where the event loop is closed nobody waits any more
            future.get_loop().call_soon_threadsafe(self._settle, future, value, failed)
        return True

    def _read(self, link: DatabaseLink, work: Callable[[Connection], T]) -> T:
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
