"""The `providers` plugin: brings the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from hookgate import (
    EGRESS,
    SECRETS,
    ConfigError,
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
from hookgate.builtin_plugins.providers.settings import ProviderSettings, ProvidersSettings
from hookgate.hookspecs import blocking, hookimpl
from hookgate.kit.usage import note_usage

RETIRE_SECONDS = 5.0
"""How long a provider stays open behind the one that has taken its place: whoever looked for it
right before may begin to ask it."""


class _KeyedProvider(NamedTuple):
    """A provider, and what it was made of."""

    settings: ProviderSettings
    key: str | None
    provider: RemoteProvider


class Plugin:
    """Brings the configured providers, those whose keys are found, and ``demo``."""

    Settings = ProvidersSettings
    # Not EGRESS: the demo provider needs no way out, and answers without one.
    requires: tuple[Key[Any], ...] = (SECRETS,)

    def __init__(self, settings: ProvidersSettings) -> None:
        self.settings = settings
        self._remote: dict[str, _KeyedProvider] = {}
        self._replaced: list[RemoteProvider] = []
        self._listed = False

    def take_settings(self, settings: ProvidersSettings) -> Collection[str]:
        """Bring other providers from the next listing on, which a reload is; nothing waits."""
        self.settings = settings
        return ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Close the providers' connections at the end."""
        try:
            yield
        finally:
            for provider in (*(made.provider for made in self._remote.values()), *self._replaced):
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
        """Return the providers, with their keys found; one that is as it was is the same one."""
        secrets, egress = host[SECRETS], host.get(EGRESS)
        providers: list[Provider] = []
        remote: dict[str, _KeyedProvider] = {}
        for name, (settings, needs_key) in providers_of(self.settings).items():
            there = self._remote.get(name)
            try:
                key = await asyncio.to_thread(find_key, settings, secrets)
            except ConfigError as error:
                # At the start nobody relies on it yet; later on others go on, and so does it.
                if not self._listed:
                    raise
                host.standing(f"provider {name}").bad(f"its key is the one of before: {error}")
                if there is not None:
                    remote[name] = there
                    providers.append(there.provider)
                continue
            if egress is not None:
                host.standing(f"provider {name}").good()
            if key is None and needs_key:
                continue
            if egress is None and settings.kind != "demo":
                why = "no plugin provides the key `egress`: enable the plugin that does"
                host.standing(f"provider {name}").bad(why)
                continue
            if there is not None and (there.settings, there.key) == (settings, key):
                remote[name] = there
                providers.append(there.provider)
                continue
            complain = partial(note_usage, host, name)
            provider = make_provider(name, settings, key, egress, secrets, complain)
            providers.append(provider)
            if isinstance(provider, RemoteProvider):
                remote[name] = _KeyedProvider(settings, key, provider)
        replaced = [
            made.provider for name, made in self._remote.items() if remote.get(name) is not made
        ]
        self._remote, self._listed = remote, True
        if replaced:
            self._replaced += replaced
            host.spawn(self._retire(), name="providers.retire")
        return providers

    async def _retire(self) -> None:
        """Close what was replaced, once nobody can begin to ask it any more."""
        await asyncio.sleep(RETIRE_SECONDS)
        while self._replaced:
            await self._replaced.pop().retire()

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``models.list`` and ``providers.test``."""
        return operations_of(ProviderOperations(host))
