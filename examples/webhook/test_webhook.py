"""The plugin behind a real socket, with POSTs that are signed well and badly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from hookgate_webhook import sign

from hookgate import CONVERSATIONS, Gateway, SessionKey, Settings, StartError

KEY = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", KEY)


@asynccontextmanager
async def served(home: Path, **settings: Any) -> AsyncIterator[tuple[Gateway, str]]:
    """Serve a gateway with the demo model; the plugin is found by its entry point."""
    config = Settings.model_validate({"home": home, "plugin": {"webhook": settings}})
    async with Gateway(config, builtin=("egress", "providers")) as gateway:
        server = TestServer(gateway.app(), host="127.0.0.1")
        async with server:
            yield gateway, str(server.make_url("/webhook"))


async def post(url: str, body: Any, *, key: str = KEY, late: int = 0, **more: str) -> Any:
    """POST a message, signed; return status and answer."""
    data, stamp = json.dumps(body).encode(), str(int(time()) - late)
    headers = {"X-Time": stamp, "X-Signature": sign(key.encode(), stamp, data), **more}
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, data=data, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_signed_message_is_answered_on_its_channel(tmp_path: Path) -> None:
    async with served(tmp_path, account="shop") as (gateway, url):
        status, answer = await post(url, {"peer": "order-17", "text": "/echo hello"})
        session = SessionKey("demo", "webhook", "shop", "order-17")
        said = await gateway.host[CONVERSATIONS].history(session, turns=1)

    assert (status, answer["ending"]) == (200, "done")
    assert answer["text"] == said[-1].text != ""
    assert said[0].text == "/echo hello"
    assert said[0].provenance.value == "channel"


async def test_who_does_not_wait_gets_the_turn_and_it_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, url):
        status, answer = await post(url, {"peer": "bob", "text": "hello", "wait": False})
        await gateway.drain(10)
        session = SessionKey.parse(answer["session"])
        said = await gateway.host[CONVERSATIONS].history(session, turns=1)

    assert status == 202
    assert [message.role for message in said] == ["user", "assistant"]
    assert said[0].turn == answer["turn"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "another"},
        {"late": 301},
        {"late": -301},
        {"X-Signature": ""},
        {"X-Time": "soon"},
        {"X-Time": "\u0661"},
    ],
    ids=str,
)
async def test_what_is_not_signed_now_starts_nothing(wrong: Any, tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, url):
        status, answer = await post(url, {"peer": "bob", "text": "hello"}, **wrong)
        sessions = await gateway.host[CONVERSATIONS].sessions()

    assert status == 401
    assert "signature" in answer["error"]
    assert sessions == []


@pytest.mark.parametrize(
    ("body", "told"),
    [({"peer": "bob"}, "text"), ({"peer": "bob", "text": "x", "as": "root"}, "as"), ([], "body")],
)
async def test_a_signed_body_of_another_form_is_refused(
    body: Any, told: str, tmp_path: Path
) -> None:
    async with served(tmp_path) as (_, url):
        status, answer = await post(url, body)

    assert status == 422
    assert told in answer["error"]


async def test_without_a_secret_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBHOOK_SECRET")

    with pytest.raises(StartError, match="found no secret 'webhook_secret'"):
        async with served(tmp_path):
            raise AssertionError("it started without a secret")
