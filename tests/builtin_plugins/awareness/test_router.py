from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hookgate import EmbeddingError
from hookgate.builtin_plugins.awareness.selection.nearness import SentenceVectors
from hookgate.builtin_plugins.awareness.selection.router import TagRouter, default_tags, examples
from hookgate.core.domain.descriptors import Card, Triggers

TAUGHT = {
    "memory": ("what do you know of me",),
    "tools": ("what can you read",),
    "unrelated": ("the weather of tomorrow",),
}


class Embedder:
    """Vectors by the words of a text: one dimension for each known word."""

    dimension = 64

    def __init__(self, fingerprint: str = "one") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []
        self.queries: list[str] = []
        self.broken = False
        self._words: dict[str, int] = {}

    def vector(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        found = np.zeros(self.dimension, np.float32)
        for word in text.lower().split():
            found[self._words.setdefault(word, len(self._words))] = 1
        return found / np.float32(max(float(np.linalg.norm(found)), 1e-6))

    async def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        if self.broken:
            raise EmbeddingError("no model")
        self.asked += texts
        return np.stack([self.vector(text) for text in texts])

    async def embed_query(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        if self.broken:
            raise EmbeddingError("no model")
        self.queries.append(text)
        return self.vector(text)


def card(*tags: str, **more: Any) -> Card:
    keywords = more.pop("keywords", ())
    triggers = Triggers(router_tags=tags, keywords=keywords)
    return Card(id="x", text="text", triggers=triggers, **more)


# -- by words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("remember that I like tea", {"memory"}),
        ("What do you REMEMBER about me?", {"memory"}),
        ("why was that tool call denied", {"security"}),
        ("is http_get one of your tools", {"tools"}),
        ("my http_getter is broken", set()),
        ("the tools in my garage are rusty", set()),
        ("my memory is bad lately", set()),
        ("how do I audit a balance sheet?", set()),
        ("thanks!", set()),
        ("", set()),
    ],
)
def test_keywords_name_tags(text: str, tags: set[str]) -> None:
    assert TagRouter().words(text) == tags


def test_every_shipped_tag_is_found_by_each_of_its_keywords() -> None:
    assert set(default_tags()) == {
        "config", "integration", "deployment", "memory", "security", "debug", "tools"
    }  # fmt: skip
    router = TagRouter()
    for name, keywords in default_tags().items():
        assert keywords
        for keyword in keywords:
            assert name in router.words(f"well, {keyword.upper()}?")


def test_the_operators_keywords_replace_those_of_the_same_tag() -> None:
    router = TagRouter({"memory": ["souvenir"], "billing": ["invoice", "refund"]})
    assert router.words("remember that I like tea") == frozenset()
    assert router.words("a souvenir with an invoice") == {"memory", "billing"}
    assert "tools" in router.words("your tools")


def test_an_empty_list_switches_a_tag_off_for_cards_too() -> None:
    router = TagRouter({"memory": []}, [card("memory")])
    assert "memory" not in router.tags
    assert router.words("memory: what do you remember about me") == frozenset()


def test_a_tag_that_only_a_card_names_is_found_by_its_name() -> None:
    router = TagRouter({}, [card("cost-control", "rate_limits")])
    assert router.words("is there any Cost Control here?") == {"cost-control"}
    assert router.words("how high are the rate limits?") == {"rate_limits"}
    assert router.words("what does it cost?") == frozenset()


def test_a_long_message_takes_no_longer_than_a_bound() -> None:
    router = TagRouter()
    text = "remember thatremember " * 100_000
    taken = []
    for _ in range(5):
        begun = time.process_time()
        router.words(text)
        taken.append(time.process_time() - begun)
    # 0.6 ms on the machine that it was written on.
    assert min(taken) < 0.02


# -- by meaning ----------------------------------------------------------------------


async def test_a_message_like_an_example_has_its_tag() -> None:
    router, embedder = TagRouter(taught=TAUGHT), Embedder()
    assert await router.meaning("what do you know", embedder) == {"memory"}
    assert await router.meaning("the weather tomorrow", embedder) == frozenset()
    assert await router.meaning("something else altogether", embedder) == frozenset()


