from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hookgate.builtin_plugins.discovery.index import vectors as module
from hookgate.builtin_plugins.discovery.index.vectors import VectorStore

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

DIMENSION = 32


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def made(count: int, seed: int = 0, dimension: int = DIMENSION) -> Floats:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def store_of(vectors: Floats, *, approximate: bool = False) -> VectorStore:
    store = VectorStore(vectors.shape[1], approximate=approximate)
    store.add([key(number) for number in range(len(vectors))], vectors)
    return store


def nearest(vectors: Floats, queries: Floats, count: int) -> list[list[int]]:
    order = np.argsort(-(queries @ vectors.T), axis=1)[:, :count]
    return [[int(at) for at in row] for row in order]


def test_exact_search_finds_what_numpy_finds() -> None:
    vectors, queries = made(300), made(5, seed=1)
    cosines, slots = store_of(vectors).search(queries, 10)
    assert slots.tolist() == nearest(vectors, queries, 10)
    best = np.take_along_axis(queries @ vectors.T, slots, axis=1)
    assert np.abs(cosines - best).max() < 1e-3


def test_few_vectors_need_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded() -> None:
        raise AssertionError("faiss takes 15 MB")

    monkeypatch.setattr(module, "_faiss", loaded)
    store = store_of(made(30))
    again = VectorStore.restored(store.arrays()).without([key(1), key(2)], approximate=False)
    assert again.search(made(30)[2:3], 1)[1].tolist() == [[1]]
    with pytest.raises(AssertionError, match="15 MB"):
        VectorStore(DIMENSION, approximate=True)


def test_approximate_search_finds_nine_of_ten() -> None:
    vectors, queries = made(3000), made(40, seed=1)
    _, slots = store_of(vectors, approximate=True).search(queries, 10)
    wanted = nearest(vectors, queries, 10)
    hits = [len(set(found) & set(best)) for found, best in zip(slots.tolist(), wanted, strict=True)]
    assert sum(hits) / (10 * len(wanted)) >= 0.9


@pytest.mark.parametrize("approximate", [False, True])
def test_more_than_there_is_can_be_asked_for(approximate: bool) -> None:
    vectors = made(7)
    _, slots = store_of(vectors, approximate=approximate).search(vectors[:2], 100)
    assert {slot for slot in slots[0].tolist() if slot >= 0} == set(range(7))


@pytest.mark.parametrize("approximate", [False, True])
def test_store_without_vectors_finds_nothing(approximate: bool) -> None:
    store = VectorStore(DIMENSION, approximate=approximate)
    cosines, slots = store.search(made(3), 5)
    assert cosines.shape == slots.shape == (3, 0)
    assert len(store) == 0
    assert len(store.vectors(np.zeros(0, np.int64))) == 0


def test_slots_stay_when_more_is_added() -> None:
    vectors = made(50)
    store = VectorStore(DIMENSION)
    for first in range(0, 50, 7):
        span = slice(first, first + 7)
        known = dict(store.slots)
        store.add([key(number) for number in range(50)][span], vectors[span])
        assert store.slots.items() >= known.items()
    assert [store.slots[key(number)] for number in range(50)] == list(range(50))
    assert np.abs(store.vectors(np.arange(50)) - vectors).max() < 1e-3


def test_digest_is_added_once() -> None:
    vectors = made(4)
    store = store_of(vectors[:2])
    store.add([key(1), key(2), key(2), key(3)], vectors[[3, 2, 2, 3]])
    assert len(store) == 4
    assert len(store.slots) == 4
    # The first vector of a text stands.
    assert store.search(vectors[1:2], 1)[1].tolist() == [[1]]
    store.add([], vectors[:0])
    assert len(store) == 4


@pytest.mark.parametrize("approximate", [False, True])
def test_store_without_what_is_not_used_holds_the_rest(approximate: bool) -> None:
    vectors = made(40)
    old = store_of(vectors)
    kept = [key(number) for number in range(0, 40, 2)]
    fresh = old.without([*kept, key(999)], approximate=approximate)
    assert list(fresh.slots) == kept
    assert fresh.approximate is approximate
    _, slots = fresh.search(vectors[2:3], 1)
    assert slots.tolist() == [[1]]
    assert len(old) == 40
    assert len(old.without([], approximate=approximate)) == 0


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("count", [0, 1, 60])
def test_restored_store_searches_like_the_one_that_was_kept(count: int, approximate: bool) -> None:
    store = store_of(made(count), approximate=approximate)
    restored = VectorStore.restored(store.arrays())
    assert restored.slots == store.slots
    assert restored.approximate is approximate
    queries = made(4, seed=9)
    for one, other in zip(store.search(queries, 8), restored.search(queries, 8), strict=True):
        assert one.tolist() == other.tolist()
    more = made(5, seed=3)
    restored.add([key(1000 + number) for number in range(5)], more)
    assert restored.search(more[4:5], 1)[1].tolist() == [[count + 4]]


def test_kept_graph_is_no_hindrance_where_faiss_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = store_of(made(60), approximate=True)
    arrays = dict(kept.arrays())
    monkeypatch.setitem(sys.modules, "faiss", None)
    restored = VectorStore.restored(arrays)
    assert not restored.approximate
    assert restored.slots == kept.slots
    queries = made(4, seed=9)
    assert restored.search(queries, 8)[1].tolist() == nearest(made(60), queries, 8)
    # With faiss again the graph is made of what is there.
    monkeypatch.undo()
    assert restored.without(list(restored.slots), approximate=True).approximate


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    arrays = dict(store_of(made(5)).arrays())
    graph = dict(store_of(made(6), approximate=True).arrays())
    names = arrays["slot_digests"]
    broken = [
        {**arrays, "slot_digests": names[:-16]},
        {**arrays, "slot_digests": names[:-3]},
        {**arrays, "vectors": arrays["vectors"].astype(np.float32)},
        {**arrays, "vectors": arrays["vectors"].ravel()},
        {**arrays, "slot_digests": np.tile(names[:16], 5)},
        {**arrays, "graph": graph["graph"]},
    ]
    for one in broken:
        with pytest.raises(ValueError, match=r"belong together|named twice"):
            VectorStore.restored(one)


@pytest.mark.parametrize("approximate", [False, True])
def test_searches_go_on_while_vectors_are_added(approximate: bool) -> None:
    vectors = made(1200)
    store = store_of(vectors[:100], approximate=approximate)
    failures: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            cosines, slots = store.search(vectors[:3], 5)
            held = store.vectors(slots[slots >= 0])
            if slots[:, 0].tolist() != [0, 1, 2] or abs(cosines[0, 0] - 1) > 1e-2:
                failures.append(f"{slots} {cosines}")
            if not held.any(axis=1).all():
                failures.append("a vector is empty")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for first in range(100, 1200, 50):
        numbers = range(first, first + 50)
        store.add([key(number) for number in numbers], vectors[first : first + 50])
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store) == 1200
