"""Counting a request's tokens: by its upstream where that can, else as an upper bound."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.script import settings
from tests.support.wire import Served, bearer, tokens

from hookgate import Gateway, ModelRequest, Refusal, Turn
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.gateway.serve import listen
from hookgate.hookspecs import hookimpl

PATH = "/v1/messages/count_tokens"
PLUGINS = ("control", "storage", "audit", "metering", "egress", "providers", "compat")
BODY: dict[str, Any] = {
    "model": "one",
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "word " * 100}],
    "tools": [{"name": "Bash", "input_schema": {"type": "object"}, "defer_loading": True}],
    "thinking": {"type": "adaptive"},
}


class Refuses:
    """A plugin that lets no model be asked."""

    name = "refuses"

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        return Refusal(code="no", message="not this one")


@asynccontextmanager
async def served(
    home: Path, answer: Any, *plugins: Any, status: int = 200, **sections: Any
) -> AsyncIterator[tuple[Served, list[Any]]]:
    asked: list[Any] = []

    async def count(request: web.Request) -> web.Response:
        asked.append((dict(request.headers), await request.json()))
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_post(PATH, count)
    async with TestServer(app) as server:
        url = str(server.make_url("/"))
        providers = {
            "anthropic": {"kind": "anthropic", "base_url": url, "api_key": "sk-up-0123456789"},
            "chat": {"kind": "openai", "base_url": url, "api_key": "sk-up-0123456789"},
        }
        config = settings(
            home,
            agents={"main": {"model": "chat/one"}},
            gateway={"port": 0, **sections.pop("gateway", {})},
            plugin={"providers": providers, **sections.pop("plugin", {})},
        )
        names = [name for name in BUILTIN if name in PLUGINS]
        async with (
            Gateway(config, builtin=names, plugins=list(plugins)) as gate,
            listen(gate) as listener,
            aiohttp.ClientSession() as http,
        ):
            yield Served(gate, listener, http), asked


async def counted(one: Served, **more: Any) -> tuple[int, bool]:
    """Return what was counted, and whether it is called an upper bound."""
    headers = more.pop("headers", {})
    body = {**BODY, **more}
    async with one.http.post(one.url + PATH, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        told = answer.headers.get("x-hookgate-counted")
        return (await answer.json())["input_tokens"], told == "upper-bound"


async def test_the_upstream_counts_what_the_client_has_sent_and_nothing_is_billed(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, {"input_tokens": 123}) as (one, asked):
        headers = {"anthropic-beta": "context-1m", "x-other": "no"}
        assert await counted(one, headers=headers) == (123, False)
        ((came, body),) = asked
        assert body == BODY
        assert list(body) == list(BODY)
        assert came["anthropic-beta"] == "context-1m"
        assert came["x-api-key"] == "sk-up-0123456789"
        assert "x-other" not in came
        _, told = await one.get("/v1/usage")
        assert (told["whole"]["input_tokens"], float(told["whole"]["cost_usd"])) == (0, 0)


NO_COUNT: list[tuple[Any, int]] = [
    ({"input_tokens": -1}, 200),
    ({"input_tokens": "9"}, 200),
    ({"tokens": 9}, 200),
    ([], 200),
    ({"error": {"message": "no such path"}}, 404),
    ({"error": {"message": "too much"}}, 529),
]


@pytest.mark.parametrize(("answer", "status"), NO_COUNT)
async def test_where_it_cannot_an_upper_bound_says_that_it_is_one(
    answer: Any, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, answer, status=status) as (one, _):
        tokens_found, is_bound = await counted(one)
        assert (tokens_found >= 100, is_bound) == (True, True)


async def test_a_model_of_another_wire_is_counted_here(tmp_path: Path) -> None:
    async with served(tmp_path, {"input_tokens": 1}) as (one, asked):
        assert (await counted(one, model="chat/one"))[1]
    assert asked == []


async def test_nothing_leaves_where_no_model_may_be_asked(tmp_path: Path) -> None:
    async with served(tmp_path, {"input_tokens": 1}, Refuses()) as (one, asked):
        assert (await counted(one))[1]
        hosted = [{"type": "web_search_20250305", "name": "web_search"}]
    async with served(tmp_path / "two", {"input_tokens": 1}) as (one, asked_too):
        assert (await counted(one, tools=hosted))[1]
    assert asked == asked_too == []


async def test_a_key_counts_for_its_own_models(tmp_path: Path) -> None:
    section, made = tokens(some={"scopes": ["chat"], "models": ["chat/*"]})
    async with served(tmp_path, {"input_tokens": 1}, gateway=section) as (one, asked):
        status, _ = await one.post(PATH, BODY, **bearer(made["some"]))
        assert status == 403
    assert asked == []
