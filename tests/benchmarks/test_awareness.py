from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.awareness import (
    MESSAGES,
    Judge,
    Message,
    Shown,
    figures,
    read_cards,
    read_messages,
    score,
)

from hookgate.builtin_plugins.awareness.cards.folders import shipped_cards
from hookgate.core.domain.descriptors import Card, Triggers

MEMORY = Card(id="memory", text="x" * 400, triggers=Triggers(router_tags=("memory",)))


class OfZebras:
    """An embedder that knows whether a text is about zebras, and nothing else."""

    dimension = 2
    fingerprint = "zebras"

    async def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.array([[1, 0] if "zebra" in text else [0, 1] for text in texts], np.float32)

    async def embed_query(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        vectors: np.ndarray[Any, np.dtype[np.float32]] = await self.embed([text])
        return vectors[0]


def test_the_messages_name_cards_that_there_are_and_none_twice() -> None:
    messages, cards = read_messages(), read_cards(shipped_cards())
    named = {card for message in messages for card in message.cards}
    assert named == set(cards)
    assert len({message.text for message in messages}) == len(messages)
    for name in ("tune", "held out", "fresh"):
        part = [message for message in messages if message.part == name]
        assert sum(bool(message.cards) for message in part) > 40
        assert sum(not message.cards for message in part) > 40


def test_no_message_is_an_example_of_the_router() -> None:
    from hookgate.builtin_plugins.awareness.selection.router import examples

    taught = {text.lower() for group in examples().values() for text in group}
    for card in read_cards(shipped_cards()).values():
        taught |= {keyword.lower() for keyword in card.triggers.keywords}
    same = {message.text.lower().rstrip("?.!") for message in read_messages()} & {
        text.rstrip("?.!") for text in taught
    }
    assert same == set()


async def test_a_message_shows_what_a_turn_would_show() -> None:
    judge = Judge({"memory": MEMORY}, None)
    shown = await judge.show(Message("remember that I like tea", "gateway", frozenset({"memory"})))
    assert (shown.cards, shown.tokens, shown.right) == (("memory",), 100, True)
    assert shown.milliseconds >= 0
    nothing = await judge.show(Message("thanks!", "small_talk"))
    assert (nothing.cards, nothing.tokens, nothing.right) == ((), 0, True)


async def test_a_meaning_counts_where_there_is_an_embedder() -> None:
    triggers = Triggers(router_tags=("drawing-animals",))
    card = Card(id="pens", description="How zebras are drawn", text="x" * 40, triggers=triggers)
    message = Message("a zebra for my room?", "gateway", frozenset({"pens"}))
    assert (await Judge({"pens": card}, None).show(message)).cards == ()
    judge = Judge({"pens": card}, OfZebras())  # type: ignore[arg-type]  # by what it can do
    assert (await judge.show(message)).cards == ("pens",)
    assert (await judge.show(Message("a horse for my room?", "everyday"))).cards == ()


def test_scores_are_shares_of_the_messages_with_and_without_a_card() -> None:
    asked, benign = Message("a", "k", frozenset({"one", "two"})), Message("b", "k")
    made = score(
        [
            Shown(asked, ("two", "three"), 300, 1.0),
            Shown(asked, ("three",), 100, 1.0),
            Shown(benign, ("one",), 200, 1.0),
            Shown(benign, (), 0, 1.0),
            Shown(benign, (), 0, 1.0),
        ]
    )
    assert (made.hits, made.wrong_beside, made.false) == (0.5, 1.0, pytest.approx(1 / 3))
    assert (made.tokens, made.most, made.milliseconds) == (200, 300, 1.0)
    named = {figure.name: figure.met for figure in figures(made, made)}
    assert named["right card"] is False
    assert named["most tokens"] is True


def test_a_card_that_is_wrong_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# no card")
    (tmp_path / "bad.md").write_text("no frontmatter")
    with pytest.raises(SystemExit, match=r"bad\.md"):
        read_cards(tmp_path)


def test_the_file_of_messages_holds_one_object_a_line() -> None:
    for line in MESSAGES.read_text("utf-8").splitlines():
        assert json.loads(line).keys() == {"text", "kind", "cards"}
