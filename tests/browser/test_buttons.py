"""No dead button: each that is there does something when it is pressed, or is grey and says why.

Something is an operation, a dialog, another address, a file, a copy, or another page than before.
The page's clock stands still meanwhile, so that nothing happens by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

import pytest
from aiohttp import ClientSession
from playwright.async_api import TimeoutError
from tests.browser.conftest import Show, Shown
from tests.browser.test_dashboard import LEAK
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS
from tests.builtin_plugins.inventory.acme import Acme, House, record
from tests.support.script import Tools, echo_tool

from hookgate import CapabilityRecord, ChannelError
from hookgate.builtin_plugins.inventory.record import Status, Tier

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

WATCH = """
globalThis.did = [];
const note = (owner, name, told) => {
  const before = owner[name];
  owner[name] = function (...given) {
    globalThis.did.push(told(given));
    return before?.apply(this, given);
  };
};
note(WebSocket.prototype, "send", ([frame]) => JSON.parse(frame).method);
note(HTMLElement.prototype, "focus", () => "focus");
note(HTMLDialogElement.prototype, "showModal", () => "dialog");
HTMLAnchorElement.prototype.click = () => globalThis.did.push("file");
const writeText = async () => globalThis.did.push("copy");
Object.defineProperty(navigator, "clipboard", { value: { writeText } });
new MutationObserver(() => globalThis.did.push("page")).observe(
  document, { subtree: true, childList: true, characterData: true, attributes: true });
