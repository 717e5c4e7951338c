"""Two gateways on one PostgreSQL database: one polls, and each sees to what the other has left."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.channels.bells import AROUND, KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Running, Served
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS, post
from tests.support.bot_api import BotApi
from tests.support.telegram import Telegram

from hookgate import (
    CONVERSATIONS,
    LANES,
    STORE,
    Address,
    Gateway,
    ReceivedMessage,
    SessionKey,
    Store,
)
from hookgate.builtin_plugins.channels import service
from hookgate.builtin_plugins.channels.book import events as book
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.book.events import Events, Leases, event_key
from hookgate.builtin_plugins.channels.intake import INTERRUPTED
from hookgate.builtin_plugins.storage import lanes
from hookgate.core.domain.models import ModelRequest
from hookgate.core.gateway.serve import listen
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say

pytestmark = pytest.mark.slow

HOLDER = Path(__file__).with_name("lane_holder.py")

STOPPED = (
    "UPDATE channels_lease SET until = 0",
    "UPDATE storage_lanes SET until = clock_timestamp() - interval '1 s'",
)
"""What others see of a gateway that was not heard of for as long as its leases last."""


@pytest.fixture(autouse=True)
def leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways look often, and none has stopped because the machine is slow: `stopped` says so."""
    monkeypatch.setattr(book, "LEASE_SECONDS", 600.0)
    monkeypatch.setattr(service, "LEASE_SECONDS", 1.0)
    for name in ("TERM_SECONDS", "LOST_SECONDS"):
        monkeypatch.setattr(lanes, name, 600.0)


async def stopped(store: Store) -> None:
    """Let every gateway on a store have been unheard of for as long as its leases last."""
    for statement in STOPPED:
        await store.write(lambda c, what=statement: c.exec_driver_sql(what) and None)


def echo() -> ScriptedModel:
    return ScriptedModel(lambda request: say(f"re: {request.messages[-1].text}"))


@asynccontextmanager
async def gateway(url: str, home: Path, *plugins: object, **more: Any) -> AsyncIterator[Gateway]:
    sections = {"plugin": {"storage": {"url": url}, "channels": {"edit_seconds": 0.05}}, **more}
    model = sections.pop("model", None) or echo()
    async with started(
        *plugins, home=home, model=model, clock=Running(), only=AROUND, **sections
    ) as one:
        yield one


async def test_one_polls_and_the_other_goes_on_where_it_stops(
    url: str, tmp_path: Path, api: BotApi
) -> None:
    def bot() -> Telegram:
        return Telegram(api.url, polling=True, seconds=0.5)

    async with gateway(url, tmp_path / "b", bot()):
        async with gateway(url, tmp_path / "a", bot()):
            for number in range(6):
                await api.write(f"m{number}")
            await api.until(lambda: len(api.said()) >= 6)
        await api.write("m6")
        await api.until(lambda: len(api.said()) >= 7)
    assert api.said() == [f"re: m{number}" for number in range(7)]


LOOKED = "SELECT until FROM channels_lease WHERE holder <> 'gateway_that_runs'"
"""Another one each time that the gateway has said that it runs, before it looks at the others."""


async def test_what_a_gateway_has_left_is_seen_to_by_another(url: str, tmp_path: Path) -> None:
    bell = Bell(HEADER)
    async with gateway(url, tmp_path / "a", bell, secrets=SECRETS) as one:
        store = one.host[STORE]
        other = Leases(store, one.host.clock, "gateway_that_runs")
        await other.beat()
        events, deliveries = Events(store, other), Deliveries(store, other)
        await events.take("bell", [ReceivedMessage(id="e1", content="left", peer="ada")])
        await deliveries.add([Delivery(address=Address("bell", "x", "bob"), content="left too")])
        # As long as it is heard of, nobody touches what is its own, however often they look.
        looked = set[int]()
        while len(looked) < 4:
            looked.add(await store.read(lambda c: c.exec_driver_sql(LOOKED).scalar() or 0))
        assert bell.said == []
        await stopped(store)
        await bell.until(lambda: len(bell.said) == 2)
    assert sorted(bell.said) == [("ada", "re: left"), ("bob", "left too")]
    assert KEY not in str(bell.said)


