"""A bot over webhook and long polling, against a local server that speaks the Bot API."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.builtin_plugins.channels.conftest import Bot
from tests.support.bot_api import BotApi

from hookgate.kit.testing.model import ScriptedModel, say

FAST: dict[str, Any] = {"edit_seconds": 0.05}


async def test_text_comes_in_and_its_answer_goes_out(bot: Bot, api: BotApi) -> None:
    model = ScriptedModel(say("Good morning to you."))
    async with bot.served(model=model, channels=FAST):
        await api.write("good morning")
        await api.until(lambda: api.said() == ["Good morning to you."])
    (request,) = model.requests
    assert request.messages[-1].text == "good morning"
    assert request.messages[-1].provenance.value == "channel"
    assert request.messages[-1].taint == {"channel:telegram"}


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
