"""What the hooks of each plugin cost, timed while somebody looks.

Nothing is measured before `plugins.costs` is asked, nor some minutes after: what is not measured
costs a turn nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Annotated, Any

from pydantic import Field

from hookgate import POSITIONAL, Event, Host, Invocation, OperationModel, operation

LOOKED = 120.0
"""Seconds for which hooks are timed after somebody has looked."""
MOST_TIMES = 500
"""So many times are kept of each hook of each plugin, the last ones."""
MOST_CALLS = 2_000
"""So many calls are kept, the last ones."""
MOST_CHARS = 200


class CallCosts(OperationModel):
    """What calls of hooks have cost."""

    calls: int
    milliseconds: float
    """All of it, waiting included."""
    p95: float
    """Of the last 500 calls of each hook, in milliseconds."""
    failures: int


class HookCost(CallCosts):
    """What one hook of a plugin has cost."""

    hook: str
    slowest: float
    """The slowest call, in milliseconds."""


class PluginCost(CallCosts):
    """What the hooks of one plugin have cost."""

    plugin: str
    slowest: str
    """The hook with the slowest call."""
    hooks: tuple[HookCost, ...]
    """Those that were called, what took longest in all first."""


class HookCall(OperationModel):
    """One call of a hook."""

    at: str
    """When it began, ISO 8601 in UTC."""
    plugin: str
    hook: str
    turn: str
    """The turn's id; empty where the hook has none."""
    milliseconds: float
    returned: str
    """What it returned, or how it failed, in a few words."""
    failed: bool


class PluginCosts(OperationModel):
    """What was measured since somebody has looked."""

    since: str
    """Since when hooks are timed, ISO 8601 in UTC; this call began it where nothing did."""
    plugins: tuple[PluginCost, ...]
    """What took longest in all first."""
    calls: tuple[HookCall, ...]
    """The last calls of one plugin's hooks, the newest first; of none, where none is named."""


@dataclass(slots=True)
class _Figures:
    """What is known of one hook of one plugin."""

    calls: int = 0
    milliseconds: float = 0.0
    slowest: float = 0.0
    failures: int = 0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))


class HookCosts:
    """Adds up what hooks take, while somebody looks."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._figures: dict[tuple[str, str], _Figures] = {}
        self._calls: deque[HookCall] = deque(maxlen=MOST_CALLS)
        self._until = 0.0
        self._since = host.clock.now()
        self._listener: asyncio.Task[None] | None = None

    @operation(
        "plugins.costs",
        also="plugin.costs",
        scope="operate",
        rest=("GET", "/v1/plugins/costs"),
        quick=True,
    )
    async def costs(
        self,
        _: Invocation,
        plugin: Annotated[str, POSITIONAL, Field(max_length=256)] = "",
        limit: Annotated[int, Field(ge=0, le=500)] = 50,
    ) -> PluginCosts:
        """Say what the hooks of each plugin cost: calls, time, failures, the slowest one.

        Hooks are timed from the first call on, until two minutes have passed without another: ask
        once, use the gateway, and ask again.

        Args:
            plugin: Only this one, with its last calls and what they returned.
            limit: So many calls at most.

        Example:
            hookgate plugins costs memory
        """
        self._look()
        by_plugin: dict[str, dict[str, _Figures]] = {}
        for (name, hook), figures in self._figures.items():
            if plugin in ("", name):
                by_plugin.setdefault(name, {})[hook] = figures
        costs = [_plugin_cost(name, hooks) for name, hooks in by_plugin.items()]
        newest = (call for call in reversed(self._calls) if call.plugin == plugin)
        return PluginCosts(
            since=self._since.isoformat(timespec="milliseconds"),
            plugins=tuple(sorted(costs, key=lambda one: -one.milliseconds)),
            calls=tuple([call for call, _ in zip(newest, range(limit), strict=False)]),
        )

    def _look(self) -> None:
        self._until = monotonic() + LOOKED
        if self._listener is None or self._listener.done():
            # What was measured of another time says nothing of this one.
            self._figures.clear()
            self._calls.clear()
            self._since = self._host.clock.now()
            self._listener = self._host.spawn(self._listen(), name="dashboard.costs")

    async def _listen(self) -> None:
        wants = frozenset(("operate",))
        subscribe = self._host.events.subscribe
        with subscribe(scopes=wants, types=("hook",), deliver=self._add, spans=True):
            while (left := self._until - monotonic()) > 0:  # noqa: ASYNC110 - it is a time
                await asyncio.sleep(left)

    def _add(self, event: Event) -> None:
        """Add a call to the figures."""
        data: Any = event.data
        plugin, hook, took = str(data["plugin"]), str(data["hook"]), float(data["milliseconds"])
        key = (plugin, hook)
        figures = self._figures.get(key)
        if figures is None:
            figures = self._figures[key] = _Figures()
        figures.calls += 1
        figures.milliseconds += took
        figures.slowest = max(figures.slowest, took)
        figures.failures += bool(data["failed"])
        figures.times.append(took)
        began = self._host.clock.now() - timedelta(milliseconds=took)
        self._calls.append(
            HookCall.model_construct(
                at=began.isoformat(timespec="milliseconds"),
                plugin=plugin,
                hook=hook,
                turn=event.turn,
                milliseconds=took,
                returned=str(data["outcome"])[:MOST_CHARS],
                failed=bool(data["failed"]),
            )
        )


def _plugin_cost(name: str, hooks: dict[str, _Figures]) -> PluginCost:
    costs = [
        HookCost(
            hook=hook,
            calls=one.calls,
            milliseconds=round(one.milliseconds, 3),
            p95=_p95(one.times),
            slowest=round(one.slowest, 3),
            failures=one.failures,
        )
        for hook, one in hooks.items()
    ]
    return PluginCost(
        plugin=name,
        calls=sum(one.calls for one in costs),
        milliseconds=round(sum(one.milliseconds for one in costs), 3),
        p95=_p95([time for one in hooks.values() for time in one.times]),
        slowest=max(costs, key=lambda one: one.slowest).hook,
        failures=sum(one.failures for one in costs),
        hooks=tuple(sorted(costs, key=lambda one: -one.milliseconds)),
    )


def _p95(times: Collection[float]) -> float:
    """Return what 95 of a hundred calls do not exceed."""
    ordered = sorted(times)
    return round(ordered[-(-95 * len(ordered) // 100) - 1], 3)
