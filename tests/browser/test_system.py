"""The view System: what runs, what waits, who may come in, and the buttons for it."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS

from hookgate import ChannelError

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


async def test_plugins_say_why_and_content_is_read_again(show: Show) -> None:
    async with show(plugins={"disable": ["inventory"]}) as shown:
        page = shown.page
        await shown.open("system")
        await page.get_by_role("button", name="Reload").click()
        await shown.until("Read again.")
        await shown.until("current")
        await page.get_by_role("link", name="Plugins", exact=True).click()
        await page.wait_for_selector("[data-search]")
        await page.keyboard.press("/")
        await page.keyboard.type("inventory")
        await shown.until("disabled")
        row = page.locator("tbody tr", has_text="disabled")
        await row.get_by_role("button", name="Why").click()
        await shown.until("inventory:")
        await shown.open("system/plugins?name=<script>")
        await page.get_by_role("link", name="Show all").click()
        await shown.until("dashboard")
        await shown.open("system/%3Cb%3E%zz")
        await page.get_by_role("link", name="Overview").last.click()
        await page.get_by_role("button", name="Reload").wait_for()


async def test_a_schedule_is_run_paused_and_taken_up_again(show: Show) -> None:
    jobs = {"tidy": {"every": "300d", "text": "say hello"}}
    async with show(plugin={"schedules": {"jobs": jobs}}) as shown:
        await shown.open("system/schedules")
        await shown.page.get_by_role("button", name="Run").click()
        await shown.until("waterfall")
        assert "loopback" in await shown.text()
        await shown.page.get_by_role("button", name="Pause").click()
        await shown.page.get_by_role("button", name="Resume").click()
        await shown.page.get_by_role("button", name="Pause").wait_for()


async def test_dead_letters_are_said_again_and_a_channel_rests(show: Show) -> None:
    bell = Bell(HEADER)
    bell.failing = [ChannelError(NAUGHTY)]
    async with show(bell, secrets=SECRETS) as shown:
        async with ClientSession() as http:
            posted = http.post(f"{shown.url}/webhook/bell", data=event(1), headers={"X-Key": KEY})
            assert (await posted).status == 200
        await bell.until(lambda: bell.keys)
        await shown.open("system/channels")
        letters = shown.page.get_by_role("region", name="Dead letters")
        await letters.get_by_text("<script>alert(2)</script>").first.wait_for()
        assert "U+202E" in await letters.inner_text()
        await letters.get_by_role("button", name="Replay").click()
        await bell.until(lambda: bell.said)
        await shown.until("Everything could be delivered.")
        await shown.page.get_by_role("button", name="Pause").click()
        await shown.page.get_by_role("button", name="Resume").click()
        await shown.page.get_by_role("button", name="Pause").wait_for()
        assert await shown.axe() == []


async def test_a_token_is_revoked_after_a_second_look(show: Show) -> None:
    async with show(
        names={"ann": {"scopes": ["read"]}, "ops": {"scopes": ["read", "operate"]}}
    ) as shown:
        page = shown.page
        await page.goto(f"{shown.url}/ui/#/system/tokens")
        await page.fill("input[type=password]", shown.tokens["ops"])
        await page.keyboard.press("Enter")
        row = page.locator("tr", has_text="ann")
        await row.get_by_role("button", name="Revoke", exact=True).click()
        assert "valid" in await row.inner_text()
        await row.get_by_role("button", name="Revoke for good").click()
        await shown.until("revoked")
        assert shown.tokens["ann"] not in await page.content()
