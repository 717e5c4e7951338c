"""Guests that lie: what a channel in the sandbox may claim, and what it gets by that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builtin_plugins.channels.conftest import Bot, Serve, guest_for
from tests.builtin_plugins.channels.test_approvals import ADA, EVE, Bell, asking, settings
from tests.support.bot_api import TOKEN, BotApi
from tests.support.telegram import SECRET, Telegram

from hookgate import ReceivedMessage
from hookgate.builtin_plugins.channels.hosting import Hosted
from hookgate.builtin_plugins.channels.settings import ChannelSettings
from hookgate.kit.testing.model import ScriptedModel, call, say


@pytest.fixture
def guest(serve: Serve, api: BotApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bot:
    folder = tmp_path / "plugins"
    guest_for(api, "webhook", folder)
    monkeypatch.setenv("TELEGRAM_API", api.url)
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("TELEGRAM_WEBHOOK_SECRET", SECRET)
    return Bot(serve, api, "guest", "webhook", folder)


async def test_a_guest_approves_nothing_until_it_is_trusted(guest: Bot, api: BotApi) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="once"), say("Not rung."))
    channels = settings(trusted=False, senders=[str(ADA), str(EVE)])
    async with guest.served(
        model=model, channels=channels, tools=[bell.tool()], plugin=asking("ada")
    ) as served:
        host = served.gateway.host
        # Whoever it says that wrote: it is shown no question that it could answer.
        await api.write("ring it", chat=ADA)
        await api.until(lambda: api.said(ADA) == ["Not rung."])
        assert "trusted = true" in host.degraded["approvals of telegram"]
        answer = await host.operations["channels.list"].handler(None, None)  # type: ignore[arg-type]
        assert [row.approvers for row in answer.channels] == [[]]
    assert bell.rung == []


@pytest.mark.parametrize(
    ("trusted", "who", "tainted"), [(False, "channel:telegram", True), (True, "ada", False)]
)
def test_whom_a_guest_names_is_somebody_once_it_is_trusted(
    trusted: bool, who: str, tainted: bool
) -> None:
    section = ChannelSettings.model_validate(
        {"senders": ["42"], "trusted": trusted, "approvers": [{"sender": "42", "principal": "ada"}]}
    )
    channel = Telegram("http://127.0.0.1:9", polling=False)
    channel.sandboxed = True
    hosted = Hosted(channel, section)
    message = ReceivedMessage(id="1", content="hi", account="a", peer="42", sender="42")
    principal, _, request = hosted.asked(message)
    assert (principal.id, bool(request.taint)) == (who, tainted)
