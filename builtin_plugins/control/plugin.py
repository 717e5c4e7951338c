"""The plugin ``control``: what clients and operators ask of the gateway itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from hookgate import Host, Operation, operations_of
from hookgate.builtin_plugins.control import acceptance, chat
from hookgate.builtin_plugins.control.inspection import Inspection
from hookgate.builtin_plugins.control.operations import Control
from hookgate.builtin_plugins.control.sessions import Sessions
from hookgate.builtin_plugins.control.watchdog import Watchdog
from hookgate.hookspecs import hookimpl
from hookgate.kit.model_check import tell_models


class Plugin:
    """Brings the operations, and names whoever holds the event loop; it has no settings."""

    def __init__(self) -> None:
        self._watchdog: Watchdog | None = None

    def _watching(self, host: Host) -> Watchdog:
        if self._watchdog is None:
            self._watchdog = Watchdog(host)
        return self._watchdog

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Watch the event loop as long as the gateway runs; hold the agents' models to account."""
        host.after_reading(partial(tell_models, host))
        with self._watching(host):
            yield

    @hookimpl(tryfirst=True)
    def before_turn(self) -> None:
        """Have the event loop looked at closely while there is something to do."""
        if self._watchdog is not None:
            self._watchdog.begins()

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring the operations that talk, list, look, cancel, reload and revoke."""
        return operations_of(
            Control(host, self._watching(host)), Sessions(host), chat, Inspection(host), acceptance
        )
