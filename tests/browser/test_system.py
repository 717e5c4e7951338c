"""The view System: what runs, what waits, who may come in, and the buttons for it."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS

from hookgate import ChannelError, Turn
from hookgate.hookspecs import hookimpl

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


class Slow:
    """Says something slowly in one hook, and fails in another."""

    name = "slow"

    @hookimpl
    def judge_turn(self, turn: Turn) -> None:
        raise RuntimeError(NAUGHTY)

    @hookimpl
    async def tag_turn(self, turn: Turn) -> set[str]:
        await asyncio.sleep(0.03)
        return {"quokka"}


async def test_an_author_sees_what_the_hooks_of_a_plugin_do_while_one_chats(show: Show) -> None:
    async with show(Slow()) as shown:
        page = shown.page
        await shown.open("system/plugins/nobody")
        await page.get_by_role("link", name="All plugins").click()
        await page.get_by_role("link", name="slow", exact=True).click()
        await shown.until("None of its hooks was called since then.")
        await shown.gateway.chat("hello")
        calls = page.get_by_role("region", name="Last calls")
        await calls.get_by_text("set of 1").wait_for()
        await calls.get_by_text("<script>alert(2)</script>").first.wait_for()
        await calls.get_by_role("link", name="waterfall").first.wait_for()
        hooks = page.get_by_role("region", name="Hooks")
        row = hooks.locator("tr", has_text="tag_turn")
        assert (await row.locator("td").all_inner_texts())[1] == "1"
        await page.get_by_role("link", name="All plugins").click()
        row = page.locator("tbody tr", has=page.get_by_role("link", name="slow", exact=True))
        await row.get_by_text("tag_turn").wait_for()
        assert (await row.locator("td").all_inner_texts())[6] == "1"
        assert await shown.axe() == []


async def test_settings_say_which_layer_set_them_and_hide_secrets(show: Show) -> None:
    async with show(secrets={"canary": "quokka-canary"}, context={"history_turns": 3}) as shown:
        page = shown.page
        await shown.open("system/settings")
        row = page.locator("tbody tr", has_text="context.history_turns")
        assert "program" in await row.inner_text()
        assert "context.budget_tokens" not in await shown.text()
        await page.get_by_label("Set by").select_option("any")
        await shown.until("context.budget_tokens")
        await page.get_by_label("Section").select_option("secrets")
        await shown.until("[redacted]")
        assert "quokka-canary" not in await page.content()
        assert "section=secrets" in page.url
        assert "hookgate config show secrets --all" in await shown.text(".command")
        assert await shown.axe() == []
        await shown.open("system/settings?section=%3Cb%3E&layer=no")
        await page.get_by_role("link", name="Show all").click()
        await shown.until("context.budget_tokens")


async def test_the_log_grows_while_one_looks_and_is_searched(show: Show) -> None:
    async with show(log={"level": "info"}, secrets={"canary": "quokka-canary"}) as shown:
        page, log = shown.page, shown.gateway.log.logger("test")
        await shown.open("system/log")
        await shown.until("cards")
        log.warning(f"{NAUGHTY} quokka-canary", part="one")
        row = page.locator("tbody tr", has_text="part=one")
        await row.wait_for()
        assert "<script>alert(2)</script>" in await row.inner_text()
        assert "quokka" not in await page.content()
        assert "part=one" in await page.locator("tbody tr").first.inner_text()
        assert await shown.axe() == []
        # What is under the pointer stays there.
        await row.hover()
        log.error("another", part="two")
        await page.get_by_role("button", name="1 new").click()
        await page.locator("tbody tr", has_text="part=two").wait_for()
        await page.get_by_label("Least level").select_option("error")
        await page.locator("tbody tr", has_text="part=one").wait_for(state="detached")
        await page.keyboard.press("Escape")
        await page.get_by_label("Search").fill("nothing is like this")
        await shown.until("No such line among the last 500.")
        await shown.open("system/log?level=loud")
        await page.get_by_role("link", name="Show all lines").click()
        await page.locator("tbody tr", has_text="part=one").wait_for()
