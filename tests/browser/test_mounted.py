"""Gateways below a path of another application, and two of them on one host name."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.browser.conftest import WAIT
from tests.support.wire import tokens

from hookgate import Gateway, Settings

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


async def test_pages_below_two_paths_of_one_host_have_sessions_of_their_own(
    chromium: Any, tmp_path: Path
) -> None:
    section, made = tokens(ann={"scopes": ["chat", "approve", "operate", "read"]})
    async with AsyncExitStack() as stack:
        parent = web.Application()
        for name in ("one", "two"):
            settings = Settings.model_validate(
                {
                    "home": tmp_path / name,
                    "gateway": section,
                    "log": {"level": "error"},
                    "plugins": {"entry_points": False},
                }
            )
            gate = await stack.enter_async_context(Gateway(settings))
            parent.add_subapp(f"/{name}/deep", gate.app())
        runner = web.AppRunner(parent)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        context = await chromium.new_context()
        stack.push_async_callback(context.close)
        pages = {}
        for name in ("one", "two"):
            page = pages[name] = await context.new_page()
            page.set_default_timeout(WAIT)
            # Without the slash, too.
            await page.goto(f"http://127.0.0.1:{port}/{name}/deep/ui")
            await page.fill("[type=password]", made["ann"])
            await page.get_by_role("button", name="Log in").click()
            await page.get_by_text("Open questions").wait_for()
        for name, page in pages.items():
            await page.reload()
            await page.get_by_text("Open questions").wait_for()
            await page.goto(f"http://127.0.0.1:{port}/{name}/deep/ui/#/chat")
            await page.fill("#message", f"hello {name}")
            # The button can be pressed once the page is connected; a key before that sends nothing.
            await page.get_by_role("button", name="Send").click()
            await page.locator(".cost").wait_for()
            await page.goto(f"http://127.0.0.1:{port}/{name}/deep/ui/#/turns")
            await page.locator("tbody tr").first.wait_for()
            assert await page.locator("tbody tr").count() == 1
        await pages["one"].get_by_role("button", name="Log out").click()
        await pages["one"].locator("[type=password]").wait_for()
        await pages["two"].reload()
        await pages["two"].locator("tbody tr").first.wait_for()
