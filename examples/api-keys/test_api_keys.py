"""The plugin in a gateway that listens: every request below goes over a real socket."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import hookgate_api_keys
import pytest
from aiohttp import WSMsgType
from aiohttp.test_utils import TestClient, TestServer
from hookgate_api_keys import digest_of, new_key

from hookgate import Gateway, Settings

GOOD, OLD = new_key(), new_key()


def settings_in(home: Path, **wire) -> Settings:
    return Settings.model_validate(
        {
            "home": home,
            "gateway": wire,
            "agents": {
                "support": {"model": "demo/scripted"},
                "billing": {"model": "demo/scripted"},
            },
            "bindings": [
                {"agent": "billing", "peer": "accounts"},
                {"agent": "support", "channel": "api"},
            ],
            "plugin": {
                "api_keys": {
                    "keys": {
                        "shop": {"digest": digest_of(GOOD), "agents": ["support"]},
                        "old": {"digest": digest_of(OLD), "expires": "2020-01-01T00:00:00Z"},
                    }
                }
            },
        }
    )


@asynccontextmanager
async def served(home: Path, *, later=None, **wire):
    builtin = ("control", "egress", "providers")
    settings = settings_in(home, **wire)
    read = (lambda: later) if later else None
    async with (
        Gateway(settings, builtin=builtin, read_settings=read) as gateway,
        TestServer(gateway.app()) as server,
        TestClient(server) as client,
    ):
        client.reload = gateway.reload
        yield client


async def say(client, key, header="x-api-key", **more):
    """Send a message with a key; return the status and the answer."""
    body = {"content": "/say hello", "channel": "api", "account": "shop", **more}
    headers = {header: key} if header == "x-api-key" else {header: f"Bearer {key}"}
    async with client.post("/v1/turns", json=body, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("header", ["x-api-key", "Authorization"])
async def test_a_good_key_is_answered(tmp_path: Path, header: str) -> None:
    async with served(tmp_path) as client:
        status, answer = await say(client, GOOD, header)

    assert (status, answer["text"]) == (200, "hello")
    assert answer["session"] == "support:api:shop:main"


async def test_a_bad_key_is_refused_and_counted(tmp_path: Path) -> None:
    async with served(tmp_path, limits={"attempts_per_minute": 2}) as client:
        statuses = [(await say(client, new_key()))[0] for _ in range(3)]
        # Who guesses locks out nobody whose key cannot be guessed.
        statuses.append((await say(client, GOOD))[0])

    assert statuses == [401, 401, 429, 200]


async def test_an_expired_key_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        status, answer = await say(client, OLD)

    assert status == 401
    assert "expired" in answer["error"]["message"]


async def test_a_key_reaches_its_own_agent_and_its_own_conversations(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        wrong_agent, answer = await say(client, GOOD, peer="accounts")
        wrong_account, _ = await say(client, GOOD, account="old")
        wrong_scope = (await client.get("/v1/status", headers={"x-api-key": GOOD})).status

    assert (wrong_agent, wrong_account, wrong_scope) == (403, 403, 403)
    assert "billing" in answer["error"]["message"]


async def test_a_key_opens_a_socket(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as client,
        client.ws_connect("/ws", headers={"x-api-key": GOOD}) as socket,
    ):
        message = await socket.receive()

    assert message.type is WSMsgType.TEXT
    assert message.json()["params"]["principal"] == "key:shop"


async def test_a_key_that_is_gone_at_a_reload_takes_its_socket_with_it(tmp_path: Path) -> None:
    later = settings_in(tmp_path)
    del later.plugin["api_keys"]["keys"]["shop"]
    async with (
        served(tmp_path, later=later) as client,
        client.ws_connect("/ws", headers={"x-api-key": GOOD}) as socket,
    ):
        await socket.receive()
        closed = asyncio.ensure_future(socket.receive())
        await client.reload()
        message = await closed
        status, _ = await say(client, GOOD)

    assert (message.type, message.data, message.extra) == (
        WSMsgType.CLOSE,
        1008,
        "the key was taken back",
    )
    assert status == 401


def test_the_module_makes_keys() -> None:
    command = [sys.executable, hookgate_api_keys.__file__, "shop"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    key = printed.split()[0]
    assert key.startswith("hgk_")
    assert f"digest = '{digest_of(key)}'" in printed
