"""What a turn costs as a gateway grows: long conversations, many sessions, cards, capabilities.

Along each of them, gateways of several sizes stand in this process, and turns of them are run
in turns. The model answers at once and there is no embedder, so that nothing but the gateway
counts. What is told is the CPU time of the process, with all of its threads, for one turn: the
median. Conversations are rows of one real turn, copied in the store before its gateway starts.
What gateways do in the background after their start is waited for.

- ``history``: a conversation that goes on after so many turns, all of which the model is shown.
- ``sessions``: a conversation that has been idle, among so many in the store.
- ``peers``: a conversation among so many that have spoken with this gateway since its start.
- ``turns``: a conversation that has had so many turns since the start, as much of which is shown
  as is by itself.
- ``ledger``: so many calls of models in the usage ledger.
- ``audit``: so many rows in the audit; a tool is called in each turn.
- ``cards``: so many capability cards, none of which has to do with the message.
- ``capabilities``: so many capabilities, of which the best are shown.

Run: ``python -m benchmarks.turn.growth [--quick] [NAME ...]``
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.discovery._synthetic import NOUNS, QUALITIES, capabilities, messages
from benchmarks.report import Figure, report
from benchmarks.turn.answers import answer
from benchmarks.weight import year
from hookgate import Card, Triggers, hookimpl
from hookgate.core.domain.descriptors import Capability
from hookgate.core.domain.models import ModelEvent, ModelRequest, Usage, UsageEvent
from hookgate.core.domain.turn import Address, Turn
from hookgate.gateway import Gateway
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, call, say

HISTORY, SESSIONS = (5, 100, 1000), (100, 10_000, 100_000)
PEERS, TURNS = (32, 1500, 10_000), (32, 500, 2000)
LEDGER = AUDIT = (1000, 300_000, 1_000_000)
CARDS, CAPABILITIES = (15, 100, 1000), (100, 1000, 16_000)
HISTORY_GOAL = 10.0
"""Milliseconds of a turn that keeps 1,000 turns of history."""
CARD_GOAL = 3.0
"""Microseconds of a card that is not shown."""

ROUNDS, WARM = 60, 10
QUIET_CPU, QUIET_SECONDS, PATIENCE = 0.02, 1.5, 120.0
"""A process that takes no more of its processor for so long has settled; it is waited so long."""

Ask: TypeAlias = Callable[[str], Awaitable[Turn]]

OWN = "main:cli:local:own"
"""The session of the turn whose rows are copied."""


# -- gateways --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway, and what its agent asks."""

    gateway: Gateway
    model: ScriptedModel

    async def ask(self, text: str, peer: str, *uses: ModelEvent) -> Turn:
        """Run one turn, in which the model says `uses` first, if anything.

        Raises:
            SystemExit: It went wrong.
        """
        said = answer(text)
        self.model.steps = [*([uses] if uses else []), partial(billed, said)]
        self.model.requests.clear()  # what it keeps would be what grows
        turn = await self.gateway.chat(text, address=Address(peer=peer))
        if turn.answer != said:
            raise SystemExit(f"a turn went wrong: {turn.error}")
        return turn


