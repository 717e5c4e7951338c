"""What is kept in the store, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builtin_plugins.channels.bells import AROUND, Bell
from tests.builtin_plugins.channels.test_webhooks import HEADER
from tests.builtin_plugins.turns import make_host

from hookgate import STORE, Address, ReceivedMessage
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.book.events import (
    Events,
    ForeignEventError,
    Leases,
    LostLeaseError,
    event_key,
    milliseconds,
)
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.builtin_plugins.channels.sender import Sender
from hookgate.builtin_plugins.channels.settings import ChannelSettings
from hookgate.core.domain.ports import CLOCK
from hookgate.kit.tables import tables_of
from hookgate.kit.testing.gateway import TurnedClock, started
from hookgate.kit.testing.model import ScriptedModel, say
from hookgate.ports import Store


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: TurnedClock) -> AsyncIterator[Store]:
    async with started(
        home=tmp_path, model=ScriptedModel(say("hi")), clock=clock, only=AROUND
    ) as gateway:
        found = gateway.host[STORE]
        await tables_of(found, "channels", "hookgate.builtin_plugins.channels.book.tables")
        yield found


def messages(*numbers: int) -> list[ReceivedMessage]:
    return [ReceivedMessage(id=f"e{number}", content="hello", peer="ada") for number in numbers]


def ids(found: list[ReceivedMessage]) -> list[str]:
    return [one.id for one in found]


async def test_events_are_known_for_so_long_and_so_many(store: Store, clock: TurnedClock) -> None:
    events = Events(store, Leases(store, clock, "gateway"))
    for number in range(10):
        assert ids(await events.take("bell", messages(number))) == [f"e{number}"]
        await events.finish(("bell", "default", f"e{number}"))
        clock.turn(seconds=1)
    assert await events.take("bell", messages(*range(10))) == []
    # One that waits is never forgotten.
    await events.take("bell", messages(10))
    await events.prune(before=0, most=4)
    assert ids(await events.take("bell", messages(*range(11)))) == [f"e{n}" for n in range(7)]
    await events.prune(before=int(clock.now().timestamp() * 1_000_000) + 10**9, most=1000)
    assert "e10" not in ids(await events.take("bell", messages(8, 10)))


async def test_event_is_known_in_its_channel_alone(store: Store, clock: TurnedClock) -> None:
    events = Events(store, Leases(store, clock, "gateway"))
    assert ids(await events.take("bell", messages(1, 1))) == ["e1"]
    assert ids(await events.take("other", messages(1))) == ["e1"]


async def test_event_is_known_in_its_account_alone_and_answered_to_its_peer(
    store: Store, clock: TurnedClock
) -> None:
    events = Events(store, Leases(store, clock, "gateway"))
    (mine,) = messages(1)
    theirs = replace(mine, account="umbrella")
    answered = event_key("bell", theirs)
    # Of one post: one of them is done, and the other one waits.
    assert await events.take("bell", [mine, theirs], done={answered}) == [mine, theirs]
    assert await events.answer(event_key("bell", mine), "ada") is None
    assert await events.answer(answered, "ada") == ""
    await events.finish(event_key("bell", mine), answer='"of mine"')
    assert await events.answer(event_key("bell", mine), "ada") == '"of mine"'
    assert await events.answer(answered, "ada") == ""
    with pytest.raises(ForeignEventError):
        await events.answer(event_key("bell", mine), "eve")


async def test_what_is_said_to_one_is_dead_without_what_is_said_to_another(
    store: Store, clock: TurnedClock
) -> None:
    deliveries = Deliveries(store, Leases(store, clock, "gateway"))
    # The batch is named by the platform's id of the message, or by that of a question.
    whom = [Address("bell", "acme", "ada"), Address("bell", "umbrella", "ada")]
    whom.append(Address("bell", "acme", "bob"))
    for address in whom:
        parts = [Delivery(address=address, content=text, batch="e1") for text in ("one", "two")]
        await deliveries.add(parts)
    first, *_ = await deliveries.heads("bell", busy=(), limit=10)
    await deliveries.die(first, "gone")
    assert await deliveries.counts() == {("bell", "dead"): 2, ("bell", "waiting"): 4}
    second, *_ = await deliveries.heads("bell", busy=(), limit=10)
    await deliveries.die(second, "gone")
    assert len(await deliveries.replay("bell", first.id)) == 2
    assert await deliveries.counts() == {("bell", "dead"): 2, ("bell", "waiting"): 4}


async def test_cursor_is_committed_by_whoever_holds_the_lease(
    store: Store, clock: TurnedClock
) -> None:
    leases = Leases(store, clock, "gateway")
    events = Events(store, leases)
    with pytest.raises(LostLeaseError):
        await events.take("bell", messages(1), cursor="2", lease="poll:bell")
    assert await events.cursor("bell") == ""
    assert await leases.take("poll:bell")
    await events.take("bell", messages(1), cursor="2", lease="poll:bell")
    assert await events.cursor("bell") == "2"
    clock.turn(seconds=31)
    with pytest.raises(LostLeaseError):
        await events.take("bell", messages(2), cursor="3", lease="poll:bell")
    assert await events.cursor("bell") == "2"


async def test_dead_letters_are_kept_up_to_a_number(store: Store, clock: TurnedClock) -> None:
    deliveries = Deliveries(store, Leases(store, clock, "gateway"))
    address = Address("bell", "default", "ada")
    await deliveries.add([Delivery(address=address, content=f"m{n}") for n in range(6)])
    while heads := await deliveries.heads("bell", busy=(), limit=8):
        (one,) = heads
        await deliveries.die(one, "nobody is there")
    await deliveries.prune(4)
    assert [one.content for one in await deliveries.dead("", 10)] == ["m2", "m3", "m4", "m5"]
    assert await deliveries.counts() == {("bell", "dead"): 4}


async def test_what_has_run_out_while_it_waited_is_not_said_any_more(
    store: Store, clock: TurnedClock, tmp_path: Path
) -> None:
    deliveries, bell = Deliveries(store, Leases(store, clock, "gateway")), Bell(HEADER)
    host = make_host(tmp_path)
    host.provide(CLOCK, clock)
    now = milliseconds(clock)
    address, other = Address("bell", "default", "ada"), Address("bell", "default", "bob")
    question = Delivery(address=address, content="May it? code 123", expires=now + 60_000)
    await deliveries.add([question, replace(question, address=other, expires=now + 300_000)])
    clock.turn(seconds=60)
    await deliveries.add([Delivery(address=address, content="expired: nobody answered")])
    hosted = Hosted(bell, ChannelSettings())
    over: list[str] = []

    async def told(delivery_id: str, message_id: str) -> None:
        over.append(delivery_id)

    sender = Sender(host, hosted, deliveries, attempts=3, paused=lambda: False, told=told)
    running = asyncio.create_task(sender.run())
    await bell.until(lambda: len(bell.said) == 2)
    await sender.close()
    await running
    assert sorted(bell.said) == [("ada", "expired: nobody answered"), ("bob", "May it? code 123")]
    assert len(over) == 3
