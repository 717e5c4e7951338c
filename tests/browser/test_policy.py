"""The view Policy: why a call is asked about, and a rule from its text to its cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser.conftest import Show

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

NAUGHTY = "<img src=x onerror=alert(1)>\u202e"
RULES = """\
rules:
  - name: no-mail-to-strangers
    match: {tool: mail}
    when: args.to != "ann"
    effect: deny
    reason: "<img src=x onerror=alert(1)>"
"""
CASES = """\
cases:
  - name: "a <script>alert(1)</script> stranger"
    call: {tool: mail, arguments: {to: bob}}
    expect: {effect: deny, rule: no-mail-to-strangers}
  - name: ann
    call: {tool: mail, arguments: {to: ann}, flags: {others: false}}
    expect: deny
"""


async def test_a_call_is_explained_by_the_rules_that_are_in_force(
    show: Show, tmp_path: Path
) -> None:
    file = tmp_path / "mail.yaml"
    file.write_text(RULES)
    async with show(plugin={"policy": {"rules": [str(file)]}}) as shown:
        page = shown.page
        # A link brings the call that somebody wonders about.
        await shown.open('policy?tool=mail&arguments={"to":"bob"}&taint=tool:http_get')
        await page.get_by_role("button", name="Explain").click()
        await page.wait_for_selector("[aria-label='Rules'] tbody tr")
        text = await shown.text()
        assert "deny by rule:no-mail-to-strangers" in text
        assert "<img src=x onerror=alert(1)>" in text
        assert "the gateway has no such tool" in text
        assert "--taint tool:http_get" in text
        await page.get_by_label("Arguments, JSON").fill("{")
        await page.keyboard.press("Enter")
        await shown.until("The arguments are no JSON")
        await page.get_by_label("Arguments, JSON").fill("{}")
        await page.get_by_label("Tool", exact=True).fill(NAUGHTY)
        await page.keyboard.press("Enter")
        await shown.until("profile balanced")
        assert await page.query_selector("main img") is None


async def test_a_call_on_record_is_explained_by_two_presses(show: Show) -> None:
    async with show() as shown:
        await shown.open("chat")
        await shown.say("what is 17*23?")
        await shown.page.wait_for_selector(".cost")
        await shown.open("audit?kind=tool_decided&tool=calculate")
        await shown.page.click("[aria-label='Audit'] a[href*='call=']")
        await shown.page.get_by_text("Explain it by the rules of now").click()
        await shown.page.get_by_role("button", name="Explain").click()
        await shown.until("allow")
        assert "17*23" in await shown.page.get_by_label("Arguments, JSON").input_value()
        assert "calculate: " in await shown.text()


async def test_a_rule_goes_from_its_text_to_its_cases_and_to_a_file(
    show: Show, tmp_path: Path
) -> None:
    async with show() as shown:
        page = shown.page
        await shown.open("policy")
        await shown.until("1 rule, nothing wrong.")
        rules, cases = (
            page.get_by_label(name, exact=True) for name in ("rules.yaml", "rules.test.yaml")
        )
        await rules.fill(RULES.replace("deny", "denied"))
        # The problem names its line, and a press goes there.
        await page.get_by_role("button", name="rules.yaml:5").click()
        chosen = "one => one.value.slice(one.selectionStart, one.selectionEnd)"
        assert await rules.evaluate(chosen) == "    effect: denied"
        await rules.fill(RULES)
        await cases.fill(CASES)
        await page.get_by_role("button", name="Run the cases").click()
        await shown.until("1 passed, 1 failed")
        text = await shown.text("[aria-label='Cases']")
        assert "<script>alert(1)</script>" in text
        assert "expected deny, found allow" in text
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="Download rules.yaml").click()
        download = await saved.value
        await download.save_as(tmp_path / "rules.yaml")
        assert (tmp_path / "rules.yaml").read_text("utf-8") == RULES
        # What was typed is there when one comes back.
        await page.keyboard.press("g")
        await page.keyboard.press("h")
        await page.wait_for_selector(".tiles")
        await page.keyboard.press("g")
        await page.keyboard.press("p")
        await shown.until("Write rules")
        assert await rules.input_value() == RULES


@pytest.mark.parametrize("filter", ["profile=gone", "flag=gone"])
async def test_a_filter_that_finds_nothing_says_so_and_leads_back(show: Show, filter: str) -> None:
    async with show() as shown:
        await shown.open(f"policy?{filter}")
        await shown.page.get_by_text("Policy without a filter").click()
        await shown.page.wait_for_selector("[aria-label='Verdicts'] tbody tr")
