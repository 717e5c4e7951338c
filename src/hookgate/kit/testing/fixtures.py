"""The fixtures for pytest: ``pytest_plugins = ["hookgate.kit.testing.fixtures"]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from hookgate.gateway import Gateway
from hookgate.kit.testing.gateway import TurnedClock, started
from hookgate.kit.testing.model import ScriptedModel, say

__all__ = ["builtin_plugins", "clock", "gateway", "model"]


@pytest.fixture
def model() -> ScriptedModel:
    """Return the model that the gateway asks; set its `steps`."""
    return ScriptedModel(say("Fine."))


@pytest.fixture
def clock() -> TurnedClock:
    """Return the gateway's clock, which stands still until it is turned."""
    return TurnedClock()


@pytest.fixture
def builtin_plugins() -> Sequence[str] | None:
    """Return which builtin plugins run: all of them, where a ``conftest.py`` names none."""
    return None


@pytest.fixture
def gateway(
    tmp_path: Path,
    model: ScriptedModel,
    clock: TurnedClock,
    builtin_plugins: Sequence[str] | None,
) -> Callable[..., AbstractAsyncContextManager[Gateway]]:
    """Return what starts a gateway; see `hookgate.kit.testing.gateway.started`."""
    home = tmp_path / "home"
    return partial(started, home=home, model=model, clock=clock, only=builtin_plugins)
