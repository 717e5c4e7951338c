from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import ValidationError
from tests.builtin_plugins.providers.requests_made import request, user
from tests.builtin_plugins.turns import make_host, make_turn

from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.providers.assembly import find_key
from hookgate.builtin_plugins.providers.demo import DemoProvider
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.plugin import Plugin
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.settings import ProviderSettings, ProvidersSettings
from hookgate.core.domain.errors import ConfigError, PluginError, ProviderError
from hookgate.core.domain.models import ModelInfo
from hookgate.core.domain.ports import SECRETS
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import SecretStore
from hookgate.ports import EGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hookgate.core.domain.models import Provider, ProviderInfo
    from hookgate.core.host import Host


@pytest.fixture(autouse=True)
def _no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(tls: ssl.SSLContext) -> Host:
    host = make_host()
    host.provide(EGRESS, CheckedEgress(tls=tls))
    return host


async def providers(host: Host, **named: Any) -> dict[str, Provider]:
    plugin = Plugin(ProvidersSettings.model_validate(named))
    async with plugin.lifespan():
        return {one.name: one for one in await plugin.list_providers(host)}


def describe(host: Host, **named: Any) -> Sequence[ProviderInfo]:
    return Plugin(ProvidersSettings.model_validate(named)).describe_providers(host)


async def test_without_settings_there_is_the_demo_alone(host: Host) -> None:
    found = await providers(host)
    assert list(found) == ["demo"]
    assert isinstance(found["demo"], DemoProvider)
    assert host.degraded == {}


