"""The view Graph: what hangs together, by pointer and by keys."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY

from hookgate import Capability, hookimpl

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
