"""What is recalled of long conversations, and what keeping and recalling cost.

The conversations are not part of this repository. `--data` names a folder with two files, which
the environment variable ``HOOKGATE_BENCH_MEMORY`` does as well:

- ``conversations.jsonl.gz``, a line each: ``{id, turns: [{id, session, time, speaker, text}]}``
- ``questions.jsonl.gz``, a line each: ``{id, conversation, question, evidence: [turn ids],
  category}``

Each conversation goes turn by turn through memory's own learning into a SQLite store, and each
question through its own search, all with what is shipped; nothing but the text of a question is
used. ``--out`` writes what was found, the best first, for a scorer. A turn costs a token for each
started four characters of ``[time] speaker: text``; turns are taken in their order while they fit,
and evidence recall is the share of a question's evidence among them. ``memory.shown`` is the same
of the lines that a turn would show: facts among them, those that are worth little left out, below
their headings, in the blocks of `recall_tokens`. ``--frontier`` tells the same for other shares of
the best turn's worth that a turn must come to, and what share the other conversations would have
each one take, where that may lose `MAY_LOSE` of their evidence. Messages that memory cannot answer
are asked as well: small talk, which is that of ``discovery/small_talk.txt``, and general questions;
what is told is how many of them recall any turn.

``--scale`` measures CPU time, memory and disk alone, with up to 50,000 turns in one scope, made by
repeating the conversations with other names, and with vectors that are drawn by chance.

``--socket N`` has the first N conversations with a real gateway instead, over HTTP, and asks there:
see ``benchmarks/_talks.py``.

Run: ``python -m benchmarks.memory --data FOLDER [--out RUN.jsonl] [--words-only]
[--cache FOLDER] [--frontier] [--scale] [--socket N] [--quick]``
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import gzip
import json
import os
import re
import statistics
import tempfile
import time
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from benchmarks import _talks
from benchmarks.discovery._vectors import Vectors, key_of, model_of
from benchmarks.report import Figure, report
from hookgate import Store
from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.memory.domain import Hit, Utterance
from hookgate.builtin_plugins.memory.facts.learner import learn
from hookgate.builtin_plugins.memory.facts.search import search as search_facts
from hookgate.builtin_plugins.memory.keeper import FACTS_SHOWN
from hookgate.builtin_plugins.memory.recall.episodes import Episodes
from hookgate.builtin_plugins.memory.recall.lines import (
    CUT,
    Packing,
    blocks_of,
    fused,
    line_of,
)
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings

DATA, CACHE = "HOOKGATE_BENCH_MEMORY", "HOOKGATE_BENCH_CACHE"
BUDGETS = (500, 1_000, 2_000, 5_000)
GOALS = {1_000: 0.88, 5_000: 0.95}
MULTI_HOP_GOAL = 0.70
LIMIT = 600
"""Hits of a question: more than fit into any of the budgets."""

HERE = Path(__file__).parent
IDLE = {
    "small_talk": HERE / "discovery" / "small_talk.txt",
    "general": HERE / "general_questions.txt",
}
"""Messages that memory cannot answer."""
IDLE_GOAL = 0.15

WRITE_GOAL, RECALL_GOAL = 5.0, 8.0
HELD_GOAL = 1_300
SIZES = (50, 500, 5_000, 10_000, 50_000)
ASKED = 100
RECALLED = 50
"""Turns that a turn asks for."""
SHOWN_TOKENS = 1_000
MEDIAN_GOAL = 350
CUTS = (0.5, 0.55, 0.58, 0.6, 0.62, 0.64, 0.66, 0.68, 0.7)
MAY_LOSE = 0.02
"""Evidence that a cut may cost beside the least of them."""

Floats: TypeAlias = npt.NDArray[np.float32]
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a turn shows for a question: the share of its evidence, and what that costs."""

    conversation: str
    category: str
    evidence: float
    tokens: int


@dataclass(slots=True)
class Costs:
    """CPU milliseconds, one each."""

    kept: list[float]
    embedded: list[float]
    recalled: list[float]


class Installed:
    """The installed model as an embedder, its vectors kept from run to run."""

    dimension = 384

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._asked: dict[str, Floats] = {}
        self.fingerprint = vectors.fingerprint

    async def embed(self, texts: Sequence[str]) -> Floats:
        return self._vectors.of(texts)

    async def embed_query(self, text: str) -> Floats:
        await self.ask([text])
        return self._asked[text]

    async def ask(self, texts: Sequence[str]) -> None:
        """Have the vectors of queries ready, as a turn has that of its message."""
        new = [text for text in texts if text not in self._asked]
        found = self._vectors.asked([(text, ()) for text in new])
        self._asked.update({text: one[0] for text, one in zip(new, found, strict=True)})


