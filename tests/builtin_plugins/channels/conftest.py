"""Gateways with hosted channels that listen on a real port."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import aiohttp
import pytest
from tests.builtin_plugins.channels.bells import AROUND
from tests.builtin_plugins.channels.local_platform import Platform, platform
from tests.support.bot_api import TOKEN, BotApi, bot_api
from tests.support.telegram import SECRET, Telegram

from hookgate import Gateway
from hookgate.builtin_plugins.channels import plugin
from hookgate.core.domain.models import Provider
from hookgate.core.gateway.serve import listen
from hookgate.kit.testing.gateway import TurnedClock, started

POLLING = "[channel.polling]\nseconds = 25\n"
GUEST = Path(__file__).parents[3] / "examples" / "guests" / "telegram"


@dataclass
class Served:
    """A gateway that listens."""

    gateway: Gateway
    url: str
    http: aiohttp.ClientSession
    clock: TurnedClock


class Running(TurnedClock):
    """A clock that runs, and can be turned on besides."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self._began = monotonic()

    def now(self) -> datetime:
        return self.time + timedelta(seconds=monotonic() - self._began)

    def monotonic(self) -> float:
        return super().monotonic() + monotonic() - self._began


class Serve(Protocol):
    def __call__(
        self, *plugins: object, model: Provider, channels: dict[str, Any], **more: Any
    ) -> AbstractAsyncContextManager[Served]: ...


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "LATE_SECONDS", 0.0)


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as platform:
        yield platform


@pytest.fixture
async def there() -> AsyncIterator[Platform]:
    async with platform() as one:
        yield one


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def serve(
        *plugins: object, model: Provider, channels: dict[str, Any], **more: Any
    ) -> AsyncIterator[Served]:
        sections = {
            "gateway": {"port": 0, "limits": {"drain_seconds": 5}},
            "secrets": {"telegram_webhook": SECRET, **more.pop("secrets", {})},
            **more,
        }
        sections["plugin"] = {"channels": channels, **more.get("plugin", {})}
        home = tmp_path / "home"
        clock = more.pop("clock", None) or Running()
        async with (
            started(
                *plugins, home=home, model=model, clock=clock, only=AROUND, **sections
            ) as gateway,
            listen(gateway) as listener,
            aiohttp.ClientSession() as http,
        ):
            yield Served(gateway, f"http://127.0.0.1:{listener.port}", http, clock)

    return serve


BOTS = {"python": ("telegram", "bot"), "guest": ("wasm.telegram", "default")}
"""What the channel of each form is called, and its account."""


class Bot:
    """A bot on the local platform: the channel in Python, or the guest of the examples.

    Attributes:
        way: ``webhook`` or ``polling``.
        name: The channel's name.
        account: The account of the bot.
    """

    def __init__(self, serve: Serve, api: BotApi, form: str, way: str, folder: Path) -> None:
        self.way = way
        self._serve = serve
        self._api = api
        self._form = form
        self._folder = folder
        self.name, self.account = BOTS[form]

    @asynccontextmanager
    async def served(
        self, *, model: Provider, channels: dict[str, Any], **more: Any
    ) -> AsyncIterator[Served]:
        """Run a gateway with the bot, to which the platform posts where it does.

        The section ``telegram`` of `channels` is that of the bot, whatever it is called; its
        approvers are those of its account.
        """
        plugins = []
        # Who writes to a guest that nobody has set up waits to be let in: `test_peers` has that.
        open_to_all = {"senders": ["*"], "groups": "all"} if self._form == "guest" else {}
        channels = {**channels, "telegram": {**open_to_all, **channels.get("telegram", {})}}
        if section := channels.get("telegram"):
            mine = [{"account": self.account, **one} for one in section.get("approvers", ())]
            channels = {**channels, self.name: {**section, "approvers": mine}}
            if self.name != "telegram":
                del channels["telegram"]
        if self._form == "python":
            plugins = [Telegram(self._api.url, polling=self.way == "polling")]
        else:
            wasm = {"wasm": {"folders": [str(self._folder)]}}
            more["plugin"] = {**wasm, **more.get("plugin", {})}
        async with self._serve(*plugins, model=model, channels=channels, **more) as served:
            if self.way == "webhook":
                given = {"url": f"{served.url}/webhook/{self.name}", "secret_token": SECRET}
                url = f"{self._api.url}/bot{TOKEN}/setWebhook"
                async with served.http.post(url, json=given) as answer:
                    assert answer.status == 200
            yield served


def guest_for(api: BotApi, way: str, folder: Path) -> None:
    """Put the guest into `folder` as its page has an operator write it, for the local platform."""
    plugin = folder / "telegram"
    shutil.copytree(GUEST, plugin, ignore=shutil.ignore_patterns("target"))
    manifest = plugin / "hookgate-plugin.toml"
    text = manifest.read_text(encoding="utf-8").replace("https://api.telegram.org", api.url)
    page = (GUEST / "README.md").read_text(encoding="utf-8")
    webhook = page.partition("```toml\n")[2].partition("```")[0]
    assert "[channel.webhook]" in webhook
    assert POLLING in text
    connection = POLLING.replace("25", "1") if way == "polling" else webhook
    manifest.write_text(text.replace(POLLING, connection), encoding="utf-8")


@pytest.fixture(
    params=[
        ("python", "webhook"),
        pytest.param(("python", "polling"), marks=pytest.mark.slow),
        pytest.param(("guest", "webhook"), marks=pytest.mark.slow),
        ("guest", "polling"),
    ],
    ids="-".join,
)
def bot(
    request: pytest.FixtureRequest,
    serve: Serve,
    api: BotApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Bot:
    form, way = request.param
    folder = tmp_path / "plugins"
    if form == "guest":
        guest_for(api, way, folder)
        monkeypatch.setenv("TELEGRAM_API", api.url)
        monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
        monkeypatch.setenv("TELEGRAM_WEBHOOK_SECRET", SECRET)
    return Bot(serve, api, form, way, folder)


@pytest.fixture
def hook(serve: Serve, api: BotApi, tmp_path: Path) -> Bot:
    """The bot in Python, by its webhook, where the form and the way make no difference."""
    return Bot(serve, api, "python", "webhook", tmp_path)
