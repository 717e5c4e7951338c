"""Draw docs/dashboard.png from a gateway that has something to show: ``make picture``."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from playwright.async_api import Page, async_playwright

from hookgate import Gateway
from hookgate.core.gateway.serve import listen
from hookgate.demo import SCENES, settings

PICTURE = Path(__file__).parent / "dashboard.png"
CHROMIUM = os.environ.get("HOOKGATE_CHROMIUM") or shutil.which("chromium")


async def main() -> None:
    """Play the demo's scenes on the page, and write what it shows while a question waits."""
    with tempfile.TemporaryDirectory() as home:
        async with (
            Gateway(settings(Path(home))) as gateway,
            listen(gateway) as listener,
            async_playwright() as driver,
        ):
            browser = await driver.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page(
                viewport={"width": 1120, "height": 760}, reduced_motion="reduce"
            )
            await page.goto(f"{listener.url}/ui/#/chat")
            for number, scene in enumerate(SCENES, 1):
                await _say(page, scene.says)
                await page.wait_for_selector(f".turn:nth-of-type({number}) :is(.cost, .asks)")
            await page.click(".asks a")
            await page.wait_for_selector(".question")
            await page.screenshot(path=PICTURE)
            await browser.close()


async def _say(page: Page, text: str) -> None:
    await page.fill("#message", text)
    await page.press("#message", "Enter")


if __name__ == "__main__":
    asyncio.run(main())
