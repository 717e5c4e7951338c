"""The view Policy: why a call is asked about, and a rule from its text to its cases."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.browser.conftest import Show
from tests.browser.test_dashboard import LEAK

from hookgate.builtin_plugins.policy.bench import operations

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
        await page.wait_for_selector("[aria-label='Rules'] tbody tr")
        text = await shown.text()
        assert "deny by rule:no-mail-to-strangers" in text
        assert "<img src=x onerror=alert(1)>" in text
        assert "the gateway has no such tool" in text
        assert "--taint tool:http_get" in text
        # A draft says what it would not help against.
        await page.get_by_role("button", name="Draft a rule").click()
        drafted = await page.get_by_label("rules.yaml", exact=True).input_value()
        assert drafted.startswith('# "rule:no-mail-to-strangers" decides now')
        await page.get_by_role("button", name="Run the cases").click()
        await shown.until("1 passed, 1 failed")
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
        await shown.until("allow")
        assert "17*23" in await shown.page.get_by_label("Arguments, JSON").input_value()
        assert "--channel cli" in await shown.text()
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


async def test_a_needless_question_becomes_a_rule_that_was_tried_on_a_week_of_calls(
    show: Show, tmp_path: Path
) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    async with show(plugin={"policy": {"rules": [str(folder)]}}) as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say(LEAK)
        await page.click(".asks a")
        await page.get_by_role("button", name="Deny").click()
        await shown.until("Answered just now")
        # From the row of the audit to a rule and its cases,
        await shown.open("audit?kind=tool_decided&tool=http_get")
        await page.get_by_role("link", name="explain").click()
        await shown.until("Draft a rule for this call")
        assert "ask by " in await shown.text()
        await page.get_by_role("button", name="Draft a rule").click()
        await shown.until("1 rule, nothing wrong.")
        await page.get_by_role("button", name="Run the cases").click()
        await shown.until("2 passed, 0 failed")
        await shown.until("1 of 1 rules had something to say.")
        # to what it flips in a week of traffic,
        await page.get_by_role("button", name="Replay", exact=True).click()
        await shown.until("2 decisions: 1 stay, 1 flip")
        flip = await shown.text("[aria-label='Flips'] tbody tr")
        assert flip.index("ask") < flip.index("allow rule:allow-http_get")
        assert await shown.axe() == []
        # and to the file, which somebody else puts there.
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="Download rules.yaml").click()
        await (await saved.value).save_as(folder / "web.yaml")
        await shown.gateway.host.reload()
        await page.wait_for_selector("[aria-label='Rules in force'] tbody tr")
        assert "allow-http_get" in await shown.text("[aria-label='Rules in force']")


async def test_rules_in_force_stand_with_what_they_did_and_those_in_shadow_with_what_they_would(
    show: Show, tmp_path: Path
) -> None:
    file = tmp_path / "sums.yaml"
    rule = "match: {tool: calculate}, reason: x}"
    file.write_text(
        f"rules:\n  - {{name: watch, mode: shadow, effect: deny, {rule}\n"
        f'  - {{name: fine, effect: allow, description: "{NAUGHTY[:-1]}", {rule}\n'
        "  - {name: idle, effect: deny, match: {tool: none}, reason: x}\n"
    )
    async with show(width=360, plugin={"policy": {"rules": [str(file)]}}) as shown:
        page = shown.page
        await shown.open("chat")
        await shown.say("what is 17*23?")
        await page.wait_for_selector(".cost")
        await shown.open("turns")
        await page.click("[aria-label='Turns'] a[href*='#/turns/']")
        await page.get_by_text("Replay its calls against rules").click()
        await shown.until("Calls of the turn")
        rows = page.locator("[aria-label='Rules in force'] tbody tr")
        told = [await rows.nth(number).inner_text() for number in range(3)]
        assert "shadow" in told[0]
        assert "would have 1×" in told[0]
        assert "1×" in told[1]
        assert "<img src=x" in told[1]
        assert "never" in told[2]
        await page.get_by_label("Judged by").select_option("the rules in force")
        await page.get_by_role("button", name="Replay", exact=True).click()
        await shown.until("1 decision: 1 stay, 0 flip")
        assert "would deny 1×" in await shown.text("[aria-label='Rules on record']")
        assert "Nothing concerned idle" in await shown.text()
        await page.get_by_label("Judged by").select_option("the rules above alone")
        await page.get_by_label("Held against").select_option("the rules in force")
        await page.get_by_role("button", name="Replay", exact=True).click()
        await shown.until("watch is gone")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wide)
        assert await shown.axe() == []


async def test_a_draft_holds_whatever_a_call_held(show: Show) -> None:
    async with show() as shown:
        held = {"to": 'a"b\\\n<img src=x>\u202e\0\U0001f600', "n-1": 2, "o": {"p": [None]}}
        arguments = json.dumps(held)
        await shown.open(f"policy?{urlencode({'tool': 'mail', 'arguments': arguments})}")
        await shown.page.get_by_role("button", name="Draft a rule").click()
        await shown.page.get_by_role("button", name="Run the cases").click()
        await shown.until("2 passed, 0 failed")


async def test_a_replay_is_stopped(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def never(*_: Any, **__: Any) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(operations, "call_operation", never)
    async with show() as shown:
        await shown.open("policy?period=nonsense&by=&against=%zz")
        await shown.page.get_by_role("button", name="Replay", exact=True).click()
        await asked.wait()
        await shown.page.get_by_role("button", name="Stop").click()
        await shown.until("Stopped here.")
        await ended.wait()
