"""The plugin ``inventory``: what the agents of this machine can use, and who may change it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import EGRESS, Host, Operation, Routes, ToolCall, Turn, Verdict, operations_of
from hookgate.builtin_plugins.inventory.operations import InventoryOperations
from hookgate.builtin_plugins.inventory.record import REFUSED
from hookgate.builtin_plugins.inventory.service import Opened, opened
from hookgate.builtin_plugins.inventory.settings import InventorySettings, Runtime
from hookgate.builtin_plugins.inventory.sources import (
    DISCONNECTED,
    UNSUPPORTED,
    RuntimeSource,
    inventory_sources,
)
from hookgate.builtin_plugins.inventory.sources.claude_code import ClaudeCodeSource
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
from hookgate.builtin_plugins.inventory.sources.hermes import HermesSource
from hookgate.builtin_plugins.inventory.sources.native import NativeSource
from hookgate.builtin_plugins.inventory.sources.openclaw import PORT, OpenClawSource
from hookgate.builtin_plugins.inventory.sources.openclaw_link import OpenClawLink
from hookgate.builtin_plugins.inventory.switches import Keeping
from hookgate.hookspecs import hookimpl
from hookgate.tasks import stop


class Plugin:
    """Reads the runtimes, shows what they have, and changes what they cede."""

    Settings = InventorySettings
    uses = (EGRESS,)
    publishes = (inventory_sources,)

    def __init__(self, settings: InventorySettings) -> None:
        self._settings = settings
        self._keeping = Keeping()
        self._opened: Opened | None = None
        self._runtimes: Sequence[RuntimeSource] = ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Know what is switched off before the first turn; read the runtimes beside the turns."""
        async with opened(host, self._settings, self._keeping) as self._opened:
            following = host.spawn(self._opened.follow(), name="inventory.follow")
            yield
            await stop(following)
        for source in self._runtimes:
            if isinstance(source, OpenClawSource):
                await source.close()
        self._opened = None

    @hookimpl(of="inventory")
    def inventory_sources(self, host: Host) -> Sequence[RuntimeSource]:
        """Bring the gateway itself, and the runtimes beside it."""
        self._runtimes = runtime_sources(host, self._settings)
        return [NativeSource(host, self._keeping), *self._runtimes]

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        """Name the errors of changes; the routes are those of the operations."""
        routes.error_code(UNSUPPORTED, 422, "The capability cannot be changed so, by nobody.")
        routes.error_code(REFUSED, 422, "What was to be installed has not passed the scan.")
        routes.error_code(DISCONNECTED, 503, "The runtime of the capability cannot be reached.")

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Offer the inventory; whoever is asked for operations knows that all plugins are open."""
        if self._opened is not None:
            self._opened.all_open.set()
        return operations_of(
            InventoryOperations(lambda: self._open.inventory, lambda: self._open.writes)
        )

    @hookimpl
    def withhold_capabilities(self, turn: Turn) -> Collection[str]:
        """Take away what is switched off for this turn's agent."""
        return self._keeping.withheld(turn.agent.name)

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        """Deny what was switched off after the turn began."""
        if f"tool:{call.name}" in self._keeping.withheld(turn.agent.name):
            return Verdict.deny(f"the tool {call.name} is disabled", rule="disabled")
        return None

    @property
    def _open(self) -> Opened:
        assert self._opened is not None, "operations are called between start and stop"
        return self._opened


# -- The sources that come with hookgate, as the settings name them --------------


def runtime_sources(host: Host, settings: InventorySettings) -> list[RuntimeSource]:
    """Return the source of each runtime that is to be looked at."""
    made: Mapping[Runtime, Callable[[], RuntimeSource]] = {
        "hermes": lambda: HermesSource(settings.hermes_homes),
        "claude-code": lambda: ClaudeCodeSource(
            settings.claude_code_home, settings.claude_code_projects
        ),
        "codex": lambda: CodexSource(settings.codex_home),
        "openclaw": lambda: OpenClawSource(
            settings.openclaw_home,
            OpenClawLink(
                settings.openclaw_url or f"ws://127.0.0.1:{PORT}",
                lambda: host.secrets.get(settings.openclaw_token),
                lambda: host.get(EGRESS),
            ),
            always=bool(settings.openclaw_url),
        ),
    }
    return [make() for name, make in made.items() if name in settings.runtimes]
