"""Search by meaning in PostgreSQL with pgvector: vectors that several gateways share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sqlalchemy import Connection, LargeBinary, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from hookgate.builtin_plugins.discovery.index.postgres.table import (
    HOUR,
    LOOKED_UP,
    VectorTable,
    short,
)
from hookgate.builtin_plugins.discovery.index.vectors import VectorsError

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
