"""Two gateways on one store, and whatever can happen to them, held against a plain model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builtin_plugins.metering.budgets.support import row
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.metering.budgets import Budgets, Hold, Short, Want
from hookgate.builtin_plugins.metering.budgets.windows import LeasedWindow
from hookgate.builtin_plugins.metering.tables.budgets import LEASES

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
    """A call that runs: what it holds, and whether that was charged with a lease."""

    hold: Hold
    amount: int
    side: bool
    charged: bool = False


@dataclass(eq=False)
class Gateway:
    """A gateway that lives, with a clock of its own."""

    budgets: Budgets
    clock: TurnedClock
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        assert self.budgets._leasing is not None
        return self.budgets._leasing.me

    def window(self, key: str) -> LeasedWindow | None:
        found = self.budgets._windows.get(key)
        assert found is None or isinstance(found, LeasedWindow)
        return found


class Machine(RuleBasedStateMachine):
    """See the module."""

    place: Place

    def __init__(self) -> None:
        super().__init__()
        number = next(NUMBERS)
        self.key, self.side = f"daily/{number}/day:1", f"side/{number}/now"
        self.limit = self.ceiling = 100
        # What was charged as used, by the rules of the model; and by how much bounds have lied.
        self.settled = self.lost = self.lies = 0
        self.killed: set[str] = set()
        self.leases: dict[str, dict[str, int]] = {}
        self.gateways = [self.run(self.start()) for _ in range(2)]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.place.runner.run(work)

    async def start(self) -> Gateway:
        clock = TurnedClock()
        budgets = Budgets(self.place.store, clock, None, gateway="g", poll=None)
        await budgets.open()
        return Gateway(budgets, clock)

    async def seen(self) -> None:
        """Take down whose leases were charged, and what that comes to."""
        query = sa.select(LEASES).where(LEASES.c.key.in_([self.key, self.side]))
        found = await self.place.store.read(lambda c: c.execute(query).all())
        now: dict[str, dict[str, int]] = {}
        for lease in found:
            now.setdefault(lease.gateway, {})[lease.key] = lease.amount
        self.leases = now

    async def swept(self) -> None:
        """Compare what is lost with the leases of the gateways that are not known any more."""
        from hookgate.builtin_plugins.metering.budgets import rows

        before = self.leases
        alive = await self.place.store.read(rows.beats)
        for name in set(before) - set(alive):
            self.lost += before[name].get(self.key, 0)
            self.killed.discard(name)
            for gateway in self.gateways:
                if gateway.name == name:
                    self.charge(gateway)
        await self.seen()
        assert (await row(self.place.store, self.key))["lost"] == self.lost
        assert (await row(self.place.store, self.side))["lost"] == 0

    def charge(self, gateway: Gateway) -> None:
        """What a gateway that lives had leased was charged: with it what its calls hold."""
        for call in gateway.calls:
            call.charged = True
        if (window := gateway.window(self.key)) is not None:
            self.settled -= window.spent - max(-window.free, 0)

    async def both(self, seconds: float, ticking: list[Gateway]) -> None:
        for gateway in self.gateways:
            gateway.clock.advance(seconds)
        for gateway in ticking:
            await self.seen()
            await gateway.budgets.tick()
            await self.swept()

    # -- what happens ------------------------------------------------------

    @rule(which=GATEWAYS, amount=st.integers(0, 60), side=st.booleans())
    def reserve(self, which: int, amount: int, side: bool) -> None:
        self.run(self.reserved(self.gateways[which], amount, side))

    async def reserved(self, gateway: Gateway, amount: int, side: bool) -> None:
        wants = [Want(self.key, self.limit, amount)]
        if side:
            wants.append(Want(self.side, SIDE_LIMIT, 1, lasting=False))
        caller = asyncio.create_task(gateway.budgets.reserve(wants))
        for turn in count():
            await asyncio.wait([caller], timeout=0.002)
            if caller.done():
                break
            # Whoever lives answers at once; one that was killed never does.
            await self.both(0.3 if self.killed and turn > 20 else 0, self.gateways)
        await self.seen()
        outcome = caller.result()
        if isinstance(outcome, Short):
            await self.judge(outcome)
        else:
            gateway.calls.append(Call(outcome, amount, side))

    async def judge(self, short: Short) -> None:
        """Only what does not fit beside what is used, held and lost may be refused."""
        key = short.want.key
        taken = sum(self.leases.get(name, {}).get(key, 0) for name in self.killed)
        for gateway in self.gateways:
            for call in gateway.calls:
                if not call.charged:
                    taken += call.amount if key == self.key else int(call.side)
        if key == self.key:
            taken += self.settled + self.lost
        assert taken + short.want.amount > short.limit, (taken, short)

    @precondition(lambda self: any(gateway.calls for gateway in self.gateways))
    @rule(data=st.data(), share=st.sampled_from([0, 1, 2, 3, 3, 3]))
    def settle(self, data: st.DataObject, share: int) -> None:
        self.ended(*self.chosen(data), share)

    @precondition(lambda self: any(gateway.calls for gateway in self.gateways))
    @rule(data=st.data(), over=st.integers(1, 30))
    def settle_with_more_than_was_held(self, data: st.DataObject, over: int) -> None:
        gateway, call = self.chosen(data)
        self.lies += over
        self.settled += over
        self.ended(gateway, call, 3, over)

    def chosen(self, data: st.DataObject) -> tuple[Gateway, Call]:
        calls = [(one, call) for one in self.gateways for call in one.calls]
        return data.draw(st.sampled_from(calls))

    def ended(self, gateway: Gateway, call: Call, share: int, over: int = 0) -> None:
        used = call.amount * share // 3
        if not call.charged:
            self.settled += used
        amounts = [used + over, 0][: len(call.hold.parts)]
        gateway.calls.remove(call)

        async def settle() -> None:
            for _ in range(2):
                gateway.budgets.settle(call.hold, amounts)

        self.run(settle())

    @rule(which=GATEWAYS)
    def kill(self, which: int) -> None:
        self.run(self.crashed(which))

    async def crashed(self, which: int) -> None:
        gateway = self.gateways[which]
        await self.seen()
        if gateway.name in self.leases:
            self.killed.add(gateway.name)
        if (window := gateway.window(self.key)) is not None:
            # What it had not written is in its lease, which may have been charged long ago; what no
            # lease covers dies with it.
            gone = gateway.name not in self.leases and window.leased
            self.settled -= max(-window.free, 0) if gone else window.spent
            self.lies -= max(-window.free, 0)
        self.gateways[which] = await self.start()
        self.gateways[which].clock.seconds = self.gateways[1 - which].clock.seconds

    @rule(seconds=st.floats(0.1, 9))
    def wait(self, seconds: float) -> None:
        self.run(self.both(seconds, self.gateways))

    @rule()
    def wait_for_leases_to_end(self) -> None:
        for _ in range(5):
            self.run(self.both(9, self.gateways))
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
        if gateway.calls:
            return
        await gateway.budgets.close()
        assert (await row(self.place.store, self.key))["lost"] == self.lost
        self.gateways[which] = await self.start()
        self.gateways[which].clock.seconds = self.gateways[1 - which].clock.seconds

    # -- what always holds -------------------------------------------------

    @invariant()
    def nothing_is_lost_or_added(self) -> None:
        self.run(self.conserved())

    async def conserved(self) -> None:
        await self.seen()
        stored = await row(self.place.store, self.key)
        unwritten = 0
        for gateway in self.gateways:
            for key in (self.key, self.side):
                window = gateway.window(key)
                if window is None:
                    continue
                assert window.leased == window.held + window.free + window.spent + window.returning
                if gateway.name in self.leases:
                    assert window.leased == self.leases[gateway.name].get(key, 0)
            main = gateway.window(self.key)
            if main is not None:
                gone = gateway.name not in self.leases and main.leased
                unwritten += max(-main.free, 0) if gone else main.spent
        assert stored["settled"] + unwritten == self.settled
        assert stored["lost"] == self.lost
        assert sum(stored.values()) + self.beyond() <= self.ceiling + self.lies
        beside = await row(self.place.store, self.side)
        assert (beside["settled"], beside["lost"]) == (0, 0)
        assert beside["leased"] <= SIDE_LIMIT

    def beyond(self) -> int:
        """What was used of leases that do not cover it, and is not written yet."""
        mains = [gateway.window(self.key) for gateway in self.gateways]
        return sum(max(-main.free, 0) for main in mains if main is not None)

    def teardown(self) -> None:
        async def end() -> None:
            for gateway in self.gateways:
                await gateway.budgets.close()

        self.run(end())
