"""What planning costs a turn, and the command that shows outcomes."""

from __future__ import annotations

import asyncio
import gc
import json
from itertools import count
from pathlib import Path
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.builtin_plugins.planning.planned import GOOD, asked, planning
from tests.builtin_plugins.turns import attach, make_host, make_turn
from tests.support.script import Script
from typer.testing import CliRunner

from hookgate import Outcome
from hookgate.builtin_plugins.planning.plugin import Plugin
from hookgate.builtin_plugins.planning.settings import PlanningSettings
from hookgate.cli.app import app
from hookgate.core.turn.context import ContextBuilder

BUDGET = 0.0002
"""Seconds of the process for one turn."""


@pytest.mark.slow
async def test_a_turn_costs_less_than_a_fifth_of_a_millisecond(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    attach(host)
    host.hooks = SimpleNamespace(implementations=lambda _: ())  # type: ignore[assignment]
    plugin = Plugin(PlanningSettings())
    context = ContextBuilder(budget=5000, counter=host.tokens)
    outcome, numbers = Outcome(status="success", score=0.95), count()

    async with plugin.lifespan(host):

        def one() -> None:
            turn = make_turn(agent="main", id=f"turn_{next(numbers)}")
            begun = process_time()
            turn.plan = plugin.plan_by_settings(turn, turn.plan) or turn.plan
            turn.plan = plugin.plan_turn(turn, turn.plan) or turn.plan
            plugin.withhold_capabilities()
            plugin.before_context_build(turn, context)
            turn.ending = "done"
            plugin.turn_ended(turn)
            plugin.judge_turn(turn)
            plugin.after_turn(turn, outcome)
            spent.append(process_time() - begun)

        spent: list[float] = []
        for _ in range(300):
            one()
        gc.collect()
        spent.clear()
        for _ in range(500):
            one()

    print(f"{median(spent) * 1e6:.0f} microseconds a turn")
    assert median(spent) < BUDGET


async def test_outcomes_are_shown_on_the_command_line(tmp_path: Path) -> None:
    builtin = ("control", "storage", "planning")
    async with planning(Script(GOOD), home=tmp_path, builtin=builtin) as gate:
        await asked(gate)

    environment = {"HOOKGATE_HOME": str(tmp_path)}

    def run(*words: str) -> Any:
        result = CliRunner().invoke(app, ["outcomes", *words], env=environment)
        assert result.exit_code == 0, result.output
        return result.output

    shown = await asyncio.to_thread(run)
    found = json.loads(await asyncio.to_thread(run, "--json"))
    nothing = await asyncio.to_thread(run, "agent:nobody")

    assert "agent:main/channel:cli" in shown and "0.95" in shown and "as set" in shown
    assert found["scopes"][0]["successCount"] == 1
    assert "no turns so far" in nothing
