"""Rules that are tried without a process of their own, where the process is not what is tested."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from hookgate.builtin_plugins.policy.bench import apart
from hookgate.builtin_plugins.policy.bench.workbench import Workbench


class Near(apart.Child):
    """Workbench here: that a process does is shown once, and its start takes a second."""

    def __init__(self) -> None:
        self._answers = Workbench()

    async def ask(self, work: Mapping[str, Any]) -> dict[str, Any]:
        said = self._answers.to(pickle.loads(pickle.dumps(work)))
        return cast("dict[str, Any]", json.loads(json.dumps(said)))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def started() -> AsyncIterator[apart.Child]:
        yield Near()

    monkeypatch.setattr(apart, "_started", started)
