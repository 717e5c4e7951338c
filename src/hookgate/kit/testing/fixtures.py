"""The fixtures for pytest: ``pytest_plugins = ["hookgate.kit.testing.fixtures"]``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from hookgate.kit.testing.gateway import TurnedClock, started
from hookgate.kit.testing.model import ScriptedModel, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from hookgate.gateway import Gateway

__all__ = ["clock", "gateway", "model"]


@pytest.fixture
def model() -> ScriptedModel:
    """Return the model that the gateway asks; set its `steps`."""
    return ScriptedModel(say("Fine."))


@pytest.fixture
def clock() -> TurnedClock:
    """Return the gateway's clock, which stands still until it is turned."""
    return TurnedClock()


@pytest.fixture
def gateway(
    tmp_path: Path, model: ScriptedModel, clock: TurnedClock
) -> Callable[..., AbstractAsyncContextManager[Gateway]]:
    """Return what starts a gateway; see `hookgate.kit.testing.gateway.started`."""
    return partial(started, home=tmp_path / "home", model=model, clock=clock)