class Chance:
    """Vectors drawn by chance, the same for the same text."""

    dimension = 384
    fingerprint = "chance"

    async def embed(self, texts: Sequence[str]) -> Floats:
        made = [
            np.random.default_rng(list(key_of(text))).standard_normal(self.dimension)
            for text in texts
        ]
        vectors = np.array(made, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def embed_query(self, text: str) -> Floats:
        return (await self.embed([text]))[0]


@asynccontextmanager
async def episodes_with(embedder: Any) -> AsyncIterator[tuple[Episodes, Store]]:
    """Open an empty store, and keep turns in it."""
    with tempfile.TemporaryDirectory() as home:
        store = await open_store(StorageSettings(), Path(home))
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        try:
            yield Episodes(store, now=lambda: datetime.now(UTC), embedder=lambda: embedder), store
        finally:
            await store.close()


# -- the conversations ------------------------------------------------------------------


def lines(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


_SPOKEN = re.compile(r"(\d+):(\d+) ([ap]m) on (\d+) (\w+),? (\d+)")


def time_of(text: str) -> datetime:
    """Read ``1:56 pm on 8 May, 2023``, or ISO 8601."""
    if found := _SPOKEN.fullmatch(text.strip()):
        hour, minute, half, day, month, year = found.groups()
        read = datetime.strptime(f"{day} {month} {year}", "%d %B %Y").replace(tzinfo=UTC)
        hours = int(hour) % 12 + (12 if half == "pm" else 0)
        return read + timedelta(hours=hours, minutes=int(minute))
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def said_in(conversation: Row) -> list[Utterance]:
    """Return the turns of a conversation as memory takes them in, in a scope of their own."""
    return [
        Utterance(
            id=turn["id"],
            scope=f"session:{conversation['id']}",
            session=conversation["id"],
            turn=turn["id"],
            # Some seconds after each other, within a session of one time.
            at=time_of(turn["time"]) + timedelta(seconds=at % 600),
            speaker=turn["speaker"],
            text=turn["text"],
            provenance="external_user",
        )
        for at, turn in enumerate(conversation["turns"])
    ]


# -- evidence recall ----------------------------------------------------------------------


def recall_within(
    order: Sequence[str], costs: dict[str, int], evidence: Sequence[str], budget: int
) -> float:
    """Return the share of `evidence` among the turns that fit, taken in their order."""
    left, kept = budget, set()
    for turn in order:
        if costs[turn] <= left:
            left -= costs[turn]
            kept.add(turn)
    return len(kept & set(evidence)) / len(evidence)


def unanswered(near: float) -> None:
    """Do nothing where a question is below the floor of relevance: nothing is found for it."""


async def run(
    folder: Path,
    embedder: Any,
    costs: Costs,
    idle: dict[str, list[bool]] | None = None,
    shown: dict[float, list[Shown]] | None = None,
) -> dict[str, list[str]]:
    """Keep all conversations and ask all questions; return what was found for each.

    Args:
        folder: Where they are.
        embedder: The embedder, or None.
        costs: Is told what that costs.
        idle: Is told for each kind of message that memory cannot answer whether it found anything.
        shown: Is told what a turn would show for each question, for each cut that it has.
    """
    questions = defaultdict(list)
    for question in lines(folder / "questions.jsonl.gz"):
        questions[question["conversation"]].append(question)
    found: dict[str, list[str]] = {}
    # Vectors that are drawn by chance answer nothing.
    floor = unanswered if isinstance(embedder, Installed) else None
    async with episodes_with(embedder) as (episodes, store):
        for conversation in lines(folder / "conversations.jsonl.gz"):
            said = said_in(conversation)
            await keep(episodes, said, costs)
            if shown is not None:
                await store.write(partial(learned, said))
            asked, scopes = questions[conversation["id"]], [f"session:{conversation['id']}"]
            if isinstance(embedder, Installed):
                names = {turn["speaker"] for turn in conversation["turns"]}
                await embedder.ask([*names, *(question["question"] for question in asked)])
            for question in asked:
                text = question["question"]
                begun = time.process_time()
                turns = await episodes.search(scopes, text, RECALLED, floor=floor)
                costs.recalled.append((time.process_time() - begun) * 1000)
                if shown is not None:
                    facts = await store.read(partial(known, scopes, text, said[-1].at))
                    for cut, blocks in shown.items():
                        blocks.append(shown_of(question, turns, facts, cut))
                hits = await episodes.search(scopes, text, LIMIT, floor=floor)
                # A long turn is kept in pieces, and listed once.
                found[question["id"]] = list(dict.fromkeys(hit.turn for hit in hits))
            for kind, path in IDLE.items() if idle is not None else ():
                for text in path.read_text(encoding="utf-8").splitlines():
                    hits = await episodes.search(scopes, text, RECALLED, floor=floor)
                    idle.setdefault(kind, []).append(bool(hits))
    return found


def learned(said: Sequence[Utterance], connection: Connection) -> None:
    learn(said, connection, redact=lambda text: text)


def known(scopes: Sequence[str], text: str, at: datetime, connection: Connection) -> list[Hit]:
    return search_facts(
        connection, scopes, text, at=at, as_of=None, limit=FACTS_SHOWN, telling=True
    )


def shown_of(question: Row, turns: Sequence[Hit], facts: Sequence[Hit], cut: float) -> Shown:
    """Return what a turn would show, and what of the evidence is in it."""

    def count(text: str) -> int:
        return -(-len(text) // 4)

    least = cut * turns[0].score if turns else 0.0
    hits = fused(facts, [hit for hit in turns if hit.score >= least])
    packing = Packing(SHOWN_TOKENS, count, ())
    for hit in hits:
        if not packing.full:
            packing.take(line_of(hit, hit.session, count))
    kept = {line.hit.turn for line in packing.lines if line.hit.kind == "turn"}
    evidence = set(question["evidence"])
    tokens = sum(count(block.text) for block, _ in blocks_of(packing))
    share = len(kept & evidence) / len(evidence)
    return Shown(question["conversation"], question["category"], share, tokens)


async def over_sockets(folder: Path, many: int) -> list[Figure]:
    """Have so many conversations with gateways over HTTP, and ask their questions there."""
    questions = list(lines(folder / "questions.jsonl.gz"))
    chosen = list(islice(lines(folder / "conversations.jsonl.gz"), many))
    shares = _talks.Shares()
    for conversation in chosen:
        asked = [one for one in questions if one["conversation"] == conversation["id"]]
        await _talks.talk(said_in(conversation), asked, shares)
    return _talks.figures(shares, len(chosen))


async def keep(
    episodes: Episodes, said: Sequence[Utterance], costs: Costs, at_once: int = 1
) -> None:
    """Keep turns one after the other, and give them their vectors afterwards."""
    for at in range(0, len(said), at_once):
        begun = time.process_time()
        await episodes.learn(said[at : at + at_once])
        costs.kept.append((time.process_time() - begun) * 1000 / at_once)
    more = True
    while more:
        begun = time.process_time()
        more = (count := await episodes.embed_waiting(256)) > 0
        if count:
            costs.embedded.append((time.process_time() - begun) * 1000 / count)


def quality(folder: Path, found: dict[str, list[str]], shown: str) -> list[Figure]:
    costs = {
        conversation["id"]: {
            turn["id"]: -(-len(f"[{turn['time']}] {turn['speaker']}: {turn['text']}") // 4)
            for turn in conversation["turns"]
        }
        for conversation in lines(folder / "conversations.jsonl.gz")
    }
    by_category = defaultdict(list)
    for question in lines(folder / "questions.jsonl.gz"):
        by_category[question["category"]].append(
            [
                recall_within(
                    found.get(question["id"], []),
                    costs[question["conversation"]],
                    question["evidence"],
                    budget,
                )
                for budget in BUDGETS
            ]
        )
    every = [row for rows in by_category.values() for row in rows]
    figures = []
    for name, rows in [("all", every), *sorted(by_category.items())]:
        for at, budget in enumerate(BUDGETS):
            goal = GOALS.get(budget) if name == "all" else None
            if (name, budget) == ("multi_hop", 1_000):
                goal = MULTI_HOP_GOAL
            figures.append(
                Figure(name=f"memory.recall.{name}.{budget}", goal=goal, at_least=True,
                       value=statistics.mean(row[at] for row in rows), unit="share",
                       against=f"{len(rows)} questions, {shown}")
            )  # fmt: skip
    return figures


def shown_figures(blocks: Sequence[Shown], how: str) -> list[Figure]:
    hops = [one for one in blocks if one.category == "multi_hop"]
    return [
        *(
            Figure(name=f"memory.shown.{name}", value=statistics.mean(one.evidence for one in some),
                   unit="share", against=f"{len(some)} questions, {how}, {SHOWN_TOKENS} tokens")
            for name, some in (("all", blocks), ("multi_hop", hops))
            if some
        ),
        Figure(name="memory.shown.tokens", value=statistics.mean(one.tokens for one in blocks),
               unit="tokens", against="mean, headers and headings among them"),
        Figure(name="memory.shown.tokens.median", unit="tokens", goal=MEDIAN_GOAL,
               value=statistics.median(one.tokens for one in blocks), against="the same"),
    ]  # fmt: skip


def frontier(shown: dict[float, list[Shown]]) -> str:
    """Say what each cut costs in evidence and brings in tokens, as a table of Markdown."""

    def row(name: str, blocks: Sequence[Shown]) -> str:
        by = {one.conversation: [b for b in blocks if b.conversation == one.conversation]
              for one in blocks}  # fmt: skip
        hops = [one for one in blocks if one.category == "multi_hop"]
        each = [evidence_of(some) for some in by.values()]
        tokens = [one.tokens for one in blocks]
        figures = (
            f"{evidence_of(blocks):.3f}", f"{evidence_of(hops):.3f}",
            f"{statistics.median(tokens):.0f}", f"{statistics.mean(tokens):.0f}",
            f"{min(each):.3f} to {max(each):.3f}",
        )  # fmt: skip
        return f"| {' | '.join((name, *figures))} |"

    told = [
        "| cut | evidence | several turns | median | mean | range |",
        "|---|---|---|---|---|---|",
    ]
    told += [row(f"{cut:g}", blocks) for cut, blocks in shown.items()]
    left_out: list[Shown] = []
    taken = []
    least = min(shown)
    for conversation in dict.fromkeys(one.conversation for one in shown[least]):
        others = {
            cut: evidence_of([one for one in blocks if one.conversation != conversation])
            for cut, blocks in shown.items()
        }
        cut = max(cut for cut, found in others.items() if found >= others[least] - MAY_LOSE)
        taken.append(f"{cut:g}")
        left_out += [one for one in shown[cut] if one.conversation == conversation]
    told.append(row(f"left out ({', '.join(taken)})", left_out))
    return "\n".join(told)


def evidence_of(blocks: Sequence[Shown]) -> float:
    return statistics.mean(one.evidence for one in blocks)


def cost_figures(costs: Costs, name: str, *, embedded: bool) -> list[Figure]:
    figures = [
        Figure(name=f"memory.{name}.keep.p50", value=statistics.median(costs.kept), unit="ms CPU",
               against="a turn, without its vector", goal=WRITE_GOAL),
        Figure(name=f"memory.{name}.recall.p50", value=statistics.median(costs.recalled),
               unit="ms CPU", against="beside the message's own vector", goal=RECALL_GOAL),
        Figure(name=f"memory.{name}.recall.p99", unit="ms CPU",
               value=float(np.percentile(costs.recalled, 99))),
    ]  # fmt: skip
    if embedded and costs.embedded:
        figures.append(
            Figure(name=f"memory.{name}.embed.p50", value=statistics.median(costs.embedded),
                   unit="ms CPU", against="a turn's vector, in idle batches")
        )  # fmt: skip
    return figures


# -- how it grows ---------------------------------------------------------------------------


def repeated(folder: Path, count: int) -> list[Utterance]:
    """Return so many turns in one scope: the conversations over and over, with other names."""
    conversations = [said_in(one) for one in lines(folder / "conversations.jsonl.gz")]
    made: list[Utterance] = []
    for round_ in range(count):
        for said in conversations:
            for one in said:
                if len(made) == count:
                    return made
                number = len(made)
                text = re.sub(r"\b([A-Z][a-z]{3,})\b", rf"\g<1>{round_ % 50 or ''}", one.text)
                made.append(
                    Utterance(
                        id=f"m{number}", scope="session:all", session=f"s{number // 30}",
                        turn=f"t{number}", at=one.at + timedelta(days=500 * round_),
                        speaker=one.speaker, text=text,
                    )
                )  # fmt: skip
    return made


async def grow(folder: Path, sizes: Sequence[int]) -> list[Figure]:
    asked = [one["question"] for one in lines(folder / "questions.jsonl.gz")][: ASKED * 3 : 3]
    figures = []
    for size in sizes:
        costs = Costs([], [], [])
        async with episodes_with(Chance()) as (episodes, store):
            said = repeated(folder, size)
            await keep(episodes, said[:-30], Costs([], [], []), at_once=500)
            await keep(episodes, said[-30:], costs)
            begun = time.process_time()
            await episodes.search(["session:all"], asked[0], RECALLED)
            first = (time.process_time() - begun) * 1000
            held = await held_by(store, asked[0])
            disk = await store.read(bytes_on_disk)
            for question in asked:
                vector = time.process_time()
                await Chance().embed_query(question)
                begun = time.process_time()
                await episodes.search(["session:all"], question, RECALLED)
                spent = time.process_time() - begun - (begun - vector)
                costs.recalled.append(spent * 1000)
        figures += cost_figures(costs, f"scale.{size}", embedded=False)
        figures.append(
            Figure(name=f"memory.scale.{size}.first", value=first, unit="ms CPU",
                   against="the first recall after a start, which reads the scope")
        )  # fmt: skip
        figures += [
            Figure(name=f"memory.scale.{size}.held", value=held / size, unit="bytes a turn",
                   goal=HELD_GOAL, against="in memory, of a scope that is searched"),
            Figure(name=f"memory.scale.{size}.disk", value=disk / size, unit="bytes a turn",
                   against=f"texts of {sum(len(one.text) for one in said) / size:.0f} characters"),
        ]  # fmt: skip
    return figures


async def held_by(store: Store, question: str) -> int:
    """Return the bytes of what memory holds of a scope once it was searched."""
    episodes = Episodes(store, now=lambda: datetime.now(UTC), embedder=Chance)
    tracemalloc.start()
    try:
        await episodes.search(["session:all"], question, RECALLED)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def bytes_on_disk(connection: Connection) -> int:
    """Return the bytes of the store."""
    pages, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "page_size")
    )
    return pages * size


# -- the run --------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"default: ${DATA}")
    parser.add_argument("--out", type=Path, metavar="RUN.jsonl", help="what was found")
    parser.add_argument("--words-only", action="store_true", help="without an embedder")
    parser.add_argument("--cache", type=Path, metavar="FOLDER",
                        help=f"keeps vectors from run to run (default: ${CACHE})")  # fmt: skip
    parser.add_argument("--frontier", action="store_true", help="other cuts of what is shown")
    parser.add_argument(
        "--scale", action="store_true", help="CPU, memory, disk; up to 50,000 turns"
    )
    parser.add_argument("--socket", type=int, metavar="N", help="N conversations over HTTP")
    parser.add_argument("--quick", action="store_true", help="words only; up to 500 turns")
    chosen = parser.parse_args()
    if chosen.data is None and os.environ.get(DATA):
        chosen.data = Path(os.environ[DATA])
    if chosen.cache is None and os.environ.get(CACHE):
        chosen.cache = Path(os.environ[CACHE])
    return chosen


def main() -> None:
    chosen = arguments()
    if chosen.data is None:
        print(f"skipped: no conversations are given, with --data or ${DATA}")
        return
    if chosen.scale:
        sizes = SIZES[:2] if chosen.quick else SIZES
        report("memory", asyncio.run(grow(chosen.data, sizes)))
        return
    if chosen.socket:
        report("memory", asyncio.run(over_sockets(chosen.data, chosen.socket)))
        return
    words_only = chosen.words_only or chosen.quick
    embedder = None if words_only else Installed(Vectors(model_of("onnx"), chosen.cache))
    costs = Costs([], [], [])
    idle: dict[str, list[bool]] = {}
    shown_by: dict[float, list[Shown]] = {
        cut: [] for cut in sorted({CUT, *(CUTS if chosen.frontier else ())})
    }
    found = asyncio.run(run(chosen.data, embedder, costs, idle, shown_by))
    if chosen.out is not None:
        with chosen.out.open("w", encoding="utf-8") as file:
            for question, turns in found.items():
                file.write(json.dumps({"id": question, "turns": turns}) + "\n")
    shown = "words only" if words_only else "words and meaning"
    if chosen.frontier:
        print(frontier(shown_by))
    # Vectors that were kept from an earlier run cost nothing, and say nothing.
    embedded = chosen.cache is None
    report(
        "memory",
        [
            *quality(chosen.data, found, shown),
            *shown_figures(shown_by[CUT], shown),
            *(
                Figure(
                    name=f"memory.recalls.{kind}",
                    value=statistics.mean(came),
                    unit="share",
                    against=f"{len(came)} messages, {shown}",
                    goal=IDLE_GOAL,
                )
                for kind, came in idle.items()
            ),
            *cost_figures(costs, "conversations", embedded=embedded),
        ],
    )


if __name__ == "__main__":
    main()
