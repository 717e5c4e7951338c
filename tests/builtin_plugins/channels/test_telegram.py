"""A bot over webhook and long polling, against a local server that speaks the Bot API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.builtin_plugins.channels.conftest import Serve, Served
from tests.support.bot_api import TOKEN, BotApi
from tests.support.telegram import SECRET, Telegram

from hookgate.kit.testing.model import ScriptedModel, say

pytestmark = pytest.mark.parametrize("way", ["webhook", "polling"])


async def connect(served: Served, api: BotApi, way: str) -> None:
    """Have the platform post to the gateway, where it does."""
    if way == "webhook":
        given = {"url": f"{served.url}/webhook/telegram", "secret_token": SECRET}
        async with served.http.post(f"{api.url}/bot{TOKEN}/setWebhook", json=given) as answer:
            assert answer.status == 200


def telegram(api: BotApi, way: str) -> Telegram:
    return Telegram(api.url, polling=way == "polling")


FAST: dict[str, Any] = {"edit_seconds": 0.05}


async def test_text_comes_in_and_its_answer_goes_out(serve: Serve, api: BotApi, way: str) -> None:
    model = ScriptedModel(say("Good morning to you."))
    async with serve(telegram(api, way), model=model, channels=FAST) as served:
        await connect(served, api, way)
        await api.write("good morning")
        await api.until(lambda: api.said() == ["Good morning to you."])
    (request,) = model.requests
    assert request.messages[-1].text == "good morning"
    assert request.messages[-1].provenance.value == "channel"
    assert request.messages[-1].taint == {"channel:telegram"}


async def test_answer_is_edited_while_it_is_written(serve: Serve, api: BotApi, way: str) -> None:
    seen = asyncio.Event()
    model = ScriptedModel([*say("One two")[:2], seen.wait, *say(" three four.")])
    async with serve(telegram(api, way), model=model, channels=FAST) as served:
        await connect(served, api, way)
        await api.write("count")
        await api.until(lambda: api.said() == ["One two"])
        seen.set()
        await api.until(lambda: api.said() == ["One two three four."])
    (shown,) = api.chats["42"]
    assert "One two" in shown.before


async def test_long_answer_comes_in_several_messages(serve: Serve, api: BotApi, way: str) -> None:
    answer = "\n\n".join(f"Paragraph {number}. " + "word " * 150 for number in range(12))
    model = ScriptedModel(say(answer))
    async with serve(telegram(api, way), model=model, channels=FAST) as served:
        await connect(served, api, way)
        await api.write("tell me all")
        await api.until(lambda: " ".join(api.said()).split() == answer.split())
    assert len(api.said()) > 1
