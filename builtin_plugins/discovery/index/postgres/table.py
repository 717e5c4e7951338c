"""The tables of vectors in PostgreSQL, and the way to them from a thread.

The tables are a cache: whatever is lost in them is made again from the capabilities. They are
made where they are missing, and not by the migrations of the plugin, since they need an
extension that SQLite does not have, and an index that depends on the embedder's dimension.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hookgate import Store, StoreError
from hookgate.builtin_plugins.discovery.index.vectors import VectorsError

T = TypeVar("T")

LEAST_VERSION = (0, 8)
"""The pgvector that has 16-bit floats (0.7) and goes on searching while rows are filtered (0.8)."""

LOOKED_UP = 8192
"""Digests or slots that one statement takes."""

READ_SECONDS, WRITE_SECONDS = 5.0, 30.0
"""How long the database is waited for."""

BUSY_SECONDS = 0.02
"""How long to wait where another gateway writes to the tables."""

HOUR: Final = 3600 * 1_000_000
DAY: Final = 24 * HOUR
"""In microseconds, as all times in the store."""


class View(Protocol):
    """A part of the table that this gateway uses."""

    def table_slots(self) -> Sequence[int]:
        """Return the table's numbers of all that is used."""


class VectorTable:
    """The tables of a collection. Two gateways may use them at once, with any embedders.

    Its methods block, and are called on threads; the store's coroutines run on the loop.

    The time of the last use is in a table of its own: to change a row of the vectors would
    put it into the graph once more.
    """

    def __init__(
        self,
        store: Store,
        collection: str,
        *,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], datetime],
    ) -> None:
        """Take what `open` has checked.

        Args:
            store: The store, on PostgreSQL.
            collection: The name of the collection.
            loop: The loop that the store belongs to, running on this thread.
            now: The time in UTC.
        """
        self._store = store
        self._loop = loop
        self._thread = threading.get_ident()
        self._now = now
        name = f"discovery_{collection}"
        if len(name) > 40:
            # PostgreSQL cuts names at 63 bytes, and an index adds 17 to this one.
            name = f"{name[:31]}_{short(name)}"
        self.name = name
        self.table, self.used = f'"{name}"', f'"{name}_used"'
        self._views: WeakSet[View] = WeakSet()
        self._lock = threading.Lock()

    @classmethod
    async def open(
        cls, store: Store, collection: str, *, now: Callable[[], datetime]
    ) -> VectorTable:
        """Return the tables of a collection; they are made where they are not there.

        Raises:
            VectorsError: The store is not on PostgreSQL, or lacks the extension.
        """
        dialect = await store.read(lambda connection: connection.dialect.name)
        if dialect != "postgresql":
            raise VectorsError(
                f"the store is {dialect}, expected PostgreSQL with the extension pgvector: set "
                '`[plugin.storage] url`, or `[plugin.discovery] vectors` to "memory"'
            )
        table = cls(store, collection, loop=asyncio.get_running_loop(), now=now)
        await asyncio.to_thread(table.write, lambda _: None)
        return table

    def keep(self) -> None:
        """Mark what this gateway uses, and delete what none has used for a day.

        Raises:
            VectorsError: The database did not do it.
        """
        with self._lock:
            views = list(self._views)
        slots = [slot for view in views for slot in view.table_slots()]
        if not slots:
            return
        now = self.now()
        touch = text(
            f"UPDATE {self.used} SET used = :now WHERE slot = ANY(:slots) AND used < :before"
        )
        prune = text(
            f"WITH gone AS (DELETE FROM {self.used} WHERE used < :before RETURNING slot) "
            f"DELETE FROM {self.table} AS row USING gone WHERE row.slot = gone.slot"
        )
        for first in range(0, len(slots), LOOKED_UP):
            some = slots[first : first + LOOKED_UP]
            self._do(touch, {"slots": some, "now": now, "before": now - HOUR})
        self._do(prune, {"before": now - DAY})

    def _do(self, statement: TextClause, values: Mapping[str, Any]) -> None:
        def work(connection: Connection) -> None:
            connection.execute(statement, values)

        self.write(work)

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return int(self._now().timestamp() * 1_000_000)

    def watch(self, view: View) -> None:
        """Keep what `view` uses, as long as it lives."""
        with self._lock:
            self._views.add(view)

    # -- the way to the database ---------------------------------------------

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read, and wait for it.

        Raises:
            VectorsError: The database did not answer.
        """
        return self._wait(self._store.read, work, READ_SECONDS)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, with the tables there and nobody else writing to them, and wait for it.

        Gateways take turns by a lock that is tried and not waited for, so that no transaction
        of the store, which carries the writes of others too, ever waits for another gateway.

        Raises:
            VectorsError: The database did not do it.
        """

        def alone(connection: Connection) -> tuple[T] | None:
            lock = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0))")
            if not connection.execute(lock, {"name": self.name}).scalar_one():
                return None
            self._make(connection)
            return (work(connection),)

        until = time.monotonic() + WRITE_SECONDS
        while time.monotonic() < until:
            done = self._wait(self._store.write, alone, WRITE_SECONDS)
            if done is not None:
                return done[0]
            time.sleep(BUSY_SECONDS)
        raise VectorsError(
            f"another gateway has been writing to the table {self.name} for {WRITE_SECONDS:.0f} s"
        )

    def _wait(
        self,
        do: Callable[[Callable[[Connection], T]], Coroutine[Any, Any, T]],
        work: Callable[[Connection], T],
        seconds: float,
    ) -> T:
        if threading.get_ident() == self._thread:
            raise RuntimeError("the event loop must not wait for itself: search on a thread")
        if self._loop.is_closed():
            raise VectorsError("the store is closed: the gateway is stopping")
        future = asyncio.run_coroutine_threadsafe(do(work), self._loop)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            future.cancel()
            raise VectorsError(
                f"the database with the vectors did not answer within {seconds:.0f} s"
            ) from error
        except DBAPIError as error:
            why = str(error.orig).partition("\n")[0]
            raise VectorsError(f"the table {self.name} cannot be used: {why}") from error
        except (StoreError, SQLAlchemyError, CancelledError) as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            raise VectorsError(f"the table {self.name} cannot be used: {why}") from error

    def _make(self, connection: Connection) -> None:
        there = text("SELECT to_regclass(:table) IS NOT NULL AND to_regclass(:used) IS NOT NULL")
        names = {"table": self.table, "used": self.used}
        if connection.execute(there, names).scalar_one():
            return
        _check_extension(connection)
        for statement in (
            # No dimension: embedders may differ in it.
            f"CREATE TABLE IF NOT EXISTS {self.table} ("
            "slot bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "embedder text NOT NULL, digest bytea NOT NULL, embedding halfvec NOT NULL, "
            "UNIQUE (embedder, digest))",
            f"CREATE TABLE IF NOT EXISTS {self.used} (slot bigint PRIMARY KEY, "
            "used bigint NOT NULL)",
        ):
            connection.execute(text(statement))


def _check_extension(connection: Connection) -> None:
    find = text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    version = connection.execute(find).scalar_one_or_none()
    if version is None:
        # Who may not do this is told so by the database's own message.
        connection.execute(text("CREATE EXTENSION vector"))
        version = connection.execute(find).scalar_one()
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_VERSION:
        wanted = ".".join(map(str, LEAST_VERSION))
        raise StoreError(
            f"the database has pgvector {version}, expected {wanted} or later: upgrade it, then "
            "run `ALTER EXTENSION vector UPDATE`"
        )


def short(name: str) -> str:
    """Return sixteen hexadecimal digits that stand for `name`."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