globalThis.buttons = () => {
  for (const one of document.querySelectorAll("details:not([open])")) one.open = true;
  const within = document.querySelector("dialog[open]") ?? document.body;
  const seen = [...within.querySelectorAll("button")].filter((one) => one.checkVisibility());
  return seen.map((one) => {
    const row = one.closest("tr");
    const marks = [...row?.querySelectorAll(".good, .bad, .short") ?? []];
    const states = marks.map((mark) => mark.innerText);
    const place = one.closest("[aria-label]:not(button)")?.getAttribute("aria-label") ?? "";
    return { one, key: [place, one.innerText, ...states].join(" | ") };
  });
};
"""
RESTS = "() => globalThis.buttons().every(({ one }) => !one.disabled || one.title)"
LIST = """globalThis.buttons().map(({ one, key }) =>
  ({ key, name: one.innerText, off: one.disabled, why: one.title }))"""
FIND = "key => globalThis.buttons().find((found) => found.key === key && !found.one.disabled)?.one"

ADDRESSES = (
    *("", "chat", "approvals", "turns", "turns/{turn}", "usage", "usage?model=gone", "policy"),
    "policy?tool=calculate",
    *("capabilities", "capabilities/{record}", "capabilities?show=find"),
    *("capabilities?show=accept", "graph", "graph?focus=tool:calculate", "memory"),
    *("memory/{fact}", "memory?show=search", "memory?show=recall", "audit", "system"),
    *("system/plugins", "system/plugins/memory", "system/channels", "system/schedules"),
    *("system/tokens", "system/sandbox", "system/settings", "system/log", "no-such-view"),
)
ENDS = ("Log out",)
"""What ends the walk."""


def records() -> Iterator[CapabilityRecord]:
    """Yield a record for each state that the action function knows."""
    for tier, status, source in product(
        get_args(Tier), get_args(Status), ("mcp-connector", "runtime-builtin")
    ):
        changes: dict[str, Any] = {"manageability": tier, "status": status, "source": source}
        yield record(f"{tier}.{status}.{source}", **changes)


@dataclass
class Walk:
    """What was pressed, and what was wrong with it."""

    shown: Shown
    pressed: int = 0
    grey: int = 0

    async def open(self, address: str) -> None:
        """Go there, and have time stand still once all is there."""
        await self.shown.page.clock.resume()
        await self.shown.page.goto("about:blank")
        await self.shown.open(address)
        await self.shown.page.wait_for_load_state("networkidle")
        await self.shown.page.wait_for_function("() => !document.querySelector('[aria-busy]')")
        now = await self.shown.page.evaluate("Date.now()")
        await self.shown.page.clock.pause_at((now + 500) / 1000)

    async def view(self, address: str) -> list[str]:
        """Press everything that is there; return what is dead."""
        page, seen, dead = self.shown.page, set(ENDS), []
        await self.open(address)
        while True:
            # What is going on is grey for so long.
            with suppress(TimeoutError):
                await page.wait_for_function(RESTS, timeout=5_000)
            found = await page.evaluate(LIST)
            dead += [
                f"{address}: grey for no reason: {one['key']}"
                for one in found
                if one["off"] and not one["why"] and one["key"] not in seen
            ]
            self.grey += sum(one["off"] and one["key"] not in seen for one in found)
            seen |= {one["key"] for one in found if one["off"]}
            live = [one for one in found if one["key"] not in seen and one["name"] not in ENDS]
            if not live:
                return dead
            key = live[0]["key"]
            seen.add(key)
            before = page.url
            button = (await page.evaluate_handle(FIND, key)).as_element()
            if button is None:
                continue
            await page.evaluate("globalThis.did = []")
            await button.click(timeout=5_000)
            self.pressed += 1
            try:
                await page.wait_for_function("() => globalThis.did.length", timeout=2_000)
            except TimeoutError:
                if page.url == before:
                    dead.append(f"{address}: does nothing: {key}")
            if page.url != before:
                await self.open(address)
            else:
                # What was begun goes on: effects wait for the next frame.
                await page.clock.run_for(200)


async def test_no_button_is_dead(show: Show) -> None:
    async with show(Tools(echo_tool())):
        pass
    bell = Bell(HEADER)
    bell.failing = [ChannelError("away")]
    other = replace(echo_tool(), description="Says it otherwise.")
    plugins = (bell, Tools(other), House(Acme(*records())))
    jobs = {"tidy": {"every": "300d", "text": "say hello"}}
    metering = {"budgets": {"daily": {"tokens": 10_000_000}}}
    sections = {"schedules": {"jobs": jobs}, "metering": metering}
    async with show(*plugins, secrets=SECRETS, plugin=sections) as shown:
        await shown.context.add_init_script(WATCH)
        await shown.page.clock.install()
        async with ClientSession() as http:
            posted = http.post(f"{shown.url}/webhook/bell", data=event(1), headers={"X-Key": KEY})
            assert (await posted).status == 200
        await bell.until(lambda: bell.keys)
        turn = await shown.gateway.chat("My dog is called Luna. What is 17*23?")
        await shown.open("memory")
        fact = await shown.page.locator("tbody a").first.get_attribute("href")
        await shown.open("chat")
        await shown.say(LEAK)
        await shown.page.wait_for_selector(".asks")
        walk = Walk(shown)
        dead = []
        for address in ADDRESSES:
            at = {
                "turn": turn.id,
                "fact": str(fact).rpartition("/")[2],
                "record": next(records()).id,
            }
            dead += await walk.view(address.format(**at))
        assert dead == []
        assert (walk.pressed > 100, walk.grey > 5) == (True, True)


async def test_who_may_only_look_finds_every_other_button_grey_with_the_scope(show: Show) -> None:
    async with show(House(Acme(*records())), names={"ann": {"scopes": ["read"]}}) as shown:
        await shown.context.add_init_script(WATCH)
        await shown.page.clock.install()
        await shown.page.goto(f"{shown.url}/ui/")
        await shown.page.fill("input[type=password]", shown.tokens["ann"])
        await shown.page.keyboard.press("Enter")
        await shown.until("token:ann")
        walk = Walk(shown)
        dead = [
            one for address in ADDRESSES if "{" not in address for one in await walk.view(address)
        ]
        assert dead == []
        assert walk.grey > 50
