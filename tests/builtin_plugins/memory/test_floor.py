"""What a turn recalls of facts where its message is below the floor of relevance."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builtin_plugins.memory.test_episodes import DOG
from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import make_host

from hookgate import EMBEDDER
from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.memory.domain import Aside
from hookgate.builtin_plugins.memory.facts.learner import learn
from hookgate.builtin_plugins.memory.keeper import Keeper
from hookgate.builtin_plugins.memory.recall.query import read_query
from hookgate.builtin_plugins.memory.settings import MemorySettings

LIKES = "the user likes painting chess boards"


class Same:
    """An embedder by whose vectors everything is small talk."""

    dimension, fingerprint = 2, "same"

    async def embed(self, texts: Any) -> Any:
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    async def embed_query(self, text: str) -> Any:
        return (await self.embed([text]))[0]


async def test_below_the_floor_facts_need_more_than_a_word(tmp_path: Path) -> None:
    said = replace(DOG, text="I like painting chess boards. My dog is called Luna.")
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        host = make_host()
        host.provide(EMBEDDER, Same())
        keeper = Keeper(host, store, None, MemorySettings)
        await store.write(lambda connection: learn([said], connection, redact=lambda text: text))
        await keeper._episodes.learn([said])
        await keeper._episodes.embed_waiting()

        async def found(query: str, *, floor: bool) -> set[str]:
            hits = await keeper.search([said.scope], query, turn=Aside() if floor else None)
            return {hit.text for hit in hits}

        assert LIKES in await found("boards again, haha", floor=False)
        assert await found("boards again, haha", floor=True) == set()
        assert any("Luna" in text for text in await found("Luna again, haha", floor=True))
        assert said.text in await found("what do I like?", floor=True)


async def test_a_gateway_that_never_rests_knows_small_talk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = asyncio.Event()

    class Telling(Same):
        async def embed(self, texts: Any) -> Any:
            known.set()
            return await super().embed(texts)

    async def learned(_: Any) -> int:
        return 1

    async with opened_store(tmp_path) as store:
        host = make_host()
        host.provide(EMBEDDER, Telling())
        keeper = Keeper(host, store, None, MemorySettings)
        monkeypatch.setattr(Keeper, "follow", learned)
        monkeypatch.setattr(type(host), "running", lambda _: ["a turn"])
        running = asyncio.create_task(keeper.run())
        assert await known.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_turn_shows_no_fact_of_many_for_a_name_alone(tmp_path: Path) -> None:
    likes, plans = "Anna likes painting chess boards", "Anna plans: "
    said = replace(
        DOG,
        text="My sister Anna likes painting chess boards. Anna is allergic to nuts. "
        "Anna is going to visit Rome next month.",
    )
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        keeper = Keeper(make_host(), store, None, MemorySettings)
        await store.write(lambda connection: learn([said], connection, redact=lambda text: text))

        async def found(query: str, *, turn: bool = True) -> str:
            hits = await keeper.search([said.scope], query, turn=Aside() if turn else None)
            return "\n".join(hit.text for hit in hits)

        everything = await found("Is Anna around tonight?", turn=False)
        assert likes in everything
        assert plans in everything

        some = await found("Is Anna around tonight?")
        assert "allergic" in some
        assert likes not in some
        assert plans not in some
        assert plans not in await found("When does Anna get up?")
        assert plans in await found("When does Anna go to Rome?")
        assert plans in await found("What plans does Anna have?")
        assert likes in await found("Does Anna still paint?")
        assert likes in await found("What does Anna like?")


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ("Where do I live?", True),
        ("ok, and what's my sister's name", True),
        ("Do you remember when we met?", True),
        ("How old is my son?", True),
        ("what is the capital of France?", False),
        ("How do I boil an egg?", False),
        ("do you like me?", False),
        ("I love my kids", False),
    ],
)
def test_what_somebody_asks_of_their_own_is_told(message: str, own: bool) -> None:
    assert read_query(message, DOG.at).asks_own is own
