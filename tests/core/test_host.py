"""What operators are told of parts, and taken back; and when the start is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.script import gateway

from hookgate.core.host import Host
from hookgate.hookspecs import hookimpl

SECRET = "sk-live-abcdefghijklmnop"


async def test_a_part_whose_name_holds_a_secret_recovers_and_is_withdrawn() -> None:
    async with gateway() as gate:
        host = gate.host
        host.secrets.register(SECRET)
        part = f"cards of https://cards.example/{SECRET}"
        host.standing(part).bad("it does not answer")
        host.standing(part).note("it has changed")
        masked = host.secrets.redact(part)
        assert masked in host.degraded
        assert masked in host.notices
        assert SECRET not in repr((host.degraded, host.notices))
        host.standing(part).good()
        host.standing(part).note("")
        assert masked not in host.degraded
        assert masked not in host.notices


class Patient:
    """Does nothing of its own before the gateway has started."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        waiting = host.spawn(self._begin(host), name="patient")
        yield
        waiting.cancel()

    async def _begin(self, host: Host) -> None:
        await host.started()
        self.seen.append("ready" if host.ready else "not ready")

    @hookimpl
    async def list_tools(self) -> list[Any]:
        await asyncio.sleep(0)
        self.seen.append("asked for tools")
        return []


async def test_who_waits_for_the_start_goes_on_once_it_is_over() -> None:
    plugin = Patient()
    async with gateway(plugin) as gate:
        await asyncio.sleep(0)
        assert plugin.seen == ["asked for tools", "ready"]
        await gate.host.started()