def billed(said: str, request: ModelRequest) -> list[ModelEvent]:
    """Return an answer with what a provider bills for it: of too little it would be doubted."""
    usage = Usage(input_tokens=request.input_tokens, output_tokens=len(said) // 4)
    return [UsageEvent(usage) if type(event) is UsageEvent else event for event in say(said)]


async def start(stack: AsyncExitStack, home: Path, *plugins: object, **sections: Any) -> Running:
    """Start a gateway whose model answers at once."""
    model, log = ScriptedModel(), {"level": "error"}
    made = started(*plugins, home=home, model=model, log=log, **sections)
    return Running(await stack.enter_async_context(made), model)


async def settled() -> None:
    """Wait until this process does nothing by itself."""
    end, quiet, before = time.monotonic() + PATIENCE, 0.0, time.process_time()
    while quiet < QUIET_SECONDS and time.monotonic() < end:
        await asyncio.sleep(0.5)
        now = time.process_time()
        quiet = quiet + 0.5 if now - before <= QUIET_CPU * 0.5 else 0.0
        before = now


async def in_turns(asks: Sequence[Ask], rounds: int) -> list[float]:
    """Return the median CPU seconds of one turn of each; the sides take turns."""
    warm = min(WARM, rounds)
    texts = messages(warm + rounds, seed=23)
    taken: list[list[float]] = [[] for _ in asks]
    await settled()
    for number, text in enumerate(texts):
        for one, times in zip(asks, taken, strict=True):
            if number % 20 == 0:
                gc.collect()
            begun = time.process_time()
            await one(text)
            if number >= warm:
                times.append(time.process_time() - begun)
    return [statistics.median(times) for times in taken]


# -- conversations ---------------------------------------------------------------


async def one_turn(home: Path) -> Path:
    """Make a store with one turn in it; return its file."""
    async with AsyncExitStack() as stack:
        running = await start(stack, home)
        await running.ask("What did we decide about the invoices of last month?", "own")
    return home / "hookgate.db"


def copied(database: Path, sessions: int, turns: int) -> None:
    """Fill a store with sessions of so many turns: copies of the one that is in it."""
    with sqlite3.connect(database) as db:
        (row,) = db.execute("SELECT * FROM storage_sessions WHERE session = ?", (OWN,))
        said = db.execute("SELECT * FROM storage_messages ORDER BY position").fetchall()
        db.execute("DELETE FROM storage_messages")
        names = [f"main:cli:local:peer{number}" for number in range(sessions)]
        marks = ", ".join("?" * len(row))
        _, fence, _, _, last, updated, taint, forgotten = row
        db.executemany(
            f"INSERT INTO storage_sessions VALUES ({marks})",
            (
                (name, fence, turns * len(said), turns, last, updated, taint, forgotten)
                for name in names
            ),
        )
        db.executemany(
            f"INSERT INTO storage_messages VALUES ({', '.join('?' * len(said[0]))})",
            _messages(said, names, turns),
        )
        total = sessions * turns * len(said)
        db.execute("UPDATE storage_positions SET last = ?", (total,))
        # Nobody is to learn from them.
        for learner in ("discovery", "memory"):
            db.execute(f"UPDATE {learner}_cursor SET cursor = ?", (str(total),))


def _messages(
    said: Sequence[tuple[Any, ...]], names: Sequence[str], turns: int
) -> Iterator[tuple[Any, ...]]:
    position = 0
    for name in names:
        for turn in range(turns):
            for place, (_, _, _, _, *rest, _) in enumerate(said):
                position += 1
                seq = turn * len(said) + place
                yield (name, turn + 1, seq, f"turn_{turn}", *rest, position)


async def conversations(
    stack: AsyncExitStack, folder: Path, *, sessions: int, turns: int, **context: Any
) -> Running:
    """Start a gateway over a store with so many sessions of so many turns."""
    home = folder / f"{sessions}x{turns}"
    copied(await one_turn(home), sessions, turns)
    return await start(stack, home, context=context)


async def history(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs that goes on after so many turns."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                running = await conversations(
                    stack,
                    Path(folder),
                    sessions=1,
                    turns=size,
                    history_turns=size,
                    budget_tokens=2_000_000,
                )
                turn = await running.ask("And what else?", "peer0")
                if len(turn.history) != 2 * size:
                    raise SystemExit(f"found {len(turn.history)} messages of {size} turns")
                asks.append(_same_peer(running))
            taken = await in_turns(asks, rounds)
    return figures("history", "turns of history", sizes, taken, goals={1000: HISTORY_GOAL})


def _same_peer(running: Running) -> Ask:
    return lambda text: running.ask(text, "peer0")


async def sessions(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs among so many sessions."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                running = await conversations(stack, Path(folder), sessions=size, turns=1)
                asks.append(_next_peer(running))
            taken = await in_turns(asks, rounds)
    return figures("sessions", "sessions", sizes, taken)


def _next_peer(running: Running) -> Ask:
    peers = count()
    return lambda text: running.ask(text, f"peer{next(peers)}")


async def peers(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs among so many who have spoken with the same gateway."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                running = await start(stack, Path(folder) / str(size))
                for number, text in enumerate(messages(size, seed=7)):
                    await running.ask(text, f"peer{number}")
                asks.append(_next_peer(running))
            taken = await in_turns(asks, rounds)
    return figures("peers", "peers", sizes, taken)


async def ledger(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs with so many rows in the ledger."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                home = Path(folder) / str(size)
                year.fill(await one_turn(home), size)
                asks.append(_same_peer(await start(stack, home)))
            taken = await in_turns(asks, rounds)
    return figures("ledger", "rows", sizes, taken)


async def turns(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs in a conversation that has had so many turns since the start."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                running = await start(stack, Path(folder) / str(size))
                for text in messages(size, seed=11):
                    await running.ask(text, "peer0")
                asks.append(_same_peer(running))
            taken = await in_turns(asks, rounds)
    return figures("turns", "turns", sizes, taken)


async def audit(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn with a call costs with so many rows in the audit."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                home = Path(folder) / str(size)
                async with AsyncExitStack() as first:
                    await _calling(await start(first, home))("What is the time?")
                year.fill_audit(home / "hookgate.db", size)
                asks.append(_calling(await start(stack, home)))
            taken = await in_turns(asks, rounds)
    return figures("audit", "rows", sizes, taken)


def _calling(running: Running) -> Ask:
    async def ask(text: str) -> Turn:
        turn = await running.ask(text, "peer0", *call("clock", timezone="Europe/Oslo"))
        if [one.result.status for one in turn.calls] != ["done"]:
            raise SystemExit(f"the call went wrong: {turn.calls}")
        return turn

    return ask


# -- content ---------------------------------------------------------------------


def cards(size: int) -> list[Card]:
    """Return so many cards; each fourth one has a tag of its own."""
    chance, shared = random.Random(5), ("config", "memory", "debug")
    made = []
    for place in range(size):
        phrases = tuple(
            f"{chance.choice(QUALITIES)} {chance.choice(NOUNS)} of the gateway" for _ in range(8)
        )
        tag = f"own-{place}" if place % 4 == 0 else shared[place % 4 - 1]
        triggers = Triggers(keywords=phrases, router_tags=(tag,))
        text = f"How the gateway keeps the {phrases[0]}. " * 8
        made.append(Card(id=f"card{place}", text=text, triggers=triggers, trusted=True))
    return made


class Content:
    """Brings cards and capabilities."""

    name = "content"

    def __init__(self, brought: Sequence[Card] = (), rows: Sequence[Capability] = ()) -> None:
        self._cards, self._rows = brought, rows

    @hookimpl
    def list_cards(self) -> Sequence[Card]:
        return self._cards

    @hookimpl
    def list_capabilities(self) -> Sequence[Capability]:
        return self._rows


async def content(
    what: str, unit: str, sizes: Sequence[int], rounds: int, made: Callable[[int], Content]
) -> list[Figure]:
    """Return what a turn costs in gateways with so much content."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            asks = []
            for size in sizes:
                running = await start(stack, Path(folder) / str(size), made(size))
                # Each text is looked at once, when it is shown for the first time.
                for text in messages(WARM + rounds, seed=23):
                    await running.ask(text, "peer0")
                asks.append(_same_peer(running))
            taken = await in_turns(asks, rounds)
    return figures(what, unit, sizes, taken)


async def with_cards(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs with so many cards, and each of them."""
    found = await content("cards", "cards", sizes, rounds, lambda size: Content(cards(size)))
    each = (found[len(sizes) - 1].value - found[0].value) / (sizes[-1] - sizes[0])
    return [
        *found,
        Figure(name="growth.cards.each", value=each * 1e3, unit="us of CPU a card", goal=CARD_GOAL),
    ]


def skills(size: int) -> list[Capability]:
    """Return so many capabilities that are no tools: it is the search that counts."""
    return [replace(row, id=f"skill:{row.name}", kind="skill") for row in capabilities(size)]


async def with_capabilities(sizes: Sequence[int], rounds: int) -> list[Figure]:
    """Return what a turn costs with so many capabilities."""
    return await content(
        "capabilities",
        "capabilities",
        sizes,
        rounds,
        lambda size: Content(rows=skills(size)),
    )


# -- the run ---------------------------------------------------------------------


def figures(
    what: str,
    unit: str,
    sizes: Sequence[int],
    taken: Sequence[float],
    goals: dict[int, float] | None = None,
) -> list[Figure]:
    """Return what a turn took at each size, and how the last compares with the first."""
    found = [
        Figure(
            name=f"growth.{what}.{size}",
            value=seconds * 1e3,
            unit="ms of CPU a turn",
            goal=(goals or {}).get(size),
        )
        for size, seconds in zip(sizes, taken, strict=True)
    ]
    ratio = taken[-1] / taken[0]
    against = f"{sizes[0]:,} {unit}"
    return [*found, Figure(name=f"growth.{what}.ratio", value=ratio, unit="ratio", against=against)]


PARTS: dict[str, tuple[Callable[..., Awaitable[list[Figure]]], Sequence[int], Sequence[int]]] = {
    "history": (history, HISTORY, (5, 50)),
    "sessions": (sessions, SESSIONS, (20, 200)),
    "peers": (peers, PEERS, (4, 20)),
    "turns": (turns, TURNS, (4, 20)),
    "ledger": (ledger, LEDGER, (100, 1_000)),
    "audit": (audit, AUDIT, (100, 1_000)),
    "cards": (with_cards, CARDS, (15, 60)),
    "capabilities": (with_capabilities, CAPABILITIES, (20, 100)),
}
"""What is measured, with the sizes of the long form and those of the short one."""


async def measure(names: Sequence[str], *, quick: bool) -> list[Figure]:
    found = []
    for name in names:
        print(f"-- {name}", flush=True)
        part, sizes, few = PARTS[name]
        found += await part(few if quick else sizes, 3 if quick else ROUNDS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer turns")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PARTS)}")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - PARTS.keys()):
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(PARTS)}")
    report("growth", asyncio.run(measure(chosen.names or list(PARTS), quick=chosen.quick)))


if __name__ == "__main__":
    main()
