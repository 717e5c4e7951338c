"""The plugin ``schedules``: turns that are started by the clock."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.schedules.operations import ScheduleOperations
from hookgate.builtin_plugins.schedules.scheduler import Scheduler
from hookgate.builtin_plugins.schedules.settings import SchedulesSettings
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from hookgate.core.domain.operations import Operation
    from hookgate.core.host import Host


class Plugin:
    """Starts turns by the clock."""

    Settings = SchedulesSettings

    def __init__(self, settings: SchedulesSettings) -> None:
        self._scheduler = Scheduler(settings)

    def take_settings(self, settings: SchedulesSettings) -> Collection[str]:
        """Take over changed settings; what runs goes on as it began."""
        self._scheduler.take(settings)
        return ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Look at the clock, where there are schedules."""
        self._scheduler.open(host)
        yield

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows, runs, pauses and resumes schedules."""
        return ScheduleOperations(self._scheduler).all()
