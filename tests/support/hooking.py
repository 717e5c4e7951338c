"""Hooks without a gateway: plugins made of functions, and specifications of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pluggy

from hookgate import hookspecs
from hookgate.core.hooks.caller import Hooks
from hookgate.core.settings.schema import HookSettings
from hookgate.hookspecs import PROJECT, hookimpl

Run = Callable[[Coroutine[Any, Any, Any]], Any]

SHORT = 0.02
"""Seconds: a limit that is over at once."""


class Made:
    """A plugin made of functions."""


def plugin(**functions: Callable[..., Any]) -> Made:
    """Return a plugin whose hooks are these functions; marked ones stay as they are."""
    made = Made()
    for name, function in functions.items():
        if not hasattr(function, f"{PROJECT}_impl"):
            hookimpl(function)
        setattr(made, name, function)
    return made


def manager_of(*plugins: object, specs: object = hookspecs) -> pluggy.PluginManager:
    """Register the plugins as p0, p1, ...; the last one is called first."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(specs)
    for number, one in enumerate(plugins):
        manager.register(one, f"p{number}")
    return manager


def hooks_of(
    *plugins: object,
    specs: object = hookspecs,
    limit: float | None = None,
    limits: Mapping[str, float] | None = None,
    log: Any = None,
) -> Hooks:
    """Return hooks over `plugins`; `limit` is set for every hook, `limits` for some."""
    manager = manager_of(*plugins, specs=specs)
    names = [name for name, one in vars(manager.hook).items() if one.has_spec()]
    chosen = dict.fromkeys(names, limit) if limit is not None else dict(limits or {})
    overrides = {name: HookSettings(limit=value) for name, value in chosen.items()}
    return Hooks(manager, overrides, log=log or Log())


class Log:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "warning", "event": event, **fields})

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "error", "event": event, **fields})

    def exception(self, event: str, **fields: Any) -> None:
        self.error(event, **fields)


async def forever() -> None:
    """Wait for what never happens."""
    await asyncio.Event().wait()
