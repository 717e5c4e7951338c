"""What a search costs, against the bare library doing the least that it needs.

A warm search is one of a message whose vector is known. Its bare side is a flat faiss index
with one 32-bit vector for each capability, searched for the ten nearest; its answer are
numbers. The product's side is what a plugin calls: the search alone (``find``: words and
meaning, relevance, rows), and the whole of it (``discover``: with what is related, and the
three tiers as text). ``again`` is the whole of it for a message that was asked just before, as
within one turn. They take turns, on one thread and one processor, with vectors that need no
model.

A cold search is one of a new message, with the installed model, against the bare embedding
of that message: of a short one, and of messages of 8, 60 and 250 characters, beside the same
message asked again. A start with an unchanged index is held against the build of it.

Run: ``python -m benchmarks.discovery.speed [--quick]``
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before numpy is there: one thread for all libraries, on both sides.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import faiss
import numpy as np
import psutil

from benchmarks.discovery._synthetic import WordEmbedder, capabilities, messages
from benchmarks.discovery._vectors import Floats, model_of
from benchmarks.report import Figure, report
from benchmarks.turn.chat import LENGTHS
from hookgate.builtin_plugins.discovery.discoverer import Discoverer
from hookgate.builtin_plugins.discovery.index import Surroundings
from hookgate.builtin_plugins.discovery.index.documents import text_of
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.worker import ThreadEngine
from hookgate.core.domain.descriptors import Capability
from hookgate.core.host import QuarterTokens
from hookgate.core.registry.snapshots import CapabilityIndex

NEAREST = 10
MESSAGES, BLOCK = 600, 50
"""Messages that are asked in turn. They are more than the engine keeps rankings of, so that
each is searched for anew, and fewer than it keeps vectors of."""
FIND_GOALS = {100: 5.0, 16_000: 1.3}
"""How many times a bare flat search a warm `discover` may take, by capabilities."""
CPU_GOALS = {("discover", 50, 100): 0.25}
"""Milliseconds of CPU of a side, at a percentile, by capabilities."""
P99_GOAL = 10.0
"""Milliseconds at 100,000 capabilities."""
COLD_GOAL = 1.15
START_GOAL = 0.01
MEMORY_GOAL = 2.0
"""Megabytes at 100 capabilities, the model not counted."""


@dataclass(frozen=True, slots=True)
class Times:
    """What each call took.

    Attributes:
        seconds: By the clock.
        busy: Of the processor, all threads together: without what others on the machine took.
    """

    seconds: Sequence[float]
    busy: Sequence[float]

    def at(self, percent: float) -> float:
        """Return a percentile in milliseconds."""
        return float(np.percentile(self.seconds, percent)) * 1e3

    def busy_at(self, percent: float) -> float:
        """Return a percentile of the processor's time in milliseconds."""
        return float(np.percentile(self.busy, percent)) * 1e3


Call = Callable[[str], Awaitable[object]]