async def test_what_is_nearer_to_an_unrelated_message_has_no_tag() -> None:
    unrelated = ("what do you know of birds and trees",)
    router = TagRouter(taught={**TAUGHT, "unrelated": unrelated})
    message = "do know of birds and trees"
    embedder = Embedder()
    assert await router.meaning(message, embedder) == frozenset()
    alone = TagRouter(taught={**TAUGHT, "unrelated": ()})
    assert await alone.meaning(message, embedder) == {"memory"}


async def test_at_most_two_tags_that_are_nearly_as_near_count() -> None:
    taught = {
        "memory": ("one two three",),
        "tools": ("one two four",),
        "debug": ("one two five",),
        "config": ("one six seven",),
    }
    router, embedder = TagRouter(taught=taught), Embedder()
    assert len(await router.meaning("one two", embedder)) == 2
    assert await router.meaning("one two four", embedder) == {"tools"}


async def test_the_query_is_asked_for_as_it_is_and_examples_once() -> None:
    router, embedder = TagRouter(taught=TAUGHT), Embedder()
    assert not router.ready(embedder)
    await router.prepare(embedder)
    assert router.ready(embedder)
    await router.meaning(" What do you know?", embedder)
    await router.meaning(" What do you know?", embedder)
    assert embedder.queries == [" What do you know?"] * 2
    assert sorted(embedder.asked) == sorted(text for texts in TAUGHT.values() for text in texts)


async def test_another_model_makes_vectors_of_its_own() -> None:
    router, first, second = TagRouter(taught=TAUGHT), Embedder("one"), Embedder("two")
    await router.meaning("what do you know", first)
    second.vector("words in another order tomorrow weather")
    assert not router.ready(second)
    assert await router.meaning("what do you know", second) == {"memory"}
    assert second.asked


async def test_a_new_router_embeds_what_is_new_alone() -> None:
    vectors, embedder = SentenceVectors(), Embedder()
    await TagRouter(taught=TAUGHT, vectors=vectors).prepare(embedder)
    embedder.asked.clear()
    described = card("billing", description="Invoices of last month")
    await TagRouter({}, [described], taught=TAUGHT, vectors=vectors).prepare(embedder)
    assert embedder.asked == ["Invoices of last month"]


async def test_a_failure_is_raised_and_the_next_call_asks_again() -> None:
    router, embedder = TagRouter(taught=TAUGHT), Embedder()
    embedder.broken = True
    with pytest.raises(EmbeddingError):
        await router.meaning("what do you know", embedder)
    embedder.broken = False
    assert await router.meaning("what do you know", embedder) == {"memory"}


async def test_a_tag_of_a_card_is_found_by_what_the_card_says() -> None:
    keywords = ("pay", "when is the money due")
    one = card("billing", description="Invoices of last month", keywords=keywords)
    router, embedder = TagRouter({}, [one], taught=TAUGHT), Embedder()
    assert await router.meaning("invoices of may", embedder) == {"billing"}
    assert await router.meaning("is the money due", embedder) == {"billing"}
    assert await router.meaning("pay", embedder) == frozenset()


async def test_a_tag_of_the_operator_is_found_by_its_longer_keywords() -> None:
    router = TagRouter({"memory": ["when is the money due"]}, taught=TAUGHT)
    embedder = Embedder()
    assert await router.meaning("is the money due", embedder) == {"memory"}
    assert "memory" not in await router.meaning("what do you know of me", embedder)


async def test_an_empty_message_and_a_router_without_examples_ask_nothing() -> None:
    embedder = Embedder()
    assert await TagRouter(taught=TAUGHT).meaning("  ", embedder) == frozenset()
    assert await TagRouter(taught={}).meaning("what do you know", embedder) == frozenset()
    assert not embedder.queries


def test_the_shipped_examples_name_the_shipped_tags_and_no_text_twice() -> None:
    taught = examples()
    assert set(taught) == {*default_tags(), "unrelated"}
    texts = [text for group in taught.values() for text in group]
    assert len(set(texts)) == len(texts)
    assert min(len(group) for group in taught.values()) >= 10
