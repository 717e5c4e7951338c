"""The Telegram guest of the examples, end to end: the sandbox, its way out, and a Bot API."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.channels.conftest import Serve, Served
from tests.builtin_plugins.channels.test_approvals import ADA, EVE, GROUP, Bell, asking, settings
from tests.builtin_plugins.channels.test_telegram import FAST, connect
from tests.support.bot_api import TOKEN, BotApi
from tests.support.telegram import SECRET

from hookgate.kit.testing.model import ScriptedModel, call, say

EXAMPLE = Path(__file__).parents[3] / "examples" / "guests" / "telegram"
POLLING = "[channel.polling]\nseconds = 25\n"

ways = pytest.mark.parametrize("way", ["webhook", "polling"])


def guest(api: BotApi, way: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the sections of a gateway with the guest, as its page has an operator write them."""
    monkeypatch.setenv("TELEGRAM_API", api.url)
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target"))
    manifest = folder / "hookgate-plugin.toml"
    text = manifest.read_text().replace("https://api.telegram.org", api.url)
    page = (EXAMPLE / "README.md").read_text()
    webhook = page.partition("```toml\n")[2].partition("```")[0]
    assert POLLING in text
    assert "[channel.webhook]" in webhook
    brief = POLLING.replace("25", "1")
    manifest.write_text(text.replace(POLLING, brief if way == "polling" else webhook))
    return {
        "plugin": {"wasm": {"folders": [str(folder)]}},
        "secrets": {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_WEBHOOK_SECRET": SECRET},
    }


@pytest.fixture
def sections(
    api: BotApi, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    return guest(api, way, tmp_path / "telegram", monkeypatch)


@ways
async def test_text_comes_in_and_its_answer_is_edited_while_it_is_written(
    serve: Serve, api: BotApi, way: str, sections: dict[str, Any]
) -> None:
    seen = asyncio.Event()
    model = ScriptedModel([*say("One two")[:2], seen.wait, *say(" three four.")])
    async with serve(model=model, channels=FAST, **sections) as served:
        await connect(served, api, way)
        await api.write("count, é😀")
        await api.until(lambda: api.said() == ["One two"])
        seen.set()
        await api.until(lambda: api.said() == ["One two three four."])
    (request,) = model.requests
    assert request.messages[-1].text == "count, é😀"
    assert request.messages[-1].provenance.value == "channel"


@ways
async def test_a_button_allows_the_call_that_was_shown(
    serve: Serve, api: BotApi, way: str, sections: dict[str, Any]
) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="twice"), say("Rung."))
    sections["plugin"] |= asking("ada")
    async with serve(model=model, channels=settings(), tools=[bell.tool()], **sections) as served:
        await connect(served, api, way)
        await api.write("ring it", chat=GROUP, user=EVE)
        await api.until(lambda: api.said(ADA))
        assert bell.rung == []
        await api.press("Allow once", chat=ADA)
        await api.until(lambda: api.said(GROUP) == ["Rung."])
        await api.until(lambda: "allowed by ada" in api.said(ADA)[0])
        assert api.chats[str(ADA)][0].buttons == {}
    assert bell.rung == ["twice"]
    assert (way == "webhook") == bool(api.answered)


@ways
async def test_an_update_that_comes_again_after_a_restart_is_answered_once(
    serve: Serve, api: BotApi, way: str, sections: dict[str, Any]
) -> None:
    model = ScriptedModel(say("Once."))
    async with serve(model=model, channels=FAST, **sections) as served:
        await connect(served, api, way)
        update = await api.write("hello")
        await api.until(lambda: api.said() == ["Once."])
    async with serve(model=model, channels=FAST, **sections) as served:
        await connect(served, api, way)
        if way == "webhook":
            await api.again(update)
            assert api.statuses[-1] == 200
        await api.write("next")
        await api.until(lambda: api.said() == ["Once.", "Once."])
    assert len(model.requests) == 2


@ways
async def test_an_answer_that_was_not_taken_is_sent_when_the_platform_says(
    serve: Serve, api: BotApi, way: str, sections: dict[str, Any]
) -> None:
    api.failing["sendMessage"] = [(429, "Too Many Requests", {"retry_after": 3600})]
    channels = {**FAST, "telegram": {"streaming": False}}
    async with serve(model=ScriptedModel(say("At last.")), channels=channels, **sections) as served:
        await connect(served, api, way)
        await api.write("hello")
        await api.until(lambda: "sendMessage" in api.calls)
    async with serve(model=ScriptedModel(), channels=channels, **sections) as served:
        # The platform has said when in the body, and so it is the guest that has read it.
        served.clock.turn(seconds=3000)
        assert (await told(served))["unsent"] == 1
        assert api.said() == []
        served.clock.turn(seconds=601)
        await api.until(lambda: api.said() == ["At last."])


async def told(served: Served) -> dict[str, Any]:
    async with served.http.get(f"{served.url}/v1/channels") as answer:
        rows = (await answer.json())["channels"]
    return next(row for row in rows if row["name"] == "telegram")


@pytest.mark.parametrize("way", ["webhook"])
async def test_a_post_that_is_no_update_is_answered_with_400(
    serve: Serve, api: BotApi, way: str, sections: dict[str, Any]
) -> None:
    async with serve(model=ScriptedModel(), channels=FAST, **sections) as served:
        url = f"{served.url}/webhook/telegram"
        proof = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
        for body, status in ((b"[]", 400), (b"{", 400), (b'{"update_id": 1}', 200)):
            async with served.http.post(url, data=body, headers=proof) as answer:
                assert answer.status == status
