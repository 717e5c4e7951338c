"""The `egress` plugin: provides the one checked way out for HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from hookgate import EGRESS, Host, Key
from hookgate.builtin_plugins.egress.service import CheckedEgress, EgressSettings
from hookgate.hookspecs import hookimpl

AHEAD_SECONDS = 2.0
"""How long after the start what a request needs is made ready."""


class Plugin:
    """Provides `EGRESS`."""

    Settings = EgressSettings
    provides: tuple[Key[Any], ...] = (EGRESS,)

    def __init__(self, settings: EgressSettings) -> None:
        self.settings = settings

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Provide the service, and close what its users leave open."""

        def denied(why: str) -> None:
            host.log.warning("outgoing request denied", why=why)

        egress = CheckedEgress(self.settings, denied=denied)
        host.provide(EGRESS, egress)
        host.spawn(_once_started(host, egress), name="read the certificate authorities")
        try:
            yield
        finally:
            await egress.close()


async def _once_started(host: Host, egress: CheckedEgress) -> None:
    await host.started()
    await _read_ahead(egress)


async def _read_ahead(egress: CheckedEgress) -> None:
    """Have what a request needs there before the first one, and after the start.

    httpx is imported on a thread: a turn would hold the event loop for it. The certificate
    authorities are read when somebody asks for a client, where nobody has by then.
    """
    await asyncio.sleep(AHEAD_SECONDS)
    await asyncio.to_thread(import_module, "hookgate.builtin_plugins.egress.client")
    if egress.used:
        await egress.authorities()
