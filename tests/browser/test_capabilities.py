"""The view Capabilities: what there is, what may be done to it, what a model finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY
from tests.builtin_plugins.inventory.acme import Acme, House, record
from tests.support.script import Tools, echo_tool

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

NATIVE = "native:native:global:global"
LOGIN = record("git", status="manageable-but-pending-auth", hint="run `acme login`")
BUILT_IN = record("bash", kind="tool", source="runtime-builtin", manageability="observe-only")


async def test_what_is_there_is_narrowed_and_its_buttons_are_the_records_own(show: Show) -> None:
    acme = Acme(record("mail"), LOGIN, BUILT_IN)
    async with show(House(acme)) as shown:
        await shown.open("capabilities")
        await shown.page.fill("[data-search]", "MAIL")
        row = shown.page.locator("tbody tr", has_text="mail").first
        await row.get_by_role("button", name="disable").click()
        await row.get_by_role("button", name="enable").wait_for()
        assert next(iter(acme.records.values())).status == "disabled"
        # The filter is in the address: a link shows the same.
        await shown.open("capabilities?runtime=acme")
        git = shown.page.locator("tbody tr", has_text="git")
        assert await git.get_by_role("button", name="enable").is_disabled()
        assert "acme login" in await git.inner_text()
        built_in = shown.page.locator("tbody tr", has_text="bash")
        assert await built_in.get_by_role("button").count() == 0
        assert "built-in" in await built_in.inner_text()
        assert await shown.page.locator("tbody tr").count() == 3


async def test_all_of_a_tool_is_shown_and_a_skill_is_installed(show: Show) -> None:
    async with show() as shown:
        await shown.open("capabilities?kind=tool")
        await shown.page.get_by_role("link", name="calculate").click()
        await shown.until("expression")
        assert "plugin tools" in await shown.text()
        await shown.page.get_by_role("link", name="All capabilities").click()
        await shown.page.get_by_text("Install a skill").click()
        await shown.page.get_by_label("Name").fill("tea")
        await shown.page.get_by_label("Text", exact=True).last.fill("Warm the pot first.")
        await shown.page.get_by_role("button", name="Install").click()
        await shown.page.get_by_role("status").get_by_role("link", name="tea").click()
        await shown.until("installed by")


async def test_what_a_model_would_find_says_why(show: Show) -> None:
    async with show() as shown:
        await shown.open("capabilities?show=find")
        await shown.page.fill("[data-search]", "what time is it")
        await shown.page.keyboard.press("Enter")
        await shown.until("tool:clock")
        assert "words" in await shown.text("tbody")
        await shown.page.get_by_text("Map of categories").click()
        assert "Calculation" in await shown.text("details pre")


async def test_a_tool_that_has_changed_shows_what_and_is_accepted(show: Show) -> None:
    async with show(Tools(echo_tool())):
        pass
    other = replace(echo_tool(), description=f"Says it. {NAUGHTY}")
    async with show(Tools(other)) as shown:
        await shown.open("capabilities?show=accept")
        await shown.until("description")
        changed = await shown.text(".question")
        assert "Says echo." in changed
        assert "<script>alert(2)</script>" in changed
        assert await shown.axe() == []
        await shown.page.get_by_role("button", name="Accept", exact=True).click()
        await shown.until("Nothing waits.")


async def test_texts_of_others_are_texts_and_a_wrong_filter_leads_back(show: Show) -> None:
    acme = Acme(
        record("odd:%/..", name=NAUGHTY, description=NAUGHTY, provenance=NAUGHTY, hint=NAUGHTY),
        record("away", status="unavailable", diagnostics=(NAUGHTY,)),
    )
    async with show(House(acme)) as shown:
        shown.page.on("dialog", lambda dialog: shown.faults.append(dialog.message))
        await shown.open("capabilities?runtime=acme")
        await shown.until("<script>alert(2)</script>")
        assert "\\u202e" in await shown.text("tbody")
        assert await shown.page.query_selector("main img, main script") is None
        assert await shown.axe() == []
        await shown.page.locator("tbody a").last.click()
        await shown.until("odd:%/..")
        for gone in ("capabilities?kind=spell", "capabilities/gone", "capabilities/%E0%A4%A"):
            await shown.open(gone)
            await shown.page.wait_for_selector(".wrong")
            await shown.page.locator(".empty a, main p a").first.click()
            await shown.until("calculate")
