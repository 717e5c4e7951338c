"""Gateways that share budgets: in processes of their own, on a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from textwrap import dedent

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from tests.builtin_plugins.metering.budgets.support import (
    DAY,
    SlowStore,
    expect_hold,
    expect_short,
    gateways,
    opened,
    prepared,
    row,
    want,
)
from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.metering.budgets import Hold, rows
from hookgate.builtin_plugins.metering.tables.budgets import WINDOWS
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.core.host import SystemClock
from hookgate.core.sessions.signals import InProcessSignals


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield await prepared(store, shared=True)


GATEWAY = """
    import asyncio, sys
    from pathlib import Path
    from pydantic import SecretStr
    from hookgate.builtin_plugins.metering import tables
    from hookgate.builtin_plugins.metering.budgets import Budgets, Hold, Want
    from hookgate.builtin_plugins.storage.engine.opening import open_store
    from hookgate.builtin_plugins.storage.settings import StorageSettings
    from hookgate.core.host import SystemClock

    url, home, key = sys.argv[1:4]
    limit, callers, lanes, ends = map(int, sys.argv[4:8])
    ttl, patience = map(float, sys.argv[8:])

    async def main():
        store = await open_store(StorageSettings(url=SecretStr(url)), Path(home))
        assert store.durable, store.problem
        await store.migrate("metering", tables.METADATA, tables.SCRIPTS)
        budgets = Budgets(
            store, SystemClock(), None, gateway="g", ttl=ttl, patience=patience, poll=.02
        )
        await budgets.open()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

        ample = ["a/global/day:1", "z/global/day:1"]

        async def call(number):
            # Of the worst case, three, one is used; two ample counters stand around it.
            wants = [Want(key, limit, 3), *(Want(name, 2**60, 1) for name in ample)]
            outcome = await budgets.reserve(wants[:: (-1) ** number])
            if not isinstance(outcome, Hold):
                print("refused", flush=True)
            elif number < ends:
                await asyncio.sleep(0)
                budgets.settle(outcome, [1, 1, 1])
                print("admitted", flush=True)
            else:
                print("held", flush=True)
                await asyncio.Event().wait()

        async def lane(count):
            for number in range(count):
                await call(number)

        await asyncio.gather(*(lane(callers // lanes) for _ in range(lanes)))
        print("ended", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await budgets.close()
        await store.close()

    asyncio.run(main())
"""


class Gateway:
    """A gateway in a process of its own, and what it has said."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def hear(self, word: str) -> None:
        """Return once it has said `word`."""
        assert self.process.stdout is not None
        while not self.said or self.said[-1] != word:
            line = await self.process.stdout.readline()
            assert line, f"it has ended after {self.said[-3:]}"
            self.said.append(line.decode().strip())

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(line.decode().strip())
        await self.process.wait()


LIMIT = 120

TTL = 8.0
"""More than a machine stands still that others use as well: the living are not to be swept here."""


async def begun(
    stack: AsyncExitStack, url: str, home: Path, *, number: int, callers: int, doomed: bool
) -> Gateway:
    """Start a gateway; of one that is `doomed`, a call of each lane ends and the next one never."""
    place = home / str(number)
    place.mkdir()
    lanes, ends = (10, 1) if doomed else (25, callers)
    settings = [str(one) for one in (LIMIT, callers, lanes, ends, TTL, 60.0)]
    command = [sys.executable, "-c", dedent(GATEWAY), url, str(place), DAY, *settings]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    return Gateway(process)


async def hear_any(gateways: Sequence[Gateway], word: str) -> None:
    """Return once one of them has said `word`: which of them gets something is chance."""
    tasks = [asyncio.create_task(one.hear(word)) for one in gateways]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()


@pytest.mark.slow
@pytest.mark.timeout(240)  # four gateways start, on as many cores as there are
@pytest.mark.parametrize(("count", "killed"), [(2, 0), (4, 1)])
async def test_a_thousand_callers_at_several_gateways_use_all_of_a_budget_and_no_more(
    url: str, tmp_path: Path, count: int, killed: int
) -> None:
    async with AsyncExitStack() as stack:
        store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
        stack.push_async_callback(store.close)
        await prepared(store)
        callers = 1000 // count
        started = [
            await begun(stack, url, tmp_path, number=one, callers=callers, doomed=one < killed)
            for one in range(count)
        ]
        await asyncio.gather(*(one.hear("ready") for one in started))
        doomed, living = started[:killed], started[killed:]
        for one in doomed:
            # First: the others may leave it nothing, and it would have nothing to lose.
            one.go_on()
            await one.hear("held")
        for one in living:
            one.go_on()
        if doomed:
            await hear_any(living, "admitted")
        for one in doomed:
            await one.kill()
        await asyncio.gather(*(one.hear("ended") for one in living))
        for one in living:
            one.go_on()
            assert await one.process.wait() == 0
        # A gateway that comes later charges what nobody else has seen the end of.
        budgets = await stack.enter_async_context(opened(store, SystemClock(), ttl=TTL, poll=0.05))
        async with asyncio.timeout(120):
            while await gateways(store) > 1:
                await budgets.tick()
        found = await row(store)
        admitted = sum(one.said.count("admitted") for one in started)
        held = sum(one.said.count("held") for one in doomed)
        assert found["leased"] == 0
        # What a gateway has used that was killed is settled or lost, what it held is lost.
        assert sum(one.said.count("admitted") for one in living) <= found["settled"] <= admitted
        assert found["settled"] + found["lost"] >= admitted + 3 * held
        # Overspent nowhere, and refused only where less was left than a call may need.
        assert LIMIT - 3 < found["settled"] + found["lost"] <= LIMIT
        assert (found["lost"] > 0) == bool(killed)
        await expect_short(budgets, want(3, limit=LIMIT))


async def test_what_another_gateway_does_not_hold_is_given_back_to_who_needs_it(
    store: SqlStore,
) -> None:
    signals = InProcessSignals()
    # Told by a signal: a look every hour would be too late.
    clock = SystemClock()
    async with (
        opened(store, clock, signals, poll=3600.0) as one,
        opened(store, clock, signals, poll=3600.0) as other,
    ):
        one.settle(await expect_hold(one, want(10, limit=10_000)), [10])
        running = await expect_hold(one, want(5, limit=10_000))
        assert (await row(store))["leased"] == 100
        hold = await expect_hold(other, want(9_985, limit=10_000))
        assert (await expect_short(other, want(1, limit=10_000))).held == 9_990
        one.settle(running, [2])
        await expect_hold(other, want(3, limit=10_000))
        other.settle(hold, [0])
        await expect_hold(one, want(9_985, limit=10_000))


async def test_who_leases_for_a_call_that_is_refused_has_not_given_all_back(
    store: SqlStore,
) -> None:
    clock, month = TurnedClock(), "monthly/global/month:1"
    async with opened(store, clock) as one, opened(store, clock) as other:
        other.settle(await expect_hold(other, want(4, limit=4, key=month)), [4])
        clock.advance(3)
        await other.tick()  # what it used is written
        await expect_hold(one, want(1))
        one.settle(await expect_hold(one, want(3)), [0])
        waits = asyncio.create_task(other.reserve([want(9)]))
        asked = sa.select(sa.func.max(WINDOWS.c.asked))
        while not await store.read(lambda c: c.execute(asked).scalar_one()):
            await other.tick()
        # It does not know yet that it is asked, and what it leases now no call takes.
        await expect_short(one, want(6), want(1, limit=4, key=month))
        beat = await store.read(rows.beats)
        while sum((await store.read(rows.beats)).values()) < sum(beat.values()) + 3:
            await other.tick()
        assert not waits.done()
        await one.tick()
        await other.tick()
        assert isinstance(await waits, Hold)


async def test_what_nobody_gives_back_in_time_is_refused(store: SqlStore) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as silent, opened(store, clock, patience=0) as other:
        await expect_hold(silent, want(10, limit=1000))
        short = await expect_short(other, want(995, limit=1000))
        assert (short.used, short.held) == (0, 10)


async def test_who_was_stopped_for_longer_than_its_lease_uses_nothing_of_it(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as stopped, opened(store, clock) as other:
        stopped.settle(await expect_hold(stopped, want(10, limit=1000)), [1])
        assert stopped.try_reserve([want(1, limit=1000)]) is not None
        for _ in range(5):
            clock.advance(8)
            await other.tick()
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 10}
        assert stopped.try_reserve([want(1, limit=1000)]) is None
        await expect_hold(stopped, want(1, limit=1000))
        assert await gateways(store) == 2


async def test_who_looks_seldom_finds_all_the_same_who_has_stopped(store: SqlStore) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as stopped, opened(store, clock, patience=0) as busy:
        await expect_hold(stopped, want(10, limit=1000))
        for _ in range(5):
            assert (await expect_short(busy, want(995, limit=1000))).held == 10
            clock.advance(20)  # a machine that does many things gets to it no sooner
            await busy.tick()
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 10}


async def test_what_was_written_while_a_look_took_its_time_is_no_silence(store: SqlStore) -> None:
    clock = TurnedClock()
    slow = SlowStore(store, clock)
    async with opened(store, clock) as one, opened(slow, clock) as other:
        await expect_hold(one, want(6))
        clock.advance(8)

        async def pass_time() -> None:
            clock.advance(7)
            await one.tick()

        slow.before_read = pass_time
        await other.tick()
        slow.before_read = None
        for _ in range(3):
            clock.advance(7.7)
            await other.tick()
        # The one still uses what it has leased, so nobody may charge it.
        assert one.try_reserve([want(0)]) is not None
        assert await row(store) == {"settled": 0, "leased": 6, "lost": 0}


async def test_a_call_is_answered_in_time_where_each_lease_is_over_before_it_is_known(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    slow = SlowStore(store, clock)
    async with opened(slow, clock, ttl=30, patience=100) as budgets:
        slow.write_seconds = 29
        began = clock.monotonic()
        with pytest.raises(StoreUnavailableError, match="longer to write a lease than the lease"):
            await budgets.reserve([want(6)])
        assert 100 <= clock.monotonic() - began < 100 + 29
        slow.write_seconds = 0
        # It was taken from nobody.
        await expect_hold(budgets, want(10))


async def test_clocks_that_jump_sweep_nobody(store: SqlStore) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as one, opened(store, clock, patience=0) as other:
        hold = await expect_hold(one, want(6))
        for years in (50, -80, 30):
            clock.time = clock.time.replace(year=clock.time.year + years, month=1, day=1)
            for budgets in (one, other):
                clock.advance(3)
                await budgets.tick()
        assert await row(store) == {"settled": 0, "leased": 6, "lost": 0}
        one.settle(hold, [6])
        await expect_short(other, want(5))


async def test_a_store_that_was_gone_for_a_while_costs_nobody_its_lease(store: SqlStore) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as one, opened(store, clock) as other:
        await expect_hold(one, want(6))
        await other.tick()
        for _ in range(5):
            clock.advance(100)  # in which neither could write or read
            await other.tick()
            await one.tick()
        assert await row(store) == {"settled": 0, "leased": 6, "lost": 0}
