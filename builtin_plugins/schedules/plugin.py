"""The plugin ``schedules``: turns that are started by the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from hookgate import (
    Capabilities,
    Host,
    Operation,
    Problem,
    Provenance,
    Turn,
    TurnPlan,
    operations_of,
)
from hookgate.builtin_plugins.schedules.operations import ScheduleOperations
from hookgate.builtin_plugins.schedules.scheduler import Scheduler
from hookgate.builtin_plugins.schedules.settings import (
    LEAN_TOKENS,
    JobSettings,
    SchedulesSettings,
    lacking,
)
from hookgate.hookspecs import hookimpl


class Plugin:
    """Starts turns by the clock."""

    Settings = SchedulesSettings

    def __init__(self, settings: SchedulesSettings) -> None:
        self._settings = settings
        self._scheduler = Scheduler(settings)

    def take_settings(self, settings: SchedulesSettings) -> Collection[str]:
        """Take over changed settings; what runs goes on as it began."""
        self._settings = settings
        self._scheduler.take(settings)
        return ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Look at the clock, where there are schedules."""
        self._scheduler.open(host)
        yield

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan | None:
        """Plan a lean run: nothing is searched for, and little fits."""
        job = self._lean(turn)
        if job is None:
            return None
        tokens = plan.context_tokens if job.tools else min(plan.context_tokens, LEAN_TOKENS)
        return replace(
            plan,
            discovery=False,
            prompt_context=False,
            tool_selection="all",
            context_tokens=tokens,
        )

    @hookimpl
    def withhold_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Collection[str] | None:
        """Leave a lean run the tools that it names, and nothing else."""
        job = self._lean(turn)
        if job is None:
            return None
        kept = {f"tool:{name}" for name in job.tools}
        return {one.id for one in capabilities if one.id not in kept}

    def _lean(self, turn: Turn) -> JobSettings | None:
        if turn.origin.provenance is not Provenance.SCHEDULED:
            return None
        job = self._settings.jobs.get(turn.principal.id.removeprefix("schedule:"))
        return job if job is not None and job.lean else None

    @hookimpl
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say which jobs nobody would answer: no agent, and no binding for their address."""
        return lacking(self._settings, host)

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows, runs, pauses and resumes schedules."""
        return operations_of(ScheduleOperations(self._scheduler))
