"""A hookgate plugin: API keys, each with its agents, its scopes and its end.

``python -m hookgate_api_keys NAME`` makes a key and prints its lines for the settings.
"""

from __future__ import annotations

import hmac
import secrets
import sys
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, Field

from hookgate import Claim, Principal, Section, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from hookgate import Credential, Host

PREFIX = "hgk_"
"""What every key begins with, so that one is recognised where it should not be."""


class Key(Section):
    """``[plugin.api_keys.keys.NAME]``."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the key, in hex. It has 256 random bits, so that needs no salt."""
    scopes: frozenset[Literal["chat", "approve", "operate", "read"]] = frozenset(("chat",))
    """What its bearer may do."""
    agents: tuple[str, ...] | None = None
    """Globs of the agents that it reaches. Without it: all."""
    models: tuple[str, ...] | None = None
    """Globs of the models that may answer it, as `provider/model`. Without it: all."""
    expires: AwareDatetime | None = None
    """When it ends. Without it: never."""


class ApiKeys(Section):
    """``[plugin.api_keys]``."""

    keys: dict[str, Key] = Field(default_factory=dict)
    """The keys by name."""


class Plugin:
    """Knows the keys of its settings; ``hookgate reload`` takes them over, or away."""

    Settings = ApiKeys

    def __init__(self, settings: ApiKeys) -> None:
        self.settings = settings
        self.host: Host | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Keep the gateway, which ends what came in with a key."""
        self.host = host
        yield
        self.host = None

    def take_settings(self, settings: ApiKeys) -> tuple[str, ...]:
        """Take over changed keys, and end what came in with those that were; nothing waits."""
        before, self.settings = self.settings.keys, settings
        for name, key in before.items():
            if self.host is not None and settings.keys.get(name) != key:
                self.host.end_key(name)
        return ()

    @hookimpl
    def authenticate(self, credential: Credential, request: web.Request) -> Principal | None:
        """Say whose key it is; None for what is no key of ours, so that others are asked."""
        if credential.kind == "cookie" or not credential.value.startswith(PREFIX):
            return None
        shown, found = digest_of(credential.value), None
        # All of them, in the same time whichever it is.
        for name, key in self.settings.keys.items():
            if hmac.compare_digest(key.digest, shown):
                found = name, key
        return None if found is None else principal_of(*found)


def principal_of(name: str, key: Key) -> Principal:
    """Return who comes with `key`. The gateway holds the end, the agents and the models."""
    return Principal(
        id=f"key:{name}",
        key=name,
        scopes=key.scopes,
        # Each key has conversations of its own.
        bindings=(Claim(channel="api", account=name),),
        agents=key.agents,
        models=key.models,
        expires=key.expires,
    )


def digest_of(value: str) -> str:
    """Return what the settings hold of a key."""
    return sha256(value.encode()).hexdigest()


def new_key() -> str:
    """Return a new key."""
    return PREFIX + secrets.token_urlsafe(32)


if __name__ == "__main__":
    key = new_key()
    print(f"{key}\n\n[plugin.api_keys.keys.{sys.argv[1]}]\ndigest = {digest_of(key)!r}")
