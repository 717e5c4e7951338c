"""Gateways whose clock is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Gateway
    from hookgate.builtin_plugins.schedules.scheduler import Scheduler
    from hookgate.core.domain.turn import Turn
    from hookgate.kit.testing.gateway import TurnedClock

OPS = Principal.owner("ops")


class Turns:
    """A plugin that keeps the turns that have ended."""

    name = "turns"

    def __init__(self) -> None:
        self.ended: list[Turn] = []

    @hookimpl
    def after_turn(self, turn: Turn) -> None:
        self.ended.append(turn)


class Scheduled:
    """A gateway with one schedule, ``job``."""

    def __init__(self, gate: Gateway, clock: TurnedClock, turns: Turns) -> None:
        self.gate, self.clock, self.turns = gate, clock, turns

    @property
    def scheduler(self) -> Scheduler:
        scheduler: Scheduler = self.gate.plugins.get("schedules")._scheduler  # type: ignore[union-attr]
        return scheduler

    async def do(self, name: str, principal: Principal = OPS, /, **params: Any) -> Any:
        operation = self.gate.host.operations[f"schedules.{name}"]
        invocation = Invocation(host=self.gate.host, principal=principal)
        return await operation.handler(invocation, operation.params(**params))

    async def row(self) -> Any:
        """Return how the schedule stands, with its rows, the last that ran and the last missed."""
        found = await self.do("list", runs=100)
        (shown,) = found.schedules
        ran = [row for row in found.runs if row.state not in ("missed", "skipped")]
        missed = [row for row in found.runs if row.state == "missed"]
        last = ran[0] if ran else None
        assert (shown.last, shown.outcome) == ((last.planned, last.state) if last else ("", ""))
        assert shown.last_missed == (missed[0].planned if missed else "")
        more = {"runs": found.runs, "last": last, "last_missed": missed[0] if missed else None}
        return SimpleNamespace(**{**shown.model_dump(), **more})

    async def look(self, **later: float) -> None:
        """Turn the clock, and begin what is due then."""
        self.clock.turn(**later)
        await self.scheduler.look_at_all()

    async def over(self) -> Any:
        """Return the schedule once nothing of it runs any more."""
        runs = self.scheduler._runs
        assert runs is not None
        while tasks := [
            task for task in self.gate.host._tasks if task.get_name() == "schedule job"
        ]:
            # It waits even for one that is done, and is let go of by what the loop does next.
            await asyncio.wait(tasks)
        return await self.row()


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return ("control", "storage", "policy", "audit", "schedules")


@pytest.fixture
def scheduled(
    gateway: Callable[..., AbstractAsyncContextManager[Gateway]], clock: TurnedClock
) -> Callable[..., AbstractAsyncContextManager[Scheduled]]:
    """Return what starts a gateway with one schedule, due every hour."""

    @asynccontextmanager
    async def start(
        *plugins: object,
        job: dict[str, Any] | None = None,
        plugin: dict[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[Scheduled]:
        settings = {"every": "1h", "text": "do it", **(job or {})}
        sections = {"schedules": {"jobs": {"job": settings}}, **(plugin or {})}
        turns = Turns()
        async with gateway(turns, *plugins, plugin=sections, **more) as gate:
            made = Scheduled(gate, clock, turns)
            await made.look()
            yield made

    return start
