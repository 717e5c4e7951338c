from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import SecretStr
from tests.builtin_plugins.metering.budgets.machine import Machine, Place
from tests.builtin_plugins.metering.budgets.support import prepared, row

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@contextmanager
def machines(
    runner: asyncio.Runner, home: Path, options: StorageSettings
) -> Iterator[type[Machine]]:
    async def opened() -> Place:
        store = await open_store(options, home)
        assert store.durable, store.problem
        return Place(runner, await prepared(store, shared=True))

    class Placed(Machine):
        place = runner.run(opened())

    try:
        yield Placed
    finally:
        runner.run(Placed.place.store.close())


def check(runner: asyncio.Runner, home: Path, options: StorageSettings, examples: int) -> None:
    with machines(runner, home, options) as made:
        run_state_machine_as_test(
            made,
            settings=settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_whatever_happens_nothing_of_a_budget_is_lost_added_or_refused_falsely(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    check(runner, tmp_path, StorageSettings(), 4)


def test_use_past_a_hold_counts_once_when_another_has_charged_a_gateway_that_hangs(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    with machines(runner, tmp_path, StorageSettings()) as made:
        machine = made()
        hangs = machine.gateways[0]
        runner.run(machine.reserved(hangs, 40, side=False))
        machine.lies += 30
        machine.ended(hangs, hangs.calls[0], used=70, row=False)
        runner.run(machine.rows_are_written(hangs, told=False))
        runner.run(machine.reserved(machine.gateways[1], 60, side=False))
        machine.nothing_is_lost_or_added()
        machine.stop_one_for_longer_than_its_lease(0)
        machine.nothing_is_lost_or_added()
        assert runner.run(row(machine.place.store, machine.key))["settled"] == 70
        machine.teardown()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_so_it_is_in_many_orders(runner: asyncio.Runner, tmp_path: Path, short: bool) -> None:
    check(runner, tmp_path, StorageSettings(), 15 if short else 60)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_so_it_is_on_postgresql(
    runner: asyncio.Runner, tmp_path: Path, url: str, short: bool
) -> None:
    check(runner, tmp_path, StorageSettings(url=SecretStr(url)), 4 if short else 10)
