"""Resolving a name once, checking what it resolves to, and handing over just that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from hookgate import EgressDeniedError
from hookgate.builtin_plugins.egress.addresses import is_loopback, is_private, why_not_public
from hookgate.kit.url_grants import Address, Grants, parse_address

Resolver: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"
"""``await resolve(host, port)`` returns the host's addresses, or raises `OSError`."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses that the system's resolver has for `host`."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in infos]


class CheckedResolver(AbstractResolver):
    """Resolves for aiohttp's connector, which connects to exactly what is returned.

    One lookup serves one connection: nothing between the check and the connection asks
    again, so a name cannot change its answer in between.
    """

    def __init__(
        self,
        name: str,
        grants: Grants,
        private_hosts: frozenset[str],
        resolve: Resolver,
    ) -> None:
        self._name = name
        self._grants = grants
        self._private_hosts = private_hosts
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the host's addresses, all of them checked.

        Raises:
            EgressDeniedError: One of the addresses is not public, and may not be otherwise.
            OSError: The host cannot be resolved.
        """
        found = list(dict.fromkeys(await self._resolve(host, port)))
        if not found:
            raise OSError(f"no addresses for {host}")
        results: list[ResolveResult] = []
        for text in found:
            address = parse_address(text)
            self._check(host, port, text, address)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET6 if ":" in text else socket.AF_INET,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    def _check(self, host: str, port: int, text: str, address: Address | None) -> None:
        if address is None:
            raise EgressDeniedError(
                f"{self._name}: {host} resolves to {text[:80]!r}: expected an IP address "
                "without a zone; nothing was sent"
            )
        reason = why_not_public(address)
        if reason is None:
            return
        if self._grants.names_localhost(host, port) and is_loopback(address):
            return
        if is_private(address) and not self._private_hosts.isdisjoint((host, f"{host}:{port}")):
            return
        raise EgressDeniedError(
            f"{self._name}: {host} resolves to {address}, which is {reason}: expected public "
            f"addresses only; nothing was sent. If this is meant, grant the address itself, or "
            f"add `{host}:{port}` to `private_hosts` in [plugin.egress]"
        )

    async def close(self) -> None:
        """Hold nothing, release nothing."""
