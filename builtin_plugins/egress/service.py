"""The `Egress` service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated
from weakref import WeakSet

from pydantic import AfterValidator, Field

from hookgate import EgressDeniedError, Section
from hookgate.kit.modules import httpx
from hookgate.kit.url_grants import Grants

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from hookgate.builtin_plugins.egress.client import CheckedClient
    from hookgate.builtin_plugins.egress.connection import CheckedTransport, Resolver


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?(?::[0-9]{1,5})?", text):
        raise ValueError(
            f"found {text!r}: expected a host name with or without a port, such as "
            "`ollama:11434`; an address is granted by the URL pattern that names it"
        )
    return text.lower()


class EgressSettings(Section):
    """``[plugin.egress]``: the limits of all outgoing HTTP."""

    private_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Granted names that may resolve to addresses of a private network, such as
    `ollama:11434`; without a port, every granted port of that name."""
    total_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """The limit of one request with its redirects and its whole response, where the caller
    does not set one."""
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """The longest response body, after decompression, where the caller does not set one."""
    max_redirects: int = Field(default=10, ge=0, le=50)
    """Redirects that one request may follow."""


# -- the way out -------------------------------------------------------------------


def tls_settings() -> ssl.SSLContext:
    """Return TLS settings that trust certifi's and the system's authorities. Reads files."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


class Authorities:
    """TLS settings that are made on a thread when they are first asked for, and then kept.

    Reading the certificate authorities takes tens of milliseconds, and much that a gateway does
    needs none.
    """

    def __init__(self, given: ssl.SSLContext | None = None) -> None:
        self._context = given
        self._reading = asyncio.Lock()

    async def __call__(self) -> ssl.SSLContext:
        """Return them."""
        async with self._reading:
            if self._context is None:
                self._context = await asyncio.to_thread(tls_settings)
        return self._context


class CheckedEgress:
    """The one checked way out for HTTP; the service behind the `EGRESS` key.

    Attributes:
        authorities: Returns the TLS settings of all its clients.
        used: Whether anybody has asked for a way out.

    Args:
        settings: The limits.
        tls: The TLS settings; made when something needs them, where they are not given.
        resolve: Resolves names; the system's resolver where it is not given.
        denied: Is told of every request that was denied, for the log.
    """

    def __init__(
        self,
        settings: EgressSettings | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolver | None = None,
        denied: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings or EgressSettings()
        self.authorities = Authorities(tls)
        self._resolve = resolve
        self._denied = denied
        self._clients: WeakSet[CheckedClient] = WeakSet()
        self.used = False

    def client(
        self,
        grants: Sequence[str],
        *,
        name: str,
        timeout: httpx.Timeout | float = 30.0,
        max_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.AsyncClient:
        """Return a client that reaches what `grants` name and nothing else.

        Args:
            grants: URL patterns; `hookgate.kit.url_grants` has their grammar.
            name: Who asks, for the errors.
            timeout: Seconds. A number limits each phase and the whole request with its
                redirects and its body; an `httpx.Timeout` limits the phases, and the
                whole is limited by ``total_seconds`` of the settings.
            max_bytes: The longest response body, after decompression.
            headers: Headers of every request.

        Raises:
            ValueError: A grant does not follow the grammar.
        """
        if isinstance(timeout, httpx.Timeout):
            phases, total = timeout, self._settings.total_seconds
        else:
            phases, total = httpx.Timeout(timeout), float(timeout)
        transport = self._transport(grants, name, max_bytes)
        from hookgate.builtin_plugins.egress.client import CheckedClient

        client = CheckedClient(
            transport,
            name=name,
            timeout=phases,
            total=total,
            headers=dict(headers or {}),
            max_redirects=self._settings.max_redirects,
            denied=self._denied,
        )
        self._clients.add(client)
        return client

    @asynccontextmanager
    async def websocket(
        self, grants: Sequence[str], url: str, *, name: str, max_bytes: int, timeout: float = 10.0
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket to what `grants` name. See `Egress.websocket`."""
        transport = self._transport(grants, name, max_bytes)
        try:
            try:
                socket = await transport.websocket(url, timeout=timeout)
            except EgressDeniedError as error:
                self._denied(str(error))
                raise
            async with socket:
                yield socket
        finally:
            await transport.aclose()

    def _transport(
        self, grants: Sequence[str], name: str, max_bytes: int | None
    ) -> CheckedTransport:
        self.used = True
        # What stands below a client takes long to load, and a gateway may need no client.
        from hookgate.builtin_plugins.egress.connection import CheckedTransport, resolve_by_system

        return CheckedTransport(
            name,
            Grants(grants),
            resolve=self._resolve or resolve_by_system,
            private_hosts=frozenset(self._settings.private_hosts),
            max_bytes=self._settings.max_bytes if max_bytes is None else max_bytes,
            tls=self.authorities,
        )

    async def close(self) -> None:
        """Close every client that its owner has left open."""
        for client in tuple(self._clients):
            await client.aclose()
