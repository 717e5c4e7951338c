from __future__ import annotations

import numpy as np
import pytest
from tests.builtin_plugins.discovery.searching import FakeEmbedder, row, snapshot, vector

from hookgate.builtin_plugins.discovery.index import IndexQuery, Surroundings
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.learn.lessons import (
    TEXTS,
    Learned,
    LearnedCache,
    Lessons,
    LessonsCache,
    WordExamples,
)
from hookgate.builtin_plugins.discovery.learn.view import NO_EXAMPLES, ExampleSet

ROWS = snapshot([row("quotient", "arithmetic"), row("clock", "tell the hour")])
ASKED = "how big should the tip be"


async def test_an_earlier_query_counts_by_its_words_before_there_are_vectors() -> None:
    engine = SearchEngine(Surroundings())
    lessons = Lessons(None, WordExamples([ASKED], ["tool:quotient"]))
    bare = await engine.find(ROWS, ASKED, limit=5, floor=0.45)
    assert bare.found == ()
    taught = await engine.find(
        ROWS, "how big must the tip be?", limit=5, floor=0.45, learned=lessons
    )
    assert [one.row.id for one in taught.found] == ["tool:quotient"]
    other = await engine.find(ROWS, "how tall is the tower", limit=5, floor=0.45, learned=lessons)
    assert other.found == ()


async def test_it_counts_beside_vectors_while_its_own_is_not_there() -> None:
    embedder = FakeEmbedder()
    engine = SearchEngine(Surroundings(embedder=lambda: embedder))
    await engine.ready(ROWS)
    lessons = Lessons(None, WordExamples([ASKED], ["tool:quotient"]))
    taught = await engine.find(ROWS, ASKED, limit=5, learned=lessons)
    assert taught.dense
    assert taught.found[0].row.id == "tool:quotient"
    assert taught.found[0].dense == pytest.approx(1)
    await engine.close()


async def test_an_example_that_nobody_vouches_for_counts_less() -> None:
    embedder = FakeEmbedder()
    engine = SearchEngine(Surroundings(embedder=lambda: embedder))
    index = await engine.ready(ROWS)
    owners, known = ["tool:quotient"], vector(ASKED, "fake:1")
    query = IndexQuery.of(ASKED)
    for lessons, asked in (
        (Lessons(Learned(owners, known[None], {0})), query.with_vectors([known])),
        (Lessons(None, WordExamples([ASKED], owners, {0})), query),
    ):
        boost = lessons.of(asked, index)
        assert boost is not None
        assert boost[1][0, 0] == pytest.approx(0.9)
    await engine.close()


async def test_vectors_come_before_words_where_they_are_there() -> None:
    embedder = FakeEmbedder()
    engine = SearchEngine(Surroundings(embedder=lambda: embedder))
    index = await engine.ready(ROWS)
    meant = Learned(["tool:clock"], vector(ASKED, "fake:1")[None])
    lessons = Lessons(meant, WordExamples([ASKED], ["tool:quotient"]))
    query = IndexQuery.of(ASKED)
    boost = lessons.of(query.with_vectors([vector(ASKED, "fake:1")]), index)
    assert boost is not None
    assert boost[0].tolist() == [1]
    # A message without a vector is compared by its words.
    boost = lessons.of(query, index)
    assert boost is not None
    assert boost[0].tolist() == [0]
    await engine.close()


async def test_only_the_latest_of_many_are_compared_and_unknown_owners_are_passed_over() -> None:
    index = await SearchEngine().index_of(ROWS)
    many = WordExamples(
        [ASKED, *(f"query number {n}" for n in range(TEXTS - 1)), "old bread"],
        ["tool:quotient"] * TEXTS + ["tool:gone"],
    )
    assert many.of(IndexQuery.of(ASKED), index) is None
    assert many.of(IndexQuery.of("old bread"), index) is None
    boost = many.of(IndexQuery.of("query number 7"), index)
    assert boost is not None
    np.testing.assert_allclose(boost[1], [[1.0]])


def test_a_scope_is_taken_apart_once_for_each_version() -> None:
    cache = LessonsCache(LearnedCache(lambda: None, lambda work, _: work.close()))
    assert cache.of("a", NO_EXAMPLES) is None
    examples = ExampleSet(1, (ASKED,), ("tool:quotient",))
    first, second = cache.of("a", examples), cache.of("a", examples)
    assert first is not None
    assert second is not None
    assert first.said is second.said
    newer = cache.of("a", ExampleSet(2, (ASKED, "what hour"), ("tool:quotient", "tool:clock")))
    assert newer is not None
    assert newer.said is not first.said
    assert cache.of("a", NO_EXAMPLES) is None
