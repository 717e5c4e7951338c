"""Whether the right capability cards are shown, and how often one is shown for nothing.

The messages are in ``builtin_plugins/awareness/messages.jsonl``, where `hookgate
awareness report` has them from. A line is ``{"text", "kind",
"cards"}``: the ids of the cards that answer it, or none, where no card should be shown. Those
of the kind ``fresh`` were written when the examples of the router were done: the figures with
goals are theirs. All others were in sight when the examples were written; they are split in
halves by a digest of their text, ``tune`` and ``held out``, and the constants were fitted with
the first.

Each message is judged twice: by words alone, and by words and meaning, as with the installed
embedder. `--data` names a folder of sets of tools and queries, as for
``benchmarks/discovery/retrieval.py``; none of their queries is about the gateway, so each card
that one shows is wrong. Each time is the least of five.

Run: ``python -m benchmarks.awareness [--data FOLDER] [--cache FOLDER] [--wrong] [--quick]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.discovery._tool_sets import read_set, set_folders
from benchmarks.discovery._vectors import Vectors, model_of
from benchmarks.report import Figure, report
from hookgate.builtin_plugins.awareness import operations as explaining
from hookgate.builtin_plugins.awareness.cards.folders import parse_card, shipped_cards
from hookgate.builtin_plugins.awareness.selection.router import TagRouter
from hookgate.builtin_plugins.awareness.selection.selector import (
    CardMatcher,
    CardQuestion,
    fit,
    order,
)
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings
from hookgate.core.domain.descriptors import Card

DATA, CACHE = "HOOKGATE_BENCH_DATA", "HOOKGATE_BENCH_CACHE"
POOL = "mix"
MESSAGES = Path(explaining.__file__).with_name("messages.jsonl")
WORDS, BOTH = "words", "words and meaning"
TUNE, HELD_OUT, FRESH = "tune", "held out", "fresh"
HITS, FALSE, TOKENS = 0.90, 0.05, 1500
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Message:
    """A message and the cards that answer it, any of which will do."""

    text: str
    kind: str
    cards: frozenset[str] = frozenset()

    @property
    def part(self) -> str:
        """Which part of the messages it belongs to: ``tune``, ``held out`` or ``fresh``."""
        if self.kind == FRESH:
            return FRESH
        return HELD_OUT if explaining.is_held_out(self.text) else TUNE


@dataclass(frozen=True, slots=True)
class Shown:
    """What one message shows.

    Attributes:
        message: The message.
        cards: The ids of the cards, in their order.
        tokens: How many tokens they take.
        milliseconds: What judging took, the vector of the message apart.
    """

    message: Message
    cards: tuple[str, ...]
    tokens: int
    milliseconds: float

    @property
    def right(self) -> bool:
        """Whether it is what it should be: one of the right cards, or none at all."""
        if self.message.cards:
            return bool(self.message.cards.intersection(self.cards))
        return not self.cards


class Embedder:
    """The embedder of a gateway, as far as a router asks it."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self.dimension = vectors.dimension
        self.fingerprint = vectors.fingerprint

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._vectors.of(texts)

    def read(self, texts: Sequence[str]) -> None:
        """Make the vectors of many queries, which takes less time than one by one."""
        self._vectors.asked([(text, ()) for text in texts])

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return self._vectors.asked([(text, ())])[0][0]


def read_messages(path: Path = MESSAGES) -> list[Message]:
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip())
    return [Message(row["text"], row["kind"], frozenset(row["cards"])) for row in rows]


def read_cards(folder: Path) -> dict[str, Card]:
    """Return the cards of a folder by id.

    Raises:
        SystemExit: One of them is wrong.
    """
    cards = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        read = parse_card(path.read_text("utf-8"), path.name, origin="repo", trusted=True)
        if read.one is None:
            raise SystemExit("\n".join(str(problem) for problem in read.problems))
        cards[read.one.id] = read.one
    return cards


class Judge:
    """Judges messages as a turn does."""

    def __init__(self, cards: dict[str, Card], embedder: Embedder | None) -> None:
        self.router = TagRouter({}, cards.values())
        self._matcher = CardMatcher(cards)
        self._embedder = embedder
        self._budget = AwarenessSettings().budget

    async def show(self, message: Message, rounds: int = ROUNDS) -> Shown:
        if self._embedder is not None:
            # What is timed finds the vector in the cache, as a turn does after discovery.
            await self.router.prepare(self._embedder)
            await self._embedder.embed_query(message.text)
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            tags = self.router.words(message.text)
            if self._embedder is not None:
                tags |= await self.router.meaning(message.text, self._embedder)
            asking = CardQuestion(
                message=message.text, tags=tags, session_type="main", point="bootstrap"
            )
            judged = self._matcher.found(asking)
            fitted = fit(order(judged), self._budget)
            times.append(1000 * (time.perf_counter() - begun))
        chosen = [one for one in fitted if one.judged.chosen]
        return Shown(
            message,
            tuple(one.judged.card.id for one in chosen),
            sum(one.tokens for one in chosen),
            min(times),
        )


