"""The plugin ``wasm``: tools and channels that run in a sandbox, with grants and limits.

It lists neither: each guest is brought when it is ready, by ``host.tools`` and ``host.channels``,
and that may be at the start or long after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import Host, Operation, Problem, operations_of
from hookgate.builtin_plugins.wasm.operations import WasmOperations
from hookgate.builtin_plugins.wasm.service import INSTRUMENTS, SOURCE, WasmPlugins
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.hookspecs import blocking, hookimpl


class Plugin:
    """Brings what plugin folders bring, once it is accepted and loaded."""

    Settings = WasmSettings

    def __init__(self, settings: WasmSettings) -> None:
        self._settings = settings
        self._plugins: WasmPlugins | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Look at all plugins and load those that count; close them at the end."""
        host.instruments.apply(SOURCE, INSTRUMENTS)
        plugins = self._plugins = WasmPlugins(host, self._settings)
        try:
            await plugins.open()
            if (use := await plugins.look_again()) is not None:
                use()
            yield
        finally:
            await plugins.close()
            self._plugins = None

    @hookimpl
    async def reloading(self) -> Callable[[], None] | None:
        """Look again: folders come, change and go."""
        return await self._open.look_again()

    @hookimpl
    @blocking
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say which secrets guests put into their requests that are nowhere."""
        from hookgate.builtin_plugins.wasm.packages.folders import lacking

        return lacking(self._settings.folders, host)

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows plugins, and accepts them."""
        return operations_of(WasmOperations(lambda: self._open))

    @property
    def _open(self) -> WasmPlugins:
        assert self._plugins is not None, "hooks and operations are called between start and stop"
        return self._plugins
