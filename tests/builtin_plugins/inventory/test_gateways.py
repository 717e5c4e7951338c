"""Two gateways on one PostgreSQL: what one switches off, the other does not offer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.builtin_plugins.inventory.acme import NATIVE, OWNER, Acme, Running, record, running
from tests.support.script import Script, Scripted, Tools, echo_tool, say

from hookgate import Address
from hookgate.builtin_plugins.inventory.tables import METADATA, SCRIPTS, StoreProjection
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings

pytestmark = pytest.mark.slow

ECHO = f"{NATIVE}:tool:echo"
NOW = "2026-03-01T12:00:00+00:00"


def house() -> list[object]:
    return [Tools(echo_tool()), Scripted(Script(say("fine")))]


async def test_a_switch_at_one_gateway_counts_at_the_other(url: str, tmp_path: Path) -> None:
    def at(name: str) -> Any:
        section = {"storage": {"url": url, "fallback": "refuse"}}
        return running(home=tmp_path / name, plugins=house(), plugin=section)

    async with at("one") as first, at("other") as second:
        assert await is_offered(second)
        await first.ask("disable", id=ECHO)
        await until_offered(second, wanted=False)
        turn = await second.gate.chat("hello")
        await second.ask("enable", id=ECHO)
        await until_offered(first, wanted=True)

    assert "echo" not in turn.offered


async def is_offered(gate: Running) -> bool:
    """Whether a turn of this gateway would have the tool."""
    address = Address(channel="cli", account="local", peer="me")
    return "echo" in {tool.name for tool in await gate.host.offered(OWNER, address)}


async def until_offered(gate: Running, *, wanted: bool) -> None:
    while await is_offered(gate) is not wanted:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)


async def test_each_source_reconciles_its_own_rows_while_others_do(
    url: str, tmp_path: Path
) -> None:
    store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
    try:
        await store.migrate("inventory", METADATA, SCRIPTS)
        kept, again = StoreProjection(store), StoreProjection(store)
        some = [record(f"k{number}") for number in range(30)]
        other = Acme(record("o", "other"), name="other")
        await kept.reconcile("other", list(other.records.values()), NOW)
        for _ in range(5):
            await asyncio.gather(
                kept.reconcile("acme", some[:20], NOW), again.reconcile("acme", some[10:], NOW)
            )
        changed = [replace(one, status="disabled") for one in some]
        await kept.reconcile("acme", changed, NOW)

        assert set((await again.load("acme"))[0]) == set(changed)
        assert len((await again.load("other"))[0]) == 1
        await kept.reconcile("acme", [], NOW)
        assert (await again.load("acme"))[0] == ()
    finally:
        await store.close()
