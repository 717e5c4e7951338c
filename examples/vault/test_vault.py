"""The plugin in a real gateway, and a Vault that speaks HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hookgate_vault import Plugin, VaultSettings
from pydantic import ValidationError

from hookgate import Gateway, Settings


class FakeVault:
    """What Vault and OpenBao answer, as far as the plugin asks.

    Attributes:
        secrets: What is kept at secret/data/hookgate.
        tokens: The tokens that are good, and the seconds that each lasts.
        asked: What was asked, in order.
        down: Whether everything fails.
    """

    def __init__(self) -> None:
        self.secrets: dict[str, Any] = {"openai_api_key": "sk-first"}
        self.tokens = {"hvs.given": 0}
        self.asked: list[str] = []
        self.down = False

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/v1/{path:.*}", self.answer)
        async with TestServer(app, host="127.0.0.1") as server:
            yield str(server.make_url("")).rstrip("/")

    async def answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self.asked.append(path)
        if self.down:
            return web.json_response({"errors": ["Vault is sealed"]}, status=503)
        if path == "auth/approle/login":
            return await self.log_in(request)
        token = request.headers.get("X-Vault-Token", "")
        if token not in self.tokens:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        seconds = self.tokens[token]
        if path == "auth/token/lookup-self":
            return web.json_response({"data": {"ttl": seconds, "renewable": bool(seconds)}})
        if path == "auth/token/renew-self":
            auth = {"client_token": token, "lease_duration": seconds, "renewable": True}
            return web.json_response({"auth": auth})
        if path == "secret/data/hookgate":
            return web.json_response({"data": {"data": self.secrets, "metadata": {"version": 1}}})
        return web.json_response({"errors": []}, status=404)

    async def log_in(self, request: web.Request) -> web.Response:
        if await request.json() != {"role_id": "gateway", "secret_id": "half"}:
            return web.json_response({"errors": ["invalid role or secret ID"]}, status=400)
        token = f"hvs.{len(self.asked)}"
        self.tokens[token] = 1
        auth = {"client_token": token, "lease_duration": 1, "renewable": True}
        return web.json_response({"auth": auth})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    home: Path, vault: FakeVault, **settings: Any
) -> AsyncIterator[tuple[Gateway, Callable[[str], str | None]]]:
    async with vault.served() as url:
        section = {"url": url, "path": "hookgate", "every_seconds": 0.05, **settings}
        config = Settings.model_validate({"home": home, "plugin": {"vault": section}})
        async with Gateway(config, builtin=("egress", "providers")) as gateway:
            yield gateway, gateway.host.secrets.get


@pytest.fixture(autouse=True)
def _shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("VAULT_TOKEN", "hvs.given")
    monkeypatch.setenv("VAULT_SECRET_ID", "half")


async def test_a_rotated_key_of_a_provider_is_in_force_without_a_restart(tmp_path: Path) -> None:
    vault = FakeVault()
    async with running(tmp_path, vault) as (gateway, get):
        assert get("openai_api_key") == "sk-first"
        before = gateway.host.providers["openai"]
        vault.secrets = {"openai_api_key": "sk-second"}
        # Ten seconds are promised; the gateway looks every four.
        async with asyncio.timeout(10):
            await until(lambda: gateway.host.providers["openai"] is not before)
        assert get("openai_api_key") == "sk-second"
        shown = gateway.host.secrets.redact("sk-first sk-second hvs.given")
        assert "sk-" not in shown
        assert "hvs" not in shown


async def test_the_environment_comes_first_and_a_message_names_the_vault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    async with running(tmp_path, FakeVault()) as (gateway, get):
        assert get("openai_api_key") == "sk-environment"
        assert get("absent") is None
        first, second, *_ = gateway.host.secrets.how_to_set("absent")
    assert first == "set ABSENT"
    assert second.startswith("put it into secret/hookgate of http://127.0.0.1:")


async def test_a_token_is_renewed_and_replaced_when_it_has_ended(tmp_path: Path) -> None:
    vault = FakeVault()
    async with running(tmp_path, vault, role_id="gateway") as (gateway, get):
        assert get("openai_api_key") == "sk-first"
        await until(lambda: "auth/token/renew-self" in vault.asked)
        vault.tokens.clear()
        vault.secrets = {"openai_api_key": "sk-second"}
        await until(lambda: get("openai_api_key") == "sk-second")
        assert vault.asked.count("auth/approle/login") == 2
        await until(lambda: "vault" not in gateway.host.degraded)


async def test_while_it_is_down_what_was_read_last_is_in_force_and_status_says_so(
    tmp_path: Path,
) -> None:
    vault = FakeVault()
    async with running(tmp_path, vault) as (gateway, get):
        vault.down = True
        await until(lambda: "vault" in gateway.host.degraded)
        assert "those of before are in force" in gateway.host.degraded["vault"]
        assert "answered with 503" in gateway.host.degraded["vault"]
        assert get("openai_api_key") == "sk-first"
        vault.down = False
        await until(lambda: "vault" not in gateway.host.degraded)


async def test_a_gateway_starts_while_it_is_down_and_has_its_keys_later(tmp_path: Path) -> None:
    vault = FakeVault()
    vault.down = True
    async with running(tmp_path, vault) as (gateway, get):
        assert get("openai_api_key") is None
        assert "there are none" in gateway.host.degraded["vault"]
        vault.down = False
        await until(lambda: get("openai_api_key") == "sk-first")
        await until(lambda: "openai" in gateway.host.providers)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"role_id": "other"}, "auth/approle/login was answered with 400"),
        ({"path": "elsewhere"}, "secret/data/elsewhere was answered with 404"),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, settings: dict[str, Any], says: str) -> None:
    async with running(tmp_path, FakeVault(), **settings) as (gateway, _):
        assert says in gateway.host.degraded["vault"]


async def test_a_missing_token_says_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VAULT_TOKEN")
    async with running(tmp_path, FakeVault()) as (gateway, _):
        assert (
            "no secret 'vault_token' to log in with: set VAULT_TOKEN"
            in (gateway.host.degraded["vault"])
        )


def test_an_address_with_a_path_or_a_user_is_refused() -> None:
    assert Plugin.Settings is VaultSettings
    for url in ("https://me@vault", "https://vault/v1", "vault:8200"):
        with pytest.raises(ValidationError):
            VaultSettings(url=url, path="hookgate")
