"""Questions in a channel: whole, for listed approvers alone, by a button or by a code."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.builtin_plugins.channels.conftest import Bot
from tests.builtin_plugins.channels.test_telegram import FAST
from tests.support.bot_api import BotApi

from hookgate import Flags, Tool, tool
from hookgate.builtin_plugins.channels.approvals.codes import LETTERS, code_of
from hookgate.kit.testing.model import ScriptedModel, call, say

ADA, BOB, EVE, GROUP = 42, 43, 66, -100


class Bell:
    """A tool that is asked about, and counts how often it has rung."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def tool(self) -> Tool:
        return tool(self.ring, flags=Flags(executes_privileged=True))

    def ring(self, how: str) -> str:
        """Ring the bell."""
        self.rung.append(how)
        return "rung"


APPROVERS = [
    {"sender": str(ADA), "principal": "ada"},
    {"sender": str(BOB), "principal": "bob"},
]


def settings(**more: Any) -> dict[str, Any]:
    # Of the channel in Python it says nothing; the guest carries no approvals without it.
    return {**FAST, "telegram": {"approvers": APPROVERS, "trusted": True, **more}}


def asking(*approvers: str, **more: Any) -> dict[str, Any]:
    return {"policy": {"ask": ["ring"], "approvals": {"approvers": list(approvers), **more}}}


def code_in(text: str) -> str:
    found = re.search(r"code (\w{4})", text)
    assert found, text
    return found[1]


async def test_button_allows_the_call_that_was_shown(bot: Bot, api: BotApi) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="twice\u202e"), say("Rung."))
    async with bot.served(
        model=model,
        channels=settings(),
        tools=[bell.tool()],
        plugin=asking("ada"),
    ):
        await api.write("ring it", chat=GROUP, user=EVE)
        await api.until(lambda: api.said(ADA))
        (question,) = api.chats[str(ADA)]
        shown = json.loads(question.text[question.text.index("{") : question.text.rindex("}") + 1])
        assert shown["arguments"] == {"how": "twice\u202e"}
        assert "\u202e" not in question.text
        assert shown["tool"] == "ring"
        assert list(question.buttons) == ["Allow once", "Deny"]
        assert bell.rung == []
        # Bob is listed in the channel, and is no approver of the policy: he is asked nothing.
        assert api.said(BOB) == []
        await api.press("Allow once", chat=ADA)
        await api.until(lambda: api.said(GROUP) == ["Rung."])
        await api.until(lambda: "allowed by ada" in question.text)
        assert question.buttons == {}
        assert len(api.said(ADA)) == 1
    assert bell.rung == ["twice\u202e"]
    assert (bot.way == "webhook") == bool(api.answered)


async def test_code_answers_and_those_of_others_change_nothing(hook: Bot, api: BotApi) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Not rung."), say("What code?"))
    async with hook.served(
        model=model,
        channels=settings(),
        tools=[bell.tool()],
        plugin=asking("ada"),
    ):
        await api.write("ring it", chat=EVE)
        await api.until(lambda: api.said(ADA))
        code = code_in(api.said(ADA)[0])
        # Eve's is a message like any other, and waits for the lane of her conversation; a button
        # that she has made up is passed over.
        await api.write(f"allow {code}", chat=EVE)
        await api.press("Allow once", chat=ADA, user=EVE)
        # Bob is listed in the channel, and the policy does not name him.
        await api.write(f"allow {code}", chat=BOB)
        await api.until(lambda: api.said(BOB))
        assert "no question" in api.said(BOB)[0].lower() or "not among" in api.said(BOB)[0]
        assert bell.rung == []
        await api.write(f"deny {code.lower()}", chat=ADA)
        await api.until(lambda: api.said(EVE)[:2] == ["Not rung.", "What code?"])
        await api.write(f"allow {code}", chat=ADA)
        await api.until(lambda: len(api.said(ADA)) == 2)
        assert "denied by ada" in api.said(ADA)[0]
        assert api.said(ADA)[1] == f"No question with the code {code} waits any more."
    assert bell.rung == []
    assert model.requests[-1].messages[-1].text == f"allow {code}"


async def test_long_question_is_shown_whole(hook: Bot, api: BotApi) -> None:
    bell = Bell()
    how = "".join(f"<{number:05}>" for number in range(3000))
    model = ScriptedModel(call("ring", how=how), say("Done."))
    async with hook.served(
        model=model,
        channels=settings(),
        tools=[bell.tool()],
        plugin=asking("ada"),
    ):
        await api.write("ring it", chat=GROUP, user=EVE)
        await api.until(lambda: any(one.buttons for one in api.chats.get(str(ADA), [])))
        assert how in "".join(api.said(ADA))
        await api.press("Deny", chat=ADA)
        await api.until(lambda: api.said(GROUP) == ["Done."])
    assert bell.rung == []


async def test_nobody_approves_what_came_of_their_own_message(hook: Bot, api: BotApi) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Refused."))
    async with hook.served(
        model=model,
        channels=settings(),
        tools=[bell.tool()],
        plugin=asking("ada", self_approval=False),
    ):
        await api.write("ring it", chat=ADA)
        await api.until(lambda: api.said(ADA) == ["Refused."])
    assert bell.rung == []


async def test_question_ends_with_the_gateway_that_asked(hook: Bot, api: BotApi) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Done."))
    setup: dict[str, Any] = {
        "channels": settings(),
        "tools": [bell.tool()],
        "plugin": asking("ada"),
        "gateway": {"port": 0, "limits": {"drain_seconds": 0}},
    }
    async with hook.served(model=model, **setup):
        await api.write("ring it", chat=GROUP, user=EVE)
        await api.until(lambda: api.said(ADA))
        code = code_in(api.said(ADA)[0])
    async with hook.served(model=model, **setup):
        await api.write(f"allow {code}", chat=ADA)
        await api.until(lambda: any("waits any more" in text for text in api.said(ADA)))
        await api.until(lambda: api.said(GROUP))
    assert "broken off" in api.said(GROUP)[0]
    assert bell.rung == []


def test_codes_begin_with_a_digit_and_follow_from_what_is_asked() -> None:
    codes = {code_of(f"ask_{number}", "digest") for number in range(2000)}
    assert len(codes) == 2000
    assert all(code[0].isdigit() and set(code) <= set(LETTERS) for code in codes)
    assert code_of("ask_1", "digest") != code_of("ask_1", "another")
