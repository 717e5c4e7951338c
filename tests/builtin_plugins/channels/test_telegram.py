"""A bot over webhook and long polling, against a local server that speaks the Bot API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.builtin_plugins.channels.conftest import Bot
from tests.support.bot_api import SECRET_HEADER, BotApi
from tests.support.telegram import SECRET

from hookgate.kit.testing.model import ScriptedModel, say

FAST: dict[str, Any] = {"edit_seconds": 0.05}


async def test_text_comes_in_and_its_answer_goes_out(bot: Bot, api: BotApi) -> None:
    model = ScriptedModel(say("Good morning to you."))
    async with bot.served(model=model, channels=FAST):
        await api.write("good morning, é😀")
        await api.until(lambda: api.said() == ["Good morning to you."])
    (request,) = model.requests
    assert request.messages[-1].text == "good morning, é😀"
    assert request.messages[-1].provenance.value == "channel"
    assert request.messages[-1].taint == {f"channel:{bot.name}"}


async def test_answer_is_edited_while_it_is_written(bot: Bot, api: BotApi) -> None:
    seen = asyncio.Event()
    model = ScriptedModel([*say("One two")[:2], seen.wait, *say(" three four.")])
    async with bot.served(model=model, channels=FAST):
        await api.write("count")
        await api.until(lambda: api.said() == ["One two"])
        seen.set()
        await api.until(lambda: api.said() == ["One two three four."])
    (shown,) = api.chats["42"]
    assert "One two" in shown.before


async def test_long_answer_comes_in_several_messages(bot: Bot, api: BotApi) -> None:
    answer = "\n\n".join(f"Paragraph {number}. " + "word " * 150 for number in range(12))
    model = ScriptedModel(say(answer))
    async with bot.served(model=model, channels=FAST):
        await api.write("tell me all")
        await api.until(lambda: " ".join(api.said()).split() == answer.split())
    assert len(api.said()) > 1


async def test_post_that_is_no_update_is_answered_with_400(bot: Bot, api: BotApi) -> None:
    if bot.way == "polling":
        pytest.skip("nobody posts to it")
    async with bot.served(model=ScriptedModel(), channels=FAST) as served:
        url, proof = f"{served.url}/webhook/{bot.name}", {SECRET_HEADER: SECRET}
        for body, status in ((b"[]", 400), (b"{", 400), (b'{"update_id": 1}', 200)):
            async with served.http.post(url, data=body, headers=proof) as answer:
                assert answer.status == status
