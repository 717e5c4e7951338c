"""What models cost, asked on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.metering.test_prices import WORST, price
from tests.support.wire import Served, serving

from hookgate import hookimpl, operations_of
from hookgate.builtin_plugins.metering.operations.prices import PriceOperations
from hookgate.builtin_plugins.metering.prices import Prices

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate import Host, Operation

LONG = "anthropic/claude-sonnet-4-5"
AGENTS = {
    "main": {"model": "script/one", "fallback": ["openai/gpt-4o", "demo/echo"]},
    "other": {"model": "openai/gpt-4o"},
}


class Priced:
    """Brings the operations."""

    name = "priced"

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        prices = Prices({"local/*": price(input="0", output="0")}, WORST)
        return operations_of(PriceOperations(prices, host))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Priced(), agents=AGENTS, default_agent="main") as one:
        yield one


async def test_the_models_of_all_agents_are_shown(served: Served) -> None:
    async with served.socket() as socket:
        found = await socket.result("prices.show")
    shown = {one["model"]: one for one in found["models"]}
    assert {name: (one["state"], one["agents"]) for name, one in shown.items()} == {
        "script/one": ("unknown", ["main"]),
        "openai/gpt-4o": ("known", ["main", "other"]),
        "demo/echo": ("free", ["main"]),
    }
    assert found["library"].startswith("genai-prices ")
    assert shown["openai/gpt-4o"]["prices"]["cache_read_tokens"] == {"usd": "1.25", "steps": []}
    assert shown["openai/gpt-4o"]["version"] == found["library"]
    assert shown["script/one"]["prices"]["input_tokens"]["usd"] == "20"


async def test_a_model_that_no_agent_asks_is_shown(served: Served) -> None:
    async with served.socket() as socket:
        (one,) = (await socket.result("prices.show", model=LONG))["models"]
        (free,) = (await socket.result("prices.show", model="local/llama"))["models"]
        wrong = await socket.call("prices.show", model="gpt-4o")
    assert one["agents"] == []
    assert one["prices"]["input_tokens"] == {
        "usd": "3",
        "steps": [{"above": 200_000, "usd": "6"}],
    }
    assert (free["state"], free["source"]) == ("free", 'settings "local/*"')
    assert "expected `provider/model`" in wrong["error"]["message"]


async def test_a_model_without_a_price_is_found_and_what_to_do_is_said(served: Served) -> None:
    async with served.socket() as socket:
        found = await socket.result("prices.check")
        (guessed,) = (await socket.result("prices.show", model="mine/gpt-4o"))["models"]
    assert not found["ok"]
    (unknown,) = [one for one in found["models"] if one["state"] == "unknown"]
    assert unknown["model"] == "script/one"
    assert '[plugin.metering.prices."script/one"]' in unknown["action"]
    assert 'as = "openai"' in guessed["action"]


async def test_all_is_well_where_every_price_is_known() -> None:
    agents = {"main": {"model": "openai/gpt-4o"}}
    async with (
        serving(Priced(), agents=agents, default_agent="main") as one,
        one.socket() as socket,
    ):
        found = await socket.result("prices.check")
    assert (found["ok"], [model["action"] for model in found["models"]]) == (True, [""])
