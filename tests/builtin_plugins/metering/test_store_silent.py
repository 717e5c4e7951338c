"""A database that does not answer: calls are refused for that, and go on once it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.builtin_plugins.metering.test_stories import budget, spending
from tests.support.script import until

from hookgate.builtin_plugins.metering import gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from hookgate.gateway import Gateway
    from hookgate.kit.testing.model import ScriptedModel

pytest_plugins = ["hookgate.kit.testing.fixtures"]
pytestmark = pytest.mark.slow


async def test_a_call_is_refused_for_the_store_and_not_for_a_slow_hook(
    url: str,
    gateway: Callable[..., AbstractAsyncContextManager[Gateway]],
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "ANSWER_SECONDS", 0.5)
    model.steps = [spending(900), spending(900)]
    settings = budget(tokens=100_000)
    settings["plugin"]["storage"] = {"url": url}
    other = await asyncpg.connect(url)
    async with gateway(**settings) as running:
        before = await running.chat("hello")
        # Whoever holds the tables lets nobody write, as a server does that hangs.
        held = other.transaction()
        await held.start()
        await other.execute("LOCK TABLE metering_window, metering_open IN ACCESS EXCLUSIVE MODE")
        refused = await running.chat("hello")
        await held.rollback()
        await other.close()
        after = await running.chat("hello")
        await until(lambda: "metering" not in " ".join(running.host.degraded))
    assert (before.ending, after.ending) == ("done", "done")
    assert refused.error is not None
    assert refused.error.code == "budget_unavailable"
    assert "has not answered within" in str(refused.error)
