"""The view Graph: what hangs together, by pointer and by keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY

from hookgate import Capability, Flags, Tool, ToolResult, Turn, hookimpl

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


class Naughty:
    name = "naughty"

    @hookimpl
    def list_capabilities(self) -> list[Capability]:
        needs = {"required_tools": ("calculate",), "category": NAUGHTY}
        return [Capability(id=f"skill:{NAUGHTY}", kind="skill", name="odd", **needs)]


async def test_a_node_shows_its_neighbours_by_click_and_by_keys(show: Show) -> None:
    async with show() as shown:
        await shown.open("graph")
        await shown.page.get_by_role("button", name="skill:date-arithmetic").click()
        await shown.page.wait_for_selector("tbody tr")
        assert "tool:calculate" in await shown.text("tbody")
        assert "focus=skill" in shown.page.url
        assert await shown.axe() == []
        await shown.page.get_by_role("button", name="tool:calculate").last.click()
        await shown.until("needed by")
        await shown.page.locator("svg g[tabindex='0']").focus()
        await shown.page.keyboard.press("Escape")
        await shown.until("Choose a node")
        await shown.page.keyboard.press("ArrowLeft")
        await shown.page.keyboard.press("ArrowDown")
        await shown.page.keyboard.press("Enter")
        await shown.page.wait_for_selector("[aria-label=Chosen]")
        assert "focus=skill" in shown.page.url


async def test_it_is_narrowed_and_says_what_an_agent_may_not_use(show: Show) -> None:
    agents = {"demo": {"model": "demo/demo"}, "ada": {"model": "demo/demo", "tools": ["clock"]}}
    async with show(agents=agents) as shown:
        await shown.open("graph?agent=ada")
        off = shown.page.get_by_role("button", name="tool:calculate, not available")
        await off.wait_for()
        assert await shown.page.get_by_role("button", name="tool:clock", exact=True).count() == 1
        await shown.page.fill("[data-search]", "date-arith")
        await shown.page.get_by_role("button", name="skill:draft-email").wait_for(state="detached")
        assert await off.count() == 1
        async with shown.page.expect_download() as download:
            await shown.page.get_by_role("button", name="SVG").click()
        assert (await download.value).suggested_filename == "graph.svg"


async def test_texts_of_others_are_texts_and_what_is_gone_leads_back(show: Show) -> None:
    async with show(Naughty()) as shown:
        shown.page.on("dialog", lambda dialog: shown.faults.append(dialog.message))
        await shown.open("graph?text=onerror&edges=constructor,DEPENDS_ON")
        await shown.page.locator("svg g.node", has_text="<img src=x").click()
        await shown.page.wait_for_selector("tbody >> text=tool:calculate")
        assert "U+202E" in await shown.text("h3")
        assert await shown.page.query_selector("main img, main script") is None
        for gone in ("graph?focus=skill:gone", "graph?text=nothing+at+all"):
            await shown.open(gone)
            await shown.page.get_by_role("link", name="The whole graph").click()
            await shown.page.get_by_role("button", name="tool:clock").wait_for()


class Web:
    """Brings a tool whose answers are a stranger's."""

    name = "web"

    @hookimpl
    def list_tools(self) -> list[Tool]:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
            return ToolResult(content="from afar", taint=frozenset((NAUGHTY,)))

        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        return [Tool(name="peek", description="Looks.", schema=schema, run=run, flags=Flags.none())]


async def test_the_way_of_a_tainted_value_is_drawn_from_its_source_to_what_it_touched(
    show: Show,
) -> None:
    async with show(Web(), width=360) as shown:
        page = shown.page
        page.on("dialog", lambda dialog: shown.faults.append(dialog.message))
        await shown.open("chat")
        await shown.say("/call peek {}")
        await page.wait_for_selector(".cost")
        await shown.open("turns")
        await page.locator("tbody a").first.click()
        await page.get_by_role("link", name="The way of it").click()
        await page.get_by_role("button", name="call:peek (1)", exact=True).first.wait_for()
        way = await shown.text("[aria-label=Way]")
        assert "brought" in way and "was read before" in way and "answer" in way
        assert "<script>alert(2)</script>" in way and "U+202E" in way
        assert await page.query_selector("main img, main script") is None
        assert await shown.axe() == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.locator("svg g.node", has_text="peek").first.click()
        await page.locator("[aria-label=Way] tbody tr").nth(1).wait_for(state="detached")
        assert "focus=call" in page.url
        async with page.expect_download() as download:
            await page.get_by_role("button", name="SVG").click()
        assert (await download.value).suggested_filename.startswith("way-turn_")
        await shown.open("graph?turn=turn_gone")
        await shown.until("is none of the last 2,000")
        await page.get_by_role("link", name="The whole graph").click()
        await page.get_by_role("button", name="tool:clock").wait_for()
