"""Two gateways on one PostgreSQL database: one polls, and each sees to what the other has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell
from tests.builtin_plugins.channels.conftest import Running
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS
from tests.support.bot_api import BotApi
from tests.support.telegram import Telegram

from hookgate import STORE, Address, Gateway, ReceivedMessage
from hookgate.builtin_plugins.channels import polling, serving
from hookgate.builtin_plugins.channels.book import leases
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.book.events import Events
from hookgate.builtin_plugins.channels.book.leases import Leases
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say

pytestmark = pytest.mark.slow

SHORT = 1.5
"""Seconds of a lease here."""


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leases, polling, serving):
        monkeypatch.setattr(module, "LEASE_SECONDS", SHORT)


def echo() -> ScriptedModel:
    return ScriptedModel(lambda request: say(f"re: {request.messages[-1].text}"))


@asynccontextmanager
async def gateway(url: str, home: Path, *plugins: object, **more: Any) -> AsyncIterator[Gateway]:
    sections = {"plugin": {"storage": {"url": url}, "channels": {"edit_seconds": 0.05}}, **more}
    async with started(*plugins, home=home, model=echo(), clock=Running(), **sections) as one:
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
