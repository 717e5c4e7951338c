"""Two gateways on one store, and whatever can happen to them, held against a plain model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builtin_plugins.metering.budgets.support import row
from tests.builtin_plugins.metering.support import made_call
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.budgets.windows import (
    CallRecord,
    Hold,
    LeasedWindow,
    Short,
    Want,
)
from hookgate.builtin_plugins.metering.tables import CALLS, LEASES, OPEN, written

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore

NUMBERS = count()
GATEWAYS = st.integers(0, 1)
SIDE_LIMIT = 3


class Place(NamedTuple):
    """A real store, and the loop on which it is open."""

    runner: asyncio.Runner
    store: SqlStore


@dataclass(eq=False)
class Call:
    """A call that was let in: by which run of which gateway, and what became of it."""

    id: str
    hold: Hold
    amount: int
    side: bool
    run: str
    used: int | None = None
    written: bool = False


@dataclass(eq=False)
class Gateway:
    """A gateway that lives, with a clock of its own, and the calls that it remembers."""

    budgets: Budgets
    clock: TurnedClock
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        assert self.budgets._leasing is not None
        return self.budgets._leasing.me

    @property
    def running(self) -> list[Call]:
        return [call for call in self.calls if call.used is None]

    def window(self, key: str) -> LeasedWindow | None:
        found = self.budgets._windows.get(key)
        assert found is None or isinstance(found, LeasedWindow)
        return found

    def stale(self, call: Call) -> bool:
        """Whether it knows that others have charged the call."""
        return any(epoch != window.epoch for window, _, epoch in call.hold.parts)


class Machine(RuleBasedStateMachine):
    """See the module."""

    place: Place

    def __init__(self) -> None:
        super().__init__()
        number = next(NUMBERS)
        self.key, self.side = f"daily/{number}/day:1", f"side/{number}/now"
        self.number = number
        self.limit = self.ceiling = 100
        self.lies = 0
        self.calls: list[Call] = []
        # As the store has it: runs that were not swept, those of them that were killed, leases by
        # run, calls that are open, and how those ended that are in the ledger.
        self.known: set[str] = set()
        self.killed: set[str] = set()
        self.leases: dict[str, dict[str, int]] = {}
        self.open: set[str] = set()
        self.ledger: dict[str, str] = {}
        self.gateways = [self.run(self.start()) for _ in range(2)]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.place.runner.run(work)

    async def start(self) -> Gateway:
        clock = TurnedClock()
        budgets = Budgets(self.place.store, clock, None, gateway="g", poll=None)
        await budgets.open()
        return Gateway(budgets, clock)

    async def seen(self) -> None:
        """Look at the store."""

        def look(c: sa.Connection) -> None:
            query = sa.select(LEASES).where(LEASES.c.key.in_([self.key, self.side]))
            self.leases = {}
            for lease in c.execute(query):
                self.leases.setdefault(lease.gateway, {})[lease.key] = lease.amount
            mine = f"{self.number}/%"
            opened = sa.select(OPEN.c.call).where(OPEN.c.call.like(mine))
            self.open = set(c.execute(opened).scalars())
            ended = sa.select(CALLS.c.id, CALLS.c.status).where(CALLS.c.id.like(mine))
            self.ledger = {call.id: call.status for call in c.execute(ended)}
            self.known = set(rows.beats(c))
            self.killed &= self.known

        await self.place.store.read(look)

    def lost(self, call: Call) -> bool:
        return self.ledger.get(call.id) == "lost"

    async def both(self, seconds: float, ticking: list[Gateway]) -> None:
        for gateway in self.gateways:
            gateway.clock.advance(seconds)
        for gateway in ticking:
            await self.rows_are_written(gateway, told=False)
            await gateway.budgets.tick()

    # -- what happens ------------------------------------------------------

    @rule(which=GATEWAYS, amount=st.integers(0, 60), side=st.booleans())
    def reserve(self, which: int, amount: int, side: bool) -> None:
        self.run(self.reserved(self.gateways[which], amount, side))

    async def reserved(self, gateway: Gateway, amount: int, side: bool) -> None:
        await self.rows_are_written(gateway, told=False)
        wants = [Want(self.key, self.limit, amount)]
        if side:
            wants.append(Want(self.side, SIDE_LIMIT, 1, lasting=False))
        name = f"{self.number}/{len(self.calls)}/{next(NUMBERS)}"
        record = CallRecord(name, json.dumps(made_call(id=name, status="lost").to_row()))
        caller = asyncio.create_task(gateway.budgets.reserve(wants, record))
        for turn in count():
            await asyncio.wait([caller], timeout=0.002)
            if caller.done():
                break
            # Whoever lives answers at once; one that was killed never does.
            await self.both(0.3 if self.killed and turn > 20 else 0, self.gateways)
        await self.seen()
        outcome = caller.result()
        if isinstance(outcome, Short):
            self.judge(outcome)
            assert name not in self.open
        else:
            call = Call(name, outcome, amount, side, gateway.name)
            gateway.calls.append(call)
            self.calls.append(call)
            assert name in self.open or self.lost(call)

    def judge(self, short: Short) -> None:
        """Only what does not fit beside what is used, held and lost may be refused."""
        key = short.want.key
        taken = sum(self.leases.get(name, {}).get(key, 0) for name in self.killed)
        for gateway in self.gateways:
            if key == self.side:
                taken += sum(call.side and not gateway.stale(call) for call in gateway.running)
        if key == self.key:
            taken += sum(
                # Who sweeps does not know of a call that used more than was reserved for it.
                max(self.worth(call), call.used or 0)
                for call in self.calls
                # What a killed one held is in its lease.
                if not (call.run in self.killed and call.id in self.open)
            )
        assert taken + short.want.amount > short.want.limit, (taken, short)

    def worth(self, call: Call) -> int:
        """What a call counts for: what it has used, or all that it could use."""
        return call.amount if call.used is None or self.lost(call) else call.used

    @precondition(lambda self: any(gateway.running for gateway in self.gateways))
    @rule(data=st.data(), share=st.sampled_from([0, 1, 2, 3, 3, 3]), row=st.booleans())
    def settle(self, data: st.DataObject, share: int, row: bool) -> None:
        gateway, call = self.chosen(data)
        self.ended(gateway, call, call.amount * share // 3, row)

    @precondition(lambda self: any(gateway.running for gateway in self.gateways))
    @rule(data=st.data(), over=st.integers(1, 30), row=st.booleans())
    def settle_with_more_than_was_held(self, data: st.DataObject, over: int, row: bool) -> None:
        gateway, call = self.chosen(data)
        if not (gateway.stale(call) or self.lost(call)):
            self.lies += over
            self.ended(gateway, call, call.amount + over, row)

    def chosen(self, data: st.DataObject) -> tuple[Gateway, Call]:
        calls = [(one, call) for one in self.gateways for call in one.running]
        return data.draw(st.sampled_from(calls))

    def ended(self, gateway: Gateway, call: Call, used: int, row: bool) -> None:
        call.used = used

        async def settle() -> None:
            for _ in range(2):
                amounts = [used, 0][: len(call.hold.parts)]
                gateway.budgets.settle(call.hold, amounts, recorded=False)
            if row:
                await self.rows_are_written(gateway)

        self.run(settle())

    @rule(which=GATEWAYS)
    def write_rows(self, which: int) -> None:
        self.run(self.rows_are_written(self.gateways[which]))

    async def rows_are_written(self, gateway: Gateway, *, told: bool = True) -> None:
        """Write what is handed to the store when calls end: before all that is written later."""
        calls = [call for call in gateway.calls if call.used is not None and not call.written]
        for call in calls:
            call.written = True
            windows = json.dumps({self.key: call.used})
            place = {"writer": call.id, "seq": 1}
            row = {**made_call(id=call.id, windows=windows).to_row(), **place}
            await self.place.store.write(written(call.id, [row]))
        if told:
            gateway.budgets.recorded(call.id for call in gateway.calls if call.written)

    @rule(which=GATEWAYS, rows=st.booleans())
    def kill(self, which: int, rows: bool) -> None:
        self.run(self.crashed(which, rows))

    async def crashed(self, which: int, rows: bool) -> None:
        """Kill a gateway: at once, or once the ledger had written rows and told nobody."""
        gateway = self.gateways[which]
        if rows:
            await self.rows_are_written(gateway, told=False)
        self.killed.add(gateway.name)
        self.gateways[which] = await self.start()
        self.gateways[which].clock.seconds = self.gateways[1 - which].clock.seconds

    @rule(seconds=st.floats(0.1, 9))
    def wait(self, seconds: float) -> None:
        self.run(self.both(seconds, self.gateways))

    @rule()
    def wait_for_leases_to_end(self) -> None:
        for _ in range(5):
            self.run(self.both(9, self.gateways))
        self.run(self.seen())
        assert not self.killed

    @rule(which=GATEWAYS)
    def stop_one_for_longer_than_its_lease(self, which: int) -> None:
        for _ in range(5):
            self.run(self.both(9, [self.gateways[1 - which]]))

    @rule(which=GATEWAYS, days=st.integers(-400, 400))
    def jump(self, which: int, days: int) -> None:
        self.gateways[which].clock.time += timedelta(days=days)

    @rule(limit=st.integers(0, 150))
    def limit_changes(self, limit: int) -> None:
        self.limit = limit
        self.ceiling = max(self.ceiling, limit)

    @rule(which=GATEWAYS)
    def restart(self, which: int) -> None:
        self.run(self.restarted(which))

    async def restarted(self, which: int) -> None:
        gateway = self.gateways[which]
        if gateway.running:
            return
        await self.rows_are_written(gateway)
        await gateway.budgets.close()
        await self.seen()
        assert gateway.name not in self.leases
        assert not self.open.intersection(call.id for call in gateway.calls)
        self.gateways[which] = await self.start()
        self.gateways[which].clock.seconds = self.gateways[1 - which].clock.seconds

    # -- what always holds -------------------------------------------------

    @invariant()
    def nothing_is_lost_or_added(self) -> None:
        self.run(self.conserved())

    async def conserved(self) -> None:
        await self.seen()
        stored = await row(self.place.store, self.key)
        beyond = 0
        for gateway in self.gateways:
            for key in (self.key, self.side):
                window = gateway.window(key)
                if window is None:
                    continue
                assert window.leased == window.held + window.free + window.spent + window.returning
                if gateway.name in self.leases:
                    assert window.leased == self.leases[gateway.name].get(key, 0)
            main = gateway.window(self.key)
            if main is not None and gateway.name in self.known:
                # What was used of leases that do not cover it, and is not written yet: another
                # has written it who swept the run, before that hears of it.
                beyond += max(-main.free, 0)
        closed = [call for call in self.calls if call.id not in self.open]
        assert stored["settled"] == sum(call.used or 0 for call in closed if not self.lost(call))
        assert stored["lost"] == sum(call.amount for call in closed if self.lost(call))
        assert sum(stored.values()) + beyond <= self.ceiling + self.lies
        assert sum(map(self.worth, self.calls)) <= self.ceiling + self.lies
        beside = await row(self.place.store, self.side)
        assert (beside["settled"], beside["lost"]) == (0, 0)
        assert beside["leased"] <= SIDE_LIMIT

    def teardown(self) -> None:
        self.run(self.end())

    async def end(self) -> None:
        """Close all that lives and sweep the others: each call is charged, and has its row."""
        for gateway in self.gateways:
            for call in gateway.running:
                call.used = 0
                gateway.budgets.settle(call.hold, [0] * len(call.hold.parts), recorded=False)
            await self.rows_are_written(gateway)
        for _ in range(5):
            await self.both(9, self.gateways)
        for gateway in self.gateways:
            await gateway.budgets.close()
        await self.seen()
        assert (self.killed, self.leases, self.open) == (set(), {}, set())
        assert set(self.ledger) == {call.id for call in self.calls}
        stored = await row(self.place.store, self.key)
        assert stored["settled"] + stored["lost"] == sum(map(self.worth, self.calls))
