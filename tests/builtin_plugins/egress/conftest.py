from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.egress.upstream import TLS, Upstream, upstream

from hookgate.builtin_plugins.egress.service import CheckedEgress, EgressSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with upstream() as one:
        yield one


@pytest.fixture
async def other() -> AsyncIterator[Upstream]:
    async with upstream() as one:
        yield one


@pytest.fixture
async def secure() -> AsyncIterator[Upstream]:
    async with upstream(tls=True) as one:
        yield one


class Names:
    """A resolver without a network: names -> addresses, and what was asked."""

    def __init__(self) -> None:
        self.table: dict[str, Sequence[str]] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        try:
            return self.table[host]
        except KeyError:
            raise OSError(f"no such name: {host}") from None


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
async def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses to which a connection was tried, whatever became of it."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    real = loop.sock_connect

    async def sock_connect(sock: Any, address: Any) -> None:
        seen.append(address[:2])
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    return seen


@pytest.fixture
async def egress_of(names: Names) -> AsyncIterator[Callable[..., CheckedEgress]]:
    """Makes `CheckedEgress` values that know only the names of `names`."""
    made: list[CheckedEgress] = []

    def make(*private_hosts: str, **settings: Any) -> CheckedEgress:
        tls = ssl.create_default_context(cafile=TLS / "server.pem")
        values = EgressSettings(private_hosts=private_hosts, **settings)
        egress = CheckedEgress(values, tls=tls, resolve=names)
        made.append(egress)
        return egress

    yield make
    for egress in made:
        await egress.close()
