"""Each due run is begun once or said to be missed, whatever clocks and gateways do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.turns import TurnedClock, make_host

from hookgate.builtin_plugins.schedules import tables
from hookgate.builtin_plugins.schedules.operations import RunRow
from hookgate.builtin_plugins.schedules.scheduler import Scheduler
from hookgate.builtin_plugins.schedules.settings import JobSettings, SchedulesSettings
from hookgate.builtin_plugins.schedules.tables import Book
from hookgate.core.domain.ports import CLOCK, SWITCHES, Switch
from hookgate.kit.records import MemoryStore

DAY = 86_400

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 59, 300, 900, 3600, 5 * 3600])),
        st.tuples(st.just("jump"), st.sampled_from([-2 * DAY, -3600, -61, 61, 3600, 40 * 3600])),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("finish"), st.just(0)),
        st.tuples(st.just("pause"), st.booleans()),
    ),
    max_size=60,
)
JOBS = st.sampled_from(
    [
        {"every": "10m"},
        {"every": "10m", "jitter": "5m", "missed": "once"},
        {"every": "7h", "missed": "once", "grace": "1h"},
        {"cron": "30 2 * * *", "zone": "Europe/Berlin", "missed": "once"},
        {"cron": "*/15 1-3 * * *", "zone": "Australia/Lord_Howe", "jitter": "20s"},
        {"cron": "0 9 * * *", "zone": "America/New_York"},
    ]
)
BEGINS = st.sampled_from(["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-24", "2026-10-31"])


class NoRuns:
    """Takes runs, and ends them when it is told to."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.begun: list[datetime] = []
        self.going: list[datetime] = []

    def start(self, name: str, job: Any, planned: datetime, *, note: str) -> None:
        self.begun.append(planned)
        self.going.append(planned)

    async def finish(self) -> None:
        for planned in self.going:
            assert await self.book.end("job", planned, {"state": "done", "ended": "then"})
        self.going.clear()


class OneSwitch:
    """The switch of the schedules, in memory."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}

    async def get(self, name: str) -> Switch:
        return Switch(name, self.value, 1)


async def play(job: JobSettings, begin: str, actions: Sequence[tuple[str, Any]]) -> None:
    host, clock, switch = make_host(Path("unused")), TurnedClock(), OneSwitch()
    clock.time = datetime.fromisoformat(f"{begin}T12:00:00+00:00")
    host.provide(CLOCK, clock)
    host.provide(SWITCHES, switch)  # type: ignore[arg-type]  # as much of it as is needed
    book = Book(MemoryStore(tables.METADATA))
    runs = NoRuns(book)

    def gateway() -> Scheduler:
        made = Scheduler(SchedulesSettings(jobs={"job": job}))
        made._host, made._book, made._runs = host, book, runs  # type: ignore[assignment]
        return made

    gateways = [gateway(), gateway()]
    start = clock.time
    await gateways[0].look_at_all()
    for what, value in [*actions, ("pause", False), ("finish", 0), ("wait", 400), ("look", 0)]:
        match what:
            case "look":
                await gateways[value].look_at_all()
            case "wait":
                clock.advance(value)
            case "jump":
                clock.time += timedelta(seconds=value)
            case "restart":
                gateways[value] = gateway()
            case "finish":
                await runs.finish()
            case "pause":
                paused = {"job": {"by": "ops", "why": "rest"}} if value else {}
                switch.value = {"paused": paused}
    rows, _ = await book.rows("job", 100_000)
    check(job, rows, runs.begun, start, await book.cursor("job"))


def check(
    job: JobSettings,
    rows: Sequence[RunRow],
    begun: list[datetime],
    start: datetime,
    cursor: datetime,
) -> None:
    """Hold that all that was due up to `cursor` is there, each time once."""
    due = list(job.timing.between(start, cursor))
    told: list[datetime] = []
    for row in rows:
        first, last = datetime.fromisoformat(row.first), datetime.fromisoformat(row.planned)
        covered = [one for one in due if first <= one <= last]
        assert row.more or len(covered) == row.count
        told += covered
    assert sorted(told) == due
    assert len(set(begun)) == len(begun)
    ran = {datetime.fromisoformat(row.planned) for row in rows if row.started}
    assert set(begun) == ran


@given(JOBS, BEGINS, ACTIONS)
def test_every_due_run_is_begun_once_or_said_to_be_missed(
    job: dict[str, Any], begin: str, actions: list[tuple[str, Any]]
) -> None:
    settings = JobSettings.model_validate({"text": "hello", **job})
    with patch.object(tables, "KEPT", 100_000):
        asyncio.run(play(settings, begin, actions))
