"""A store that does not answer: calls are refused for that, and go on once it is back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.builtin_plugins.metering.test_stories import budget, spending

from hookgate.builtin_plugins.metering import gate
from hookgate.builtin_plugins.metering.budgets import engine
from hookgate.builtin_plugins.metering.budgets.engine import Budgets

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    import pytest

    from hookgate.gateway import Gateway
    from hookgate.kit.testing.model import ScriptedModel


async def test_a_call_is_refused_for_the_store_and_not_for_a_slow_hook(
    gateway: Callable[..., AbstractAsyncContextManager[Gateway]],
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, real = asyncio.Event(), Budgets.reserve

    async def reserve(self: Budgets, *wants: Any) -> Any:
        await answers.wait()
        return await real(self, *wants)

    monkeypatch.setattr(gate, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(Budgets, "reserve", reserve)
    model.steps = [spending(900)]
    async with gateway(**budget(tokens=100_000)) as running:
        refused = await running.chat("hello")
        answers.set()
        monkeypatch.setattr(gate, "ANSWER_SECONDS", 30.0)
        after = await running.chat("hello")
    assert refused.error is not None
    assert refused.error.code == "budget_unavailable"
    assert "has not answered within" in str(refused.error)
    assert (after.ending, len(model.requests)) == ("done", 1)


def test_other_gateways_are_waited_for_before_the_store_is_taken_for_silent() -> None:
    assert gate.ANSWER_SECONDS > engine.PATIENCE
