"""Pages in a real Chromium: what they ask for elsewhere, what they log and what they break fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.wire import tokens

from hookgate import Gateway, Settings
from hookgate.core.gateway.serve import Listener, listen

DRIVER = find_spec("playwright")
collect_ignore_glob = [] if DRIVER else ["test_*.py"]
"""What drives the browser is installed by `make test-browser` alone."""

CHROMIUM = os.environ.get("HOOKGATE_CHROMIUM") or shutil.which("chromium") or ""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
AXE = Path(__file__).parents[2] / ".venv/browser/node_modules/axe-core/axe.min.js"
WAIT = 100_000


@dataclass
class Shown:
    """A gateway, and a page of it in a browser.

    Attributes:
        gateway: The gateway.
        listener: Its listener.
        page: Playwright's page.
        faults: What the browser has complained about.
        tokens: The tokens of the settings, by name.
    """

    gateway: Gateway
    listener: Listener
    page: Any
    context: Any
    tokens: dict[str, str]
    faults: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        return self.listener.url

    async def open(self, view: str = "") -> None:
        """Go to a view and wait until it is there."""
        await self.page.goto(f"{self.url}/ui/#/{view}")
        await self.page.wait_for_selector("main h2")

    async def say(self, text: str) -> None:
        """Send a message in the view Chat."""
        await self.page.fill("#message", text)
        await self.page.press("#message", "Enter")

    async def text(self, selector: str = "main") -> str:
        """Return what is to be read there."""
        return str(await self.page.inner_text(selector))

    async def until(self, text: str) -> None:
        """Wait until this is to be read on the page."""
        await self.page.get_by_text(text).first.wait_for()

    def watch(self, page: Any) -> None:
        """Keep what a page does wrong."""
        page.set_default_timeout(WAIT)
        page.on("console", lambda one: one.type in ("error", "warning") and self._fault(one.text))
        page.on("pageerror", lambda error: self._fault(f"error: {error}"))
        page.on("request", lambda one: self._asked(one.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", self.url.replace("http", "ws"))):
            self._fault(f"asked elsewhere: {url}")

    def _fault(self, what: str) -> None:
        # A refused login is a 401 that Chromium names in its console.
        if "status of 401" not in what:
            self.faults.append(what)

    async def axe(self) -> list[str]:
        """Return what hinders people in the page as it is now."""
        if not AXE.is_file():
            pytest.skip("axe-core is not there: `make test-browser` installs it where npm is")
        # The page's own policy lets nothing else in, so axe is put in by the browser.
        await self.page.evaluate(AXE.read_text("utf-8") + "\n;0")
        result = await self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in result["violations"]
            for node in one["nodes"]
        ]


Show = Callable[..., AbstractAsyncContextManager[Shown]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have all tests of pages run in one loop, which the browser that they share belongs to."""
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Any]:
    """Start a browser for all tests of a process: each has a context of its own in it."""
    if not CHROMIUM:
        pytest.skip("NO page was tested: no Chromium was found; HOOKGATE_CHROMIUM names one")
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Show:
    """Start a gateway with all builtin plugins and look at it; `names` makes it have tokens."""

    @asynccontextmanager
    async def show(
        *plugins: object,
        names: Mapping[str, Any] | None = None,
        width: int = 1200,
        scheme: str = "light",
        **sections: Any,
    ) -> AsyncIterator[Shown]:
        section, made = tokens(**names) if names else ({}, {})
        notes = tmp_path / "notes"
        notes.mkdir(exist_ok=True)
        notes.joinpath("notes.txt").write_text("Meeting moved to Thursday, 14:00.\n")
        grants = {"read_roots": [str(notes)], "http_get": ["https://collector.example/*"]}
        settings = Settings.model_validate(
            {
                "home": tmp_path / "home",
                "gateway": {"port": 0, **section, **sections.pop("gateway", {})},
                "log": {"level": "error", **sections.pop("log", {})},
                "plugins": {"entry_points": False},
                "plugin": {"tools": grants, **sections.pop("plugin", {})},
                **sections,
            }
        )
        async with Gateway(settings, plugins=plugins) as gateway, listen(gateway) as listener:
            context = await chromium.new_context(
                color_scheme=scheme,
                # While a colour changes no contrast can be judged.
                reduced_motion="reduce",
                viewport={"width": width, "height": 900},
            )
            shown = Shown(gateway, listener, await context.new_page(), context, made)
            shown.watch(shown.page)
            yield shown
            await context.close()
        assert shown.faults == []

    return show
