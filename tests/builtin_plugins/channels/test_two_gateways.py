"""Two gateways on one PostgreSQL database: one polls, and each sees to what the other has left."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
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

from hookgate import CONVERSATIONS, STORE, Address, Gateway, ReceivedMessage, SessionKey
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

SHORT = 1.5
"""Seconds of a lease here."""


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (book, service):
        monkeypatch.setattr(module, "LEASE_SECONDS", SHORT)
    monkeypatch.setattr(lanes, "TERM_SECONDS", SHORT)
    monkeypatch.setattr(lanes, "RENEW_SECONDS", SHORT / 5)


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


async def test_what_a_gateway_has_left_is_seen_to_by_another(url: str, tmp_path: Path) -> None:
    bell = Bell(HEADER)
    async with gateway(url, tmp_path / "a", bell, secrets=SECRETS) as one:
        store = one.host[STORE]
        other = Leases(store, one.host.clock, "gateway_that_runs")
        await other.beat()
        events, deliveries = Events(store, other), Deliveries(store, other)
        await events.take("bell", [ReceivedMessage(id="e1", content="left", peer="ada")])
        await deliveries.add([Delivery(address=Address("bell", "x", "bob"), content="left too")])
        # As long as it is heard of, nobody touches what is its own.
        for _ in range(3):
            await asyncio.sleep(SHORT / 3)
            await other.beat()
        assert bell.said == []
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
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = Bell(HEADER)
    monkeypatch.setattr(book, "LEASE_SECONDS", 600.0)
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


@pytest.mark.timeout(300)
async def test_what_a_killed_gateway_had_begun_is_taken_up_and_its_session_goes_on(
    url: str, tmp_path: Path
) -> None:
    bell = Bell(HEADER)
    async with webhook(url, tmp_path / "b", bell, echo()) as b:
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, str(HOLDER), url, str(tmp_path / "a"), str(SHORT)),
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
        await bell.until(lambda: len(bell.said) == 2)
        said = await said_in(b.gateway, "ada")
    assert bell.said == [("ada", INTERRUPTED), ("ada", "re: and this")]
    assert said == ["asked", "and this", "re: and this"]