@dataclass(frozen=True, slots=True)
class Score:
    """What a number of messages came to.

    Attributes:
        hits: The share of messages with a right card that show one.
        wrong_beside: The mean cards that are shown there and are not right.
        false: The share of messages without one that show any.
        tokens: The mean tokens where anything is shown.
        most: The most tokens.
        milliseconds: The mean time of a message.
    """

    hits: float
    wrong_beside: float
    false: float
    tokens: float
    most: int
    milliseconds: float


def score(shown: Iterable[Shown]) -> Score:
    everything = list(shown)
    asked = [one for one in everything if one.message.cards]
    benign = [one for one in everything if not one.message.cards]
    return Score(
        hits=_mean([one.right for one in asked]),
        wrong_beside=_mean([len(set(one.cards) - one.message.cards) for one in asked]),
        false=_mean([not one.right for one in benign]),
        tokens=_mean([one.tokens for one in everything if one.cards]),
        most=max((one.tokens for one in everything), default=0),
        milliseconds=_mean([one.milliseconds for one in everything]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# -- what is shown -------------------------------------------------------------


def show(scores: dict[tuple[str, str], Score]) -> None:
    table = Table(title="capability cards")
    for heading in ("by", "part"):
        table.add_column(heading)
    for heading in ("right card", "wrong beside", "false", "tokens", "most", "ms"):
        table.add_column(heading, justify="right")
    for (way, part), one in scores.items():
        table.add_row(
            way,
            part,
            f"{one.hits:.3f}",
            f"{one.wrong_beside:.2f}",
            f"{one.false:.3f}",
            f"{one.tokens:.0f}",
            f"{one.most}",
            f"{one.milliseconds:.3f}",
        )
    Console(width=120).print(table)


def tell_wrong(way: str, shown: Iterable[Shown]) -> None:
    for one in shown:
        if not one.right:
            wanted = ", ".join(sorted(one.message.cards)) or "none"
            found = ", ".join(one.cards) or "none"
            print(
                f"{way} | {one.message.part} | {one.message.text} | wanted {wanted} | shown {found}"
            )


def figures(both: Score, words: Score) -> list[Figure]:
    rows: list[tuple[str, float, str, float | None, bool]] = [
        ("right card", both.hits, "share", HITS, True),
        ("right card, words alone", words.hits, "share", None, True),
        ("false injections", both.false, "share", FALSE, False),
        ("false injections, words alone", words.false, "share", FALSE, False),
        ("most tokens", both.most, "tokens", TOKENS, False),
        ("time", both.milliseconds, "ms a message", None, False),
    ]
    return [
        Figure(name=name, value=value, unit=unit, against=FRESH, goal=goal, at_least=least)
        for name, value, unit, goal, least in rows
    ]


async def foreign(folder: Path, judge: Judge, embedder: Embedder, quick: bool) -> Figure:
    """Return the share of the queries of a set for which a card is shown."""
    tools = read_set(folder)
    texts = [question.text for question in tools.questions][: 50 if quick else None]
    embedder.read(texts)
    shown = [await judge.show(Message(text, "set"), rounds=1) for text in texts]
    return Figure(
        name=f"false injections, {tools.name}",
        value=score(shown).false,
        unit="share",
        against=f"{len(texts):,} queries about other things",
        goal=FALSE,
    )


async def run(chosen: argparse.Namespace) -> None:
    messages = read_messages()[:: 8 if chosen.quick else 1]
    cards = read_cards(shipped_cards())
    vectors = Vectors(model_of("onnx"), chosen.cache)
    scores: dict[tuple[str, str], Score] = {}
    found: list[Figure] = []
    for way, embedder in ((WORDS, None), (BOTH, Embedder(vectors))):
        judge = Judge(cards, embedder)
        if embedder is not None:
            embedder.read([message.text for message in messages])
        shown = [await judge.show(message) for message in messages]
        for part in (TUNE, HELD_OUT, FRESH):
            scores[way, part] = score(one for one in shown if one.message.part == part)
        if chosen.wrong:
            tell_wrong(way, shown)
        if embedder is not None and chosen.data is not None:
            found = [
                await foreign(folder, judge, embedder, chosen.quick)
                for folder in set_folders(chosen.data)
                # Its queries are those of the other sets.
                if folder.name != POOL
            ]
    show(scores)
    report("awareness", figures(scores[BOTH, FRESH], scores[WORDS, FRESH]) + found)


def arguments() -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.awareness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"sets (default: ${DATA})")
    parser.add_argument("--cache", type=Path, metavar="FOLDER",
                        help=f"keeps vectors from run to run (default: ${CACHE})")  # fmt: skip
    parser.add_argument("--wrong", action="store_true", help="name each message that goes wrong")
    parser.add_argument("--quick", action="store_true", help="an eighth of the messages")
    chosen = parser.parse_args()
    for name, variable in (("data", DATA), ("cache", CACHE)):
        if getattr(chosen, name) is None and os.environ.get(variable):
            setattr(chosen, name, Path(os.environ[variable]))
    return chosen


def main() -> None:
    asyncio.run(run(arguments()))


if __name__ == "__main__":
    main()
