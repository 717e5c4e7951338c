"""What it costs to call a hook: against pluggy's own call, and against a timer for each.

Run it with ``python -m benchmarks.turn.dispatch``, or ``--quick`` for a few seconds. Limits,
isolation, attribution and the check of results are on; tracing is off. Every
implementation returns a result, so that each one is checked and collected. All times are CPU
time. With ``--cpex PYTHON``, or where HOOKGATE_CPEX names one, an interpreter that has ``cpex``,
that framework of plugins takes its turns in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import process_time

import pluggy

from benchmarks.report import Figure, interleaved, report, timed
from hookgate import hookspecs
from hookgate.core.domain.models import Refusal
from hookgate.core.hooks.caller import Hooks
from hookgate.hookspecs import PROJECT, hookimpl

COUNTS = (0, 1, 5, 20)
REFUSAL = Refusal(code="full", message="come back later")


class Plain:
    @hookimpl
    def before_turn(self, turn: object) -> Refusal:
        return REFUSAL


class Asynchronous:
    @hookimpl
    async def before_turn(self, turn: object) -> Refusal:
        return REFUSAL


class Suspending:
    @hookimpl
    async def before_turn(self, turn: object) -> Refusal:
        await asyncio.sleep(0)
        return REFUSAL


def manager_of(plugin: type, count: int) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for number in range(count):
        manager.register(plugin(), f"plugin_{number}")
    return manager


def awaited(call: Callable[[], Awaitable[object]], *, number: int) -> float:
    """Return the seconds that one of `number` awaited calls takes, inside one task."""

    async def run() -> float:
        start = process_time()
        for _ in range(number):
            await call()
        return (process_time() - start) / number

    return asyncio.run(run())


def timers(manager: pluggy.PluginManager) -> Callable[[], Awaitable[object]]:
    """Return a call that awaits every implementation under a timer of its own."""
    functions = [impl.function for impl in reversed(manager.hook.before_turn.get_hookimpls())]

    async def call() -> list[object]:
        results = []
        for function in functions:
            async with asyncio.timeout(5):
                results.append(await function(None))
        return results

    return call


def ours(plugin: type, count: int) -> Callable[[], Awaitable[object]]:
    hooks = Hooks(manager_of(plugin, count))
    spec: Callable[[object], Refusal | None] = hookspecs.before_turn
    return lambda: hooks.each(spec, None)


@contextmanager
def cpex(python: str) -> Iterator[Callable[[int], float]]:
    """Return what times one call with so many plugins, in seconds, by the framework CPEX."""
    pipe = subprocess.PIPE
    script = Path(__file__).with_name("_cpex_peer.py")
    environment = {**os.environ, "PYTHONPATH": str(script.parent), "PLUGINS_ENABLED": "true"}
    with subprocess.Popen(
        [python, str(script)], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        given, said = process.stdin, process.stdout
        assert given is not None
        assert said is not None

        def run(count: int) -> float:
            given.write(f"{count}\n")
            given.flush()
            return float(said.readline()) / 1e6

        yield run
        given.close()


def against_cpex(python: str, *, rounds: int, number: int) -> list[Figure]:
    """Measure both with 1, 10 and 20 plugins, in turns."""
    figures: list[Figure] = []
    with cpex(python) as theirs:
        for count in (1, 10, 20):
            call = ours(Asynchronous, count)
            own, other = interleaved(
                [lambda c=call: awaited(c, number=number), partial(theirs, count)],  # type: ignore[misc]
                rounds=rounds,
            )
            figures += [
                Figure(name=f"CPEX, {count} plugins", value=other * 1e6, unit="us"),
                Figure(
                    name=f"hooks, async, {count} plugins",
                    value=own / other,
                    unit="ratio",
                    against="CPEX",
                    goal=1 / 4,
                ),
            ]
    return figures


def measure(*, rounds: int, number: int) -> list[Figure]:
    figures: list[Figure] = []
    for count in COUNTS:
        manager = manager_of(Plain, count)
        calls = [ours(plugin, count) for plugin in (Plain, Asynchronous, Suspending)]
        limited = timers(manager_of(Asynchronous, count))
        waiting = timers(manager_of(Suspending, count))
        peer, plain, coroutines, suspending, timer, both = interleaved(
            [
                lambda m=manager: timed(lambda: m.hook.before_turn(turn=None), number=number),
                lambda c=calls[0]: awaited(c, number=number),
                lambda c=calls[1]: awaited(c, number=number),
                lambda c=calls[2]: awaited(c, number=max(number // 10, 1)),
                lambda c=limited: awaited(c, number=max(number // 4, 1)),
                lambda c=waiting: awaited(c, number=max(number // 10, 1)),
            ],
            rounds=rounds,
        )
        at = f"{count} implementations"
        figures += [
            Figure(name=f"pluggy, sync, {at}", value=peer * 1e6, unit="us"),
            Figure(name=f"hooks, sync, {at}", value=plain * 1e6, unit="us"),
            Figure(name=f"hooks, async, {at}", value=coroutines * 1e6, unit="us"),
            Figure(name=f"hooks, async that suspend, {at}", value=suspending * 1e6, unit="us"),
            Figure(name=f"asyncio.timeout each, async, {at}", value=timer * 1e6, unit="us"),
            Figure(name=f"asyncio.timeout each, that suspend, {at}", value=both * 1e6, unit="us"),
        ]
    for kind, value in (("sync", plain), ("async", coroutines)):
        figures.append(
            Figure(
                name=f"hooks, {kind}, {at}",
                value=value / peer,
                unit="ratio",
                against="pluggy's own sync call",
                goal=2.0,
            )
        )
    figures.append(
        Figure(
            name=f"hooks, async, {at}",
            value=coroutines / timer,
            unit="ratio",
            against="asyncio.timeout around each",
            goal=1 / 8,
        )
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, less exact")
    named = os.environ.get("HOOKGATE_CPEX", "")
    parser.add_argument("--cpex", metavar="PYTHON", default=named)
    arguments = parser.parse_args()
    rounds, number = (5, 2_000) if arguments.quick else (15, 10_000)
    figures = measure(rounds=rounds, number=number)
    if arguments.cpex:
        figures += against_cpex(arguments.cpex, rounds=rounds, number=number)
    report("Hook dispatch", figures)


if __name__ == "__main__":
    main()
