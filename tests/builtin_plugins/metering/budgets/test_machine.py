from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import SecretStr
from tests.builtin_plugins.metering.budgets.machine import Machine, Place
from tests.builtin_plugins.metering.budgets.support import prepared

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def check(runner: asyncio.Runner, home: Path, options: StorageSettings, examples: int) -> None:
    async def opened() -> Place:
        store = await open_store(options, home)
        assert store.durable, store.problem
        return Place(runner, await prepared(store, shared=True))

    place = runner.run(opened())

    class Placed(Machine):
        pass

    Placed.place = place
    try:
        run_state_machine_as_test(
            Placed,
            settings=settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        runner.run(place.store.close())


def test_whatever_happens_nothing_of_a_budget_is_lost_added_or_refused_falsely(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    check(runner, tmp_path, StorageSettings(), 4)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_so_it_is_in_many_orders(runner: asyncio.Runner, tmp_path: Path) -> None:
    check(runner, tmp_path, StorageSettings(), 60)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_so_it_is_on_postgresql(runner: asyncio.Runner, tmp_path: Path, url: str) -> None:
    check(runner, tmp_path, StorageSettings(url=SecretStr(url)), 10)
