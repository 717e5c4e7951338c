"""The kind ``discord`` against what its platform sends and takes."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from tests.builtin_plugins.channels.conftest import Serve
from tests.builtin_plugins.channels.local_platform import Platform
from tests.builtin_plugins.channels.test_approvals import Bell, asking
from tests.builtin_plugins.channels.test_kinds import post

from hookgate.kit.testing.model import ScriptedModel, call, say

signing = pytest.importorskip("nacl.signing")
SIGNER = signing.SigningKey(bytes(range(32)))
PUBLIC = SIGNER.verify_key.encode().hex()


def signed_discord(body: bytes) -> dict[str, str]:
    stamp = str(int(time.time()))
    signature = SIGNER.sign(stamp.encode() + body).signature.hex()
    return {"X-Signature-Timestamp": stamp, "X-Signature-Ed25519": signature}


def command(number: int, text: str) -> bytes:
    found = {
        "type": 2,
        "id": f"80{number}",
        "application_id": "700",
        "token": f"token-of-{number}",
        "channel_id": "55",
        "guild_id": "66",
        "member": {"user": {"id": "77"}},
        "data": {"name": "ask", "options": [{"type": 3, "name": "text", "value": text}]},
    }
    return json.dumps(found).encode()


def discord(there: Platform, **more: Any) -> dict[str, Any]:
    section = {"kind": "discord", "application": "700", "api": f"{there.url}/v10"}
    return {"edit_seconds": 0.05, "guild": {**section, **more}}


DISCORD = {"guild_secret": PUBLIC, "guild_token": "token-of-the-bot"}


async def test_discord_is_answered_at_once_and_then_for_good(serve: Serve, there: Platform) -> None:
    model = ScriptedModel(say("Hello @everyone."))
    channels = discord(there, streaming=False)
    async with serve(model=model, channels=channels, secrets=DISCORD) as served:
        ping = b'{"type": 1, "id": "1"}'
        status, text = await post(served, "guild", ping, signed_discord(ping))
        assert (status, json.loads(text)) == (200, {"type": 1})
        assert (await post(served, "guild", ping, signed_discord(b"other")))[0] == 401
        wrong = {**signed_discord(ping), "X-Signature-Ed25519": "00" * 63}
        assert (await post(served, "guild", ping, wrong))[0] == 401
        body = command(1, "hello")
        status, text = await post(served, "guild", body, signed_discord(body))
        assert (status, json.loads(text)) == (200, {"type": 5})
        await there.until(lambda: there.sent)
    (sent,) = there.sent
    assert (sent.method, sent.path) == ("POST", "/v10/webhooks/700/token-of-1?wait=true")
    assert sent.body == {"content": "Hello @everyone.", "allowed_mentions": {"parse": []}}
    assert "authorization" not in sent.headers
    assert model.requests[0].messages[-1].text == "hello"


async def test_discord_shows_the_answer_while_it_is_written(serve: Serve, there: Platform) -> None:
    free = asyncio.Event()
    model = ScriptedModel([*say("One two")[:2], free.wait, *say(" three.")])
    async with serve(model=model, channels=discord(there), secrets=DISCORD) as served:
        body = command(1, "count")
        assert (await post(served, "guild", body, signed_discord(body)))[0] == 200
        await there.until(lambda: there.sent)
        free.set()
        await there.until(lambda: there.sent[-1].body["content"] == "One two three.")
    last = there.sent[-1]
    assert (last.method, last.path) == ("PATCH", "/v10/webhooks/700/token-of-1/messages/m1")


async def test_discord_bot_says_what_comes_after_the_interaction(
    serve: Serve, there: Platform
) -> None:
    gone = (404, {"message": "Unknown Webhook"}, {})
    busy = (429, {"message": "slow down", "retry_after": 0.01}, {})
    there.answers = [gone, busy, gone]
    channels = discord(there, streaming=False)
    async with serve(model=ScriptedModel(say("Late.")), channels=channels, secrets=DISCORD) as one:
        body = command(1, "hello")
        assert (await post(one, "guild", body, signed_discord(body)))[0] == 200
        await there.until(lambda: len(there.sent) == 4)
    said = [sent for sent in there.sent if sent.path == "/v10/channels/55/messages"]
    assert [sent.headers["authorization"] for sent in said] == ["Bot token-of-the-bot"] * 2
    assert said[0].body["nonce"] == said[1].body["nonce"]
    assert said[0].body["enforce_nonce"] is True


async def test_discord_asks_for_approval_by_buttons(serve: Serve, there: Platform) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Not rung."))
    channels = discord(
        there,
        streaming=False,
        approvers=[{"sender": "77", "account": "700", "principal": "ada", "peer": "99"}],
    )
    setup: dict[str, Any] = {"tools": [bell.tool()], "plugin": asking("ada")}
    async with serve(model=model, channels=channels, secrets=DISCORD, **setup) as served:
        body = command(1, "ring")
        assert (await post(served, "guild", body, signed_discord(body)))[0] == 200
        await there.until(lambda: any("components" in one.body for one in there.sent))
        asked = next(one for one in there.sent if "components" in one.body)
        assert asked.path == "/v10/channels/99/messages"
        (row,) = asked.body["components"]
        pressed = {
            "type": 3,
            "id": "901",
            "channel_id": "99",
            "user": {"id": "77"},
            "token": "t",
            "data": {"custom_id": row["components"][-1]["custom_id"]},
        }
        body = json.dumps(pressed).encode()
        status, text = await post(served, "guild", body, signed_discord(body))
        assert (status, json.loads(text)) == (200, {"type": 6})
        await there.until(lambda: any(one.body.get("content") == "Not rung." for one in there.sent))
        await there.until(lambda: any(one.method == "PATCH" for one in there.sent))
    (changed,) = (one for one in there.sent if one.method == "PATCH")
    place = [one for one in there.sent if one.method == "POST"].index(asked) + 1
    assert changed.path == f"/v10/channels/99/messages/m{place}"
    assert changed.body["components"] == []
    assert bell.rung == []


async def test_channels_of_the_settings_say_what_they_lack(serve: Serve, there: Platform) -> None:
    channels = {"guild": {**discord(there)["guild"]}, "nobody": {"public": True}}
    secrets = {"guild_secret": "no-key"}
    model = ScriptedModel(say("hi"))
    async with serve(model=model, channels=channels, secrets=secrets) as served:
        degraded = served.gateway.host.degraded
        assert "expected 64 hexadecimal digits" in degraded["channel guild"]
        assert "a channel that there is not" in degraded["channel nobody"]
