"""What the pages say of channels holds: the examples run, and the sections do what they are for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Serve
from tests.builtin_plugins.channels.local_platform import Platform
from tests.builtin_plugins.channels.test_approvals import Bell as Tool
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS, post

from hookgate import Address, Flags, Host, Origin, Principal, Provenance, TurnRequest, tool
from hookgate.kit.testing.model import ScriptedModel, call, say

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def run(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "documented"}
    exec(source, found)
    return found


async def test_channel_of_the_page_takes_a_page_and_sends_one(
    serve: Serve, there: Platform
) -> None:
    there.usual = lambda number: {"uuid": str(number)}
    there.answers = [(503, {}, {"Retry-After": "0"})]
    found = run(
        blocks("channel-authors.md", "python")[0].replace("https://pager.example", there.url)
    )
    model = ScriptedModel(say("On my way."))
    secrets = {"pager_secret": KEY}
    async with serve(found["Plugin"], model=model, channels={}, secrets=secrets) as served:
        page = {"uuid": "p1", "text": "fire", "service": "s", "room": "7", "from": "ada"}
        body = json.dumps(page).encode()
        stamp = str(int(time.time()))
        digest = hmac.new(KEY.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Pager-Time": stamp, "X-Pager-Signature": f"sha256={digest}"}
        for _ in range(2):
            assert await post(served, body, headers, "pager") == 200
        await there.until(lambda: len(there.sent) == 2)
    assert there.sent[1].body == {"room": "7", "text": "On my way."}
    assert len({sent.headers["idempotency-key"] for sent in there.sent}) == 1


async def test_approver_of_the_page_answers_without_a_hosted_channel(serve: Serve) -> None:
    ask: Callable[[Host, Callable[[Mapping[str, Any]], Awaitable[bool]]], Awaitable[None]] = run(
        blocks("channel-authors.md", "python")[1]
    )["ask_by_bell"]
    bell, asked = Tool(), asyncio.Queue[str]()

    async def ring(question: Mapping[str, Any]) -> bool:
        await asked.put(question["arguments_text"])
        return "yes" in question["arguments_text"]

    model = ScriptedModel(call("ring", how="yes"), call("ring", how="no"), say("Done."))
    plugin = {"policy": {"ask": ["ring"], "approvals": {"approvers": ["ada"]}}}
    async with serve(model=model, channels={}, tools=[bell.tool()], plugin=plugin) as served:
        host = served.gateway.host
        asking = asyncio.ensure_future(ask(host, ring))
        await asyncio.sleep(0)
        turn = await host.start_turn(
            Principal.owner("visitor"),
            Origin(provenance=Provenance.CHANNEL, path="door", channel="door"),
            TurnRequest(content="ring", address=Address("door", "house", "visitor")),
        ).wait()
        asking.cancel()
    assert turn.answer == "Done."
    assert bell.rung == ["yes"]
    assert asked.qsize() == 2


async def test_channel_has_a_budget_and_rules_of_its_own(serve: Serve, tmp_path: Path) -> None:
    settings = tomllib.loads(blocks("plugins/channels.md", "toml")[1])["plugin"]
    rules = tmp_path / "work.yaml"
    rules.write_text(blocks("plugins/channels.md", "yaml")[0], encoding="utf-8")
    settings["policy"] |= {"rules": [str(rules)], "profile": "open"}
    settings["metering"]["budgets"]["work"] |= {"usd": 0}
    sent: list[str] = []

    def mail(text: str) -> str:
        """Send a mail."""
        sent.append(text)
        return "sent"

    model = ScriptedModel(
        lambda request: (
            call("mail", text=request.messages[-1].text)
            if request.messages[-1].role == "user"
            else say(request.messages[-1].tool_results[0].text)
        )
    )
    work, home = Bell(HEADER, name="work"), Bell(HEADER, name="home")
    more: dict[str, Any] = {
        "secrets": SECRETS,
        "tools": [tool(mail, flags=Flags(sends_externally=True))],
        "plugin": settings,
    }
    async with serve(work, home, model=model, channels={}, **more) as served:
        for bell in (work, home):
            assert await post(served, event(1, bell.name), {"X-Key": KEY}, bell.name) == 200
            await bell.until(lambda bell=bell: bell.said)
        assert "budget exceeded" in work.said[0][1]
        assert home.said == [("ada", "sent")]
        await budget_of(served.http, served.url, 20)
        assert await post(served, event(2, "work"), {"X-Key": KEY}, "work") == 200
        await work.until(lambda: len(work.said) == 2)
        # The rule of this channel asks, and nobody of its approvers is there.
        assert "Nobody who may approve is connected" in work.said[1][1]
    assert sent == ["home"]


async def budget_of(http: aiohttp.ClientSession, url: str, usd: int) -> None:
    given = {"name": "work", "scope": "channel", "of": "work", "usd": usd}
    async with http.post(f"{url}/v1/operations/budgets.set", json=given) as answer:
        assert answer.status == 200, await answer.text()
