"""The `providers` plugin: brings the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from hookgate import (
    EGRESS,
    SECRETS,
    Host,
    Key,
    Operation,
    Problem,
    Provider,
    ProviderInfo,
    operations_of,
)
from hookgate.builtin_plugins.providers.assembly import (
    describe_provider,
    find_key,
    make_provider,
    providers_of,
)
from hookgate.builtin_plugins.providers.operations import ProviderOperations
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.settings import ProvidersSettings
from hookgate.hookspecs import blocking, hookimpl
from hookgate.kit.usage import note_usage


class Plugin:
    """Brings the configured providers, those whose keys are found, and ``demo``."""

    Settings = ProvidersSettings
    # Not EGRESS: the demo provider needs no way out, and answers without one.
    requires: tuple[Key[Any], ...] = (SECRETS,)

    def __init__(self, settings: ProvidersSettings) -> None:
        self.settings = settings
        self._remote: list[RemoteProvider] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Close the providers' connections at the end."""
        try:
            yield
        finally:
            for provider in self._remote:
                await provider.close()
            self._remote.clear()

    @hookimpl
    @blocking
    def describe_providers(self, host: Host) -> Sequence[ProviderInfo]:
        """Say which providers there can be, and where a key that is not there was looked for."""
        return [
            describe_provider(name, settings, host.secrets)
            for name, (settings, _) in providers_of(self.settings).items()
        ]

    @hookimpl
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say that nobody provides a way out, where a configured provider needs one."""
        if any(EGRESS.name in info.provides for info in host.plugins()):
            return []
        remote = [name for name, one in self.settings.named.items() if one.kind != "demo"]
        return [
            Problem(
                key=f"plugin.providers.{name}",
                found="a provider that is asked by HTTP, and no plugin provides `egress`",
                expected="the plugin `egress`: without it this provider cannot be asked",
            )
            for name in remote
        ]

    @hookimpl
    async def list_providers(self, host: Host) -> Sequence[Provider]:
        """Return the providers, with their keys found."""
        secrets, egress = host[SECRETS], host.get(EGRESS)
        providers: list[Provider] = []
        for name, (settings, needs_key) in providers_of(self.settings).items():
            key = await asyncio.to_thread(find_key, settings, secrets)
            if key is None and needs_key:
                continue
            if egress is None and settings.kind != "demo":
                why = "no plugin provides the key `egress`: enable the plugin that does"
                host.standing(f"provider {name}").bad(why)
                continue
            provider = make_provider(
                name,
                settings,
                key,
                egress,
                secrets,
                partial(note_usage, host, name),
            )
            providers.append(provider)
            if isinstance(provider, RemoteProvider):
                self._remote.append(provider)
        return providers

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``models.list`` and ``providers.test``."""
        return operations_of(ProviderOperations(host))
