"""A started gateway around the plugins under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.models import Provider
from hookgate.core.domain.ports import CLOCK
from hookgate.core.domain.tools import Tool
from hookgate.core.host import Host
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

__all__ = ["TurnedClock", "started"]


class TurnedClock:
    """A clock that stands still until a test turns it.

    Attributes:
        time: The time that it shows, in UTC.
    """

    def __init__(self, time: datetime | None = None) -> None:
        self.time = time or datetime(2026, 3, 1, 12, tzinfo=UTC)
        self._seconds = 0.0

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self.time

    def monotonic(self) -> float:
        """Return the seconds by which it has been turned."""
        return self._seconds

    def turn(self, **by: float) -> None:
        """Turn it on, by ``hours=1``, ``seconds=90`` or whatever a `timedelta` takes."""
        step = timedelta(**by)
        self.time += step
        self._seconds += step.total_seconds()


class _Around:
    """What stands around the plugins under test: a clock, a model, tools."""

    name = "around"
    provides = (CLOCK,)

    def __init__(self, clock: TurnedClock, model: Provider, tools: Sequence[Tool]) -> None:
        self._clock, self._model, self._tools = clock, model, tools

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        host.provide(CLOCK, self._clock)
        yield

    @hookimpl
    def list_providers(self) -> Sequence[Provider]:
        return [self._model]

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        return self._tools


@asynccontextmanager
async def started(
    *plugins: object,
    home: Path,
    model: Provider,
    clock: TurnedClock | None = None,
    tools: Sequence[Tool] = (),
    disabled: Sequence[str] = (),
    only: Sequence[str] | None = None,
    **sections: Any,
) -> AsyncIterator[Gateway]:
    """Run a gateway with the builtin plugins and `plugins`, until the block ends.

    Args:
        plugins: Classes, instances or modules, as an entry point would name them.
        home: The home folder, for the store and everything else.
        model: What the agent ``main`` asks.
        clock: The clock; without one, it is noon and stays so.
        tools: Tools beside those of the plugins.
        disabled: Builtin plugins that do not run.
        only: The builtin plugins that run, where a test is about a few of them: their gateway
            starts in a twentieth of the time that all of them take.
        **sections: Sections of the settings, such as ``plugin={"quiet_hours": {...}}``.
            What is installed on this machine is not looked for, and search goes by words
            alone, unless they say otherwise.
    """
    own: dict[str, Any] = {
        "home": home,
        "agents": {"main": {"model": f"{model.name}/test"}},
        "default_agent": "main",
        "plugins": {"entry_points": False},
    }
    if only is not None:
        disabled = [*disabled, *(name for name in BUILTIN if name not in only)]
    if "embedding" not in disabled:
        own["plugin"] = {"embedding": {"embedder": "none"}}
    settings = Settings.model_validate(_over(own, sections))
    around = _Around(clock or TurnedClock(), model, tools)
    async with Gateway(settings, plugins=[around, *plugins], disabled=disabled) as gateway:
        yield gateway


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above` over it, table by table."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = (
            _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged
