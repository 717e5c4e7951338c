from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.service import CachedEmbedder, NoEngine, TextReading


class SlowEngine:
    """An `Engine` that answers a query when its gate opens."""

    dimension = 2
    fingerprint = "slow"
    loaded = True
    tells_tokens = False
    problem = ""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False

    async def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.ones((len(texts), 2), dtype=np.float32)

    async def read(self, text: str) -> TextReading:
        self.asked.append(text)
        self.begun.set()
        await self.gate.wait()
        if self.failing:
            raise EmbeddingError("out of order", transient=True)
        return TextReading(np.array([len(text), 0], dtype=np.float32))

    async def close(self) -> None:
        self.gate.set()


@pytest.fixture
async def engine() -> SlowEngine:
    return SlowEngine()


def embedder(engine: SlowEngine, size: int = 10) -> CachedEmbedder:
    return CachedEmbedder(engine, kind="onnx", cache_size=size)


async def test_the_second_query_is_answered_from_the_cache(engine: SlowEngine) -> None:
    one = embedder(engine)
    assert one.cached("hello") is None

    first = await one.embed_query("hello")
    second = await one.embed_query("hello")

    assert first is second
    assert one.cached("hello") is first
    assert engine.asked == ["hello"]
    assert (one.cache.hits, one.cache.misses) == (2, 1)


async def test_a_text_that_was_a_query_lately_and_one_that_stands_twice_are_computed_once(
    engine: SlowEngine,
) -> None:
    one = embedder(engine)
    query = await one.embed_query("hello")

    made = await one.embed(["new", "hello", "new", "hello"])

    assert engine.asked == ["hello", "new"]
    assert made.tolist() == [[1, 1], query.tolist(), [1, 1], query.tolist()]


async def test_a_cached_query_is_answered_without_leaving_the_event_loop(
    engine: SlowEngine,
) -> None:
    one = embedder(engine)
    await one.embed_query("hello")

    with pytest.raises(StopIteration) as ended:
        one.embed_query("hello").send(None)

    assert ended.value.value is one.cached("hello")


async def test_vectors_of_queries_cannot_be_written_to(engine: SlowEngine) -> None:
    vector = await embedder(engine).embed_query("hello")

    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


async def test_two_who_ask_for_one_text_ask_the_model_once(engine: SlowEngine) -> None:
    one = embedder(engine)
    engine.gate.clear()
    asking = [asyncio.create_task(one.embed_query("hello")) for _ in range(5)]
    await engine.begun.wait()
    engine.gate.set()
    vectors = await asyncio.gather(*asking)

    assert engine.asked == ["hello"]
    assert all(vector is vectors[0] for vector in vectors)
    assert (one.cache.hits, one.cache.misses) == (4, 1)


async def test_a_cancelled_query_does_not_take_the_others_along(engine: SlowEngine) -> None:
    one = embedder(engine)
    engine.gate.clear()
    first = asyncio.create_task(one.embed_query("hello"))
    second = asyncio.create_task(one.embed_query("hello"))
    await engine.begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    engine.gate.set()

    assert (await second)[0] == 5
    assert engine.asked == ["hello"]


async def test_a_failure_reaches_everyone_who_waits_and_is_not_kept(engine: SlowEngine) -> None:
    one = embedder(engine)
    engine.failing = True
    found = await asyncio.gather(
        one.embed_query("hello"), one.embed_query("hello"), return_exceptions=True
    )
    assert [str(error) for error in found] == ["out of order"] * 2
    assert len(one.cache) == 0

    engine.failing = False

    assert (await one.embed_query("hello"))[0] == 5


async def test_closing_lets_those_who_wait_end(engine: SlowEngine) -> None:
    one = embedder(engine)
    engine.gate.clear()
    asking = asyncio.create_task(one.embed_query("hello"))
    await engine.begun.wait()

    await one.close()

    assert (await asking)[0] == 5


async def test_no_engine_says_why_for_queries_and_texts() -> None:
    one = CachedEmbedder(NoEngine("gone: install it"), kind="onnx", cache_size=1)

    with pytest.raises(EmbeddingError, match="gone: install it"):
        await one.embed(["a"])
    with pytest.raises(EmbeddingError, match="gone: install it"):
        await one.embed_query("a")
    assert one.dimension == 0
