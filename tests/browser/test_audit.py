"""The view Audit: what was decided, one call's whole life, and whether the record is whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import NAUGHTY

from hookgate import AUDIT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


async def test_from_a_row_to_the_whole_life_of_its_call_and_into_a_file(show: Show) -> None:
    async with show() as shown:
        page = shown.page
        await shown.open("audit")
        await shown.until("Nothing was decided yet")
        await shown.open("chat")
        await shown.say("what is 17*23?")
        await page.wait_for_selector(".cost")
        await shown.open("audit")
        await page.get_by_label("Kind").fill("tool_decided")
        await shown.until("calculate")
        assert "tool_finished" not in await shown.text("table")
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="JSON lines").click()
        assert (await saved.value).suggested_filename == "audit.jsonl"
        await page.get_by_role("button", name="Verify the chain").click()
        await shown.until("2 rows")
        await page.locator("tbody tr td:nth-child(6) a").click()
        await shown.until("tool_finished: done")
        life = await shown.text()
        assert life.index("tool_decided: allow") < life.index("tool_finished: done")
        assert '{"expression":"17*23"}' in life
        assert await shown.axe() == []


async def test_what_comes_is_counted_and_older_rows_are_asked_for(show: Show) -> None:
    async with show() as shown:
        audit = shown.gateway.host[AUDIT]
        for number in range(60):
            kind = NAUGHTY if number == 59 else "noted"
            await audit.append(kind, {"reason": f"{number} {NAUGHTY}"})
        await shown.open("audit")
        await shown.until("59 <img src=x")
        assert await shown.page.locator("tbody tr").count() == 50
        assert "U+202E" in await shown.text("tbody tr >> nth=0")
        await shown.page.get_by_role("button", name="Older").click()
        await shown.page.locator("tbody tr").nth(59).wait_for()
        await audit.append("late", {"reason": "the last"})
        await shown.page.get_by_role("button", name="1 new").click()
        await shown.until("the last")


async def test_a_filter_that_fits_nothing_leads_back(show: Show) -> None:
    async with show(width=360) as shown:
        await shown.open("audit?outcome=nonsense&kind=%zz&call=%3Cscript%3E&unknown=1")
        await shown.page.get_by_role("link", name="Show everything").click()
        await shown.until("Nothing was decided yet")


async def test_what_is_typed_while_an_answer_takes_long_is_one_question(show: Show) -> None:
    async with show() as shown:
        operations, asked, free = shown.gateway.host.operations, [], asyncio.Event()
        known = operations["audit.list"]

        async def slow(invocation: Any, params: Any) -> Any:
            asked.append(params.tool)
            await free.wait()
            return await known.handler(invocation, params)

        operations["audit.list"] = replace(known, handler=slow)
        await shown.open("audit")
        await shown.page.locator("[data-search]").press_sequentially("calculate")
        free.set()
        await shown.until("Nothing fits this filter.")
        assert list(dict.fromkeys(asked)) == ["", "calculate"]
