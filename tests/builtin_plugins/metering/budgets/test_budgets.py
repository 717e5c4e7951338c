from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.metering.budgets.support import (
    DAY,
    SlowStore,
    expect_hold,
    expect_short,
    gateways,
    in_ledger,
    ledger,
    made_record,
    open_calls,
    opened,
    prepared,
    row,
    want,
)
from tests.builtin_plugins.metering.support import in_memory, made_call, rows_of
from tests.builtin_plugins.stores import differences, opened_store
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.metering import tables
from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.budgets.windows import CounterStanding, Hold, Short, Want
from hookgate.builtin_plugins.metering.tables import CALLS, GATEWAYS, LEASES, WINDOWS
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.domain.errors import StoreUnavailableError

MONTH = "monthly/global/month:2026-11"
NOW = "side/global/now"
TURN = "each/agent:main/turn:t1"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield await prepared(store)


async def test_migrations_make_the_tables_that_the_code_knows(store: SqlStore) -> None:
    assert await differences(store, tables.METADATA) == []


@pytest.mark.parametrize("kept", [True, False])
async def test_of_a_thousand_callers_on_a_budget_for_ten_exactly_ten_are_let_in(
    store: SqlStore, kept: bool
) -> None:
    async with opened(store if kept else in_memory()) as budgets:
        outcomes = await asyncio.gather(*(budgets.reserve([want()]) for _ in range(1000)))
        holds = [one for one in outcomes if isinstance(one, Hold)]
        shorts = [one for one in outcomes if isinstance(one, Short)]
        assert (len(holds), len(shorts)) == (10, 990)
        assert {(one.used, one.held, one.want.limit) for one in shorts} == {(0, 10, 10)}
        for hold in holds:
            budgets.settle(hold, [1])
        assert await expect_short(budgets, want()) == Short(want(), 10, 0)
        assert await budgets.standing([DAY]) == {DAY: CounterStanding(10, 0, 0, 0)}
    if kept:
        assert await row(store) == {"settled": 10, "leased": 0, "lost": 0}
        assert await gateways(store) == 0


async def test_what_was_used_is_known_at_the_next_start(store: SqlStore) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(6)), [5])
    async with opened(store) as budgets:
        assert (await expect_short(budgets, want(6))).used == 5
        assert isinstance(await budgets.reserve([want(5)]), Hold)


async def test_the_next_day_begins_with_all_of_it(store: SqlStore) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(10)), [10])
        await expect_short(budgets, want())
        await expect_hold(budgets, want(10, key="daily/agent:main/day:2026-11-23"))
        # A clock that goes back finds the day as it was left.
        await expect_short(budgets, want())


async def test_what_a_call_does_not_need_is_there_for_the_next(store: SqlStore) -> None:
    async with opened(store) as budgets:
        first = await expect_hold(budgets, want(8))
        await expect_short(budgets, want(3))
        budgets.settle(first, [2])
        budgets.settle(first, [10])  # once counts
        await expect_hold(budgets, want(8))
        await expect_short(budgets, want(1))


async def test_more_than_was_held_is_charged_past_the_limit_and_written_at_once(
    store: SqlStore,
) -> None:
    async with opened(store) as budgets:
        other = await expect_hold(budgets, want(4))
        budgets.settle(await expect_hold(budgets, want(6)), [25])
        await budgets.tick()
        assert await row(store) == {"settled": 25, "leased": 4, "lost": 0}
        assert await expect_short(budgets, want()) == Short(want(), 25, 4)
        budgets.settle(other, [1])
        assert (await expect_short(budgets, want())).used == 26


async def test_an_amount_below_nothing_is_no_refund(store: SqlStore) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(6)), [-100])
        assert (await expect_short(budgets, want(5))).used == 6


async def test_all_or_nothing_of_several_counters(store: SqlStore) -> None:
    async with opened(store) as budgets:
        both = (want(5), want(5, limit=4, key=MONTH))
        assert (await expect_short(budgets, *both)).want == both[1]
        assert budgets.used(DAY) == 0
        hold = await expect_hold(budgets, want(6), want(4, limit=4, key=MONTH))
        budgets.settle(hold, [1, 3])
        assert budgets.used(DAY) == 1
        assert budgets.used(MONTH) == 3
        with pytest.raises(ValueError, match="expected each counter once"):
            await budgets.reserve([want(5), want(5)])


async def test_calls_side_by_side_come_back_whatever_they_use(store: SqlStore) -> None:
    side = want(1, limit=2, key=NOW, lasting=False)
    async with opened(store) as budgets:
        first, _ = await expect_hold(budgets, side), await expect_hold(budgets, side)
        await expect_short(budgets, side)
        budgets.settle(first, [7])
        await expect_hold(budgets, side)
        await expect_short(budgets, side)


