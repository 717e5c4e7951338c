"""Search by meaning in PostgreSQL with pgvector: vectors that several gateways share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, LargeBinary, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hookgate import Store, StoreError
from hookgate.builtin_plugins.discovery.index.vectors import VectorsError
from hookgate.kit.modules import np

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


class TableView(Protocol):
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
        self._views: WeakSet[TableView] = WeakSet()
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

    def watch(self, view: TableView) -> None:
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


# -- vectors ---------------------------------------------------------------------

# Search by meaning in PostgreSQL with pgvector: vectors that several gateways share.

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Slots: TypeAlias = npt.NDArray[np.int64]
    Rows: TypeAlias = list[tuple[bytes, int]]

LINKS, BUILD_EFFORT, SEARCH_EFFORT = 16, 80, 128
"""The parameters of HNSW: m, ef_construction and hnsw.ef_search."""

MOST_EFFORT = 1000
"""The largest `hnsw.ef_search` that pgvector takes."""

MOST_INDEXED = 4000
"""The largest dimension of 16-bit floats that pgvector indexes; beyond, the search is exact."""

ADDED = 32
"""Vectors that one write adds. Each takes milliseconds, and all other writes wait for it."""


class PostgresVectors:
    """The vectors of one embedder in a `VectorTable`; used as a `VectorStore` is.

    Which digests are there and at which slots is kept in memory: some 300 bytes each, and
    none of the vectors. A slot is one of this object; the table has its own numbers.
    """

    blocking = True

    def __init__(self, table: VectorTable, fingerprint: str) -> None:
        """Begin with nothing: `know` looks up what is there.

        Args:
            table: The tables.
            fingerprint: The embedder's.
        """
        self.dimension = 0
        self.approximate = False
        self.slots: dict[bytes, int] = {}
        self._table = table
        # Sixteen hexadecimal digits, that may stand in a statement.
        self.fingerprint = fingerprint
        self.embedder = short(fingerprint)
        self._there: list[int] = []
        self._mine: dict[int, int] = {}
        self._indexed = False
        table.watch(self)

    def __len__(self) -> int:
        return len(self._there)

    def table_slots(self) -> Sequence[int]:
        """Return the table's numbers of all that is used."""
        return tuple(self._there)

    def know(self, digests: Sequence[bytes]) -> None:
        """Look up which of `digests` are there, and mark them as used.

        Raises:
            VectorsError: The database did not answer.
        """
        fresh = [digest for digest in dict.fromkeys(digests) if digest not in self.slots]
        for first in range(0, len(fresh), LOOKED_UP):
            self._take(self._table.write(self._looking(fresh[first : first + LOOKED_UP])))
        if self._there and not self.dimension:
            size = text(f"SELECT vector_dims(embedding) FROM {self._table.table} WHERE slot = :one")
            one = {"one": self._there[0]}
            self.dimension = self._table.read(lambda c: int(c.execute(size, one).scalar_one()))

    def add(self, digests: Sequence[bytes], vectors: Floats) -> None:
        """Add the vectors of digests that are not there yet.

        Raises:
            VectorsError: The database did not take them.
        """
        where = {digest: at for at, digest in enumerate(digests) if digest not in self.slots}
        self.dimension = self.dimension or vectors.shape[1]
        fresh = list(where)
        for first in range(0, len(fresh), ADDED):
            some = fresh[first : first + ADDED]
            values = [_as_text(vectors[where[digest]]) for digest in some]
            self._take(self._table.write(self._adding(some, values)))
            self._indexed = True

    def vectors(self, slots: Slots) -> Floats:
        """Return the vectors at `slots`.

        Raises:
            VectorsError: The database did not answer, or does not hold them any more.
        """
        numbers, places = np.unique(
            np.array([self._there[slot] for slot in slots.tolist()], np.int64), return_inverse=True
        )
        query = _with_arrays(
            f"SELECT slot, halfvec_send(embedding) FROM {self._table.table} "
            "WHERE slot = ANY(:slots)"
        )
        found: dict[int, bytes] = {}
        for first in range(0, len(numbers), LOOKED_UP):
            some = {"slots": numbers[first : first + LOOKED_UP].tolist()}
            found.update(self._table.read(partial(_pairs, query, some)))
        if len(found) < len(numbers):
            raise VectorsError(
                f"the table {self._table.name} lacks {len(numbers) - len(found)} vectors of "
                f"{len(numbers)}: they are made again"
            )
        # Two numbers of 16 bits, the dimension and nothing, stand before the values.
        head, each = 4, 2 * self.dimension
        joined = b"".join(found[number][head : head + each] for number in numbers.tolist())
        matrix = np.frombuffer(joined, ">f2").astype(np.float32).reshape(-1, self.dimension)
        return matrix[places.reshape(-1)]

    def search(self, queries: Floats, count: int) -> tuple[Floats, Slots]:
        """Return the best cosines and slots of each query, up to `count`.

        The slot is -1 where there are fewer, and where another gateway uses the vector.

        Raises:
            VectorsError: The database did not answer.
        """
        count = max(1, count)
        if not self._there:
            empty = np.zeros((len(queries), 0), np.float32)
            return empty, empty.astype(np.int64)
        kind = f"halfvec({self.dimension})"
        query = text(
            f"SELECT slot, CAST(embedding AS {kind}) <#> CAST(:near AS {kind}) AS away "
            f"FROM {self._table.table} WHERE embedder = '{self.embedder}' "
            f"ORDER BY away LIMIT {count}"
        )
        effort = min(MOST_EFFORT, max(SEARCH_EFFORT, 2 * count))
        near = [_as_text(one) for one in queries]

        def work(connection: Connection) -> list[list[tuple[int, float]]]:
            connection.execute(text(f"SET LOCAL hnsw.ef_search = {effort}"))
            connection.execute(text("SET LOCAL hnsw.iterative_scan = relaxed_order"))
            answers = (connection.execute(query, {"near": one}) for one in near)
            return [[(slot, away) for slot, away in rows] for rows in answers]

        found = self._table.read(work)
        most = max(map(len, found))
        cosines = np.full((len(queries), most), -np.inf, np.float32)
        slots = np.full((len(queries), most), -1, np.int64)
        for at, rows in enumerate(found):
            # The operator's value is the negative product; the order is nearly right.
            best = sorted((away, self._mine.get(slot, -1)) for slot, away in rows)
            cosines[at, : len(best)] = [-away for away, _ in best]
            slots[at, : len(best)] = [slot for _, slot in best]
        return cosines, slots

    def without(self, used: Sequence[bytes], *, approximate: bool) -> PostgresVectors:
        """Return a view of the vectors of `used` alone.

        The table keeps the others: another gateway may use them.
        """
        view = PostgresVectors(self._table, self.fingerprint)
        view.dimension, view.approximate = self.dimension, approximate
        view._indexed = self._indexed
        there = ((digest, self.slots[digest]) for digest in used if digest in self.slots)
        view._take([(digest, self._there[slot]) for digest, slot in there])
        return view

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return nothing: what is in the table need not be in a file."""
        return {}

    # -- statements ----------------------------------------------------------

    def _take(self, rows: Sequence[tuple[bytes, int]]) -> None:
        for digest, number in rows:
            if digest not in self.slots:
                slot = len(self._there)
                self._there.append(number)
                self._mine[number] = slot
                self.slots[digest] = slot

    def _looking(self, digests: Sequence[bytes]) -> Callable[[Connection], Rows]:
        table, used, now = self._table.table, self._table.used, self._table.now()
        values = {"embedder": self.embedder, "digests": list(digests)}
        touch = _with_arrays(
            f"UPDATE {used} SET used = :now FROM {table} AS row WHERE row.slot = {used}.slot "
            "AND row.embedder = :embedder AND row.digest = ANY(:digests) AND used < :before"
        )
        look = _with_arrays(
            f"SELECT digest, slot FROM {table} "
            "WHERE embedder = :embedder AND digest = ANY(:digests)"
        )

        def work(connection: Connection) -> Rows:
            connection.execute(touch, {**values, "now": now, "before": now - HOUR})
            return [(bytes(digest), slot) for digest, slot in connection.execute(look, values)]

        return work

    def _adding(
        self, digests: Sequence[bytes], values: Sequence[str]
    ) -> Callable[[Connection], Rows]:
        table, used = self._table.table, self._table.used
        insert = _with_arrays(
            f"INSERT INTO {table} (embedder, digest, embedding) "
            "SELECT :embedder, digest, CAST(value AS halfvec) "
            "FROM unnest(:digests, :values) AS new (digest, value) "
            "ON CONFLICT (embedder, digest) DO NOTHING"
        )
        note = _with_arrays(
            f"INSERT INTO {used} (slot, used) SELECT slot, :now FROM {table} "
            "WHERE embedder = :embedder AND digest = ANY(:digests) ON CONFLICT (slot) DO NOTHING"
        )
        known = {"embedder": self.embedder, "digests": list(digests)}
        look = self._looking(digests)

        def work(connection: Connection) -> Rows:
            self._index(connection)
            connection.execute(insert, {**known, "values": list(values)})
            connection.execute(note, {**known, "now": self._table.now()})
            return look(connection)

        return work

    def _index(self, connection: Connection) -> None:
        """Make the graph of this embedder's vectors, where it is not there."""
        if self._indexed or self.dimension > MOST_INDEXED:
            return
        connection.execute(
            text(
                f'CREATE INDEX IF NOT EXISTS "{self._table.name}_{self.embedder}" '
                f"ON {self._table.table} USING hnsw "
                f"((CAST(embedding AS halfvec({self.dimension}))) halfvec_ip_ops) "
                f"WITH (m = {LINKS}, ef_construction = {BUILD_EFFORT}) "
                f"WHERE embedder = '{self.embedder}'"
            )
        )


def _pairs(
    query: TextClause, values: Mapping[str, Any], connection: Connection
) -> dict[int, bytes]:
    return {slot: bytes(sent) for slot, sent in connection.execute(query, values)}


def _with_arrays(statement: str) -> TextClause:
    """Return `statement` with the types of the arrays that it takes."""
    types: dict[str, Any] = {"digests": LargeBinary, "values": Text}
    taken = [name for name in types if f":{name}" in statement]
    return text(statement).bindparams(
        *(bindparam(name, type_=ARRAY(types[name])) for name in taken)
    )


def _as_text(vector: Floats) -> str:
    """Return a vector as pgvector reads it. Six digits are more than 16 bits hold."""
    return json.dumps([float(f"{one:.6g}") for one in vector.astype(np.float16).tolist()])