async def test_a_key_in_the_environment_brings_its_provider(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-canary")
    assert set(await providers(host)) == {"demo", "anthropic"}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-oai-canary")
    assert set(await providers(host)) == {"demo", "anthropic", "openai"}
    assert "sk-ant-canary" not in host[SECRETS].redact("the key sk-ant-canary was refused")


async def test_a_key_in_the_gateways_secrets_brings_its_provider(
    host: Host, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, secrets={"openai_api_key": "sk-canary"})
    host.provide(SECRETS, SecretStore(settings, {}))
    assert set(await providers(host)) == {"demo", "openai"}


async def test_a_local_server_is_a_name_a_kind_and_an_address(host: Host) -> None:
    found = await providers(
        host, ollama={"kind": "openai", "base_url": "http://127.0.0.1:11434/v1"}
    )
    assert set(found) == {"demo", "ollama"}
    assert host.degraded == {}


async def test_a_provider_called_like_a_kind_needs_no_kind(host: Host) -> None:
    assert set(await providers(host, openai={"api_key": "sk-canary"})) == {"demo", "openai"}


async def test_a_configured_provider_without_its_key_is_there_and_said(host: Host) -> None:
    found = await providers(host, anthropic={})
    assert set(found) == {"demo", "anthropic"}
    described = {info.name: info for info in describe(host, anthropic={})}
    assert described["anthropic"].missing == "no key for anthropic"
    assert described["demo"].missing == ""
    with pytest.raises(ProviderError, match="no key for anthropic: set ANTHROPIC_API_KEY") as told:
        await anext(aiter(found["anthropic"].stream(make_turn(), request(user("hello")))))
    assert told.value.kind == "auth"


async def test_models_are_listed_with_their_limits_and_others_accepted(host: Host) -> None:
    models = {"small": {"context_tokens": 8000, "tools": False}}
    found = await providers(
        host, local={"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "models": models}
    )
    assert list(found["local"].models()) == [
        ModelInfo(name="small", context_tokens=8000, tools=False, images=True),
        ModelInfo(name="*", images=True),
    ]


async def test_the_demo_may_have_another_name_and_models_of_its_own(host: Host) -> None:
    found = await providers(host, toy={"kind": "demo", "models": {"tiny": {"context_tokens": 9}}})
    assert set(found) == {"demo", "toy"}
    assert [model.name for model in found["toy"].models()] == ["tiny"]


async def test_connections_are_closed_with_the_gateway(host: Host) -> None:
    local = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1"}
    provider = (await providers(host, local=local))["local"]
    with pytest.raises(ProviderError, match="client is closed") as caught:
        await anext(aiter(provider.stream(make_turn(), request(user("x")))))
    assert caught.value.kind == "unreachable"


async def test_a_provider_is_made_anew_where_its_key_or_section_has_changed_and_else_is_the_same(
    host: Host, tmp_path: Path
) -> None:
    path = key_file(tmp_path, text="first-key")
    mine = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_file": path}
    other = {"kind": "openai", "base_url": "http://127.0.0.1:2/v1"}
    plugin = Plugin(ProvidersSettings.model_validate({"mine": mine, "other": other}))

    async def listed() -> dict[str, Provider]:
        return {one.name: one for one in await plugin.list_providers(host)}

    async with plugin.lifespan():
        first = await listed()
        again = await listed()
        assert (again["mine"], again["other"]) == (first["mine"], first["other"])
        path.write_text("second-key")
        rotated = await listed()
        assert rotated["mine"] is not first["mine"]
        assert rotated["other"] is first["other"]
        changed = ProvidersSettings.model_validate({"other": {**other, "idle_seconds": 5.0}})
        assert plugin.take_settings(changed) == ()
        last = await listed()
        assert set(last) == {"demo", "other"}
        assert last["other"] is not first["other"]


async def test_a_key_that_cannot_be_read_stops_the_start_and_later_costs_nobody_anything(
    host: Host, tmp_path: Path
) -> None:
    path = key_file(tmp_path, text="first-key")
    mine = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_file": path}
    path.chmod(0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        await providers(host, mine=mine)
    path.chmod(0o600)
    plugin = Plugin(ProvidersSettings.model_validate({"mine": mine}))
    async with plugin.lifespan():
        first = {one.name: one for one in await plugin.list_providers(host)}
        path.chmod(0o644)
        again = {one.name: one for one in await plugin.list_providers(host)}
        assert again["mine"] is first["mine"]
        assert f"chmod 600 {path}" in host.degraded["provider mine"]
        path.chmod(0o600)
        await plugin.list_providers(host)
        assert host.degraded == {}


async def test_what_a_provider_was_replaced_by_does_not_cut_an_answer_that_is_under_way() -> None:
    closed: list[str] = []
    provider = RemoteProvider(
        "mine",
        ProviderSettings(kind="openai"),
        OpenAIWire("mine", "http://127.0.0.1:1/v1", None, "max_tokens"),
        SlowClient(closed),
        models=(),
        redact=str,
        complain=print,
    )
    asked = asyncio.ensure_future(anext(aiter(provider.stream(make_turn(), request(user("x"))))))
    await asyncio.sleep(0)
    await provider.retire()
    assert closed == []
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert closed == ["closed"]


class SlowClient(httpx.AsyncClient):
    """Answers never."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__()
        self._told = closed

    async def send(self, *_: Any, **__: Any) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def aclose(self) -> None:
        self._told.append("closed")
        await super().aclose()


async def test_an_address_that_cannot_be_granted_stops_the_start(host: Host) -> None:
    with pytest.raises(PluginError, match=r"'x': `base_url`.*four decimal numbers"):
        await providers(host, x={"kind": "openai", "base_url": "http://127.1:80/v1"})


async def test_a_key_that_no_header_can_carry_stops_the_start(host: Host) -> None:
    with pytest.raises(PluginError, match="printable ASCII") as caught:
        await providers(host, openai={"api_key": "sk-canary\nX: y"})
    assert "canary" not in str(caught.value)


# -- where a key comes from ----------------------------------------------------


def key_file(folder: Path, mode: int = 0o600, text: str = "from-file\n") -> Path:
    folder.chmod(0o700)
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def find(settings: dict[str, Any], environ: dict[str, str], **secrets: str) -> str | None:
    store = SecretStore(Settings(secrets=secrets), environ)
    return find_key(ProviderSettings.model_validate({"kind": "openai", **settings}), store, environ)


def test_the_environment_comes_before_the_file_and_the_file_before_the_settings(
    tmp_path: Path,
) -> None:
    path = key_file(tmp_path)
    settings = {"api_key_env": "ACME_KEY", "api_key_file": path, "api_key": "from-settings"}
    assert find(settings, {"ACME_KEY": "from-env"}) == "from-env"
    assert find(settings, {"ACME_KEY": " "}) == "from-file"
    assert find(settings, {}) == "from-file"
    assert find({"api_key": "from-settings"}, {}) == "from-settings"
    assert find({}, {}, OPENAI_API_KEY="from-secrets") == "from-secrets"
    assert find({}, {}) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_key_file_that_others_can_read_is_refused_with_the_command(
    mode: int, tmp_path: Path
) -> None:
    path = key_file(tmp_path, mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        find({"api_key_file": path}, {})


def test_the_makers_key_does_not_go_to_another_address() -> None:
    environ = {"OPENAI_API_KEY": "sk-canary"}
    assert find({}, environ) == "sk-canary"
    assert find({"base_url": "http://127.0.0.1:1/v1"}, environ) is None
    named = {"base_url": "http://127.0.0.1:1/v1", "api_key_env": "OPENAI_API_KEY"}
    assert find(named, environ) == "sk-canary"


def test_a_key_that_was_found_is_masked_from_then_on() -> None:
    environ = {"OPENAI_API_KEY": "sk-canary"}
    store = SecretStore(Settings(), environ)
    find_key(ProviderSettings(kind="openai"), store, environ)
    assert "sk-canary" not in store.redact("sk-canary")


# -- settings ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"x": {}}, "kind"),
        ({"x": {"kind": "opnai"}}, "anthropic"),
        ({"x": {"kind": "openai", "base_ul": "y"}}, "base_ul"),
        ({"x": {"kind": "openai", "base_url": "ftp://a"}}, "http or https"),
        ({"x": {"kind": "openai", "base_url": "http://u:p@a/v1"}}, "no user"),
        ({"x": {"kind": "openai", "base_url": "http://a/v1?key=1"}}, "no user, query"),
        ({"x": {"kind": "openai", "base_url": "127.0.0.1:1"}}, "http or https"),
        ({"x": {"kind": "openai", "idle_seconds": 0}}, "greater than 0"),
        ({"x": {"kind": "openai", "headers": {"Authorization": "x"}}}, "set by the provider"),
        ({"x": {"kind": "openai", "headers": {"a b": "x"}}}, "no header name"),
        ({"x": {"kind": "openai", "headers": {"a": "x\r\ny"}}}, "printable"),
        ({"x": {"kind": "openai", "api_key_env": "A KEY"}}, "pattern"),
        ({"x": {"kind": "demo", "api_key": "y"}}, "offline"),
        ({"a/b": {"kind": "demo"}}, "found provider 'a/b'"),
        ({"x": 3}, "x"),
    ],
)
def test_a_wrong_setting_is_named(named: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ProvidersSettings.model_validate(named)


@pytest.mark.parametrize("word", ["ollama", "lm-studio", "EMPTY", "not-needed"])
def test_a_word_in_the_place_of_a_key_is_no_secret(word: str) -> None:
    store = SecretStore(Settings())
    settings = ProviderSettings.model_validate({"kind": "openai", "api_key": word})
    found = find_key(settings, store, {})
    told = f"I run on {word}, as told"
    assert (found, store.redact(told)) == (word, told)


def test_a_key_is_not_shown_with_the_settings() -> None:
    settings = ProvidersSettings.model_validate({"openai": {"api_key": "sk-canary"}})
    assert "canary" not in repr(settings)
    assert "canary" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("base_url", "local"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://192.168.1.20:8000/v1", True),
        ("http://gpu.local/v1", True),
        ("http://host.docker.internal:11434/v1", True),
        ("https://api.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://127.0.0.1.example.com/v1", False),
        (None, False),
    ],
)
def test_a_server_of_ones_own_is_known_by_its_address(
    host: Host, base_url: str | None, local: bool
) -> None:
    more = {"base_url": base_url} if base_url else {}
    told = {info.name: info for info in describe(host, mine={"kind": "openai", **more})}
    assert told["mine"].local is local
