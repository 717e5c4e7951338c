"""Which models there are, and whether they answer: the operations, and a server's own list."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from llmock.scenarios import Fail
from tests.builtin_plugins.providers.conftest import CANARY
from tests.builtin_plugins.providers.test_llmock import mock, running
from tests.builtin_plugins.providers.test_wire_faults import answers

from hookgate.core.domain.errors import ProviderError, TurnError
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from llmock.testing import LLMockServer
    from tests.builtin_plugins.providers.raw import RawServer

    from hookgate.builtin_plugins.providers.remote import RemoteProvider

    Make = Callable[..., RemoteProvider]

__all__ = ["mock", "running"]

FEW = ("control", "egress", "storage", "metering", "providers")


@asynccontextmanager
async def gateway(home: Path, told: dict[str, Any]) -> AsyncIterator[Gateway]:
    async with Gateway(Settings.model_validate({"home": home, **told}), builtin=FEW) as one:
        yield one


def settings(mock: LLMockServer, **agents: str) -> dict[str, Any]:
    provider = {"kind": "openai", "base_url": mock.base_url("openai")}
    chosen = agents or {"main": "mock/gpt-4o"}
    return {
        "agents": {name: {"model": model} for name, model in chosen.items()},
        "default_agent": next(iter(chosen)),
        "plugin": {"providers": {"mock": provider, "anthropic": {}}},
    }


async def operate(gateway: Gateway, name: str, /, **params: Any) -> dict[str, Any]:
    operation = gateway.host.operations[name]
    invocation = Invocation(host=gateway.host, principal=Principal.owner(), path="cli")
    result = await operation.handler(invocation, operation.params.model_validate(params))
    return dict(result.model_dump(mode="json"))


@pytest.fixture(autouse=True)
def _no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def test_models_are_listed_with_their_agents_and_what_they_lack(
    tmp_path: Path, mock: LLMockServer
) -> None:
    told = settings(mock, main="mock/gpt-4o", other="anthropic/claude-x", lost="mokc/a")
    async with gateway(tmp_path, told) as running:
        rows = {row["model"]: row for row in (await operate(running, "models.list"))["models"]}
        served = await operate(running, "models.list", provider="mock")
        with pytest.raises(TurnError, match="did you mean 'mock'"):
            await operate(running, "models.list", provider="mokc")
        with pytest.raises(ProviderError, match="no key for anthropic"):
            await operate(running, "models.list", provider="anthropic")
    assert (rows["mock/gpt-4o"]["state"], rows["mock/gpt-4o"]["agents"]) == ("ready", ["main"])
    lacking = rows["anthropic/claude-x"]
    assert (lacking["state"], lacking["why"]) == ("lacking", "no key for anthropic")
    assert "ANTHROPIC_API_KEY" in lacking["action"]
    assert rows["mokc/a"]["state"] == "no provider"
    assert "there is anthropic, demo, mock" in rows["mokc/a"]["why"]
    assert rows["demo/demo"]["agents"] == []
    names = [row["model"] for row in served["models"]]
    assert names[:3] == ["mock/gpt-4o", "mock/gpt-4o-mini", "mock/gpt-4-turbo"]
    assert "mock" in served["providers"]


async def test_a_server_is_asked_for_its_models_once_a_minute(
    tmp_path: Path, mock: LLMockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    now = 1_000.0
    async with gateway(tmp_path, settings(mock)) as running:
        provider: Any = running.host.providers["mock"]
        serve = provider.served

        async def served() -> list[str]:
            asked.append("mock")
            names: list[str] = await serve()
            return names

        monkeypatch.setattr(provider, "served", served)
        monkeypatch.setattr(running.host.clock, "monotonic", lambda: now)
        first = await operate(running, "models.list", provider="mock")
        now += 59
        assert await operate(running, "models.list", provider="mock") == first
        assert asked == ["mock"]
        now += 2
        assert await operate(running, "models.list", provider="mock") == first
        assert asked == ["mock"] * 2


async def test_a_test_is_one_call_that_counts_and_is_kept_in_no_session(
    tmp_path: Path, mock: LLMockServer
) -> None:
    async with gateway(tmp_path, settings(mock)) as running:
        found = await operate(running, "providers.test")
        used = await operate(running, "usage", by="model")
        sessions = await operate(running, "sessions.list")
    (tried,) = found["tried"]
    assert (found["ok"], tried["ok"], tried["model"]) == (True, True, "mock/gpt-4o")
    assert "gpt-4o" in tried["text"]
    assert tried["input_tokens"] > 0
    assert tried["output_tokens"] > 0
    assert used["whole"]["calls"] == 1
    assert sessions["sessions"] == []


async def test_what_does_not_answer_is_told_with_its_kind_and_what_to_do(
    tmp_path: Path, mock: LLMockServer
) -> None:
    mock.state.scenarios.add(Fail(401, message="Incorrect API key provided"))
    told = settings(mock, main="mock/gpt-4o", other="anthropic/claude-x")
    async with gateway(tmp_path, told) as running:
        found = await operate(running, "providers.test")
        again = await operate(running, "providers.test", name="mock/any-model")
        with pytest.raises(TurnError, match="found no provider 'nobody'"):
            await operate(running, "providers.test", name="nobody")
        with pytest.raises(TurnError, match="the settings name none"):
            await operate(running, "providers.test", name="openai")
    rows = {row["model"]: row for row in found["tried"]}
    assert not found["ok"]
    assert (rows["mock/gpt-4o"]["ok"], rows["mock/gpt-4o"]["kind"]) == (False, "auth")
    assert "Incorrect API key provided" in rows["mock/gpt-4o"]["error"]
    assert "ANTHROPIC_API_KEY" in rows["anthropic/claude-x"]["error"]
    assert again["ok"]


async def test_a_budget_that_is_used_up_refuses_a_test_as_any_call(
    tmp_path: Path, mock: LLMockServer
) -> None:
    told = settings(mock)
    told["plugin"]["metering"] = {"budgets": {"small": {"tokens": 10}}}
    async with gateway(tmp_path, told) as running:
        (tried,) = (await operate(running, "providers.test"))["tried"]
    assert not tried["ok"]
    assert "budget exceeded" in tried["error"]


# -- a server's own list ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_server_lists_its_models_by_both_protocols(
    mock: LLMockServer, made: Make, kind: str
) -> None:
    names = await made(kind, mock.base_url(kind)).served()
    assert len(names) > 2
    assert any(name.startswith(("gpt", "claude")) for name in names)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (401, {"error": {"message": f"bad key {CANARY}"}}, "auth", "check its API key"),
        (404, {}, "rejected", "HTTP 404"),
        (200, {"models": []}, "malformed", "expected an object with `data`"),
        (200, {"data": [{"name": "x"}]}, "malformed", "objects with `id`"),
        (200, [], "malformed", "expected an object"),
        (200, {"data": {"id": "x"}}, "malformed", "expected an object"),
    ],
)
async def test_a_list_that_cannot_be_read_is_one_typed_error(
    server: RawServer, made: Make, status: int, body: Any, kind: str, said: str
) -> None:
    server.script = answers(status, json.dumps(body).encode(), content_type="application/json")
    with pytest.raises(ProviderError) as caught:
        await made("openai", server.url).served()
    assert caught.value.kind == kind
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)


async def test_of_a_long_list_with_odd_names_the_beginning_and_the_names_are_read(
    server: RawServer, made: Make
) -> None:
    odd = [{"id": 7}, {"id": ""}, {"id": "x" * 201}, {"id": None}]
    rows = [*odd, *({"id": f"m{number}"} for number in range(2000))]
    body = json.dumps({"data": rows}).encode()
    server.script = answers(200, body, content_type="application/json")
    names = await made("openai", server.url).served()
    assert (names[0], len(names)) == ("m0", 996)


async def test_what_makes_vectors_alone_is_asked_no_question(tmp_path: Path) -> None:
    few = (*FEW, "embedding")
    async with Gateway(Settings.model_validate({"home": tmp_path}), builtin=few) as running:
        found = await operate(running, "providers.test")
        listed = await operate(running, "models.list")
        named = await operate(running, "providers.test", name="hookgate")
    assert [(one["model"], one["ok"]) for one in found["tried"]] == [("demo/demo", True)]
    assert "hookgate/minilm" in [row["model"] for row in listed["models"]]
    assert "makes vectors, and writes nothing" in named["tried"][0]["error"]