async def test_a_turns_counter_is_in_memory_and_ends_with_it(store: SqlStore) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(9, key=TURN), want()), [9, 1])
        assert (await expect_short(budgets, want(2, key=TURN))).used == 9
        assert await row(store, TURN) == {"settled": 0, "leased": 0, "lost": 0}
        assert (await budgets.standing([TURN]))[TURN].settled == 9
        budgets.drop([TURN, DAY])
        await expect_hold(budgets, want(10, key=TURN))
        assert budgets.used(DAY) == 1


async def started(store: Any) -> Budgets:
    """Return budgets of a gateway that is killed: nobody closes them."""
    budgets = Budgets(store, TurnedClock(), None, gateway="killed", poll=None)
    await budgets.open()
    return budgets


async def test_a_crash_charges_what_calls_had_begun_and_frees_the_rest(store: SqlStore) -> None:
    killed = await started(store)
    wants = [want(60, limit=1000), want(1, key=NOW, lasting=False)]
    ended, recorded, running = [await expect_hold(killed, *wants) for _ in range(3)]
    killed.settle(ended, [20, 0])
    await killed.tick()
    for hold in (recorded, await expect_hold(killed, *wants)):
        killed.settle(hold, [30, 0], recorded=False)
    # Of one of them the row came into the ledger, and no more; of the other not even that.
    await in_ledger(store, recorded, wants, [30, 0])
    assert (await row(store))["leased"] > 200
    rows: list[Any] = []
    async with opened(store, lost=rows.extend) as budgets:
        assert await row(store) == {"settled": 50, "leased": 0, "lost": 120}
        assert await row(store, NOW) == {"settled": 0, "leased": 0, "lost": 0}
        assert await open_calls(store) == set()
        lost = {call for call, status in (await ledger(store)).items() if status == "lost"}
        assert lost == {row["id"] for row in rows} > {running.call}
        assert {json.loads(row["windows"])[DAY] for row in rows} == {60}
        assert await expect_short(budgets, want(831, 1000)) == Short(want(831, 1000), 170, 0)
        last = await expect_hold(budgets, want(830, 1000))
        assert (await budgets.standing([DAY]))[DAY] == CounterStanding(50, 830, 830, 120)
        budgets.settle(last, [0])
    # Twice is not charged twice.
    async with opened(store) as budgets:
        assert (await row(store))["lost"] == 120


async def test_a_call_that_a_used_up_day_refuses_leases_nothing_of_its_month(
    store: SqlStore,
) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(10)), [10])
    killed = await started(store)
    wants = [want(100, 10**6, key=MONTH), want(1, limit=10)]
    outcomes = await asyncio.gather(*(killed.reserve(wants, made_record()) for _ in range(20)))
    assert all(isinstance(one, Short) and one.want.key == DAY for one in outcomes)
    assert await row(store, MONTH) == {"settled": 0, "leased": 0, "lost": 0}
    assert await open_calls(store) == set()
    async with opened(store):
        assert await row(store, MONTH) == {"settled": 0, "leased": 0, "lost": 0}


async def test_calls_of_one_turn_that_ask_at_once_get_what_its_budget_has(
    store: SqlStore,
) -> None:
    turn = want(6, 10, key="turn/session:x/turn:t1")
    other = want(1, 10)
    async with opened(store) as budgets:
        held, short, besides = await asyncio.gather(
            *(budgets.reserve(wants, made_record()) for wants in ([turn], [turn], [other]))
        )
        assert isinstance(held, Hold)
        assert isinstance(short, Short)
        assert (short.held, short.want.key) == (6, turn.key)
        assert isinstance(besides, Hold)
        for hold in (held, besides):
            budgets.settle(hold, [1])


