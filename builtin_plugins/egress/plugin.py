"""The `egress` plugin: provides the one checked way out for HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.egress.client import CheckedEgress, tls_settings
from hookgate.builtin_plugins.egress.settings import EgressSettings
from hookgate.core.domain.ports import EGRESS, Key
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate.core.host import Host


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
        # Reading the certificate authorities takes tens of milliseconds.
        tls = await asyncio.to_thread(tls_settings)

        def denied(why: str) -> None:
            host.log.warning("outgoing request denied", why=why)

        egress = CheckedEgress(self.settings, tls=tls, denied=denied)
        host.provide(EGRESS, egress)
        try:
            yield
        finally:
            await egress.close()
