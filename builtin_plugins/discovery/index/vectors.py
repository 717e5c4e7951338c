"""Search by meaning: vectors with slots that outlast a version of the rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hookgate import STORE, HookgateError, Host, StoreError
from hookgate.kit.modules import np
from hookgate.kit.vectors import products

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.pgvector import VectorTable

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Slots: TypeAlias = npt.NDArray[np.int64]

ANN_VECTORS = 10_000
"""From so many vectors on, the search is approximate: an exact one would take milliseconds."""

NO_FAISS = (
    f"found no faiss for more than {ANN_VECTORS:,} vectors: a search compares all of them, in some "
    "3 ms of CPU for 16,000. For less run `pip install 'hookgate[faiss]'`, and start again"
)

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

    Vectors are kept as 16-bit floats, with an error of a cosine below 0.001. Few are compared each
    with a query; many stand in a graph of faiss where that is installed, which takes 15 MB and a
    tenth of a second to load.
    """

    blocking = False

    def __init__(self, dimension: int, *, approximate: bool = False) -> None:
        self.dimension = dimension
        self.approximate = approximate
        self.slots: dict[bytes, int] = {}
        # Those of a graph are seldom looked at by themselves, and need not be wide.
        self._matrix = np.zeros((0, dimension), np.float16 if approximate else np.float32)
        self._used = 0
        # faiss takes neither two writers nor a reader beside a writer.
        self._lock = threading.Lock()
        self._graph = _empty_graph(dimension) if approximate else None

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
        taken = vectors[fresh].astype(np.float16)
        used = self._used + len(fresh)
        if used > len(self._matrix):
            room = max(used, 2 * len(self._matrix)), self.dimension
            grown = np.zeros(room, self._matrix.dtype)
            grown[: self._used] = self._matrix[: self._used]
            self._matrix = grown
        self._matrix[self._used : used] = taken
        if self._graph is not None:
            with self._lock:
                self._graph.add(np.ascontiguousarray(taken, np.float32))
        for slot, at in enumerate(fresh, self._used):
            self.slots[digests[at]] = slot
        self._used = used

    def vectors(self, slots: Slots) -> Floats:
        """Return the vectors at `slots`."""
        return self._matrix[slots].astype(np.float32, copy=False)

    def search(self, queries: Floats, count: int) -> tuple[Floats, Slots]:
        """Return the best cosines and slots of each query, up to `count`.

        The slot is -1 where there are fewer.
        """
        used = self._used
        count = max(1, min(count, used))
        if not used:
            empty = np.zeros((len(queries), 0), np.float32)
            return empty, empty.astype(np.int64)
        if self._graph is None:
            return _best(products(queries, self._matrix[:used]), count)
        with self._lock:
            self._graph.hnsw.efSearch = max(SEARCH_EFFORT, 2 * count)
            found: tuple[Floats, Slots] = self._graph.search(
                np.ascontiguousarray(queries, np.float32), count
            )
        return found

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
            "vectors": self._matrix[: self._used].astype(np.float16, copy=False),
        }
        if self._graph is not None:
            with self._lock:
                arrays["graph"] = _faiss().serialize_index(self._graph)
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
        store = cls(matrix.shape[1], approximate="graph" in arrays and has_faiss())
        if not store.approximate:
            store.add(digests, matrix.astype(np.float32))
        else:
            store._graph = _faiss().deserialize_index(arrays["graph"])
            store._matrix, store._used = matrix, len(matrix)
            store.slots = {digest: slot for slot, digest in enumerate(digests)}
            if store._graph.ntotal != len(matrix) or store._graph.d != matrix.shape[1]:
                raise ValueError("the graph and the vectors do not belong together")
        if len(store.slots) != len(digests):
            raise ValueError("a vector is named twice")
        return store


def _best(cosines: Floats, count: int) -> tuple[Floats, Slots]:
    """Return the best `count` of each row, and where they stand."""
    places = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(cosines, places, axis=1)
    order = np.argsort(-found, axis=1)
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(places, order, axis=1)


def has_faiss() -> bool:
    """Whether the extra `faiss` is installed, without which every search is exact."""
    return find_spec("faiss") is not None


def _faiss() -> Any:
    # It takes a tenth of a second to load, which few gateways need to spend.
    import faiss

    # Beside turns one thread is quicker than many that wait for one another.
    faiss.omp_set_num_threads(1)
    return faiss


def _empty_graph(dimension: int) -> Any:
    faiss = _faiss()
    kind = faiss.ScalarQuantizer.QT_fp16
    graph = faiss.IndexHNSWSQ(dimension, kind, LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_EFFORT
    # 16-bit floats need no training, and the class asks for it all the same.
    graph.train(np.zeros((1, dimension), np.float32))
    return graph


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
