"""What it costs to call a hook: against pluggy's own call, and against a timer for each.

Run it with ``python -m benchmarks.dispatch``, or ``--quick`` for a few seconds. Limits,
isolation, attribution and the check of results are on; tracing is off. Every
implementation returns a result, so that each one is checked and collected.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

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
        start = perf_counter()
        for _ in range(number):
            await call()
        return (perf_counter() - start) / number

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
    quick = parser.parse_args().quick
    figures = measure(rounds=5 if quick else 15, number=2_000 if quick else 10_000)
    report("Hook dispatch", figures)


if __name__ == "__main__":
    main()
