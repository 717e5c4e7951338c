"""What calls have used: exact, whoever adds up meanwhile, and for whom it is meant."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from tests.builtin_plugins.metering.support import in_memory, made_call
from tests.builtin_plugins.stores import differences, opened_store
from tests.support.examples import sampled

from hookgate.builtin_plugins.metering import tables
from hookgate.builtin_plugins.metering.calls import DIMENSIONS, UsageQuery
from hookgate.builtin_plugins.metering.ledger import Ledger, Report, Reports, Rollup, Totals
from hookgate.builtin_plugins.metering.limits import dollars
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.turn import Claim, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from hookgate.builtin_plugins.metering.calls import LedgerRow
    from hookgate.builtin_plugins.storage.store import SqlStore


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    if request.param == "sqlite":
        async with opened_store(tmp_path) as store:
            await store.migrate("metering", tables.METADATA, tables.SCRIPTS)
            yield store
        return
    async with on_postgres(request.getfixturevalue("url"), tmp_path) as store:
        await store.migrate("metering", tables.METADATA, tables.SCRIPTS)
        yield store


async def usage(
    reports: Reports,
    by: Sequence[str] = (),
    *,
    principal: Principal | None = None,
    **query: Any,
) -> Report:
    return await reports.usage(UsageQuery(tuple(by), **query), principal)


@asynccontextmanager
async def on_postgres(url: str, home: Path) -> AsyncIterator[SqlStore]:
    store = await open_store(StorageSettings(url=SecretStr(url)), home)
    assert store.durable, store.problem
    try:
        yield store
    finally:
        await store.close()


def some_calls(seed: int, count: int) -> list[LedgerRow]:
    chance = random.Random(seed)
    calls = []
    for _ in range(count):
        channel = chance.choice(["cli", "slack"])
        calls.append(
            made_call(
                day=chance.choice(["2026-10-31", "2026-11-01", "2026-11-21"]),
                channel=channel,
                session=f"main:{channel}:local:{chance.choice('abc')}",
                agent=chance.choice(["main", "helper"]),
                key=chance.choice(["", "ci"]),
                cause=chance.choice(["chat", "tool", "memory.extract"]),
                provider="acme",
                model=chance.choice(["large", "small/v2"]),
                sent=chance.random() < 0.9,
                status=chance.choice(["done", "cut"]),
                reported=chance.random() < 0.8,
                cache_read_tokens=chance.randrange(1000),
                output_tokens=chance.randrange(1000),
                cost=chance.choice([None, chance.randrange(5 * 10**12), 9 * 10**18]),
                saved=chance.randrange(-(10**13), 10**13),
            )
        )
    return calls


def totals_of(call: LedgerRow) -> Totals:
    return Totals(
        calls=1,
        refused=not call.sent,
        failed=call.sent and call.status != "done",
        estimated=call.sent and not call.usage.reported,
        unpriced=call.cost is None,
        usage=replace(call.usage, reported=True),
        cost=call.cost or 0,
        saved=call.saved,
    )


def expected(calls: Sequence[LedgerRow], by: Sequence[str]) -> dict[tuple[str, ...], Totals]:
    groups: dict[tuple[str, ...], list[Totals]] = defaultdict(list)
    for call in calls:
        words: dict[str, Any] = call._asdict()
        words["month"], words["model"] = call.day[:7], f"{call.provider}/{call.model}"
        groups[tuple(words[name] for name in by)].append(totals_of(call))
    return {key: reduce(Totals.plus, found) for key, found in groups.items()}


@pytest.mark.parametrize("rolled", sampled(["some", "none", "all"]))
async def test_sums_are_exact_however_they_are_told_apart(store: SqlStore, rolled: str) -> None:
    ledger, rollup = Ledger(store), Rollup(store)
    calls = some_calls(1, 300)
    for place, call in enumerate(calls):
        ledger.hand_over(call)
        if place == 150 and rolled == "some":
            await ledger.flush()
            assert await rollup.roll() == 151
    await ledger.flush()
    if rolled == "all":
        assert await rollup.roll() == 300
        assert await rollup.roll() == 0
    reports = Reports(ledger)
    for by in [*((name,) for name in DIMENSIONS), ("day", "model"), ("session", "key"), ()]:
        report = await usage(reports, by)
        assert dict(report.groups) == expected(calls, by)
        assert report.whole == expected(calls, ())[()]
        assert list(report.days) == ["2026-10-31", "2026-11-01", "2026-11-21"]
        for most in (1, 2, 5):
            some = await usage(reports, by, most=most)
            shown = list(report.groups)
            shown = shown[-most:] if by[:1] in (("day",), ("month",)) else shown[:most]
            assert (list(some.groups), some.found) == (shown, len(report.groups))
            assert some.whole == report.whole
    # More than 64 bits hold.
    assert report.whole.cost > 2**64
    await ledger.close()


async def test_calls_are_chosen_by_days_and_by_all_that_is_known_of_them(store: SqlStore) -> None:
    ledger, rollup = Ledger(store), Rollup(store)
    calls = some_calls(2, 200)
    for place, call in enumerate(calls):
        ledger.hand_over(call)
        if place == 120:
            await ledger.flush()
            await rollup.roll()
    reports = Reports(ledger)
    november = [call for call in calls if call.day >= "2026-11-01"]
    found = await usage(reports, ("agent",), first="2026-11-01")
    assert dict(found.groups) == expected(november, ("agent",))
    found = await usage(reports, ("agent",), first="2026-11-01", last="2026-11-01")
    assert list(found.days) == ["2026-11-01"]
    found = await usage(reports, ("day",), equal={"model": "acme/small/v2", "key": "ci"})
    chosen = [call for call in calls if call.model == "small/v2" and call.key == "ci"]
    assert dict(found.groups) == expected(chosen, ("day",))
    found = await usage(reports, ("model",), equal={"session": "main:slack:local:a"})
    chosen = [call for call in calls if call.session == "main:slack:local:a"]
    assert dict(found.groups) == expected(chosen, ("model",))
    found = await usage(reports, ("model",), equal={"key": "nobody"})
    assert (found.groups, found.days, found.whole) == ({}, {}, Totals())
    await ledger.close()


async def test_groups_come_by_time_or_the_dearest_first(store: SqlStore) -> None:
    ledger = Ledger(store)
    for day, agent, cost in [
        ("2026-11-02", "a", 1),
        ("2026-11-01", "b", 5),
        ("2026-11-03", "c", 3),
    ]:
        ledger.hand_over(made_call(day=day, agent=agent, cost=cost))
    reports = Reports(ledger)
    assert [key[0][-1] for key in (await usage(reports, ("day",))).groups] == ["1", "2", "3"]
    assert [key[0] for key in (await usage(reports, ("agent",))).groups] == ["b", "c", "a"]
    await ledger.close()


SLACK = Principal(id="token:s", bindings=(Claim(channel="slack", account="local", peer="a"),))


@pytest.mark.parametrize("stored", [True, False])
async def test_who_is_bound_to_some_addresses_sees_what_was_used_there(
    store: SqlStore, stored: bool
) -> None:
    ledger = Ledger(store if stored else in_memory())
    calls = [*some_calls(3, 200), made_call(session="", channel="slack")]
    for call in calls:
        ledger.hand_over(call)
    reports = Reports(ledger)
    if stored:
        await ledger.flush()
        await Rollup(store).roll()
    mine = [call for call in calls if call.session == "main:slack:local:a"]
    for by in [("day",), ("session",), ("principal", "model"), ()]:
        report = await usage(reports, by, principal=SLACK)
        assert dict(report.groups) == expected(mine, by)
        assert report.whole == expected(mine, ())[()]
    # What they may not see, they cannot ask for by name.
    report = await usage(reports, equal={"session": "main:slack:local:b"}, principal=SLACK)
    assert report.whole == Totals()
    nobody = Principal(id="token:none", bindings=())
    assert (await usage(reports, ("day",), principal=nobody)).whole == Totals()
    for one in (Principal.owner(), Principal(id="token:ops", scopes=frozenset({"operate"}))):
        assert (await usage(reports, principal=one)).whole.calls == len(calls)
    await ledger.close()


async def test_without_a_store_the_last_calls_are_reported() -> None:
    ledger = Ledger(in_memory())
    calls = some_calls(4, 100)
    for call in calls:
        ledger.hand_over(call)
    reports = Reports(ledger)
    assert not reports.ledger.store.durable
    for by in [("month",), ("model", "day"), ()]:
        assert dict((await usage(reports, by)).groups) == expected(calls, by)
    found = await usage(
        reports, ("day",), first="2026-11-01", last="2026-11-02", equal={"key": "ci"}
    )
    chosen = [call for call in calls if call.day == "2026-11-01" and call.key == "ci"]
    assert dict(found.groups) == expected(chosen, ("day",))


@pytest.mark.slow
async def test_reports_are_exact_while_gateways_write_and_add_up_at_once(store: SqlStore) -> None:
    ledgers = [Ledger(store, writer=name) for name in ("one", "two")]
    rollups = [Rollup(store), Rollup(store)]
    over = asyncio.Event()
    given = 0

    async def write(ledger: Ledger, seed: int) -> None:
        nonlocal given
        for place, call in enumerate(some_calls(seed, 150)):
            ledger.hand_over(call)
            given += 1
            if place % 7 == 0:
                await ledger.flush()

    async def roll(rollup: Rollup) -> int:
        count = 0
        while not over.is_set():
            count += await rollup.roll()
        return count + await rollup.roll()

    async def watch() -> None:
        reports, last = Reports(ledgers[0]), 0
        while not over.is_set():
            seen = (await usage(reports)).whole.calls
            # None is counted twice, and none goes away.
            assert last <= seen <= given
            last = seen

    rolling = [asyncio.create_task(roll(rollup)) for rollup in rollups]
    watching = asyncio.create_task(watch())
    await asyncio.gather(*(write(ledger, place) for place, ledger in enumerate(ledgers)))
    for ledger in ledgers:
        await ledger.close()
    over.set()
    assert sum(await asyncio.gather(*rolling)) == 300
    await watching
    calls = [*some_calls(0, 150), *some_calls(1, 150)]
    for by in [("day",), ("session",)]:
        assert dict((await usage(Reports(ledgers[0]), by)).groups) == expected(calls, by)
    assert await differences(store, tables.METADATA) == []


async def test_what_is_added_is_added_once_however_often_it_is_tried(store: SqlStore) -> None:
    ledger = Ledger(store)
    calls = some_calls(5, 50)
    for call in calls:
        ledger.hand_over(call)
    await ledger.close()
    (chunk,) = await store.read(tables.next_chunk(1000))

    def killed(connection: sa.Connection) -> None:
        assert tables.added_up(chunk)(connection)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        await store.write(killed)
    assert [await store.write(tables.added_up(chunk)) for _ in range(3)] == [True, False, False]
    assert await Rollup(store).roll() == 0
    assert (await usage(Reports(ledger))).whole == expected(calls, ())[()]


async def test_a_row_that_is_still_to_come_is_not_passed_over(store: SqlStore) -> None:
    ledger = Ledger(store)
    first = made_call()
    ledger.hand_over(first)
    await ledger.flush()
    rows = [{**made_call().to_row(), "writer": ledger.writer, "seq": seq} for seq in (2, 3, 4)]
    calls = tables.CALLS
    await store.insert(calls, [rows[0], rows[2]])  # the third is being tried again
    rollup, reports = Rollup(store), Reports(ledger)
    assert await rollup.roll() == 2
    assert (await usage(reports)).whole.calls == 3
    await store.insert(calls, [rows[1]])
    assert (await usage(reports)).whole.calls == 4
    assert await rollup.roll() == 2
    assert (await usage(reports)).whole.calls == 4
    await ledger.close()


async def test_it_adds_by_itself_while_it_is_open(store: SqlStore) -> None:
    added = asyncio.Event()

    class Watched(Rollup):
        async def roll(self) -> int:
            count = await super().roll()
            added.set()
            return count

    ledger = Ledger(store)
    ledger.hand_over(made_call())
    await ledger.close()
    rollup = Watched(store)
    running = asyncio.create_task(rollup.run())
    await added.wait()
    running.cancel()
    assert await Rollup(store).roll() == 0
    assert (await usage(Reports(ledger))).whole.calls == 1


def test_dollars_are_exact() -> None:
    assert dollars(1) == Decimal("0.000000000001")
    assert dollars(9 * 10**30 + 1) == Decimal("9000000000000000000.000000000001")
    assert dollars(-5 * 10**11) == Decimal("-0.5")