async def test_a_call_is_open_in_the_store_before_it_is_let_in_and_until_it_is_settled(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as budgets:
        # The first leases, the second is in memory, the third has no budget at all.
        holds = [await expect_hold(budgets, *wants) for wants in ([want(1, 10**6)],) * 2 + ([],)]
        calls = {hold.call for hold in holds}
        assert await open_calls(store) == calls
        for hold in holds:
            budgets.settle(hold, [1] * len(hold.parts), recorded=False)
        clock.advance(3)
        await budgets.tick()
        # They are not in the ledger: who starts once this gateway is killed must find them.
        assert await open_calls(store) == calls
        budgets.recorded(calls)
        clock.advance(3)
        await budgets.tick()
        assert await open_calls(store) == set()
        assert (await row(store))["settled"] == 2


async def test_what_the_version_before_has_left_is_read_and_all_that_it_had_leased_charged(
    tmp_path: Path,
) -> None:
    before = tmp_path / "before" / "versions"
    before.mkdir(parents=True)
    for script in ("v0001_ledger.py", "v0002_budgets.py"):
        shutil.copy(tables.SCRIPTS / "versions" / script, before)
    async with opened_store(tmp_path) as store:
        await store.migrate("metering", sa.MetaData(), before.parent)
        new = {"settled": 1, "leased": 6, "lost": 0, "asked": 0, "touched": 0}
        windows = [{"key": key, "lasting": key == DAY, **new} for key in (DAY, NOW)]
        await store.insert(WINDOWS, windows)
        leases = [{"gateway": "old", "key": key, "amount": 6, "answered": 0} for key in (DAY, NOW)]
        await store.insert(LEASES, leases)
        await store.insert(GATEWAYS, [{"gateway": "old", "beat": 7}])
        call = {**made_call(id="done").to_row(), "writer": "old", "seq": 1}
        del call["windows"]
        await store.insert(CALLS, [call])
        async with opened(await prepared(store)) as budgets:
            assert await row(store) == {"settled": 1, "leased": 0, "lost": 6}
            assert await row(store, NOW) == {"settled": 1, "leased": 0, "lost": 0}
            assert (await rows_of(store))[0] == {**call, "windows": ""}
            budgets.settle(await expect_hold(budgets, want(3)), [3])
            await expect_short(budgets, want(1))
        assert await differences(store, tables.METADATA) == []


async def test_only_the_beat_that_was_silent_is_swept(store: SqlStore) -> None:
    async with opened(store) as budgets:
        await expect_hold(budgets, want(6))
        ((me, beat),) = (await store.read(rows.beats)).items()
        assert await store.write(partial(rows.sweep, gateway=me, beat=beat - 1)) is None
        assert await row(store) == {"settled": 0, "leased": 6, "lost": 0}
        assert len(await store.write(partial(rows.sweep, gateway=me, beat=beat))) == 1
        assert await store.write(partial(rows.sweep, gateway=me, beat=beat)) is None
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 6}


@pytest.mark.parametrize("wants", [[want(6)], []])
async def test_a_gateway_that_stops_with_calls_that_are_in_no_ledger_leaves_them_to_the_next(
    store: SqlStore, wants: list[Want]
) -> None:
    async with opened(store) as budgets:
        hold = await expect_hold(budgets, *wants)
        budgets.settle(hold, [2] * len(wants), recorded=False)
    assert await open_calls(store) == {hold.call}
    async with opened(store):
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 6 * len(wants)}
        assert await ledger(store) == {hold.call: "lost"}


async def test_a_gateway_that_finds_its_lease_charged_reserves_from_a_new_one(
    store: SqlStore,
) -> None:
    stalled = await started(store)
    hold = await expect_hold(stalled, want(4))
    lied = await expect_hold(stalled, want(1))
    async with opened(store) as budgets:
        assert await row(store) == {"settled": 0, "leased": 0, "lost": 5}
        await expect_hold(stalled, want(2))
        stalled.settle(hold, [1])  # charged whole already
        stalled.settle(lied, [3])  # two more than that
        assert (await expect_short(stalled, want(2))).used == 7
        assert (await expect_short(budgets, want(6))).used == 5
        await stalled.close()
        assert (await row(store))["settled"] == 2


