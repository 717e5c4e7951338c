from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.embedding.conftest import FakeModel
from tests.support.script import until

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding import worker
from hookgate.builtin_plugins.embedding.worker import ThreadEngine


@pytest.fixture
async def engine(fake: FakeModel) -> AsyncIterator[ThreadEngine]:
    one = ThreadEngine(fake, failed=lambda _: None)
    yield one
    fake.gate.set()
    await one.close()


async def computing(fake: FakeModel) -> None:
    """Wait until the model's thread is at work."""
    await asyncio.to_thread(fake.started.wait, 20)


async def handed_over() -> None:
    """Let the tasks that were made run until they wait for the model."""
    for _ in range(10):
        await asyncio.sleep(0)


@given(texts=st.lists(st.text(max_size=40), max_size=80))
def test_vectors_come_in_the_order_of_the_texts(texts: list[str]) -> None:
    async def embed() -> list[float]:
        engine = ThreadEngine(FakeModel(), failed=lambda _: None)
        try:
            made = await engine.embed(texts)
        finally:
            await engine.close()
        assert made.shape == (len(texts), 3)
        assert made.dtype == np.float32
        return [float(row[0]) for row in made]

    assert asyncio.run(embed()) == [float(len(text)) for text in texts]


async def test_the_model_is_loaded_once_and_by_the_first_who_asks(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    assert not engine.loaded
    await asyncio.gather(engine.load(), engine.read("a"), engine.embed(["a", "b"]))

    assert engine.loaded
    assert fake.loads == 1


async def embedding_in_bulk(engine: ThreadEngine) -> asyncio.Task[object]:
    bulk: asyncio.Task[object] = asyncio.create_task(engine.embed(["document"]))
    await handed_over()
    return bulk


async def test_bulk_that_waits_has_no_model_loaded_and_is_woken_by_the_end(fake: FakeModel) -> None:
    engine = ThreadEngine(fake, failed=lambda _: None, bulk_waits=True)
    bulk = await embedding_in_bulk(engine)
    await engine.close()
    with pytest.raises(EmbeddingError, match="the gateway is stopping"):
        await bulk

    assert fake.loads == 0


@pytest.mark.parametrize("how", ["load", "query"])
async def test_bulk_that_waits_goes_on_once_the_model_is_wanted(how: str, fake: FakeModel) -> None:
    engine = ThreadEngine(fake, failed=lambda _: None, bulk_waits=True)
    bulk = await embedding_in_bulk(engine)
    assert not engine.loaded
    await (engine.load() if how == "load" else engine.read("query"))
    await bulk
    await engine.close()

    assert ["document"] in fake.batches
    assert fake.loads == 1


async def test_the_model_lets_go_of_what_bulk_alone_needs_once_there_is_none(
    fake: FakeModel, engine: ThreadEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.embed(["a"])
    await engine.read("b")
    assert fake.rests == 0
    monkeypatch.setattr(worker, "REST_SECONDS", 0.0)
    await asyncio.gather(engine.embed(["c"]), engine.embed(["d"]))
    await until(lambda: fake.rests > 0)
    await engine.embed(["e"])
    assert ["e"] in fake.batches


async def test_the_model_works_on_one_thread_that_is_not_the_event_loops(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    await asyncio.gather(engine.read("a"), engine.embed(["b"] * 40), engine.read("c"))

    assert len(fake.threads) == 1
    assert threading.current_thread().name not in fake.threads


async def test_a_query_does_not_wait_for_the_rest_of_the_bulk(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    fake.gate.clear()
    bulk = asyncio.create_task(engine.embed(["document" * 40] * 100))
    await computing(fake)
    query = asyncio.create_task(engine.read("query"))
    await handed_over()
    fake.gate.set()
    await query

    # One batch was being computed, and at most one more was on its way.
    assert ["query"] in fake.batches[:3]
    assert (await bulk).shape == (100, 3)


async def test_two_who_embed_in_bulk_take_turns(fake: FakeModel, engine: ThreadEngine) -> None:
    fake.gate.clear()
    large = asyncio.create_task(engine.embed(["document" * 40] * 100))
    await computing(fake)
    small = asyncio.create_task(engine.embed(["small"]))
    await handed_over()
    fake.gate.set()
    await small

    assert not large.done()
    await large


async def test_a_model_that_cannot_be_loaded_is_tried_once_and_told_once() -> None:
    told: list[str] = []
    fake = FakeModel(broken="the file is damaged: install it again")
    engine = ThreadEngine(fake, failed=told.append)
    for _ in range(3):
        with pytest.raises(EmbeddingError, match="the file is damaged"):
            await engine.read("a")
    with pytest.raises(EmbeddingError, match="the file is damaged"):
        await engine.embed([])
    await engine.close()

    assert fake.loads == 1
    assert told == ["the file is damaged: install it again"]
    assert engine.problem == told[0]
    assert not engine.loaded


async def test_a_failed_computation_is_typed_and_the_next_one_works(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    fake.failing = True
    with pytest.raises(EmbeddingError, match="fake:1 failed: MemoryError: no room"):
        await engine.embed(["a"])
    fake.failing = False

    assert (await engine.read("abc")).vector[0] == 3
    assert engine.problem == ""


async def test_closing_tells_those_who_wait_that_the_gateway_stops(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    fake.gate.clear()
    first = asyncio.create_task(engine.read("a"))
    await computing(fake)
    second = asyncio.create_task(engine.read("b"))
    await handed_over()
    await engine.close()
    with pytest.raises(EmbeddingError, match="the gateway is stopping"):
        await second
    with pytest.raises(EmbeddingError, match="the gateway is stopping"):
        await engine.embed(["c"])
    fake.gate.set()

    assert (await first).vector[0] == 1


async def test_a_cancelled_caller_is_cancelled_and_not_told_of_an_error(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    fake.gate.clear()
    asking = asyncio.create_task(engine.embed(["a"] * 40))
    await computing(fake)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    fake.gate.set()

    assert (await engine.read("ab")).vector[0] == 2


async def test_halves_of_surrogate_pairs_do_not_reach_the_model(
    fake: FakeModel, engine: ThreadEngine
) -> None:
    await engine.embed(["a\ud800b"])

    assert fake.batches == [["a?b"]]
