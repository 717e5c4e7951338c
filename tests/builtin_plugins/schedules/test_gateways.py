"""Schedules of several gateways on one PostgreSQL, and of one that is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.schedules import clockwork
from tests.builtin_plugins.schedules.conftest import Turns
from tests.builtin_plugins.stores import differences
from tests.support.script import Script, Scripted, say, settings, until

from hookgate import Gateway
from hookgate.builtin_plugins.schedules import tables
from hookgate.builtin_plugins.schedules.settings import JobSettings
from hookgate.builtin_plugins.schedules.tables import Book
from hookgate.builtin_plugins.schedules.timing import look
from hookgate.kit.tables import tables_of
from hookgate.ports import STORE

BUILTIN = ("control", "storage", "policy", "schedules")
SECOND = timedelta(seconds=1)
at = datetime.fromisoformat

pytestmark = pytest.mark.slow


def on(url: str, home: Path, turns: Turns, **job: Any) -> Gateway:
    """A gateway on the database, with a home folder of its own."""
    jobs = {"jobs": {"job": {"every": "1s", "text": "tick", **job}}} if job else {}
    plugin = {"storage": {"url": url, "fallback": "refuse"}, "schedules": jobs}
    plugins = [turns, Scripted(Script(say("tock")))]
    return Gateway(settings(home, plugin=plugin), builtin=BUILTIN, plugins=plugins)


def run_and_kill(home: Path) -> None:
    """Let a gateway begin a run, and kill it."""
    command = [sys.executable, clockwork.__file__, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGKILL)


async def book_of(gate: Gateway) -> Book:
    await tables_of(gate.host[STORE], "schedules", tables.__name__)
    return Book(gate.host[STORE])


async def test_migrations_make_the_tables_that_the_code_knows(url: str, tmp_path: Path) -> None:
    async with on(url, tmp_path, Turns()) as gate:
        await book_of(gate)
        store: Any = gate.host[STORE]
        assert await differences(store, tables.METADATA) == []


async def test_each_due_run_is_run_by_one_of_three_gateways(url: str, tmp_path: Path) -> None:
    kept = [Turns() for _ in range(3)]
    async with AsyncExitStack() as stack:
        gates = [
            await stack.enter_async_context(on(url, tmp_path / str(n), turns, deadline=9))
            for n, turns in enumerate(kept)
        ]
        await until(lambda: sum(len(turns.ended) for turns in kept) >= 5, seconds=40)
        begun = [turn.id for turns in kept for turn in turns.ended]
        rows, _ = await (await book_of(gates[0])).rows("job", 100)
        ended = {turn.id for turns in kept for turn in turns.ended}
    ran = [row for row in rows if row.started]
    assert len(begun) <= len(ran)
    done = [row.turn for row in ran if row.state == "done"]
    assert len(set(done)) == len(done) >= 4
    assert set(done) <= ended
    times = sorted(
        (datetime.fromisoformat(r.first), datetime.fromisoformat(r.planned)) for r in rows
    )
    # No second is missing, and none is there twice.
    assert all(first - last == SECOND for (_, last), (first, _) in pairwise(times))


async def test_of_racing_gateways_one_settles_what_is_due(url: str, tmp_path: Path) -> None:
    job = JobSettings(every=60, text="tick")
    async with on(url, tmp_path / "a", Turns()) as a, on(url, tmp_path / "b", Turns()) as b:
        books = [await book_of(gate) for gate in (a, b) for _ in range(4)]
        start = at("2026-03-01T12:00:00+00:00")
        for book in books:
            await book.begin("job", job.plan, start)
        for minute in range(1, 11):
            seen, now = start + (minute - 1) * 60 * SECOND, start + minute * 60 * SECOND
            found = look(job, "", seen, now)
            said = await asyncio.gather(*(one.settle("job", seen, found, now) for one in books))
            assert sorted(said) == ["lost"] * 7 + ["run"]
            mine = books[said.index("run")]
            assert await mine.end("job", now, {"state": "done"})


async def test_what_a_gateway_that_is_heard_of_no_more_ran_is_taken_over(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LEASE_SECONDS", 0.5)
    job, start = (
        JobSettings(every=60, text="tick"),
        at("2026-03-01T12:00+00:00"),
    )
    now = start + 60 * SECOND
    async with on(url, tmp_path / "a", Turns()) as a, on(url, tmp_path / "b", Turns()) as b:
        one, other = await book_of(a), await book_of(b)
        await one.begin("job", job.plan, start)
        assert await one.settle("job", start, look(job, "", start, now), now) == "run"
        # While it is heard of, nobody else begins the next, nor takes this one.
        assert await one.beat([("job", now)]) == {("job", now)}
        later = now + 60 * SECOND
        assert await other.settle("job", now, look(job, "", now, later), later) == ""
        assert await other.interrupt(later) == []
        assert await other.again("job", later) is None
        await asyncio.sleep(0.6)
        assert await other.interrupt(later) == [("job", tables.written(now))]
        assert await other.again("job", later) == now
        # The first one finds that it is not its any more.
        assert await one.beat([("job", now)]) == set()
        assert not await one.end("job", now, {"state": "done"})
        rows, _ = await other.rows("job", 9)
    assert [(row.state, row.attempt) for row in rows] == [("skipped", 1), ("running", 2)]


async def test_a_run_whose_gateway_is_killed_is_interrupted_and_run_once_more(
    tmp_path: Path,
) -> None:
    run_and_kill(tmp_path)
    turns = Turns()
    plugins = [turns, Scripted(Script(say("tock")))]
    # Far from the next: what runs is the one that was killed.
    made = clockwork.config(tmp_path, every="1s", on_crash="again")
    async with Gateway(made, builtin=BUILTIN, plugins=plugins) as gate:
        await until(lambda: bool(turns.ended))
        rows, _ = await (await book_of(gate)).rows("job", 100)
    killed = rows[-1]
    assert (killed.attempt, killed.by) == (2, "clock")
    assert killed.note in ("", "run again after its gateway had stopped")
    assert {row.planned for row in rows if row.started} >= {killed.planned}
