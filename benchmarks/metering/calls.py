"""What metering costs a model call, and how long ``hookgate usage`` takes.

    python -m benchmarks.metering.calls [--quick]

The first figures are the processor time of the event loop's thread for what the plugin does around
one call, in a gateway that otherwise does nothing. Then 64 writers commit a row each, as a turn
commits its answer, with a row of the ledger before it and without. The last ones are reports over a
million rows (2,000 with ``--quick``), of 30 days, 20 models and 5,000 sessions, once they are in
the sums.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.report import Figure, interleaved, report
from benchmarks.turn.store import CREATE, PAYLOAD, rate
from benchmarks.turn.store import LEDGER as ANSWERS
from hookgate.builtin_plugins.metering.calls import LedgerRow, UsageQuery
from hookgate.builtin_plugins.metering.gate import Gate
from hookgate.builtin_plugins.metering.ledger import Ledger, Reports, Rollup
from hookgate.builtin_plugins.metering.tables import METADATA, SCRIPTS
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.messages import new_id
from hookgate.core.domain.models import Ending, Usage
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say

DONE = Ending(status="done", stop="end", started=True, sent=True)
USED = Usage(input_tokens=1200, cache_read_tokens=800, output_tokens=60)
BUDGETS: dict[str, Any] = {
    "day": {"tokens": 10**12},
    "month": {"usd": 10_000, "window": "month"},
    "session": {"scope": "session", "tokens": 10**12},
}
WAYS: dict[str, dict[str, Any]] = {
    "no budget": {},
    "one budget": {"budgets": {"day": BUDGETS["day"]}},
    "three budgets": {"budgets": BUDGETS},
    "three budgets, and limits a minute": {
        "budgets": BUDGETS,
        "limits": {"calm": {"requests": 10**9, "tokens": 10**12, "parallel": 10**6}},
    },
}
WRITERS = 64


async def around_a_call(section: dict[str, Any], calls: int) -> float:
    """Return the microseconds of processor time that a call takes with these settings."""
    model = ScriptedModel(say("fine"))
    with tempfile.TemporaryDirectory() as folder:
        plugin = {"metering": {"prices": {"script/*": {"input": 1, "output": 5}}, **section}}
        async with started(home=Path(folder), model=model, plugin=plugin) as gateway:
            turn = await gateway.chat("hello")
            gate = next(one for one in gc.get_objects() if isinstance(one, Gate))
            requests = [replace(model.requests[-1], call_id=new_id("call")) for _ in range(calls)]
            begun = time.thread_time()
            for request in requests:
                await gate.admit(turn, request)
                gate.settle(turn, request, DONE, USED)
            return (time.thread_time() - begun) / calls * 1e6


def calls(count: int) -> list[LedgerRow]:
    """Return rows of so many calls."""
    numbers = dict.fromkeys(Usage.COUNTS, 10)
    return [
        LedgerRow(
            id=f"call_{number:032x}",
            at=f"2026-11-{number % 30 + 1:02}T12:00:00.{number % 10**6:06}+00:00",
            day=f"2026-11-{number % 30 + 1:02}",
            turn=f"turn_{number // 2:032x}",
            session=f"main:cli:local:{number % 5000}",
            agent="main",
            channel="cli",
            account="local",
            principal="loopback",
            key="",
            cause="chat",
            plugin="",
            tool="",
            provider="openai",
            model=f"gpt-{number % 20}",
            attempt=0,
            iteration=0,
            status="done",
            kind="",
            sent=True,
            usage=Usage(**numbers),
            cost=1_250_000,
            saved=0,
            price="genai-prices",
        )
        for number in range(count)
    ]


async def committed(folder: Path, rows: int, *, metered: bool) -> float:
    """Return how many answers are committed in a second, each behind a row of the ledger or not."""
    store = await open_store(StorageSettings(), folder)
    await store.migrate("metering", METADATA, SCRIPTS)
    await store.write(lambda connection: connection.execute(sa.text(CREATE)) and None)
    ledger, made = Ledger(store), calls(rows + 1)

    def answer(number: int) -> Awaitable[None]:
        if metered:
            ledger.hand_over(made[number])
        return store.insert(ANSWERS, [{"at": number, "kind": "answer", "data": PAYLOAD}])

    try:
        return await rate(answer, WRITERS, rows)
    finally:
        await ledger.close()
        await store.close()


def measured(rows: int, *, metered: bool) -> float:
    """Return what `committed` does, in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        return asyncio.run(committed(Path(folder), rows, metered=metered))


async def reported(folder: Path, rows: int) -> list[Figure]:
    """Return how long reports take over so many rows."""
    store = await open_store(StorageSettings(), folder)
    await store.migrate("metering", METADATA, SCRIPTS)
    ledger, made = Ledger(store), calls(rows)
    for start in range(0, rows, 50_000):
        for call in made[start : start + 50_000]:
            ledger.hand_over(call)
        await ledger.flush()
    begun = time.perf_counter()
    await Rollup(store).roll()
    figures = [
        Figure(name="all rows added to the sums", value=time.perf_counter() - begun, unit="s")
    ]
    reports = Reports(ledger)
    for by, goal in (("month", 200.0), ("day", None), ("model", None), ("session", None)):
        took = await shortest(lambda by=by: reports.usage(UsageQuery((by,), most=100)))  # type: ignore[misc]
        figures.append(
            Figure(name=f"`usage` by {by}, {rows:,} rows", value=took, unit="ms", goal=goal)
        )
    await ledger.close()
    await store.close()
    return figures


async def shortest(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the milliseconds of the quickest of five."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        await work()
        times.append((time.perf_counter() - begun) * 1000)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls and rows")
    quick = parser.parse_args().quick
    figures = [
        Figure(
            name=f"around a call, {name}",
            value=asyncio.run(around_a_call(section, 30 if quick else 3000)),
            unit="us",
            goal=150.0,
        )
        for name, section in WAYS.items()
    ]
    rows = WRITERS * (2 if quick else 60)
    sides = [partial(measured, rows, metered=metered) for metered in (False, True)]
    alone, both = interleaved(sides, rounds=1 if quick else 7)
    figures.append(
        Figure(
            name=f"answers alone / behind a row of the ledger, {WRITERS} writers",
            value=alone / both,
            unit="ratio",
            against="the same store without metering",
            goal=1.5,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        figures += asyncio.run(reported(Path(folder), 2_000 if quick else 1_000_000))
    report("Metering", figures)


if __name__ == "__main__":
    main()
