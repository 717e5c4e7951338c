"""Search by meaning: vectors in faiss, with slots that outlast a version of the rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hookgate import STORE, HookgateError, Host, StoreError
from hookgate.kit.modules import np

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.pgvector import VectorTable

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Slots: TypeAlias = npt.NDArray[np.int64]

ANN_VECTORS = 10_000
"""From so many vectors on, the search is approximate: an exact one would take milliseconds."""

LINKS = 32
BUILD_EFFORT = 80
SEARCH_EFFORT = 128
"""The parameters of HNSW (Malkov and Yashunin, 2018): M, efConstruction and efSearch."""


class VectorsError(HookgateError):
    """The vectors are elsewhere, and cannot be had now."""


class Vectors(Protocol):
    """Vectors of one embedder at numbered slots; in memory, or elsewhere.

    Where `blocking` holds they are elsewhere, and each call may raise `VectorsError`.
    """

    @property
    def blocking(self) -> bool:
        """Whether a call may take long, and must not be made on the event loop."""

    @property
    def approximate(self) -> bool:
        """Whether so many are in use that a search need not be exact."""

    @property
    def slots(self) -> Mapping[bytes, int]:
        """The slot of each digest that is known to be there."""

    def __len__(self) -> int:
        """Return how many are known to be there."""

    def know(self, digests: Sequence[bytes]) -> None:
        """Look up which of `digests` are there."""

    def add(self, digests: Sequence[bytes], vectors: Floats) -> None:
        """Add the vectors of digests that are not there yet."""

    def vectors(self, slots: Slots) -> Floats:
        """Return the vectors at `slots`."""

    def search(self, queries: Floats, count: int) -> tuple[Floats, Slots]:
        """Return the best cosines and slots of each query, up to `count`."""

    def without(self, used: Sequence[bytes], *, approximate: bool) -> Vectors:
        """Return the vectors of `used` alone."""

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what is to be kept in a file."""


