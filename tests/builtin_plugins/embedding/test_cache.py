from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.embedding.service import QueryCache, key_of

KEYS = st.sampled_from("abcdef")


@given(
    size=st.integers(1, 5),
    steps=st.lists(st.tuples(st.sampled_from(["get", "put"]), KEYS), max_size=60),
)
def test_the_cache_keeps_what_was_used_last(size: int, steps: list[tuple[str, str]]) -> None:
    cache: QueryCache[int] = QueryCache(size)
    order: list[str] = []
    values: dict[str, int] = {}
    hits = 0
    for number, (step, key) in enumerate(steps):
        if step == "get":
            found = cache.get(key)
            assert found == (values[key] if key in order else None)
            hits += found is not None
            if key not in order:
                continue
        else:
            cache.put(key, number)
            values[key] = number
        if key in order:
            order.remove(key)
        order.append(key)
        del order[:-size]
        assert len(cache) == len(order) <= size
    assert cache.hits == hits


@given(st.lists(st.tuples(KEYS, st.integers(0, 9)), max_size=60))
def test_values_of_different_weight_stay_within_the_size(steps: list[tuple[str, int]]) -> None:
    cache: QueryCache[int] = QueryCache(10, lambda value: value)
    kept: dict[str, int] = {}
    for key, weight in steps:
        cache.put(key, weight)
        kept.pop(key, None)
        kept[key] = weight
        while sum(kept.values()) > 10:
            del kept[next(iter(kept))]

        assert {one: cache.get(one) for one in kept} == kept
        assert len(cache) == len(kept)


def test_a_long_text_is_kept_by_its_digest_and_told_from_others() -> None:
    long = "x" * 100_000

    assert key_of("short") == "short"
    assert len(key_of(long)) == 32
    assert key_of(long) == key_of("x" * 100_000)
    assert key_of(long) != key_of(long + "y")
    assert key_of("\ud800" * 1000) != key_of("\ud801" * 1000)


def test_no_text_has_the_key_of_another_texts_digest() -> None:
    assert isinstance(key_of("x" * 513), bytes)
    assert isinstance(key_of("x" * 512), str)
