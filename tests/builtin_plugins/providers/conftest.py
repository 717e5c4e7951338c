from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.builtin_plugins.providers.raw import RawServer, raw_server
from tests.builtin_plugins.turns import KnownSecrets

from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.providers.assembly import make_provider
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

CANARY = "sk-canary-0123456789"


@pytest.fixture(scope="session")
def tls() -> ssl.SSLContext:
    """TLS settings; made once, since reading the authorities takes a while."""
    return ssl.create_default_context()


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as one:
        yield one


class Made:
    """Makes providers that reach this machine, and keeps what they complained of."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.egress = CheckedEgress(tls=tls)
        self.complaints: list[str] = []
        self.providers: list[RemoteProvider] = []

    def __call__(
        self, kind: str, base_url: str, *, key: str | None = CANARY, **settings: Any
    ) -> RemoteProvider:
        limits = {
            "connect_seconds": 20,
            "first_byte_seconds": 20,
            "idle_seconds": 20,
            "total_seconds": 60,
        }
        values = ProviderSettings.model_validate(
            {**limits, "kind": kind, "base_url": base_url, **settings}
        )
        provider = make_provider(
            "acme", values, key, self.egress, KnownSecrets(), self.complaints.append
        )
        remote = cast("RemoteProvider", provider)
        self.providers.append(remote)
        return remote


@pytest.fixture
async def made(tls: ssl.SSLContext) -> AsyncIterator[Callable[..., RemoteProvider]]:
    make = Made(tls)
    yield make
    for provider in make.providers:
        await provider.close()
