"""Whoever is bound to some addresses reads of nobody else's use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.metering.test_stories import at, budget, operate, spending

from hookgate.core.domain.errors import NotAllowedError
from hookgate.core.domain.turn import Claim, Principal
from hookgate.core.gateway.operations import Invocation

if TYPE_CHECKING:
    from tests.builtin_plugins.metering.test_stories import Started

    from hookgate.gateway import Gateway
    from hookgate.kit.testing.model import ScriptedModel

ANN = Principal(id="token:ann", scopes=frozenset({"read"}), bindings=(Claim(peer="ann"),))


async def ask(running: Gateway, who: Principal, name: str, /, **params: Any) -> Any:
    operation = running.host.operations[name]
    assert operation.scope in who.scopes, "it is offered to whoever may read"
    invocation = Invocation(host=running.host, principal=who)
    return await operation.handler(invocation, operation.params.model_validate(params))


async def test_a_bound_token_reads_no_budget_which_tells_of_everybody(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(100)]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello", address=at("bob"))
        assert (await operate(running, "budgets.show"))["budgets"]
        with pytest.raises(NotAllowedError, match="sees some sessions only"):
            await ask(running, ANN, "budgets.show")
        with pytest.raises(NotAllowedError, match="sees some sessions only"):
            await ask(running, ANN, "budgets.explain")


async def test_a_bound_token_reads_the_use_of_its_own_sessions(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(100), spending(7)]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello", address=at("bob"))
        await running.chat("hello", address=at("ann"))
        every = await operate(running, "usage")
        mine = (await ask(running, ANN, "usage")).model_dump(mode="json")
        assert (every["whole"]["calls"], mine["whole"]["calls"]) == (2, 1)
