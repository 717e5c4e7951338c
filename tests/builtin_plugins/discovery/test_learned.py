from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.builtin_plugins.discovery.searching import FakeEmbedder, broken, row, vector

from hookgate.builtin_plugins.discovery.index import IndexQuery
from hookgate.builtin_plugins.discovery.index.build import Material
from hookgate.builtin_plugins.discovery.learn.lessons import SCOPES, Learned, LearnedCache
from hookgate.builtin_plugins.discovery.learn.view import NO_EXAMPLES, ExampleSet

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hookgate.builtin_plugins.discovery.index import Index

ROWS = [row("quotient", "arithmetic"), row("send_mail", "write"), row("clock", "tell the hour")]


def index_of(*names: str) -> Index:
    rows = [one for one in ROWS if not names or one.name in names]
    material = Material()
    draft = material.draft(1, rows)
    material.take("fake:1", list(draft.missing), np.stack([*map(made, draft.missing.values())]))
    return material.index(draft)


def made(text: str) -> Any:
    return vector(text, "fake:1")


def query_of(text: str) -> IndexQuery:
    query = IndexQuery.of(text)
    return query.with_vectors([made(part.text) for part in query.parts])


def learned_of(**owners: str) -> Learned:
    """Return examples, each by the name of the tool that answered it."""
    vectors = [made(text.replace("_", " ")) for text in owners]
    return Learned([f"tool:{owner}" for owner in owners.values()], np.stack(vectors))


# -- what they do to a search -----------------------------------------------------


def test_examples_raise_what_they_were_answered_with() -> None:
    index, query = index_of(), query_of("how big a tip")
    boost = learned_of(how_big_a_tip="quotient", what_hour="clock").of(query, index)
    assert boost is not None
    places, likeness = boost
    assert places.tolist() == [0, 2]
    assert likeness[0][0] == pytest.approx(1, abs=1e-3)
    assert index.search(query, learned=boost).places[0] == 0


def test_best_of_several_examples_counts_for_each_part_of_a_message() -> None:
    index, query = index_of(), query_of("send nice letter now. then what hour exactly")
    learned = learned_of(
        send_nice_letter="send_mail", what_hour_exactly="clock", letter="send_mail"
    )
    boost = learned.of(query, index)
    assert boost is not None
    places, likeness = boost
    assert likeness.shape == (3, 2)
    assert places.tolist() == [1, 2]
    assert likeness[1].argmax() == 0
    assert likeness[2].argmax() == 1


def test_owners_that_do_not_exist_any_more_are_passed_over() -> None:
    query = query_of("how big a tip")
    learned = learned_of(how_big_a_tip="quotient", what_hour="clock")
    boost = learned.of(query, index_of("clock", "send_mail"))
    assert boost is not None
    assert boost[0].tolist() == [1]
    assert learned.of(query, index_of("send_mail")) is None
    # With the next version they may be back.
    again = learned.of(query, index_of())
    assert again is not None
    assert again[0].tolist() == [0, 2]


def test_without_vectors_examples_take_no_part() -> None:
    learned = learned_of(how_big="quotient")
    assert learned.of(IndexQuery.of("how big"), index_of()) is None
    other = IndexQuery.of("how big").with_vectors([vector("how big", "fake:2", 16)])
    assert learned.of(other, index_of()) is None


# -- where they are kept ------------------------------------------------------------


class Cache:
    """A cache whose work beside the turns runs when it is told to."""

    def __init__(self) -> None:
        self.embedder: FakeEmbedder | None = FakeEmbedder()
        self.work: list[Coroutine[Any, Any, None]] = []
        self.cache = LearnedCache(lambda: self.embedder, self.spawn)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert name == "discovery.examples"
        self.work.append(work)

    async def hang(self) -> asyncio.Task[None]:
        """Begin what was put off, and leave it where the embedder does not answer."""
        assert self.embedder is not None
        self.embedder.gate.clear()
        task = asyncio.create_task(self.finish())
        await asyncio.sleep(0)
        assert self.embedder.texts
        return task

    async def finish(self) -> None:
        work, self.work = self.work, []
        for one in work:
            await one

    def owners(self, examples: ExampleSet, scope: str = "ada") -> dict[str, float] | None:
        """Return how like "tip" the examples of each row are; None where there are none."""
        learned = self.cache.of(scope, examples)
        if learned is None or self.embedder is None:
            return None
        index = index_of()
        query = IndexQuery.of("tip").with_vectors([vector("tip", self.embedder.fingerprint)])
        boost = learned.of(query, index)
        if boost is None:
            return None
        return dict(
            zip([index.rows[at].name for at in boost[0]], boost[1][0].tolist(), strict=True)
        )


