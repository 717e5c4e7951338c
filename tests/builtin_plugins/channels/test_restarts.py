"""A gateway that stops or dies in between: nothing is lost, and nothing is answered twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.channels.conftest import Bot, Serve
from tests.builtin_plugins.channels.test_telegram import FAST
from tests.support.bot_api import BotApi
from tests.support.telegram import SECRET, Telegram

from hookgate.builtin_plugins.channels import service
from hookgate.kit.testing.model import ScriptedModel, say

ways = pytest.mark.parametrize("way", ["webhook", "polling"])


async def test_update_that_comes_again_after_a_restart_is_answered_once(
    bot: Bot, api: BotApi
) -> None:
    model = ScriptedModel(say("Once."))
    async with bot.served(model=model, channels=FAST):
        update = await api.write("hello")
        await api.until(lambda: api.said() == ["Once."])
    async with bot.served(model=model, channels=FAST):
        if bot.way == "webhook":
            await api.again(update)
            assert api.statuses[-1] == 200
        await api.write("next")
        await api.until(lambda: api.said() == ["Once.", "Once."])
        assert len(model.requests) == 2


async def test_answer_that_could_not_be_sent_is_sent_after_a_restart(bot: Bot, api: BotApi) -> None:
    api.failing["sendMessage"] = [(429, "Too Many Requests", {"retry_after": 3600})]
    model = ScriptedModel(say("At last."))
    channels = {**FAST, "telegram": {"streaming": False}}
    async with bot.served(model=model, channels=channels) as served:
        await api.write("hello")
        await api.until(lambda: "sendMessage" in api.calls)
        assert api.said() == []
    model = ScriptedModel(say("another"))
    async with bot.served(model=model, channels=channels) as served:
        assert await _unsent(served) == 1
        # It waits for as long as the platform has asked for.
        served.clock.turn(seconds=3601)
        await api.until(lambda: api.said() == ["At last."])
    assert model.requests == []


async def _unsent(served: Any) -> int:
    async with served.http.get(f"{served.url}/v1/channels") as answer:
        (row,) = (await answer.json())["channels"]
    return int(row["unsent"])


async def test_turn_that_a_stop_has_cut_says_so_in_the_message_that_showed_it(
    bot: Bot, api: BotApi
) -> None:
    model = ScriptedModel([*say("Half of")[:2], asyncio.Event().wait])
    limits = {"gateway": {"port": 0, "limits": {"drain_seconds": 0}}}
    async with bot.served(model=model, channels=FAST, **limits):
        await api.write("hello")
        await api.until(lambda: api.said() == ["Half of"])
    again = ScriptedModel(say("another"))
    async with bot.served(model=again, channels=FAST):
        await api.until(lambda: "broken off" in api.said()[0])
    assert len(api.said()) == 1
    assert again.requests == []


async def test_a_platform_that_asks_for_ages_is_polled_again_all_the_same(
    serve: Serve, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LONGEST_ASKED", 0.1)
    api.failing["getUpdates"] = [(429, "Too Many Requests", {"retry_after": 10**400})]
    bot = Telegram(api.url, polling=True, seconds=0.5)
    async with serve(bot, model=ScriptedModel(say("here")), channels={}):
        await api.write("hello")
        await api.until(lambda: api.said() == ["here"])
    assert api.failing["getUpdates"] == []


CHILD = Path(__file__).with_name("killed_gateway.py")


@pytest.mark.slow
@pytest.mark.timeout(300)
@ways
async def test_killed_gateways_answer_every_message_once(
    api: BotApi, way: str, tmp_path: Path, short: bool
) -> None:
    """Each message is asked of a model once at most, and its peer gets an answer or an excuse."""
    rounds, each = (2, 6) if short else (5, 10)
    sent, dice = 0, random.Random(7)
    for number in range(rounds + 1):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CHILD), api.url, way, str(tmp_path / "home")),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(CHILD.parents[3])},
        )
        assert child.stdout is not None
        line = (await asyncio.wait_for(child.stdout.readline(), 60)).decode().split()
        assert line[:1] == ["serves"], line
        if way == "webhook":
            # Everything is posted again, as by a platform that has heard no answer.
            await api.set_webhook(f"{line[1]}/webhook/telegram", SECRET)
        if number == rounds:
            await api.until(partial(is_whole, api, sent), 50)
            child.terminate()
        else:
            for _ in range(each):
                sent += 1
                await api.write(f"message {sent}.", chat=sent % 5 + 1)
                await asyncio.sleep(dice.uniform(0, 0.05))
            await asyncio.sleep(dice.uniform(0.0, 0.6))
            child.send_signal(signal.SIGKILL)
        await child.wait()
    turns = Counter((tmp_path / "home" / "turns.txt").read_text().splitlines())
    assert set(turns.values()) == {1}
    for chat in range(1, 6):
        answered, excused = counted(api, chat)
        wanted = {f"message {number}." for number in range(1, sent + 1) if number % 5 + 1 == chat}
        assert answered <= wanted & {*turns}
        assert len(excused) >= len(wanted - answered)
    # Twice is said what nobody knows of whether it was said, and nothing else.
    assert sum(map(len, api.chats.values())) <= sent + rounds * 5


def is_whole(api: BotApi, sent: int) -> bool:
    return sum(sum(map(len, counted(api, chat))) for chat in range(1, 6)) >= sent


def counted(api: BotApi, chat: int) -> tuple[set[str], list[str]]:
    """Return the messages of a chat that were answered, and the excuses."""
    said = api.said(chat)
    answered = {text.removeprefix("re: ") for text in said if text.startswith("re: ")}
    return answered, [text for text in said if "restarted" in text]
