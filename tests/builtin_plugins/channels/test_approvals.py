"""Questions in a channel: whole, for listed approvers alone, by a button or by a code."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import time
from typing import Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.channels.conftest import Bot, Serve, Served
from tests.builtin_plugins.channels.local_platform import Platform
from tests.builtin_plugins.channels.test_telegram import FAST
from tests.support.bot_api import BotApi
from tests.support.script import until

from hookgate import Flags, Tool, tool
from hookgate.builtin_plugins.channels.approvals import LETTERS, code_of
from hookgate.builtin_plugins.channels.settings import ApproverSettings
from hookgate.kit.testing.model import ScriptedModel, call, say

ADA, BOB, EVE, GROUP = 42, 43, 66, -100


KEY = "a-key-that-both-know"


def signed_json(body: bytes) -> dict[str, str]:
    """Return the headers by which a post of the kind ``json`` is known."""
    stamp = str(int(time.time()))
    digest = hmac.new(KEY.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Time": stamp, "X-Signature": f"sha256={digest}"}


async def post(served: Served, name: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    url = f"{served.url}/webhook/{name}"
    async with served.http.post(url, data=body, headers=headers) as answer:
        return answer.status, await answer.text()


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


async def test_answer_before_the_platform_has_replied_changes_the_question(
    hook: Bot, api: BotApi
) -> None:
    bell, replied = Bell(), asyncio.Event()
    api.held["sendMessage"] = replied
    model = ScriptedModel(call("ring", how="once"), say("Rung."))
    async with hook.served(
        model=model, channels=settings(), tools=[bell.tool()], plugin=asking("ada")
    ):
        await api.write("ring it", chat=GROUP, user=EVE)
        await api.until(lambda: api.said(ADA))
        (question,) = api.chats[str(ADA)]
        # The question is on her screen, and the gateway has not heard which message it is.
        await api.press("Allow once", chat=ADA)
        await until(lambda: bool(bell.rung))
        replied.set()
        await api.until(lambda: api.said(GROUP) == ["Rung."])
        await api.until(lambda: "allowed by ada" in question.text)
        assert question.buttons == {}
        assert len(api.said(ADA)) == 1


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


async def test_the_same_id_in_another_account_approves_nothing_and_is_somebody_else(
    serve: Serve, there: Platform
) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("What code?"), say("Rung."))
    approver = {"account": "acme", "sender": "42", "principal": "ada"}
    section = {"kind": "json", "callback": f"{there.url}/say", "approvers": [approver]}
    secrets = {"desk_secret": KEY}

    async def write(served: Served, number: int, account: str, text: str) -> None:
        said = {"id": f"e{number}", "account": account, "peer": "42", "sender": "42", "text": text}
        body = json.dumps(said).encode()
        assert (await post(served, "desk", body, signed_json(body)))[0] == 200

    def told(account: str) -> list[str]:
        return [one.body["text"] for one in there.sent if one.body["account"] == account]

    async with serve(
        model=model,
        channels={"desk": section},
        tools=[bell.tool()],
        secrets=secrets,
        plugin=asking("ada"),
    ) as served:
        turns = served.gateway.host.running
        await write(served, 1, "acme", "ring it")
        await there.until(lambda: len(told("acme")) == 1)
        code = code_in(told("acme")[0])
        await write(served, 2, "evil", f"allow {code}")
        await there.until(lambda: told("evil") == ["What code?"])
        assert [turn.principal.id for turn in turns()] == ["ada"]
        assert bell.rung == []
        await write(served, 3, "acme", f"allow {code}")
        await there.until(lambda: "Rung." in told("acme"))
    assert bell.rung == ["once"]
    asked = model.requests[1].messages[-1]
    assert (asked.text, asked.principal) == (f"allow {code}", "channel:desk")
    assert asked.taint == {"channel:desk"}
    # Nor is a question of one account shown in another.
    assert told("evil") == ["What code?"]


async def test_an_approver_is_shown_what_is_asked_in_its_own_account_alone(
    serve: Serve, there: Platform
) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Not rung."))
    approver = {"account": "acme", "sender": "42", "principal": "ada"}
    section = {"kind": "json", "callback": f"{there.url}/say", "approvers": [approver]}
    async with serve(
        model=model,
        channels={"desk": section},
        tools=[bell.tool()],
        secrets={"desk_secret": KEY},
        plugin=asking("ada"),
    ) as served:
        said = {"id": "e1", "account": "other", "peer": "7", "sender": "7", "text": "ring it"}
        body = json.dumps(said).encode()
        assert (await post(served, "desk", body, signed_json(body)))[0] == 200
        await there.until(lambda: there.sent)
    assert [one.body["text"] for one in there.sent] == ["Not rung."]
    assert there.sent[0].body["account"] == "other"
    assert bell.rung == []


def test_an_approver_without_an_account_is_nobody() -> None:
    with pytest.raises(ValidationError, match="account"):
        ApproverSettings.model_validate({"sender": "42", "principal": "ada"})


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
        await api.until(lambda: any("broken off" in text for text in api.said(GROUP)))
    assert bell.rung == []


def test_codes_begin_with_a_digit_and_follow_from_what_is_asked() -> None:
    codes = {code_of(f"ask_{number}", "digest") for number in range(2000)}
    assert len(codes) == 2000
    assert all(code[0].isdigit() and set(code) <= set(LETTERS) for code in codes)
    assert code_of("ask_1", "digest") != code_of("ask_1", "another")