@asynccontextmanager
async def webhook(url: str, home: Path, bell: Bell, model: ScriptedModel) -> AsyncIterator[Served]:
    """A gateway that listens, behind a webhook that it shares with another one."""
    async with (
        gateway(url, home, bell, model=model, secrets=SECRETS, gateway={"port": 0}) as one,
        listen(one) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(one, f"http://127.0.0.1:{listener.port}", http, one.host.clock)


def slow_echo() -> ScriptedModel:
    def answer(request: ModelRequest) -> list[Any]:
        return [lambda: asyncio.sleep(0.03), *say(f"re: {request.messages[-1].text}")]

    return ScriptedModel(answer)


async def said_in(gate: Gateway, peer: str) -> list[str]:
    """Return what was said in the session of a peer of the bell."""
    for row in await gate.host[CONVERSATIONS].sessions():
        key = SessionKey.parse(row["session"])
        if key.peer == peer:
            return [m.text for m in await gate.host[CONVERSATIONS].history(key, turns=100)]
    return []


async def test_both_behind_one_webhook_answer_each_message_once_and_keep_whole_histories(
    url: str, tmp_path: Path
) -> None:
    bells = Bell(HEADER), Bell(HEADER)
    peers = ("ada", "bob", "eve", "joe")

    def every() -> list[tuple[str, str]]:
        return bells[0].said + bells[1].said

    async with (
        webhook(url, tmp_path / "a", bells[0], slow_echo()) as a,
        webhook(url, tmp_path / "b", bells[1], slow_echo()) as b,
    ):
        for number in range(8):
            # All of a round at once; those of one peer go to the two in turn.
            posts = [
                post(
                    (a, b)[(number + place) % 2],
                    event(f"{peer}-{number}", f"{peer} {number}", peer=peer),
                    {"X-Key": KEY},
                )
                for place, peer in enumerate(peers)
            ]
            assert await asyncio.gather(*posts) == [200] * 4
        waiting = [asyncio.create_task(bell.until(lambda: len(every()) == 32)) for bell in bells]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        assert all(task.exception() is None for task in done), every()
        histories = {peer: await said_in(a.gateway, peer) for peer in peers}
    assert sorted(every()) == sorted(
        (peer, f"re: {peer} {number}") for peer in peers for number in range(8)
    )
    for peer in peers:
        messages = [f"{peer} {number}" for number in range(8)]
        assert histories[peer] == [text for one in messages for text in (one, f"re: {one}")]


TAKEN = (
    "UPDATE storage_lanes SET holder = 'another', epoch = epoch + 1, wanted = '', "
    "until = clock_timestamp() + interval '0.2 s'"
)
"""What another gateway does that takes a lane whose holder was not heard of."""


async def test_a_turn_that_has_lost_its_lane_before_a_tool_ran_begins_anew(
    url: str, tmp_path: Path
) -> None:
    bell = Bell(HEADER)
    begun = 0

    async def lose() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            await one.gateway.host[STORE].write(lambda c: c.exec_driver_sql(TAKEN) and None)

    def answer(request: ModelRequest) -> list[Any]:
        return [lose, *say(f"re: {request.messages[-1].text}")]

    async with webhook(url, tmp_path / "a", bell, ScriptedModel(answer)) as one:
        assert await post(one, event(1, "hello"), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
        assert await post(one, event(2, "more"), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) > 1)
        said = await said_in(one.gateway, "ada")
    assert bell.said == [("ada", "re: hello"), ("ada", "re: more")]
    assert said == ["hello", "re: hello", "more", "re: more"]
    assert begun == 3


async def test_what_another_gateway_has_taken_over_is_left_to_it(url: str, tmp_path: Path) -> None:
    bell = Bell(HEADER)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        asked.set()
        await go_on.wait()

    model = ScriptedModel(lambda request: [pause, *say(f"re: {request.messages[-1].text}")])
    async with webhook(url, tmp_path / "a", bell, model) as one:
        store = one.gateway.host[STORE]
        assert await post(one, event(1, "first"), {"X-Key": KEY}) == 200
        await asked.wait()
        for number, text in enumerate(("taken", "mine"), 2):
            assert await post(one, event(number, text), {"X-Key": KEY}) == 200
        # The other one has not heard of this gateway for long, and has answered it meanwhile.
        taken = "UPDATE channels_event SET owner = 'another', state = 'done' WHERE id = 'event-2'"
        await store.write(lambda c: c.exec_driver_sql(taken) and None)
        go_on.set()
        await bell.until(lambda: len(bell.said) == 2)
        assert await post(one, event(4, "last"), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 3)
        said = await said_in(one.gateway, "ada")
    messages = ("first", "mine", "last")
    assert bell.said == [("ada", f"re: {text}") for text in messages]
    assert said == [text for one in messages for text in (one, f"re: {one}")]


async def test_a_message_waits_for_an_earlier_one_that_another_gateway_has(
    url: str, tmp_path: Path
) -> None:
    bell = Bell(HEADER)
    async with webhook(url, tmp_path / "a", bell, echo()) as one:
        store = one.gateway.host[STORE]
        other = Leases(store, one.gateway.host.clock, "gateway_that_runs")
        await other.beat()
        events = Events(store, other)
        earlier = ReceivedMessage(id="e1", content="earlier", peer="ada")
        await events.take("bell", [earlier])
        assert await post(one, event(1, "later"), {"X-Key": KEY}) == 200
        # Bob's came later, and waits for nobody.
        assert await post(one, event(2, "one", peer="bob"), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
        assert await post(one, event(3, "two", peer="bob"), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 2)
        assert bell.said == [("bob", "re: one"), ("bob", "re: two")]
        await events.finish(event_key("bell", earlier))
        await bell.until(lambda: len(bell.said) == 3)
    assert bell.said[2:] == [("ada", "re: later")]


class Stall:
    """Holds up the first call of something, until it may go on."""

    def __init__(self) -> None:
        self.reached, self.over = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        first = not self.reached.is_set()
        self.reached.set()
        if first:
            await self.over.wait()

    def before(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def stalled(*args: Any, **more: Any) -> Any:
            await self()
            return await method(*args, **more)

        return stalled

    def before_lane(self, hold: Callable[..., Any]) -> Callable[..., Any]:
        @asynccontextmanager
        async def stalled(*args: Any, **more: Any) -> AsyncIterator[Any]:
            await self()
            async with hold(*args, **more) as lease:
                yield lease

        return stalled


@pytest.mark.parametrize(
    ("where", "told", "kept"),
    [
        ("before its lane", "re: hello", ["hello", "re: hello"]),
        ("before its message is kept", "re: hello", ["hello", "re: hello"]),
        ("before its model answers", INTERRUPTED, ["hello"]),
        ("before it is done", "re: hello", ["hello", "re: hello"]),
    ],
)
async def test_a_gateway_that_stalls_and_goes_on_keeps_and_says_nothing_a_second_time(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    told: str,
    kept: list[str],
) -> None:
    # Nor is it heard of while it is held up.
    monkeypatch.setattr(service, "LEASE_SECONDS", 600.0)
    monkeypatch.setattr(lanes, "RENEW_SECONDS", 600.0)
    bells, stall = (Bell(HEADER), Bell(HEADER)), Stall()

    def answer(request: ModelRequest) -> list[Any]:
        first = [stall] if where == "before its model answers" else []
        return [*first, *say(f"re: {request.messages[-1].text}")]

    async with webhook(url, tmp_path / "a", bells[0], ScriptedModel(answer)) as a:
        host = a.gateway.host
        if where == "before its lane":
            monkeypatch.setattr(host[LANES], "hold", stall.before_lane(host[LANES].hold))
        if where == "before its message is kept":
            kept_by = host[CONVERSATIONS]
            monkeypatch.setattr(kept_by, "append", stall.before(kept_by.append))
        if where == "before it is done":
            monkeypatch.setattr(Events, "finish", stall.before(Events.finish))
        assert await post(a, event(1, "hello"), {"X-Key": KEY}) == 200
        await stall.reached.wait()
        await stopped(host[STORE])
        async with webhook(url, tmp_path / "b", bells[1], echo()) as b:
            await bells[1].until(lambda: bells[1].said)
            stall.over.set()
            # Its turn comes behind the one that was held up, and at the same gateway.
            assert await post(a, event(2, "more"), {"X-Key": KEY}) == 200
            await bells[0].until(lambda: bells[0].said)
            said = await said_in(b.gateway, "ada")
    assert bells[1].said == [("ada", told)]
    assert bells[0].said == [("ada", "re: more")]
    assert said == [*kept, "more", "re: more"]


@pytest.mark.timeout(300)
async def test_what_a_killed_gateway_had_begun_is_taken_up_and_its_session_goes_on(
    url: str, tmp_path: Path
) -> None:
    bell = Bell(HEADER)
    async with webhook(url, tmp_path / "b", bell, echo()) as b:
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, str(HOLDER), url, str(tmp_path / "a")),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(HOLDER.parents[3])},
        )
        try:
            assert holder.stdout is not None
            where = (await holder.stdout.readline()).decode().split()
            assert where[:1] == ["serves"]
            a = Served(b.gateway, where[1], b.http, b.clock)
            assert await post(a, event(1, "asked"), {"X-Key": KEY}) == 200
            assert (await holder.stdout.readline()).decode().strip() == "asks"
            # It waits behind that one, in the same session.
            assert await post(b, event(2, "and this"), {"X-Key": KEY}) == 200
        finally:
            holder.kill()
            await holder.wait()
        assert bell.said == []
        await stopped(b.gateway.host[STORE])
        await bell.until(lambda: len(bell.said) == 2)
        said = await said_in(b.gateway, "ada")
    assert bell.said == [("ada", INTERRUPTED), ("ada", "re: and this")]
    assert said == ["asked", "and this", "re: and this"]
