"""The plugin ``schedules``: turns that are started by the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import Host, Operation, Problem, operations_of
from hookgate.builtin_plugins.schedules.operations import ScheduleOperations
from hookgate.builtin_plugins.schedules.scheduler import Scheduler
from hookgate.builtin_plugins.schedules.settings import SchedulesSettings, lacking
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
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say which jobs nobody would answer: no agent, and no binding for their address."""
        return lacking(self._settings, host)

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows, runs, pauses and resumes schedules."""
        return operations_of(ScheduleOperations(self._scheduler))
