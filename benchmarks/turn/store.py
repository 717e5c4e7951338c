"""Rows a second that the store commits, against the least that group commit needs.

The bare side is SQLite's own module: one thread that drains a queue, one ``executemany``
and one commit for all that waits, futures resolved behind it. All sides run with WAL and
``synchronous=FULL``, on the same disk, in turns. Each writer awaits its row before it
writes the next one. Beside ``insert`` stands the way that a turn takes, ``write_together``: one
function gets all that is committed together.

    python -m benchmarks.turn.store [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sa

from benchmarks.report import Figure, interleaved, report
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings

WRITERS = (1, 64, 1024)
GOAL_WRITERS = 64
GOAL = 1.5
PAYLOAD = '{"plugin": "policy", "decision": "deny", "reason": "' + "x" * 120 + '"}'

LEDGER = sa.Table(
    "ledger",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.BigInteger),
    sa.Column("kind", sa.Text),
    sa.Column("data", sa.Text),
)
CREATE = "CREATE TABLE ledger (id INTEGER PRIMARY KEY, at BIGINT, kind TEXT, data TEXT)"

Row: TypeAlias = tuple[int, str, str]
Insert: TypeAlias = Callable[[int], Awaitable[None]]


class Bare:
    """Group commit with nothing around it."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Row, asyncio.Future[None]] | None]
        self._queue = queue.SimpleQueue()
        self._path = path
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def insert(self, row: Row) -> None:
        future = self._loop.create_future()
        self._queue.put((row, future))
        await future

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(CREATE)
        statement = "INSERT INTO ledger (at, kind, data) VALUES (?, ?, ?)"
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty():
                item = self._queue.get()
                if item is None:
                    self._queue.put(None)
                    break
                group.append(item)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, [row for row, _ in group])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(resolve, [future for _, future in group])
        connection.close()


def resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


async def rate(insert: Insert, writers: int, rows: int) -> float:
    """Return rows a second with so many writers that take turns at `rows` rows."""
    numbers = iter(range(rows))

    async def write() -> None:
        for number in numbers:
            await insert(number)

    await insert(-1)
    start = time.perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    return rows / (time.perf_counter() - start)


async def bare(folder: Path, writers: int, rows: int) -> float:
    store = Bare(folder / "bare.db")
    try:
        return await rate(lambda n: store.insert((n, "tool_decided", PAYLOAD)), writers, rows)
    finally:
        await store.close()


async def ours(folder: Path, writers: int, rows: int) -> float:
    store = await open_store(StorageSettings(), folder)
    try:
        await store.write(lambda connection: connection.execute(sa.text(CREATE)) and None)

        def insert(number: int) -> Awaitable[None]:
            row = {"at": number, "kind": "tool_decided", "data": PAYLOAD}
            return store.insert(LEDGER, [row])

        return await rate(insert, writers, rows)
    finally:
        await store.close()


async def together(folder: Path, writers: int, rows: int) -> float:
    store = await open_store(StorageSettings(), folder)
    statement = sa.insert(LEDGER)

    def write(connection: sa.Connection, items: Sequence[Row]) -> list[None]:
        given = [{"at": at, "kind": kind, "data": data} for at, kind, data in items]
        connection.execute(statement, given)
        return [None] * len(items)

    async def insert(number: int) -> None:
        await store.write_together(write, (number, "tool_decided", PAYLOAD))

    try:
        await store.write(lambda connection: connection.execute(sa.text(CREATE)) and None)
        return await rate(insert, writers, rows)
    finally:
        await store.close()


def measure(side: Callable[[Path, int, int], Awaitable[float]], writers: int, rows: int) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        return asyncio.run(_run(side, Path(folder), writers, rows))


async def _run(
    side: Callable[[Path, int, int], Awaitable[float]], folder: Path, writers: int, rows: int
) -> float:
    return await side(folder, writers, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    quick = parser.parse_args().quick
    figures: list[Figure] = []
    for writers in WRITERS:
        rows = (100 if quick else 400) if writers == 1 else writers * (20 if quick else 60)
        sides = [partial(measure, side, writers, rows) for side in (bare, ours, together)]
        least, mine, turns = interleaved(sides, rounds=3 if quick else 7)
        name = f"{writers} writer{'s' if writers > 1 else ''}"
        figures += [
            Figure(name=f"bare, {name}", value=least, unit="rows/s"),
            Figure(name=f"store, {name}", value=mine, unit="rows/s"),
            Figure(
                name=f"bare / store, {name}",
                value=least / mine,
                unit="ratio",
                against="bare SQLite group commit",
                goal=GOAL if writers == GOAL_WRITERS else None,
            ),
            Figure(
                name=f"bare / write_together, {name}",
                value=least / turns,
                unit="ratio",
                against="bare SQLite group commit",
            ),
        ]
    report("Store: committed rows", figures)


if __name__ == "__main__":
    main()