async def test_chunks_are_a_share_of_what_is_left_and_what_is_idle_is_given_back(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as budgets:
        for _ in range(2):
            budgets.settle(await expect_hold(budgets, want(10, limit=100_000)), [10])
        assert await row(store) == {"settled": 0, "leased": 1000, "lost": 0}
        clock.advance(11)
        await budgets.tick()
        assert await row(store) == {"settled": 20, "leased": 0, "lost": 0}
        clock.advance(11)
        await budgets.tick()
        assert budgets.used(DAY) == 0  # not known any more, since nobody needs it
        assert (await expect_short(budgets, want(99_981, limit=100_000))).used == 20


async def test_what_is_leased_grows_with_what_is_used_up_to_a_tenth_of_what_is_left(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as budgets:
        limit = 100_000
        budgets.settle(await expect_hold(budgets, want(1000, limit=limit)), [1000])
        clock.advance(2)
        await expect_hold(budgets, want(1000, limit=limit))  # 500 a second, so 5000 ahead
        assert await row(store) == {"settled": 1000, "leased": 5000, "lost": 0}


async def test_a_lower_limit_holds_at_once_and_a_higher_one_too(store: SqlStore) -> None:
    async with opened(store) as budgets:
        budgets.settle(await expect_hold(budgets, want(10, limit=10_000)), [10])
        assert (await row(store))["leased"] == 100
        assert (await expect_short(budgets, want(10, limit=15))).used == 10
        await expect_hold(budgets, want(5, limit=15))
        assert await row(store) == {"settled": 10, "leased": 5, "lost": 0}
        await expect_hold(budgets, want(10, limit=10_000))


async def test_a_counter_that_a_call_waits_for_is_not_let_go_of(store: SqlStore) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as budgets:
        caller = asyncio.create_task(budgets.reserve([want(4)]))
        await asyncio.sleep(0)
        clock.advance(20)  # so long that what nobody uses is let go of
        await budgets.tick()
        assert isinstance(await caller, Hold)
        assert budgets.used(DAY) == 4
        assert (await row(store))["leased"] == 4


@pytest.mark.parametrize("leased", [False, True])
async def test_a_caller_that_goes_away_leaves_nothing_held_and_nothing_open(
    store: SqlStore, leased: bool
) -> None:
    clock = TurnedClock()
    async with opened(store, clock) as budgets:
        if leased:
            budgets.settle(await expect_hold(budgets, want(10)), [0])
        for turns in range(40):
            caller = asyncio.create_task(budgets.reserve([want(10)], made_record()))
            for _ in range(turns):
                await asyncio.sleep(0)
            if caller.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await caller
            else:
                budgets.settle(await held_of(caller), [0])
        clock.advance(3)
        await budgets.tick()
        budgets.settle(await expect_hold(budgets, want(10)), [0])
    # A write that was under way when its caller went ends behind that; the next makes it good.
    assert await open_calls(store) == set()


async def held_of(caller: asyncio.Task[Hold | Short]) -> Hold:
    outcome = await caller
    assert isinstance(outcome, Hold)
    return outcome


async def test_old_windows_are_forgotten_and_none_where_the_clock_has_jumped(
    store: SqlStore,
) -> None:
    clock = TurnedClock()
    minute = "rate/global/minute:12:00"
    async with opened(store, clock) as budgets:
        for key in (DAY, minute):
            budgets.settle(await expect_hold(budgets, want(2, key=key)), [2])
        await expect_hold(budgets, want(1, key=MONTH))
        clock.advance(100)
        await budgets.tick()
        clock.time += timedelta(days=365)
        assert await budgets.forget(clock.now()) == 0
        clock.time -= timedelta(days=365)
        assert await budgets.forget(clock.now() - timedelta(seconds=200)) == 0
        clock.advance(10)
        before = clock.now() - timedelta(seconds=5)
        assert await budgets.forget(before, kind="minute:") == 1
        assert await budgets.forget(before) == 1  # what somebody holds of the month stays
        await expect_hold(budgets, want(9, key=MONTH))
        await expect_short(budgets, want(1, key=MONTH))


@pytest.mark.parametrize("wrong", [want(-1), want(1, limit=-1), want(2**63)])
async def test_numbers_that_cannot_be_are_refused_by_name(store: SqlStore, wrong: object) -> None:
    async with opened(store) as budgets:
        with pytest.raises(ValueError, match="expected numbers from 0"):
            await budgets.reserve([wrong])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="expected 1"):
            budgets.settle(await expect_hold(budgets, want()), [])


async def test_nothing_is_reserved_of_a_store_that_does_not_work(tmp_path: Path) -> None:
    problems: list[str] = []
    async with opened_store(tmp_path) as store:
        clock = TurnedClock()
        budgets = Budgets(
            await prepared(store), clock, None, gateway="g", poll=None, tell=problems.append
        )
        await budgets.open()
        hold = await expect_hold(budgets, want(10, limit=10_000))
    # Of what is leased already; but whoever starts next must know of the call.
    assert budgets.try_reserve([want(10, limit=10_000)]) is not None
    with pytest.raises(StoreUnavailableError, match="the store is closed"):
        await expect_hold(budgets, want(10, limit=10_000))
    with pytest.raises(StoreUnavailableError, match="the store is closed"):
        await budgets.reserve([want(200, limit=10_000)])
    budgets.settle(hold, [1000])
    clock.advance(3)
    await budgets.tick()
    assert "what is used of budgets cannot be written" in problems[0]
    await budgets.close()
    assert "is settled when a gateway starts next" in problems[-1]


class UnsureStore:
    """A store that says of a write that it failed: of one that was committed, or undone."""

    def __init__(self, store: SqlStore, *, shared: bool = True) -> None:
        self.shared = shared
        self._store = store
        self.fails = 0
        self.committed = False

    async def read(self, work: Any) -> Any:
        return await self._store.read(work)

    async def write(self, work: Any, *, order: str = "") -> Any:
        if not self.fails:
            return await self._store.write(work, order=order)
        self.fails -= 1
        error = StoreUnavailableError("the connection is gone")

        def undone(connection: Any) -> None:
            work(connection)
            raise error

        await self._store.write(work if self.committed else undone, order=order)
        raise error

    async def insert(self, table: sa.Table, rows: Any) -> None:
        await self._store.insert(table, rows)
        if self.fails:
            self.fails -= 1
            raise StoreUnavailableError("the connection is gone")


@pytest.mark.parametrize("committed", [True, False])
async def test_a_write_of_which_nobody_knows_whether_it_was_kept_is_counted_once(
    store: SqlStore, committed: bool
) -> None:
    unsure: Any = UnsureStore(store)
    clock = TurnedClock()
    async with opened(unsure, clock, patience=0) as budgets:
        unsure.committed = committed
        budgets.settle(await expect_hold(budgets, want(20, limit=10_000)), [13])
        unsure.fails = 1
        clock.advance(3)
        await budgets.tick()  # what was used
        unsure.fails = 2
        with pytest.raises(StoreUnavailableError, match="the connection is gone"):
            await expect_hold(budgets, want(1_000, limit=10_000))
        hold = await expect_hold(budgets, want(1_000, limit=10_000))
        unsure.fails = 1
        clock.advance(11)
        await budgets.tick()  # what is given back
        budgets.settle(hold, [7])
        for _ in range(2):  # where nothing was written, the first of them finds that out
            clock.advance(11)
            await budgets.tick()
        assert await open_calls(store) == set()
        assert await row(store) == {"settled": 20, "leased": 0, "lost": 0}
        await expect_hold(budgets, want(9_980, limit=10_000))
        await expect_short(budgets, want(1, limit=10_000))


async def test_a_call_is_open_as_long_as_it_is_let_in_whatever_was_known_of_its_write(
    store: SqlStore,
) -> None:
    unsure: Any = UnsureStore(store)
    unsure.committed = True
    async with opened(unsure) as budgets:
        first = await expect_hold(budgets, want(2))
        unsure.fails = 1
        second = await expect_hold(budgets, want(2))  # tried again
        assert await open_calls(store) == {first.call, second.call}
        unsure.fails = 2
        with pytest.raises(StoreUnavailableError, match="the connection is gone"):
            await expect_hold(budgets, want(2))
        assert len(await open_calls(store)) == 3
        third = await expect_hold(budgets, want(6))
        assert await open_calls(store) == {first.call, second.call, third.call}
        await expect_short(budgets, want(1))
        for hold in (first, second, third):
            budgets.settle(hold, [1])
    assert await row(store) == {"settled": 3, "leased": 0, "lost": 0}


async def test_a_call_that_was_opened_unnoticed_is_not_let_in_and_closed(
    store: SqlStore,
) -> None:
    unsure: Any = UnsureStore(store, shared=False)
    async with opened(unsure) as budgets:
        unsure.fails = 1
        with pytest.raises(StoreUnavailableError, match="the connection is gone"):
            await expect_hold(budgets)
        assert len(await open_calls(store)) == 1
    assert await open_calls(store) == set()


async def test_a_run_of_which_nobody_knows_whether_it_began_begins_as_another(
    store: SqlStore,
) -> None:
    unsure: Any = UnsureStore(store)
    unsure.fails, unsure.committed = 1, True
    budgets = Budgets(unsure, TurnedClock(), None, gateway="g", poll=None)
    with pytest.raises(StoreUnavailableError):
        await budgets.open()
    async with opened(store) as budgets:
        await expect_hold(budgets, want(10))
        assert await gateways(store) == 1


async def test_a_lease_that_comes_when_its_call_has_left_is_given_back(store: SqlStore) -> None:
    clock = TurnedClock()
    slow = SlowStore(store, clock)
    on_its_way, go_on = asyncio.Event(), asyncio.Event()

    async def held_up() -> None:
        on_its_way.set()
        await go_on.wait()

    async with opened(slow, clock) as budgets:
        slow.before_write = held_up
        call = asyncio.create_task(budgets.reserve([want(4)]))
        await on_its_way.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        clock.advance(11)
        await budgets.tick()  # nobody has needed the counter for long
        go_on.set()
        # The next write is behind that one, and goes by what it has leased.
        budgets.settle(await expect_hold(budgets, want(10)), [0])
    assert await row(store) == {"settled": 0, "leased": 0, "lost": 0}
