"""`kill -9` of a gateway that spends: no call is lost that was acknowledged, or that anybody bills.

None is charged twice, and what a crash charges is what its calls could have used.

The moments come from a seed, which is printed; HOOKGATE_TEST_SEED sets it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from sqlalchemy import Table, select
from tests.integration.spender import AMPLE, PEERS, TIGHT, Spending, settings

from hookgate.builtin_plugins.metering.tables import CALLS, GATEWAYS, LEASES, OPEN, WINDOWS
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.gateway import Gateway
from hookgate.ports import STORE

SPENDER = Path(__file__).with_name("spender.py")
PICO = 10**12
LIMITS = {"ample.tokens": AMPLE, "ample.usd": 1_000_000 * PICO, "tight.tokens": TIGHT}

Row = Mapping[str, Any]


class Upstream(ThreadingTCPServer):
    """Bills what it was asked, and outlives who has asked.

    Attributes:
        billed: The tokens of each call.
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, seed: int) -> None:
        self.billed: dict[str, int] = {}
        self.chance = random.Random(seed)
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(StreamRequestHandler):
    def handle(self) -> None:
        upstream = self.server
        assert isinstance(upstream, Upstream)
        if call := self.rfile.readline().decode().strip():
            tokens = upstream.chance.randrange(1000, 3000)
            # A gateway that asked twice for one call would be billed twice.
            upstream.billed[call] = upstream.billed.get(call, 0) + tokens + 9
            # As long as a quick model takes: kills are to fall into that.
            time.sleep(upstream.chance.random() * 0.1)
            self.wfile.write(f"{tokens} 9\n".encode())


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(random.randrange(2**32)) as upstream:
        thread = threading.Thread(target=upstream.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield upstream
        upstream.shutdown()
        thread.join()


def run_and_kill(home: Path, port: int, turns: int, delay: float) -> dict[str, list[str]]:
    """Let the spender run, kill it so long after so many turns, and return the calls by turn."""
    seen: dict[str, list[str]] = {}
    command = [sys.executable, str(SPENDER), str(home), str(port)]
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


async def check(
    home: Path, acknowledged: Mapping[str, list[str]], billed: Mapping[str, int], kills: int
) -> None:
    """Open a gateway on what the killed ones have left, and look at all of it."""
    async with Gateway(settings(home), plugins=[Spending()]) as gate:
        assert gate.host.degraded == {}
        calls = await rows(gate, CALLS)
        check_rows(calls, acknowledged)
        for by in ("day", "session"):
            check_sums(await usage(gate, by), calls)
        check_bills(calls, billed, kills)
        check_windows(await rows(gate, WINDOWS), calls)
        assert await rows(gate, LEASES) == await rows(gate, OPEN) == []
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


def check_bills(calls: list[Row], billed: Mapping[str, int], kills: int) -> None:
    """What anybody bills is in the ledger, and what is lost is what was under way at a kill."""
    known = {row["id"]: row for row in calls}
    assert set(billed) - set(known) == set()
    lost = [row for row in calls if row["status"] == "lost"]
    for call, amount in billed.items():
        row = known[call]
        assert tokens(row) >= amount if row["status"] == "lost" else tokens(row) == amount, row
    assert len(lost) <= PEERS * kills
    charged = sum(map(tokens, lost))
    assert charged <= PEERS * kills * max(map(tokens, lost), default=0)
    never = sum(row["id"] not in billed for row in lost)
    print(
        f"after {kills} kills: {len(billed)} calls billed, {sum(billed.values())} tokens; "
        f"{len(lost)} calls lost for {charged} tokens, {never} of them never sent"
    )


def check_sums(said: Row, calls: list[Row]) -> None:
    """What is reported is the sum of the rows."""
    total = said["whole"]
    assert total["calls"] == len(calls)
    assert total["refused"] == sum(not row["sent"] for row in calls)
    assert total["input_tokens"] + total["output_tokens"] == sum(map(tokens, calls))
    for name in ("calls", "input_tokens", "output_tokens"):
        assert sum(group[name] for group in said["groups"]) == total[name]


def check_windows(windows: list[Row], calls: list[Row]) -> None:
    """Budgets have charged what the rows say, to the token, and no more than their limits."""
    charged: Counter[str] = Counter()
    for window in windows:
        name = window["key"].split("/")[0]
        assert window["leased"] == 0, window
        if name in LIMITS:
            assert window["settled"] + window["lost"] <= LIMITS[name], window
            charged[window["key"]] += window["settled"] + window["lost"]
    said: Counter[str] = Counter()
    for row in calls:
        said.update(json.loads(row["windows"] or "{}"))
    assert +charged == +said
    total = sum(amount for key, amount in said.items() if key.startswith("ample.tokens/"))
    assert total == sum(map(tokens, calls))


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_kills_lose_no_call_and_charge_none_twice_nor_what_none_has_begun(
    short: bool, tmp_path: Path, upstream: Upstream
) -> None:
    seed = int(os.environ.get("HOOKGATE_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"HOOKGATE_TEST_SEED={seed}")
    chance = random.Random(seed)
    acknowledged: dict[str, list[str]] = {}
    kills = 4 if short else 300
    for number in range(kills):
        turns, delay = chance.randrange(1, 300), chance.random() * 0.05
        acknowledged |= await asyncio.to_thread(
            run_and_kill, tmp_path, upstream.server_address[1], turns, delay
        )
        if short or number % 20 == 19:
            await check(tmp_path, acknowledged, upstream.billed, number + 1)
