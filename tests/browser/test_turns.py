"""The view Turns: from a slow or refused turn to the hook, the rule or the tool that did it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import LEAK, NAUGHTY
from tests.support.script import until

from hookgate import Flags, Host, Tool, Turn, Verdict, hookimpl

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


class Guard:
    """Denies what it is told to, in words of its own."""

    name = "guard"

    @hookimpl
    def before_tool_call(self, turn: Turn) -> Verdict:
        return Verdict.deny(NAUGHTY)


async def test_from_home_to_what_refused_a_call_in_three_clicks(show: Show) -> None:
    async with show(Guard()) as shown:
        page = shown.page
        await shown.open("turns")
        await shown.until("No turn has run")
        await page.get_by_label("Hooks").select_option("timed")
        await shown.until("a quarter more meanwhile")
        assert "--hooks" in await shown.text(".command")
        await until(lambda: shown.gateway.host.hooks.spans is not None)
        await shown.open("chat")
        await shown.say("/call calculate " + json.dumps({"expression": "17*23"}))
        await page.wait_for_selector(".cost")
        await shown.open()
        await page.get_by_role("link", name="Turns now").click()
        await page.locator("tbody a").first.click()
        await shown.until("What ran")
        calls = await shown.text("[aria-label='Tool calls']")
        assert "denied" in calls
        assert "by guard" in calls
        assert "<script>alert(2)</script>" in calls
        assert "U+202E" in calls
        assert await shown.axe() == []
        # The log of what ran is searched, and a link shows the same.
        await page.keyboard.press("/")
        await page.keyboard.type("before_tool_call")
        await page.locator("[aria-label='What ran'] td", has_text="Verdict DENY").first.wait_for()
        assert "find=before_tool_call" in page.url
        assert "metering" not in await shown.text("[aria-label='What ran']")
        await page.get_by_label("Shown as").select_option("log")
        log = await shown.text("[aria-label=Log]")
        assert "Verdict DENY" in log and "as=log" in page.url
        await page.fill("[data-search]", "calculate")
        await page.locator("[aria-label=Log]", has_text="denied; deny, by guard").wait_for()
        assert await shown.axe() == []
        await page.fill("[data-search]", "before_tool_call")
        await page.get_by_label("Shown as").select_option("waterfall")
        await page.reload()
        await page.locator("[aria-label='What ran'] td", has_text="Verdict DENY").first.wait_for()
        assert "#/policy?turn=" in await page.get_by_role("link", name="Replay").get_attribute(
            "href"
        )
        await page.get_by_role("link", name="calculate").click()
        await shown.until("tool_decided: deny")


async def test_what_comes_is_counted_and_filters_stand_in_the_address(show: Show) -> None:
    async with show() as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say("what is 17*23?")
        await page.wait_for_selector(".cost")
        await shown.open("turns")
        await page.locator("tbody tr").first.wait_for()
        other = await shown.context.new_page()
        shown.watch(other)
        await other.goto(f"{shown.url}/ui/#/chat")
        await other.fill("#message", '/call read_file {"path": "notes.txt"}')
        await other.press("#message", "Enter")
        await page.get_by_role("button", name="1 new").click()
        await page.locator("tbody tr").nth(1).wait_for()
        await page.get_by_label("Tainted").select_option("yes")
        await page.locator("tbody tr").nth(1).wait_for(state="detached")
        assert "tool:read_file" in await shown.text("tbody")
        assert "--tainted" in await shown.text(".command")
        await page.reload()
        await shown.until("tool:read_file")


async def test_a_running_turn_is_followed_to_its_end(show: Show) -> None:
    async with show() as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say(LEAK)
        await page.wait_for_selector(".asks")
        await shown.open("turns?ending=running")
        await page.locator("tbody td", has_text="running").wait_for()
        other = await shown.context.new_page()
        shown.watch(other)
        await other.goto(f"{shown.url}/ui/#/approvals")
        await other.get_by_role("button", name="Deny").click()
        await page.locator("tbody td", has_text="ended").wait_for()
        await page.locator("tbody a").first.click()
        await shown.until("done in")


async def test_a_turn_that_is_gone_or_a_filter_without_a_meaning_leads_back(show: Show) -> None:
    async with show(width=360) as shown:
        await shown.open("turns/turn_%3Cscript%3E%zz")
        await shown.until("is none of the last 2,000 that you")
        await shown.page.get_by_role("link", name="All turns").click()
        await shown.until("No turn has run")
        await shown.open("turns?ending=nonsense&slower=-x&tainted=maybe&session=%00")
        await shown.page.get_by_role("link", name="Show all").click()
        await shown.until("No turn has run")


async def test_a_tab_follows_what_its_view_shows_alone(show: Show) -> None:
    async with show() as shown:

        def followed() -> set[str]:
            heard = shown.gateway.host.events._subscriptions
            return {each for one in heard if one.principal for each in one.types}

        # Every view says how many questions are open, and whether anything is kept.
        always = {"approval", "degraded", "recovered"}
        await shown.open("audit")
        await until(lambda: followed() == always)
        await shown.open("turns")
        await until(lambda: followed() == {*always, "done"})
        await shown.open("graph")
        await until(lambda: followed() == {*always, "capabilities_indexed"})


class Asks:
    """Brings a tool that asks another agent."""

    name = "asks"

    @hookimpl
    def list_tools(self, host: Host) -> list[Tool]:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
            return (await host.nested_turn(turn, "what is 17*23?")).answer

        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        tool = Tool(name="ask_other", description="Asks.", schema=schema, run=run)
        return [replace(tool, flags=Flags.none())]


async def test_a_turn_is_a_tree_with_those_nested_in_it_and_outlives_a_restart(show: Show) -> None:
    async with show(Asks(), width=360) as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say("/call ask_other {}")
        await page.wait_for_selector(".cost")
        await shown.open("turns")
        await page.locator("tbody tr").nth(1).wait_for()
        await page.locator("tbody tr", has_text="ask_other").locator("a").first.click()
        tree = page.locator("[aria-label='Turns of this message']")
        await tree.locator("tbody tr").nth(1).wait_for()
        assert "calculate" in await tree.inner_text()
        await page.locator("[aria-label='What ran'] a", has_text="nested").first.wait_for()
        await page.get_by_label("Shown as").select_option("log")
        await page.locator("[aria-label=Log]", has_text="calculate").wait_for()
        assert await shown.axe() == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await tree.locator("tbody a").nth(1).click()
        await shown.until("Nested in")
        address = page.url
    async with show() as shown:
        await shown.page.goto(f"{shown.url}/ui/{address[address.index('#') :]}")
        await shown.until("Nested in")


HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_tab_that_nobody_sees_asks_nothing_until_somebody_does(show: Show) -> None:
    async with show() as shown:
        page = shown.page
        asked: list[str] = []
        heard: list[str] = []

        def watch(socket: Any) -> None:
            socket.on("framesent", lambda frame: asked.append(str(frame)))
            socket.on("framereceived", lambda frame: heard.append(str(frame)))

        page.on("websocket", watch)
        await shown.open("turns")
        await shown.until("No turn has run")
        await until(lambda: any('"done"' in one for one in asked))
        await page.evaluate(HIDE, True)
        asked.clear()
        await shown.gateway.chat("what is 17*23?")
        await until(lambda: any('"type":"done"' in one for one in heard))
        assert [one for one in asked if "turn.list" in one] == []
        await page.evaluate(HIDE, False)
        await page.locator("tbody tr").first.wait_for()
        assert [one for one in asked if "turn.list" in one] != []
