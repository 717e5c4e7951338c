"""The view Memory: what is known, why it is recalled, and that it is gone once it is forgotten."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Show, Shown
from tests.browser.test_dashboard import NAUGHTY

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


async def told(shown: Shown, *said: str) -> None:
    """Let somebody have said this in a chat."""
    await shown.open("chat")
    for number, text in enumerate(said, 1):
        await shown.say(text)
        await shown.page.wait_for_function(
            "count => document.querySelectorAll('.cost').length === count", arg=number
        )
    await shown.open("memory")


async def test_a_fact_shows_what_took_its_place_and_what_it_rests_on(show: Show) -> None:
    async with show() as shown:
        await told(shown, "I live in Rome.", "I moved to Oslo.")
        await shown.page.wait_for_selector("tbody tr")
        assert "Rome" not in await shown.text("tbody")
        await shown.page.get_by_text("also what is not known any more").click()
        await shown.page.locator("tbody a", has_text="Rome").click()
        await shown.until("What took whose place")
        assert "changed" in await shown.text("dl")
        assert "Oslo" in await shown.text("table >> nth=1")
        assert await shown.axe() == []
        await shown.page.get_by_role("link", name="what was said").first.click()
        await shown.until("I moved to Oslo.")


async def test_a_search_and_a_message_say_why_lines_are_found(show: Show) -> None:
    async with show() as shown:
        await told(shown, "My dog is called Luna.")
        await shown.page.get_by_role("link", name="Search").click()
        await shown.until("Ask what is remembered")
        await shown.page.fill("[data-search]", "what is my dog called?")
        await shown.page.keyboard.press("Enter")
        await shown.page.locator("tbody tr", has_text="Luna").first.wait_for()
        await shown.page.get_by_role("link", name="What a message recalls").click()
        await shown.until("Say a message")
        await shown.page.fill("[data-search]", "what is my dog called?")
        await shown.page.keyboard.press("Enter")
        await shown.until("stands in the history")
        assert "tokens" in await shown.text()
        await shown.open("memory?show=search&query=dog&as_of=yesterday")
        await shown.until("expected one such as 2024-05-15")


async def test_forgetting_says_first_what_goes_with_it(show: Show) -> None:
    async with show() as shown:
        await told(shown, "My dog is called Luna.")
        await shown.page.locator("tbody a", has_text="Luna").click()
        await shown.page.get_by_role("button", name="this").click()
        await shown.until("1 facts and notes, and 2 pieces of what was said")
        await shown.page.keyboard.press("Escape")
        await shown.page.locator("dialog").wait_for(state="detached")
        await shown.page.get_by_role("button", name="this").click()
        await shown.page.get_by_role("button", name="Forget for good").click()
        await shown.until("are gone")
        await shown.page.get_by_role("button", name="Close").click()
        await shown.until("Nothing is known yet.")


async def test_what_others_said_is_text_and_what_is_gone_leads_back(show: Show) -> None:
    async with show() as shown:
        shown.page.on("dialog", lambda dialog: shown.faults.append(dialog.message))
        await shown.open("chat")
        await shown.page.get_by_label("Conversation", exact=True).first.fill(
            "<img src=x onerror=alert(4)>"
        )
        await told(shown, f"Please remember: {NAUGHTY}")
        await shown.open("memory?kind=turn")
        await shown.until("<script>alert(2)</script>")
        assert "U+202E" in await shown.text("tbody")
        assert await shown.page.query_selector("main img, main script") is None
        assert await shown.axe() == []
        for gone in ("memory?kind=spell&show=constructor", "memory/gone", "memory?scope=nobody"):
            await shown.open(gone)
            await shown.page.locator(".empty").wait_for()
            await shown.page.locator(".empty a, main p a").first.click()
            await shown.until("is called Luna.”")


async def test_a_link_followed_before_the_first_paint_is_followed(show: Show) -> None:
    async with show() as shown:
        await shown.open("chat")
        await shown.page.evaluate(
            """() => {
              new MutationObserver((_, watch) => {
                if (!document.querySelector("main select")) return;
                watch.disconnect();
                location.hash = "#/memory?kind=turn";
              }).observe(document.querySelector("main"), { childList: true, subtree: true });
              location.hash = "#/memory";
            }"""
        )
        await shown.until("Nothing fits.")
        assert await shown.page.get_by_label("Kind").input_value() == "turn"
