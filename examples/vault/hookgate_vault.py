"""A hookgate plugin: secrets that HashiCorp Vault or OpenBao keeps (KV, version 2)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import Field

from hookgate import EGRESS, HookgateError, Section, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from hookgate import Host

PART = "vault"
REFUSED = (401, 403)


class VaultSettings(Section):
    """``[plugin.vault]``."""

    url: str = Field(pattern=r"^https?://[^/?#@]+$")
    """Where it is, such as `https://vault.example.com:8200`."""
    mount: str = "secret"
    """Where the KV engine is mounted."""
    path: str = Field(min_length=1)
    """The secret whose keys are the names of the gateway's secrets."""
    namespace: str = ""
    """The namespace, where there are any."""
    role_id: str = ""
    """The role to log in with (AppRole), whose other half is the secret `vault_secret_id`.
    Without it, the secret `vault_token` is shown, which is renewed."""
    every_seconds: float = Field(default=3.0, ge=0.05, le=60)
    """So often it is looked for new values."""


class VaultError(HookgateError):
    """It gave no answer that can be used."""


class Vault:
    """What is kept there, as it was read last; and the token that is shown for it.

    Attributes:
        known: The secrets by name.
    """

    def __init__(self, settings: VaultSettings, host: Host, client: httpx.AsyncClient) -> None:
        self.known: dict[str, str] = {}
        self._settings, self._host, self._client = settings, host, client
        self._token = ""
        self._renew_at = float("inf")

    async def read(self) -> None:
        """Read the secrets, with a token that is good; a new one is had where it is not.

        Raises:
            VaultError: They cannot be read.
        """
        now = self._host.clock.monotonic()
        if not self._token:
            await self._log_in(now)
        elif now >= self._renew_at:
            try:
                self._granted(await self._ask("POST", "auth/token/renew-self"), now)
            except VaultError:
                # Its longest life is over, or it was revoked.
                await self._log_in(now)
        settings = self._settings
        place = f"{quote(settings.mount)}/data/{quote(settings.path)}"
        try:
            held = (await self._ask("GET", place))["data"]["data"]
        except KeyError:
            raise VaultError(f"found no KV engine of version 2 at {settings.mount!r}") from None
        self.known = {name: str(value) for name, value in held.items()}

    async def _log_in(self, now: float) -> None:
        """Get a token for the role, or take the one that is given and ask how long it lasts."""
        role, self._token = self._settings.role_id, ""
        if role:
            shown = {"role_id": role, "secret_id": await self._secret("vault_secret_id")}
            answer = await self._ask("POST", "auth/approle/login", shown)
            self._token = answer["auth"]["client_token"]
            self._host.secrets.register(self._token)
            self._granted(answer, now)
        else:
            self._token = await self._secret("vault_token")
            told = (await self._ask("GET", "auth/token/lookup-self"))["data"]
            renewable = {"lease_duration": told["ttl"], "renewable": told["renewable"]}
            self._granted({"auth": renewable}, now)

    def _granted(self, answer: dict[str, Any], now: float) -> None:
        """Renew it when half of its life is over; one that never ends lasts 0 seconds."""
        seconds = answer["auth"]["lease_duration"]
        self._renew_at = now + seconds / 2 if seconds else float("inf")

    async def _secret(self, name: str) -> str:
        # A secret can lie in a file.
        value = (await asyncio.to_thread(self._host.secrets.get, name) or "").strip()
        if not value:
            ways = ", or ".join(self._host.secrets.how_to_set(name))
            raise VaultError(f"found no secret {name!r} to log in with: {ways}")
        return value

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        headers = {"X-Vault-Request": "true"}
        if self._token:
            headers["X-Vault-Token"] = self._token
        if self._settings.namespace:
            headers["X-Vault-Namespace"] = self._settings.namespace
        url = f"{self._settings.url}/v1/{path}"
        answer = await self._client.request(method, url, json=body, headers=headers)
        if answer.status_code in REFUSED:
            self._token = ""
        if answer.status_code != 200:
            raise VaultError(f"{method} /v1/{path} was answered with {answer.status_code}")
        try:
            found: dict[str, Any] = answer.json()
        except ValueError:
            raise VaultError(f"{method} /v1/{path} was answered with what is no JSON") from None
        return found


class Plugin:
    """Looks for secrets in Vault, before the key files and behind the environment."""

    Settings = VaultSettings
    requires = (EGRESS,)

    def __init__(self, settings: VaultSettings) -> None:
        self.settings = settings

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Read what there is before anybody asks for it, and follow it."""
        settings = self.settings
        grant = f"{settings.url}/v1/*"
        client = host[EGRESS].client([grant], name="vault", timeout=5.0, max_bytes=1_048_576)
        vault = Vault(settings, host, client)
        where = f"put it into {settings.mount}/{settings.path} of {settings.url}"
        await self._look(host, vault)
        undo = host.secrets.add_source(where, lambda name: vault.known.get(name))
        following = host.spawn(self._follow(host, vault), name="vault")
        try:
            yield
        finally:
            following.cancel()
            undo()
            await client.aclose()

    async def _follow(self, host: Host, vault: Vault) -> None:
        while True:
            await asyncio.sleep(self.settings.every_seconds)
            await self._look(host, vault)

    async def _look(self, host: Host, vault: Vault) -> None:
        """Read again; where that fails, what was read last is in force, and `status` says so."""
        try:
            await vault.read()
        except (HookgateError, KeyError, TypeError, AttributeError) as error:
            have = "those of before are in force" if vault.known else "there are none"
            host.standing(PART).bad(f"secrets cannot be read, and {have}: {error}")
        else:
            host.standing(PART).good()