async def in_turns(sides: Sequence[tuple[Call, Sequence[Sequence[str]]]]) -> list[Times]:
    """Time each side on its own blocks of texts: the sides take turns, block by block.

    Within a block a side has the caches of the processor for itself. The collector of
    garbage waits.
    """
    taken: list[tuple[list[float], list[float]]] = [([], []) for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for blocks in zip(*(blocks for _, blocks in sides), strict=True):
            for (call, _), texts, (seconds, busy) in zip(sides, blocks, taken, strict=True):
                for text in texts:
                    worked, begun = time.process_time(), time.perf_counter()
                    await call(text)
                    seconds.append(time.perf_counter() - begun)
                    busy.append(time.process_time() - worked)
    finally:
        gc.enable()
    return [Times(seconds, busy) for seconds, busy in taken]


def blocks_of(texts: Sequence[str], size: int, *, shift: int = 0) -> list[Sequence[str]]:
    """Cut `texts` into blocks, beginning with the block number `shift`."""
    blocks = [texts[first : first + size] for first in range(0, len(texts), size)]
    return blocks[shift:] + blocks[:shift]


def index_of(rows: Sequence[Capability]) -> CapabilityIndex:
    return CapabilityIndex({row.id: row for row in rows}, 1)


def discoverer_of(engine: SearchEngine, index: CapabilityIndex) -> Discoverer:
    # Without a floor every message is answered in full, whatever vectors of words come to.
    settings = DiscoverySettings(floor=0.0)
    return Discoverer(engine, settings, capabilities=lambda: index, counter=QuarterTokens())


# -- warm ------------------------------------------------------------------------


async def warm(count: int, *, rounds: int) -> list[Figure]:
    """Return what searches of messages with known vectors cost with `count` capabilities."""
    rows, embedder = capabilities(count), WordEmbedder()
    texts = messages(MESSAGES)
    flat = faiss.IndexFlatIP(embedder.dimension)
    for first in range(0, count, 10_000):
        part = [text_of(row) for row in rows[first : first + 10_000]]
        flat.add(embedder.vectors(part))
    known: dict[str, Floats] = dict(zip(texts, embedder.vectors(texts)[:, None], strict=True))
    index = index_of(rows)
    engine = SearchEngine(Surroundings(embedder=lambda: embedder))
    discoverer = discoverer_of(engine, index)
    begun = time.perf_counter()
    made = await engine.ready(index)
    build = time.perf_counter() - begun
    if made.dense is None:
        raise SystemExit(f"no vectors took part: {engine.problem}")

    async def bare(text: str) -> object:
        return flat.search(known[text], NEAREST)

    async def find(text: str) -> object:
        return await engine.find(index, text, limit=NEAREST)

    # What one side has asked, the other asks when it is no longer kept.
    early, late = blocks_of(texts, BLOCK), blocks_of(texts, BLOCK, shift=MESSAGES // BLOCK // 3)
    sides = ((bare, early), (find, early), (discoverer.discover, late), (discoverer.discover, late))
    await in_turns(sides)
    times = await in_turns([(call, blocks * rounds) for call, blocks in sides])
    await engine.close()
    return warm_figures(count, build, *times)


def warm_figures(
    count: int, build: float, bare: Times, find: Times, discover: Times, again: Times
) -> list[Figure]:
    name, against = f"discovery.{count}", f"flat faiss search of {count:,}"
    figures = [Figure(name=f"{name}.build", value=build, unit="s, vectors at hand")]
    sides = {"bare": bare, "find": find, "discover": discover, "again": again}
    for side, times in sides.items():
        for percent in (50, 99):
            goal = P99_GOAL if (side, percent, count) == ("discover", 99, 100_000) else None
            figures.append(
                Figure(name=f"{name}.{side}.p{percent}", value=times.at(percent), unit="ms",
                       goal=goal)
            )  # fmt: skip
        figures += [
            Figure(name=f"{name}.{side}.p{percent}_cpu", value=times.busy_at(percent),
                   unit="ms of CPU", goal=CPU_GOALS.get((side, percent, count)))
            for percent in (50, 99)
        ]  # fmt: skip
    for side in ("find", "discover", "again"):
        goal = FIND_GOALS.get(count) if side == "discover" else None
        figures.append(
            Figure(name=f"{name}.{side}.ratio", unit="ratio",
                   value=sides[side].at(50) / bare.at(50),
                   against=against, goal=goal)
        )  # fmt: skip
    return figures


# -- cold, and starts --------------------------------------------------------------


class Counted:
    """An embedder that counts the texts of bulk work."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self._embedder = embedder
        self.texts = 0

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.texts += len(texts)
        return await self._embedder.embed(texts)

    async def embed_query(self, text: str) -> Floats:
        return await self._embedder.embed_query(text)

    async def embed_parts(self, text: str, spans: Sequence[tuple[int, int]]) -> Sequence[Floats]:
        return await self._embedder.embed_parts(text, spans)


async def cold_and_start(count: int, *, queries: int, starts: int) -> list[Figure]:
    """Return what a new message costs, and a start with an index that has not changed."""
    model = model_of("onnx")
    service = CachedEmbedder(
        ThreadEngine(model, failed=lambda why: print(why, file=sys.stderr)),
        kind="onnx",
        cache_size=10_000,
    )
    await service.embed_query("ready")
    embedder = Counted(service)
    index = index_of(capabilities(count))
    with tempfile.TemporaryDirectory() as folder:
        around = Surroundings(embedder=lambda: embedder, path=Path(folder) / "index.npz")
        engine = SearchEngine(around)
        begun = time.perf_counter()
        await engine.ready(index)
        await engine.save(now=True)
        build = time.perf_counter() - begun
        texts, taken = embedder.texts, []
        for _ in range(starts):
            fresh = SearchEngine(around)
            begun = time.perf_counter()
            made = await fresh.ready(index)
            taken.append(time.perf_counter() - begun)
            if made.dense is None:
                raise SystemExit("the saved index was not taken")
        start, again = float(np.median(taken)), embedder.texts - texts
        discoverer = discoverer_of(engine, index)
        bare, cold, _ = await cold_times(model, discoverer, messages(queries))
        by_length = await lengths(model, discoverer, queries // 2, f"discovery.{count}")
        await engine.close()
    await service.close()
    name = f"discovery.{count}"
    return [
        Figure(name=f"{name}.cold.bare", value=bare.at(50), unit="ms"),
        Figure(name=f"{name}.cold.p50", value=cold.at(50), unit="ms"),
        Figure(name=f"{name}.cold.ratio", value=cold.at(50) / bare.at(50), unit="ratio",
               against="one bare embedding", goal=COLD_GOAL),
        Figure(name=f"{name}.cold_build", value=build, unit="s, with the model"),
        Figure(name=f"{name}.start", value=start * 1e3, unit="ms, nothing changed"),
        Figure(name=f"{name}.start.texts", value=again, unit="texts embedded", goal=0),
        Figure(name=f"{name}.start.ratio", value=start / build, unit="ratio",
               against=f"the build of {count:,}", goal=START_GOAL),
        *by_length,
    ]  # fmt: skip


async def lengths(model: Any, discoverer: Discoverer, count: int, name: str) -> list[Figure]:
    """Return what new messages of several lengths cost, and the same ones asked again."""
    figures = []
    for length, text in LENGTHS.items():
        texts = [text.format(number) for number in range(count)]
        sides = await cold_times(model, discoverer, texts)
        figures += [
            Figure(name=f"{name}.{side}.{length}", value=times.busy_at(50), unit="ms of CPU")
            for side, times in zip(("bare", "cold", "again"), sides, strict=True)
        ]
    return figures


async def cold_times(model: Any, discoverer: Discoverer, texts: Sequence[str]) -> list[Times]:
    """Time the bare embedding and `discover` of messages that are new to both; and once more."""

    async def bare(text: str) -> object:
        return model.read(text)

    await discoverer.discover("a message before the others")
    blocks = blocks_of(texts, 10)
    discover = discoverer.discover
    return await in_turns(((bare, blocks), (discover, blocks), (discover, blocks)))


# -- memory ------------------------------------------------------------------------


async def memory(count: int) -> float:
    """Return the megabytes by which this process grows: index, searches and tiers."""
    process, embedder = psutil.Process(), WordEmbedder()
    index = index_of(capabilities(count))
    texts = messages(50)
    embedder.vectors([*texts, *(text_of(row) for row in index)])
    gc.collect()
    before = process.memory_info().rss
    discoverer = discoverer_of(SearchEngine(Surroundings(embedder=lambda: embedder)), index)
    await discoverer.initialize()
    for text in texts:
        await discoverer.discover(text)
    gc.collect()
    return float(process.memory_info().rss - before) / 1e6


def memory_apart(count: int) -> float:
    """Return the same of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.discovery.speed", "memory", str(count)]
    # What it complains of goes to this process's stderr; the line before the figure is its log's.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


# -- the run -----------------------------------------------------------------------


async def measure(*, quick: bool) -> list[Figure]:
    runs = 1 if quick else 3
    figures = [
        Figure(name="discovery.100.memory",
               value=float(np.median([memory_apart(100) for _ in range(runs)])), unit="MB",
               goal=MEMORY_GOAL)
    ]  # fmt: skip
    for count in (100,) if quick else (100, 1000, 16_000, 100_000):
        print(f"-- {count:,} capabilities", flush=True)
        figures += await warm(count, rounds=1 if quick else 2)
    figures += await cold_and_start(
        100 if quick else 1000, queries=20 if quick else 200, starts=2 if quick else 7
    )
    return figures


def pin() -> None:
    """Keep this process on one processor, where the system can do that.

    On a busy machine a thread that is woken elsewhere waits, and the ratios would be about
    that.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 capabilities")
    chosen = parser.parse_args()
    faiss.omp_set_num_threads(1)
    pin()
    report("discovery", asyncio.run(measure(quick=chosen.quick)))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "memory":
        print(asyncio.run(memory(int(sys.argv[2]))))
    else:
        main()
