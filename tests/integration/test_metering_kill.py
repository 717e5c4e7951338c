"""`kill -9` of a gateway that spends: no acknowledged call is lost, and none is charged twice.

The moments come from a seed, which is printed; HOOKGATE_TEST_SEED sets it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select
from tests.integration.spender import AMPLE, TIGHT, Spending, settings

from hookgate.builtin_plugins.metering.tables.budgets import GATEWAYS, LEASES, WINDOWS
from hookgate.builtin_plugins.metering.tables.ledger import CALLS
from hookgate.core.domain.operations import Invocation
from hookgate.core.domain.ports import STORE
from hookgate.core.domain.turn import Principal
from hookgate.gateway import Gateway

SPENDER = Path(__file__).with_name("spender.py")
PICO = 10**12
LIMITS = {"ample.tokens": AMPLE, "ample.usd": 1_000_000 * PICO, "tight.tokens": TIGHT}

Row = Mapping[str, Any]


def run_and_kill(home: Path, turns: int, delay: float) -> dict[str, list[str]]:
    """Let the spender run, kill it so long after so many turns, and return the calls by turn."""
    seen: dict[str, list[str]] = {}
    command = [sys.executable, str(SPENDER), str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                said = json.loads(line)
                seen[said["turn"]] = said["calls"]
            if len(seen) == turns:
                time.sleep(delay)
                process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return seen


async def rows(gate: Gateway, table: Table) -> list[Row]:
    """Return all rows of a table."""
    return await gate.host[STORE].read(
        lambda connection: [dict(row) for row in connection.execute(select(table)).mappings()]
    )


async def usage(gate: Gateway, by: str) -> dict[str, Any]:
    """Return what the operation `usage` says."""
    operation = gate.host.operations["usage"]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    params = operation.params.model_validate({"by": by, "limit": 1000})
    result = await operation.handler(invocation, params)
    return dict(result.model_dump(mode="json"))


def tokens(row: Row) -> int:
    return int(row["input_tokens"] + row["output_tokens"])


async def check(home: Path, acknowledged: Mapping[str, list[str]]) -> None:
    """Open a gateway on what the killed ones have left, and look at all of it."""
    async with Gateway(settings(home), plugins=[Spending()]) as gate:
        assert gate.host.degraded == {}
        calls = await rows(gate, CALLS)
        check_rows(calls, acknowledged)
        for by in ("day", "session"):
            check_sums(await usage(gate, by), calls)
        check_windows(await rows(gate, WINDOWS), calls)
        assert await rows(gate, LEASES) == []
        assert len(await rows(gate, GATEWAYS)) <= 1


def check_rows(calls: list[Row], acknowledged: Mapping[str, list[str]]) -> None:
    """Each acknowledged call has its row, and no call has two."""
    assert max(Counter(row["id"] for row in calls).values()) == 1
    places = Counter((row["turn"], row["iteration"], row["attempt"]) for row in calls)
    assert max(places.values()) == 1
    found: dict[str, set[str]] = {}
    for row in calls:
        found.setdefault(row["turn"], set()).add(row["id"])
    for turn, ids in acknowledged.items():
        assert ids, "a turn that asked no model"
        assert found.get(turn) == set(ids)


def check_sums(said: Row, calls: list[Row]) -> None:
    """What is reported is the sum of the rows."""
    total = said["whole"]
    assert total["calls"] == len(calls)
    assert total["refused"] == sum(not row["sent"] for row in calls)
    assert total["input_tokens"] + total["output_tokens"] == sum(map(tokens, calls))
    for name in ("calls", "input_tokens", "output_tokens"):
        assert sum(group[name] for group in said["groups"]) == total[name]


def check_windows(windows: list[Row], calls: list[Row]) -> None:
    """Budgets have charged at least what the rows say, and no more than their limits."""
    charged: Counter[tuple[str, str]] = Counter()
    for window in windows:
        name, subject, _ = window["key"].split("/")
        assert window["leased"] == 0, window
        if name in LIMITS:
            assert window["settled"] + window["lost"] <= LIMITS[name], window
            charged[name, subject] += window["settled"] + window["lost"]
    used: Counter[tuple[str, str]] = Counter()
    for row in calls:
        used["ample.tokens", "global:*"] += tokens(row)
        used["ample.usd", "global:*"] += row["cost"]
        used["tight.tokens", f"session:{row['session']}"] += tokens(row)
    assert {
        key: (charged[key], amount) for key, amount in used.items() if charged[key] < amount
    } == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_kills_lose_no_acknowledged_call_and_charge_none_twice(
    short: bool, tmp_path: Path
) -> None:
    seed = int(os.environ.get("HOOKGATE_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"HOOKGATE_TEST_SEED={seed}")
    chance = random.Random(seed)
    acknowledged: dict[str, list[str]] = {}
    kills = 4 if short else 300
    for number in range(kills):
        turns, delay = chance.randrange(1, 300), chance.random() * 0.05
        acknowledged |= run_and_kill(tmp_path, turns, delay)
        if short or number % 20 == 19:
            await check(tmp_path, acknowledged)
