"""What operators and plugins do by mistake: it is said, and nothing stays behind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.metering.support import rows_of
from tests.builtin_plugins.metering.test_stories import budget, operate, spending

from hookgate.builtin_plugins.metering.limits import UNSAID
from hookgate.builtin_plugins.metering.operations.budgets import SetParams
from hookgate.builtin_plugins.metering.views import budgets
from hookgate.core.domain.errors import ProviderError, TurnError
from hookgate.core.domain.models import ModelRef, ModelRequest
from hookgate.core.domain.turn import Address
from hookgate.hookspecs import hookimpl
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.builtin_plugins.metering.test_stories import Started

    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host
    from hookgate.gateway import Gateway
    from hookgate.kit.testing.model import ScriptedModel


async def key_of(running: Gateway) -> str:
    """Return the key of the one counter that is used."""
    (row,) = (await operate(running, "budgets.show"))["budgets"]
    (counter,) = row["counters"]
    return str(counter["key"])


async def test_raise_past_what_a_counter_holds_lets_calls_go_on(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(100), spending(100)]
    async with gateway(**budget(usd=9_000_000)) as running:
        first = await running.chat("hello")
        await operate(running, "budgets.raise", key=await key_of(running), more=10**15)
        second = await running.chat("hello")
    assert (first.ending, second.ending) == ("done", "done")


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (lambda key: key, "0.4"),
        (lambda key: key.replace("2026-03-01", "2026-02-28"), "5"),
        (lambda key: key.replace("/global:", "/agent:"), "5"),
        (lambda key: key.replace("day:", "month:"), "5"),
        (lambda key: "small.tokens", "5"),
    ],
)
async def test_raise_that_would_raise_nothing_is_an_error(
    gateway: Started, model: ScriptedModel, change: Any, more: str
) -> None:
    model.steps = [spending(100)]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello")
        key = change(await key_of(running))
        with pytest.raises(TurnError, match="expected"):
            await operate(running, "budgets.raise", key=key, more=more)


def test_budget_of_nobody_is_said_to_be_one() -> None:
    with pytest.raises(ValidationError, match=r"of\n"):
        SetParams(name="small", tokens=5, of="")


async def test_of_many_counters_the_fullest_are_shown_and_the_others_counted(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(40 + number) for number in range(24)]
    async with gateway(**budget(tokens=4_000, scope="session")) as running:
        for number in range(24):
            await running.chat("hello", address=Address("cli", "local", f"peer-{number:02}"))
        (row,) = (await operate(running, "budgets.show"))["budgets"]
        (few,) = (await operate(running, "budgets.show", subject="PEER-1", limit=3))["budgets"]
        (all_of_them,) = (await operate(running, "budgets.show", limit=1000))["budgets"]
        (none,) = (await operate(running, "budgets.show", share=0.8))["budgets"]
    assert [one["used"] for one in row["counters"]] == [str(63 - number) for number in range(10)]
    assert (row["used"], row["full"], len(all_of_them["counters"])) == (24, 0, 24)
    shown = [one["key"].split(":")[4].split("/")[0] for one in few["counters"]]
    assert shown == ["peer-19", "peer-18", "peer-17"]
    assert (none["counters"], none["used"]) == ([], 24)
    lines = [
        line if isinstance(line, str) else str(line)
        for line in budgets({"budgets": [row], "paused": {}})
    ]
    assert "`--limit`, `--subject` and `--share` choose others" in lines[-1]


async def test_counters_of_the_scope_that_a_budget_had_before_are_not_shown_as_its_own(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(100), spending(100)]
    async with gateway() as running:
        await operate(running, "budgets.set", name="small", tokens=50_000)
        await operate(running, "budgets.set", name="other", tokens=50_000)
        await running.chat("hello")
        await operate(
            running, "budgets.set", name="small", tokens=50_000, scope="agent", window="month"
        )
        await running.chat("hello")
        rows = (await operate(running, "budgets.show"))["budgets"]
        (row,) = [one for one in rows if one["name"] == "small"]
    assert [one["key"] for one in row["counters"]] == ["small.tokens/agent:main/month:2026-03"]


async def test_notice_of_a_budget_that_holds_no_more_is_withdrawn(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(90_000)]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello")
        before = set(running.host.status()["notices"])
        await operate(running, "budgets.remove", name="small")
        after = set(running.host.status()["notices"])
    assert any(part.startswith("budget small") for part in before)
    assert not any(part.startswith("budget small") for part in after)


async def test_one_request_that_a_plugin_sends_twice_is_two_calls(
    gateway: Started, model: ScriptedModel
) -> None:
    class Twice:
        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            self.host = host
            yield

        @hookimpl
        async def before_turn(self, turn: Turn) -> None:
            request = ModelRequest(model=ModelRef("script", "test"), cause="memory.extract")
            for _ in range(2):
                async for _ in self.host.call_model(turn, request):
                    pass

    model.steps = [spending(500), spending(600), spending(700)]
    async with gateway(Twice, **budget(tokens=100_000)) as running:
        await running.chat("hello")
        rows = await rows_of(running.host[STORE])  # type: ignore[arg-type]
    assert sorted(row["input_tokens"] for row in rows) == [490, 590, 690]


async def test_plugin_cannot_give_a_call_the_id_of_another(
    gateway: Started, model: ScriptedModel
) -> None:
    class Same:
        @hookimpl
        async def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest:
            return replace(request, call_id="call_same")

    model.steps = [spending(500), spending(600)]
    async with gateway(Same, **budget(tokens=100_000)) as running:
        await running.chat("hello")
        await running.chat("hello")
        rows = await rows_of(running.host[STORE])  # type: ignore[arg-type]
    assert sorted(row["input_tokens"] for row in rows) == [490, 590]


async def test_error_before_a_first_token_costs_no_fee_of_a_call(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [[ProviderError("rejected", "no", provider="script")], spending(100)]
    prices = {"script/*": {"input": 0, "output": 0, "fee": 1}}
    section = {"budgets": {"small": {"usd": 100}}, "prices": prices}
    async with gateway(plugin={"metering": section}) as running:
        failed = await running.chat("hello")
        answered = await running.chat("hello")  # Rows are committed in order, before its end.
        (row,) = (await operate(running, "budgets.show"))["budgets"]
        rows = await rows_of(running.host[STORE])  # type: ignore[arg-type]
    assert (failed.ending, answered.ending) == ("failed", "done")
    assert [one["used"] for one in row["counters"]] == ["$1"]
    assert sorted(one["cost"] for one in rows) == [0, 10**12]


async def test_status_says_which_budget_of_the_settings_does_not_hold(gateway: Started) -> None:
    async with gateway(**budget(tokens=100_000)) as running:
        notices = running.host.notices
        await operate(running, "budgets.set", name="small", tokens=100_000)
        assert UNSAID not in notices
        await operate(running, "budgets.set", name="small", tokens=5)
        assert notices[UNSAID].startswith("small: what `hookgate budgets set`")
        await operate(running, "budgets.remove", name="small")
        assert UNSAID in running.host.notices