def examples(version: int, **owners: str) -> ExampleSet:
    texts = tuple(text.replace("_", " ") for text in owners)
    return ExampleSet(version, texts, tuple(f"tool:{owner}" for owner in owners.values()))


TIP = examples(1, tip="quotient")
BOTH = examples(2, tip="quotient", what_hour="clock")


async def test_search_never_waits_for_examples() -> None:
    made = Cache()
    assert made.cache.of("ada", TIP) is None
    # What is being made already is not begun again.
    assert made.cache.of("ada", TIP) is None
    assert len(made.work) == 1
    await made.finish()
    assert made.owners(TIP) == {"quotient": pytest.approx(1, abs=1e-3)}
    assert made.work == []


async def test_older_examples_serve_until_the_newer_are_there() -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    await made.finish()
    assert made.owners(BOTH) == {"quotient": pytest.approx(1, abs=1e-3)}
    await made.finish()
    assert set(made.owners(BOTH) or ()) == {"quotient", "clock"}
    assert made.embedder is not None
    assert made.embedder.texts == ["tip", "what hour"]


async def test_scopes_do_not_mix() -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    made.cache.of("bob", examples(1, what_hour="clock"))
    await made.finish()
    assert set(made.owners(TIP, "ada") or ()) == {"quotient"}
    assert set(made.owners(examples(1, what_hour="clock"), "bob") or ()) == {"clock"}
    assert made.owners(NO_EXAMPLES, "eve") is None


async def test_all_that_was_erased_is_forgotten_at_once() -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    await made.finish()
    assert made.cache.of("ada", ExampleSet(2)) is None
    assert made.work == []
    assert made.cache.of("ada", examples(3, tip="clock")) is None
    await made.finish()
    assert set(made.owners(examples(3, tip="clock")) or ()) == {"clock"}


@pytest.mark.parametrize("state", ["works", "fails", "is gone"])
async def test_one_that_was_erased_is_forgotten_at_once(state: str) -> None:
    made = Cache()
    made.cache.of("ada", BOTH)
    await made.finish()
    assert made.embedder is not None
    embedder = made.embedder
    if state == "fails":
        embedder.failing = broken()
    if state == "is gone":
        made.embedder = None
    left = examples(3, what_hour="clock", brand_new="send_mail")
    assert made.cache.of("ada", left) is not None
    made.embedder = embedder
    for _ in range(2):
        assert "quotient" not in (made.owners(left) or {})
        await made.finish()
    assert set(made.owners(left) or ()) == {"clock"} | (
        {"send_mail"} if state != "fails" else set()
    )
    await made.finish()


async def test_text_whose_owner_changed_does_not_serve_the_old_one() -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    await made.finish()
    assert made.owners(examples(2, tip="clock")) is None
    await made.finish()
    assert set(made.owners(examples(2, tip="clock")) or ()) == {"clock"}


async def test_erased_while_it_was_embedded_does_not_come_back() -> None:
    made = Cache()
    assert made.embedder is not None
    made.cache.of("ada", TIP)
    work = await made.hang()
    assert made.cache.of("ada", ExampleSet(2)) is None
    made.embedder.gate.set()
    await work
    assert made.cache.of("ada", ExampleSet(2)) is None
    assert made.owners(examples(3, what_hour="clock")) is None
    await made.finish()
    assert set(made.owners(examples(3, what_hour="clock")) or ()) == {"clock"}


async def test_embedder_that_fails_is_asked_again_by_a_later_search() -> None:
    made = Cache()
    assert made.embedder is not None
    made.embedder.failing = broken()
    assert made.cache.of("ada", TIP) is None
    await made.finish()
    assert made.cache.of("ada", TIP) is None
    made.embedder.failing = None
    await made.finish()
    assert made.cache.of("ada", TIP) is not None


async def test_without_an_embedder_nothing_is_begun() -> None:
    made = Cache()
    made.embedder = None
    assert made.cache.of("ada", TIP) is None
    assert made.work == []


@pytest.mark.parametrize("dimension", [64, 16])
async def test_another_embedder_makes_them_anew(dimension: int) -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    await made.finish()
    made.embedder = FakeEmbedder("fake:2", dimension)
    assert made.cache.of("ada", TIP) is None
    await made.finish()
    assert made.embedder.texts == ["tip"]
    assert made.cache.of("ada", TIP) is not None


async def test_scopes_that_were_not_used_for_long_are_forgotten() -> None:
    made = Cache()
    made.cache.of("ada", TIP)
    await made.finish()
    for number in range(SCOPES - 1):
        made.cache.of(f"user{number}", TIP)
    await made.finish()
    assert made.cache.of("ada", TIP) is not None
    made.cache.of("another", TIP)
    await made.finish()
    assert made.cache.of("ada", TIP) is not None
    assert made.cache.of("user0", TIP) is None
    await made.finish()