class VectorStore:
    """Vectors of length 1 at numbered slots, by the digest of the text that they stand for.

    Slots are only ever added: a version of the rows that is still searched keeps working while
    the next one adds to the store. What nobody points to any more is left behind when a new
    store is made (`without`).

    Vectors are kept as 16-bit floats: half the memory and half the time of a search, and an
    error of a cosine below 0.001.
    """

    blocking = False

    def __init__(self, dimension: int, *, approximate: bool = False) -> None:
        self.dimension = dimension
        self.approximate = approximate
        self.slots: dict[bytes, int] = {}
        self._matrix = np.zeros((0, dimension), np.float16)
        self._used = 0
        # faiss takes neither two writers nor a reader beside a writer.
        self._lock = threading.Lock()
        self._index = _empty_index(dimension, approximate=approximate)

    def __len__(self) -> int:
        return self._used

    def know(self, digests: Sequence[bytes]) -> None:
        """Look up which of `digests` are there. Here that is always known."""

    def add(self, digests: Sequence[bytes], vectors: Floats) -> None:
        """Add the vectors of digests that are not there yet."""
        fresh = [at for at, digest in enumerate(digests) if digest not in self.slots]
        fresh = list({digests[at]: at for at in fresh}.values())
        if not fresh:
            return
        taken = np.ascontiguousarray(vectors[fresh], np.float32)
        used = self._used + len(fresh)
        if used > len(self._matrix):
            grown = np.zeros((max(used, 2 * len(self._matrix)), self.dimension), np.float16)
            grown[: self._used] = self._matrix[: self._used]
            self._matrix = grown
        self._matrix[self._used : used] = taken
        with self._lock:
            self._index.add(taken)
        for slot, at in enumerate(fresh, self._used):
            self.slots[digests[at]] = slot
        self._used = used

    def vectors(self, slots: Slots) -> Floats:
        """Return the vectors at `slots`."""
        return self._matrix[slots].astype(np.float32)

    def search(self, queries: Floats, count: int) -> tuple[Floats, Slots]:
        """Return the best cosines and slots of each query, up to `count`.

        The slot is -1 where there are fewer.
        """
        count = max(1, min(count, self._used))
        if not self._used:
            empty = np.zeros((len(queries), 0), np.float32)
            return empty, empty.astype(np.int64)
        with self._lock:
            if self.approximate:
                self._index.hnsw.efSearch = max(SEARCH_EFFORT, 2 * count)
            cosines, slots = self._index.search(np.ascontiguousarray(queries, np.float32), count)
        return cosines, slots

    def without(self, used: Sequence[bytes], *, approximate: bool) -> VectorStore:
        """Return a new store that holds the vectors of `used` alone."""
        store = VectorStore(self.dimension, approximate=approximate)
        kept = [digest for digest in used if digest in self.slots]
        slots = np.array([self.slots[digest] for digest in kept], np.int64)
        for first in range(0, len(kept), 8192):
            span = slice(first, first + 8192)
            store.add(kept[span], self.vectors(slots[span]))
        return store

    # -- kept on disk --------------------------------------------------------

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what `restored` needs."""
        digests = b"".join(self.slots)
        arrays: dict[str, npt.NDArray[Any]] = {
            "slot_digests": np.frombuffer(digests, np.uint8),
            "vectors": self._matrix[: self._used],
        }
        if self.approximate:
            with self._lock:
                arrays["graph"] = _faiss().serialize_index(self._index)
        return arrays

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> VectorStore:
        """Return the store that `arrays` was taken from.

        Raises:
            ValueError: The arrays do not belong together.
        """
        matrix = arrays["vectors"]
        joined = arrays["slot_digests"].tobytes()
        digests = [joined[at : at + 16] for at in range(0, len(joined), 16)]
        if matrix.ndim != 2 or matrix.dtype != np.float16 or len(joined) != 16 * len(matrix):
            raise ValueError("the vectors and their names do not belong together")
        store = cls(matrix.shape[1], approximate="graph" in arrays)
        if not store.approximate:
            store.add(digests, matrix.astype(np.float32))
        else:
            store._index = _faiss().deserialize_index(arrays["graph"])
            store._matrix, store._used = matrix, len(matrix)
            store.slots = {digest: slot for slot, digest in enumerate(digests)}
            if store._index.ntotal != len(matrix) or store._index.d != matrix.shape[1]:
                raise ValueError("the graph and the vectors do not belong together")
        if len(store.slots) != len(digests):
            raise ValueError("a vector is named twice")
        return store


def _faiss() -> Any:
    # It takes a tenth of a second to load, which a start without vectors need not spend.
    import faiss

    # Beside turns one thread is quicker than many that wait for one another.
    faiss.omp_set_num_threads(1)
    return faiss


def _empty_index(dimension: int, *, approximate: bool) -> Any:
    faiss = _faiss()
    kind = faiss.ScalarQuantizer.QT_fp16
    if not approximate:
        return faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)
    index = faiss.IndexHNSWSQ(dimension, kind, LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_EFFORT
    # 16-bit floats need no training, and the class asks for it all the same.
    index.train(np.zeros((1, dimension), np.float32))
    return index


# -- choosing --------------------------------------------------------------------

# Vectors that are kept in the store's database, where the settings ask for it.

PART = "discovery: vectors in PostgreSQL"

KEEP_SECONDS = 3600.0
"""The time between two marks of what is used; what has had none for a day is deleted."""


class Elsewhere:
    """The vectors of one gateway that are not in its memory; none before `open`."""

    def __init__(self) -> None:
        self._table: VectorTable | None = None

    async def open(self, host: Host, collection: str) -> None:
        """Find the tables; without them, say so, and leave the vectors to the memory."""
        self._table = None
        store = host.get(STORE)
        try:
            if store is None:
                raise VectorsError(
                    "no plugin provides a store: enable the plugin `storage`, with a `url` of a "
                    "PostgreSQL database"
                )
            # SQLAlchemy takes a third of a second to import: not on the event loop.
            await asyncio.to_thread(
                import_module, "hookgate.builtin_plugins.discovery.index.pgvector"
            )
            from hookgate.builtin_plugins.discovery.index.pgvector import VectorTable

            self._table = await VectorTable.open(store, collection, now=host.clock.now)
        except (VectorsError, StoreError) as error:
            host.standing(PART).bad(f"{error}. Until a restart, vectors are kept in memory")
        else:
            host.standing(PART).good()

    def of(self, fingerprint: str) -> Vectors | None:
        """Return the vectors of an embedder; None where the memory keeps them."""
        if self._table is None:
            return None
        from hookgate.builtin_plugins.discovery.index.pgvector import PostgresVectors

        return PostgresVectors(self._table, fingerprint)

    async def keep(self, host: Host) -> None:
        """Mark what is used from time to time, as long as the gateway runs."""
        while self._table is not None:
            await asyncio.sleep(KEEP_SECONDS)
            try:
                await asyncio.to_thread(self._table.keep)
            except VectorsError as error:
                # A search says so in `status`; a day's marks may be missed.
                host.log.warning("vectors not marked", why=str(error))
