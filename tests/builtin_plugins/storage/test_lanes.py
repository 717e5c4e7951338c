"""Lanes of a database that several gateways share: a row says which of them has a session's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from hookgate.builtin_plugins.storage import lanes as module
from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.lanes import SqlLanes
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import LANE_ROWS
from hookgate.core.domain.errors import LaneFullError, StaleFenceError, StoreUnavailableError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import SessionKey
from hookgate.core.host import SystemClock

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

pytestmark = pytest.mark.slow

HERE = SessionKey("demo", "cli", "local", "main")
ANY = 30.0
"""Seconds that something may take on a machine that is busy."""


@dataclass
class Gate:
    """What a gateway has of a shared store.

    Attributes:
        dead: Whether nothing of it is renewed or given back any more.
    """

    store: SqlStore
    kept: SqlConversations
    lanes: SqlLanes
    keeping: asyncio.Task[None]

    async def say(self, lease: Any, *texts: str) -> None:
        messages = [Message(role="user", parts=(Text(text),), turn=text) for text in texts]
        await self.kept.append(HERE, messages, fence=lease.fence)

    def die(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be as one that was stopped: it says nothing more of its lanes."""
        self.keeping.cancel()

        async def nothing(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("this gateway has stopped")

        monkeypatch.setattr(self.store, "alone", nothing)


@pytest.fixture
async def two(opened: OpenStore, url: str) -> AsyncIterator[tuple[Gate, Gate]]:
    async with gate(opened, url) as one, gate(opened, url) as other:
        yield one, other


@asynccontextmanager
async def gate(opened: OpenStore, url: str, *, wait: float = ANY) -> AsyncIterator[Gate]:
    store = await opened(url=url)
    assert store.shared
    kept = SqlConversations(store, SystemClock())

    def spawn(work: Any, *, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=name)

    lanes = SqlLanes(store, lambda: kept, queue=100, wait=wait, spawn=spawn)
    keeping = asyncio.create_task(lanes.keep())
    yield Gate(store, kept, lanes, keeping)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await lanes.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lanes have short terms. Comes before the gateways."""
    monkeypatch.setattr(module, "TERM_SECONDS", 3.0)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.5)
    monkeypatch.setattr(module, "LOST_SECONDS", 1.5)


async def row(gate: Gate) -> Any:
    return await gate.store.read(lambda c: c.execute(sa.select(LANE_ROWS)).first())


async def until_wanted(gate: Gate) -> None:
    async with asyncio.timeout(ANY):
        while not (await row(gate)).wanted:
            pass


async def texts(gate: Gate) -> list[str]:
    return [message.text for message in await gate.kept.history(HERE, turns=1000)]


async def test_a_lane_is_one_gateways_at_a_time_and_goes_on_to_whoever_waits(
    two: tuple[Gate, Gate],
) -> None:
    inside, most = 0, 0

    async def work(gate: Gate, number: int) -> None:
        nonlocal inside, most
        async with gate.lanes.hold(HERE) as lease:
            inside += 1
            most = max(most, inside)
            await gate.say(lease, f"{number} asks")
            await gate.say(lease, f"{number} answers")
            inside -= 1

    await asyncio.gather(*(work(two[n % 2], n) for n in range(40)))
    assert most == 1
    said = await texts(two[0])
    assert len(said) == 80
    assert all(
        one.removesuffix(" asks") == other.removesuffix(" answers")
        for one, other in zip(said[::2], said[1::2], strict=True)
    )


async def test_whoever_waits_elsewhere_comes_before_those_who_came_later_here(
    two: tuple[Gate, Gate],
) -> None:
    one, other = two
    order: list[str] = []
    begun = asyncio.Event()

    async def work(gate: Gate, name: str) -> None:
        async with gate.lanes.hold(HERE) as lease:
            order.append(name)
            begun.set()
            if name == "first":
                await until_wanted(gate)
            await gate.say(lease, name)

    first = asyncio.create_task(work(one, "first"))
    await begun.wait()
    later = [asyncio.create_task(work(one, "here")) for _ in range(5)]
    elsewhere = asyncio.create_task(work(other, "elsewhere"))
    await asyncio.gather(first, elsewhere, *later)
    assert order[:2] == ["first", "elsewhere"]


async def test_the_wait_for_another_gateway_is_bounded(
    two: tuple[Gate, Gate], opened: OpenStore, url: str
) -> None:
    async with gate(opened, url, wait=0.2) as third, two[0].lanes.hold(HERE) as lease:
        with pytest.raises(LaneFullError, match=r"another gateway.*0\.2 s") as full:
            async with third.lanes.hold(HERE):
                pytest.fail("it has somebody else's lane")
        assert full.value.data["retry_after"] > 0
        await two[0].say(lease, "still mine")
    async with two[1].lanes.hold(HERE):
        pass


async def test_what_a_gateway_that_stopped_held_is_taken_and_it_writes_nothing_more(
    short: None, two: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, other = two
    async with dead.lanes.hold(HERE) as old:
        await dead.say(old, "question")
        dead.die(monkeypatch)
        async with other.lanes.hold(HERE) as new:
            # Not even before the new holder has written anything.
            with pytest.raises(StaleFenceError):
                await dead.say(old, "late answer")
            with pytest.raises(StaleFenceError):
                await dead.kept.add_taint(HERE, frozenset({"web"}), fence=old.fence)
            with pytest.raises(StaleFenceError):
                await dead.store.write(lambda connection: old.check(connection))
            await other.kept.load(HERE, turns=5, fence=new.fence)
            await other.say(new, "another")
    assert await texts(other) == ["question", "another"]
    assert await other.kept.taint(HERE, turns=5) == frozenset()


async def test_a_lane_that_is_held_for_longer_than_a_term_stays_where_it_is(
    short: None, two: tuple[Gate, Gate]
) -> None:
    one, other = two
    async with one.lanes.hold(HERE) as lease:
        taking = asyncio.create_task(other.lanes.hold(HERE).__aenter__())
        first = (await row(one)).until
        async with asyncio.timeout(ANY):
            # Renewed until more than a whole term behind its beginning.
            while ((await row(one)).until - first).total_seconds() < 3.5:
                pass
        assert not taking.done()
        await one.say(lease, "still mine")
        assert (await row(one)).epoch == 1
    await taking
    assert (await row(one)).epoch == 2


async def test_a_holder_that_cannot_renew_is_stopped_before_others_may_begin(
    short: None, two: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    loop = asyncio.get_running_loop()
    stopped: float | None = None
    begun = asyncio.Event()

    async def nothing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("the database does not answer")

    async def work() -> None:
        nonlocal stopped
        async with one.lanes.hold(HERE):
            monkeypatch.setattr(one.store, "alone", nothing)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped = loop.time()

    working = asyncio.create_task(work())
    await begun.wait()
    async with asyncio.timeout(ANY):
        async with other.lanes.hold(HERE):
            assert stopped is not None
            assert stopped < loop.time()
    with pytest.raises(StaleFenceError):
        await working


async def test_whoever_is_cancelled_while_waiting_leaves_the_lane_to_others(
    two: tuple[Gate, Gate],
) -> None:
    one, other = two
    async with other.lanes.hold(HERE):
        waiting = asyncio.create_task(one.lanes.hold(HERE).__aenter__())
        await until_wanted(one)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    # It was kept for the one that has gone; not for long.
    async with asyncio.timeout(ANY):
        for gate in (other, one, other):
            async with gate.lanes.hold(HERE) as lease:
                await gate.say(lease, "on")
    assert one.lanes.ahead(HERE) == other.lanes.ahead(HERE) == 0


async def test_a_lane_that_came_when_nobody_waited_any_more_is_given_back(
    two: tuple[Gate, Gate],
) -> None:
    one, other = two
    # Cancelled at every step of taking it; the store may be faster than the last of them.
    for steps in range(12):
        hold = one.lanes.hold(HERE)
        taking = asyncio.create_task(hold.__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        taking.cancel()
        done = await asyncio.gather(taking, return_exceptions=True)
        if not isinstance(done[0], asyncio.CancelledError):
            assert taking.exception() is None
            await hold.__aexit__(None, None, None)
    async with asyncio.timeout(ANY), other.lanes.hold(HERE) as lease:
        await other.say(lease, "mine")


async def test_lanes_that_are_wanted_together_are_taken_in_one_transaction(
    two: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    transactions = 0
    alone = one.store.alone

    async def counted(work: Any) -> Any:
        nonlocal transactions
        transactions += 1
        return await alone(work)

    async def work(number: int) -> None:
        async with one.lanes.hold(SessionKey("demo", "cli", "local", f"p{number}")):
            pass

    monkeypatch.setattr(one.store, "alone", counted)
    await asyncio.gather(*(work(number) for number in range(50)))
    assert transactions <= 4


async def test_a_lane_nobody_has_wanted_for_long_leaves_no_row(
    two: tuple[Gate, Gate],
) -> None:
    one, _ = two
    for name in ("old", "new"):
        async with one.lanes.hold(SessionKey("demo", "cli", "local", name)):
            pass
    await one.lanes.close()
    past = "UPDATE storage_lanes SET until = until - interval '2 hours' WHERE session LIKE '%:old'"
    await one.store.write(lambda connection: connection.exec_driver_sql(past) and None)
    one.keeping.cancel()
    keeping = asyncio.create_task(one.lanes.keep())
    async with asyncio.timeout(ANY):
        while True:
            rows = await one.store.read(
                lambda c: list(c.execute(sa.select(LANE_ROWS.c.session)).scalars())
            )
            if rows == ["demo:cli:local:new"]:
                break
    keeping.cancel()
