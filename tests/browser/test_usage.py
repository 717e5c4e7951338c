"""The view Usage: who spends what, when a budget ends, and raising it for the day."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Show

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

METERING = {
    "prices": {"demo/*": {"input": 3, "output": 15}},
    "budgets": {"daily": {"tokens": 10_000_000}},
}


async def test_who_spends_what_and_the_budget_is_raised_for_the_day(show: Show) -> None:
    async with show(plugin={"metering": METERING}) as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say("hello there")
        await page.wait_for_selector(".cost")
        await page.keyboard.press("Escape")
        await page.keyboard.press("g")
        await page.keyboard.press("u")
        await page.wait_for_selector("[aria-label='Usage by model'] tbody tr")
        # From the model to its days by one press; the address says the same.
        await page.click("[aria-label='Usage by model'] .link")
        await page.wait_for_selector("[aria-label='Usage by day'] tbody tr")
        assert "model=demo" in page.url
        assert "--model demo/" in await shown.text(".command")
        budgets = page.locator("[aria-label='Budgets']")
        assert "of 10,000,000 tokens" in await budgets.inner_text()
        assert "an hour" in await budgets.inner_text()
        await budgets.get_by_text("Raise…").click()
        await page.get_by_label("More, until it begins anew").fill("5000")
        await page.get_by_role("button", name="Raise", exact=True).click()
        await shown.until("is raised by 5,000 tokens")
        await shown.until("10,005,000 tokens")


async def test_a_budget_is_set_and_taken_away_and_nothing_of_names_runs(show: Show) -> None:
    async with show() as shown:
        page = shown.page
        await shown.open("usage")
        await shown.until("No model was called in this time")
        await shown.until("Nothing is limited")
        await page.click("summary")
        await page.get_by_label("Name", exact=True).fill("naughty")
        await page.get_by_label("Scope").select_option("agent")
        await page.get_by_label("Of those like").fill("<img src=x onerror=alert(1)>\u202e")
        await page.get_by_label("Tokens", exact=True).fill("1000")
        await page.get_by_role("button", name="Set", exact=True).click()
        await page.wait_for_selector("[aria-label='Budgets'] tbody tr")
        row = await shown.text("[aria-label='Budgets'] tbody")
        assert "<img src=x onerror=alert(1)>U+202E" in row
        assert await page.query_selector("main img") is None
        await page.get_by_role("button", name="Remove").click()
        await shown.until("Nothing is limited")


@pytest.mark.parametrize("filter", ["by=nonsense", "since=yesterday", "limit=-1", "model=gone"])
async def test_a_filter_that_finds_nothing_says_so_and_leads_back(show: Show, filter: str) -> None:
    async with show() as shown:
        await shown.open(f"usage?{filter}")
        if filter == "model=gone":
            await shown.until("No model was called")
            await shown.page.get_by_text("model: gone").click()
        else:
            await shown.page.wait_for_selector(".wrong")
            await shown.page.get_by_text("Usage without a filter").click()
        await shown.page.wait_for_selector(".tiles")
        assert shown.page.url.endswith("#/usage")
