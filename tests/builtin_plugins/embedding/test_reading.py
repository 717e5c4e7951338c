from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from hookgate.builtin_plugins.embedding.service import (
    READ_TOKENS,
    WHOLE,
    CachedEmbedder,
    TextReading,
    Tokens,
)
from hookgate.ports import embed_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.ports import PartsEmbedder


class Letters:
    """An engine whose tokens are letters, and that reads the first `most` of them."""

    problem, dimension, fingerprint, loaded = "", 2, "letters", True
    tells_tokens = True

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.read_texts: list[str] = []
        self.kept_texts: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed(self, texts: Sequence[str]) -> Any:
        self.kept_texts += texts
        return np.ones((len(texts), 2), np.float32)

    async def read(self, text: str) -> TextReading:
        self.read_texts.append(text)
        await self.gate.wait()
        seen = text[: self.most]
        # One token that has no place stands in front, as models have it.
        states = np.array([[1, 1], *([ord(letter) - 96, 1] for letter in seen)], np.float32)
        places = np.array([[0, 0], *([at, at + 1] for at in range(len(seen)))])
        total = states.sum(axis=0)
        tokens = Tokens(states, places) if self.tells_tokens else None
        return TextReading(total / np.linalg.norm(total), tokens)

    async def close(self) -> None:
        return None


def embedder(engine: Letters) -> CachedEmbedder:
    return CachedEmbedder(engine, kind="onnx", cache_size=10)


def apart(part: list[float], whole: np.ndarray[Any, Any]) -> Any:
    vector = np.array(part) / np.linalg.norm(part) - WHOLE * whole
    return vector / np.linalg.norm(vector)


async def test_text_and_its_parts_are_read_in_one_run() -> None:
    engine = Letters()
    one: PartsEmbedder = embedder(engine)

    whole, first, second = await embed_parts(one, "ab zz", [(0, 2), (3, 5)])

    assert engine.read_texts == ["ab zz"]
    assert engine.kept_texts == []
    assert np.array_equal(whole, await one.embed_query("ab zz"))
    assert np.allclose(first, apart([3, 2], whole), atol=1e-6)
    assert np.allclose(second, apart([52, 2], whole), atol=1e-6)
    assert not first.flags.writeable


@pytest.mark.parametrize("spans", [[], [(0, 2), (3, 5)]], ids=["no parts", "parts"])
async def test_who_asks_for_the_text_and_who_asks_for_parts_share_a_run(
    spans: list[tuple[int, int]],
) -> None:
    engine = Letters()
    one = embedder(engine)
    engine.gate.clear()
    asking = [
        asyncio.create_task(one.embed_query("ab zz")),
        asyncio.create_task(one.embed_parts("ab zz", spans)),
        asyncio.create_task(one.embed_parts("ab zz", spans)),
    ]
    await asyncio.sleep(0)
    engine.gate.set()
    vector, parts, _ = await asyncio.gather(*asking)
    again = await one.embed_parts("ab zz", spans)

    assert engine.read_texts == ["ab zz"]
    assert parts[0] is vector
    assert [len(parts), len(again)] == [len(spans) + 1] * 2
    assert (one.cache.misses, one.cache.hits) == (1, 3)


async def test_part_behind_what_the_model_reads_is_read_by_itself() -> None:
    engine = Letters(most=4)
    one = embedder(engine)

    whole, first, cut, behind = await one.embed_parts("ab zzz ccc", [(0, 2), (3, 6), (7, 10)])

    assert engine.read_texts == ["ab zzz ccc", "zzz", "ccc"]
    assert np.allclose(first, apart([3, 2], whole), atol=1e-6)
    assert np.array_equal(cut, await one.embed_query("zzz"))
    assert np.array_equal(behind, await one.embed_query("ccc"))
    assert len(engine.read_texts) == 3


async def test_part_without_a_token_is_read_by_itself() -> None:
    engine = Letters()
    await embedder(engine).embed_parts("ab zz", [(2, 2), (3, 5)])

    assert engine.read_texts == ["ab zz", ""]


async def test_engine_that_tells_no_tokens_is_asked_part_by_part() -> None:
    engine = Letters()
    engine.tells_tokens = False

    made = await embedder(engine).embed_parts("ab zz", [(0, 2), (3, 5)])

    assert len(made) == 3
    assert engine.read_texts == ["ab zz"]
    assert engine.kept_texts == ["ab", "zz"]


async def test_embedder_of_somebody_else_is_asked_part_by_part() -> None:
    class Small:
        dimension, fingerprint = 2, "small"
        asked: ClassVar[list[str]] = []

        async def embed(self, texts: Sequence[str]) -> Any:
            self.asked += texts
            return np.ones((len(texts), 2), np.float32)

        async def embed_query(self, text: str) -> Any:
            return (await self.embed([text]))[0]

    made = [await embed_parts(Small(), "ab zz", spans) for spans in ([], [(0, 2), (3, 5)])]

    assert [len(vectors) for vectors in made] == [1, 3]
    assert Small.asked == ["ab zz", "ab zz", "ab", "zz"]


async def test_tokens_of_the_latest_texts_alone_are_kept() -> None:
    engine = Letters(most=READ_TOKENS)
    one = embedder(engine)
    long = "a" * (READ_TOKENS // 2)
    for text in ("ab zz", long, f"{long}b", "ab zz"):
        await one.embed_parts(text, [(0, 2)])

    assert engine.read_texts == ["ab zz", long, f"{long}b", "ab zz"]
    # Its vector, which is small, has been there all the time.
    assert len(one.cache) == 3


def test_part_that_is_the_text_has_its_direction() -> None:
    states = np.array([[3, 4]], np.float32)
    reading = TextReading(np.array([0.6, 0.8], np.float32), Tokens(states, np.array([[0, 1]])))

    (vector,) = reading.parts([(0, 1)])

    assert vector is not None
    assert np.allclose(vector, [0.6, 0.8])


def test_reading_without_tokens_knows_no_part() -> None:
    reading = TextReading(np.array([0.6, 0.8], np.float32))

    assert reading.parts([(0, 1), (1, 2)]) == [None, None]
    assert reading.weight == 0
