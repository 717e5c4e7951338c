"""Gateways that share budgets: in processes of their own, on a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
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
    ledger,
    made_record,
    opened,
    prepared,
    row,
    want,
)
from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import TurnedClock
from tests.support.postgres import Server

from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.budgets.windows import Hold
from hookgate.builtin_plugins.metering.tables import WINDOWS
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.host import SystemClock
from hookgate.sessions import InProcessSignals


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield await prepared(store, shared=True)


GATEWAY = """
    import asyncio, json, sys
    from itertools import count
    from pathlib import Path
    from pydantic import SecretStr
    from hookgate.builtin_plugins.metering import tables
    from hookgate.builtin_plugins.metering.budgets.engine import Budgets
    from hookgate.builtin_plugins.metering.budgets.windows import CallRecord, Hold, Want
    from hookgate.builtin_plugins.storage.engine.opening import open_store
    from hookgate.builtin_plugins.storage.settings import StorageSettings
    from hookgate.core.domain.messages import new_id
    from hookgate.core.host import SystemClock

    url, home, key, plain = sys.argv[1:5]
    limit, callers, lanes, ends = map(int, sys.argv[5:9])
    ttl, patience = map(float, sys.argv[9:])

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

        run, numbers, template = new_id("run"), count(), json.loads(plain)

        async def call(number):
            # Of the worst case, three, one is used; two ample counters stand around it.
            wants = [Want(key, limit, 3), *(Want(name, 2**60, 1) for name in ample)]
            name = f"{run}/{next(numbers)}"
            record = CallRecord(name, json.dumps({**template, "id": name}))
            outcome = await budgets.reserve(wants[:: (-1) ** number], record)
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
    plain = made_record().row
    command = [sys.executable, "-c", dedent(GATEWAY), url, str(place), DAY, plain, *settings]
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
        found = await row(store)
        # What was settled may have been written by now.
        assert found["leased"] + found["settled"] == 100
        hold = await expect_hold(other, want(9_985, limit=10_000))
        assert (await expect_short(other, want(1, limit=10_000))).held == 9_990
        one.settle(running, [2])
        await expect_hold(other, want(3, limit=10_000))
        other.settle(hold, [0])
        await expect_hold(one, want(9_985, limit=10_000))


async def test_a_question_stays_open_while_what_is_not_held_is_kept(store: SqlStore) -> None:
    async with opened(store) as one, opened(store) as other:
        one.settle(await expect_hold(one, want(10, limit=10_000)), [10])
        await expect_hold(one, want(5, limit=10_000))
        asking = asyncio.create_task(expect_hold(other, want(9_985, limit=10_000)))
        questions = partial(rows.questions, me=one._leasing.me)
        async with asyncio.timeout(60):
            while not await store.read(questions):
                pass
        # What was settled is written before the question is heard, and answers nothing.
        await one._leasing.exchange(partial(one._leasing.draft, [*one._leased()]))
        assert await store.read(questions)
        await one.tick()
        await other.tick()
        await asking


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
        # It does not know yet that it is asked, and leases nothing for a call that does not fit.
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
        await expect_hold(stopped, want(2, limit=1000))
        clock.advance(3)
        await stopped.tick()
        assert await row(store) == {"settled": 1, "leased": 9, "lost": 0}
        assert stopped.try_reserve([want(1, limit=1000)]) is not None
        for _ in range(5):
            clock.advance(8)
            await other.tick()
        # What its call holds that it cannot have forgotten; the rest is free.
        assert await row(store) == {"settled": 1, "leased": 0, "lost": 2}
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


async def test_a_call_whose_lease_is_over_before_it_is_known_is_let_in_and_charged(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    slow = SlowStore(store, clock)
    async with opened(slow, clock, ttl=30) as budgets, opened(store, clock) as other:
        slow.write_seconds = 40
        hold = await expect_hold(budgets, want(6))
        slow.write_seconds = 0
        assert budgets.try_reserve([want(1)]) is None  # nothing beside it: others may sweep
        for _ in range(5):
            clock.advance(8)
            await other.tick()
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 6}
        budgets.settle(hold, [2])
        await budgets.tick()
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 6}
        assert await ledger(store) == {hold.call: "lost"}


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
            clock.advance(20)
            await other.tick()  # it has seen that beat when the store is gone again
        assert await row(store) == {"settled": 0, "leased": 6, "lost": 0}


@pytest.mark.slow
async def test_a_sweep_loses_nothing_of_what_another_gateway_leases_at_that_moment(
    url: str, server: Server, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        stores = []
        for name in ("one", "other"):
            stores.append(await open_store(StorageSettings(url=SecretStr(url)), tmp_path / name))
            stack.push_async_callback(stores[-1].close)
            await prepared(stores[-1])
        killed = Budgets(stores[0], TurnedClock(), None, gateway="killed", poll=None)
        await killed.open()
        await expect_hold(killed, want(6, limit=100))
        ((name, beat),) = (await stores[0].read(rows.beats)).items()
        plan = rows.Plan(key=DAY, lasting=True, leased=0, limit=100)
        leases = rows.Exchange("new", None, 1, None, [plan], [rows.WaitingCall({DAY: 5})], [], 0)
        leased, release = threading.Event(), threading.Event()

        def work(connection: sa.Connection) -> None:
            leases(connection)
            leased.set()
            assert release.wait(30)

        leasing = asyncio.create_task(stores[0].write(work))
        assert await asyncio.to_thread(leased.wait, 30)
        sweep = partial(rows.sweep, gateway=name, beat=beat)
        sweeping = asyncio.create_task(stores[1].write(sweep))
        waits = "SELECT pid FROM pg_locks WHERE NOT granted"
        while not await asyncio.to_thread(server.ask, waits):
            assert not sweeping.done()
        release.set()
        await asyncio.gather(leasing, sweeping)
        assert await row(stores[0]) == {"settled": 0, "leased": 5, "lost": 6}


async def test_as_many_calls_as_may_run_at_one_time_run_at_two_gateways_and_none_is_refused(
    store: SqlStore,
) -> None:
    """Each has other budgets around it, and calls come and go faster than chunks do."""
    most, signals, clock = 60, InProcessSignals(), SystemClock()
    side = [want(1, limit=most, key="side/global/now", lasting=False), want(7, limit=10**9)]
    running = peak = 0

    async def lane(budgets: Budgets, calls: int) -> None:
        nonlocal running, peak
        for number in range(calls):
            hold = await expect_hold(budgets, *side[:: (-1) ** number])
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0)
            running -= 1
            budgets.settle(hold, [0, 3][:: (-1) ** number])

    async with (
        opened(store, clock, signals, poll=0.05, patience=60) as one,
        opened(store, clock, signals, poll=0.05, patience=60) as other,
    ):
        # Uneven, and then the other way round: what one has leased the other needs.
        for lanes in ((50, 10), (10, 50)):
            await asyncio.gather(
                *(lane(one, 5) for _ in range(lanes[0])), *(lane(other, 5) for _ in range(lanes[1]))
            )
    assert 30 < peak <= most
    assert await row(store) == {"settled": 3 * 600, "leased": 0, "lost": 0}
