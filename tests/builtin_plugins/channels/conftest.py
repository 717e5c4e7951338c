"""Gateways with hosted channels that listen on a real port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import aiohttp
import pytest
from tests.builtin_plugins.channels.platform import Platform, platform
from tests.support.bot_api import BotApi, bot_api
from tests.support.telegram import SECRET

from hookgate import Gateway
from hookgate.builtin_plugins.channels import plugin
from hookgate.core.domain.models import Provider
from hookgate.core.gateway.serve import listen
from hookgate.kit.testing.gateway import TurnedClock, started


@dataclass
class Served:
    """A gateway that listens."""

    gateway: Gateway
    url: str
    http: aiohttp.ClientSession
    clock: TurnedClock


class Running(TurnedClock):
    """A clock that runs, and can be turned on besides."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self._began = monotonic()

    def now(self) -> datetime:
        return self.time + timedelta(seconds=monotonic() - self._began)

    def monotonic(self) -> float:
        return super().monotonic() + monotonic() - self._began


class Serve(Protocol):
    def __call__(
        self, *plugins: object, model: Provider, channels: dict[str, Any], **more: Any
    ) -> AbstractAsyncContextManager[Served]: ...


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "LATE_SECONDS", 0.0)


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as platform:
        yield platform


@pytest.fixture
async def there() -> AsyncIterator[Platform]:
    async with platform() as one:
        yield one


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def serve(
        *plugins: object, model: Provider, channels: dict[str, Any], **more: Any
    ) -> AsyncIterator[Served]:
        sections = {
            "gateway": {"port": 0, "limits": {"drain_seconds": 5}},
            "secrets": {"telegram_webhook": SECRET, **more.pop("secrets", {})},
            **more,
        }
        sections["plugin"] = {"channels": channels, **more.get("plugin", {})}
        home = tmp_path / "home"
        clock = more.pop("clock", None) or Running()
        async with (
            started(*plugins, home=home, model=model, clock=clock, **sections) as gateway,
            listen(gateway) as listener,
            aiohttp.ClientSession() as http,
        ):
            yield Served(gateway, f"http://127.0.0.1:{listener.port}", http, clock)

    return serve
