"""A gateway that is killed: ``python killed_gateway.py API_URL webhook|polling HOME``.

It says ``serves URL`` once it does, answers each message with ``re: MESSAGE``, and writes each
message that its model was asked about into ``HOME/turns.txt``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.builtin_plugins.channels.bells import AROUND
from tests.support.telegram import SECRET, Telegram

from hookgate.builtin_plugins.channels import plugin
from hookgate.core.domain.models import ModelRequest
from hookgate.core.gateway.serve import listen
from hookgate.core.host import SystemClock
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say


async def main(url: str, way: str, home: Path) -> None:
    """Serve until it is told to end, or killed."""
    plugin.LATE_SECONDS = 0.0
    with (home / "turns.txt").open("a", encoding="utf-8") as turns:

        def answer(request: ModelRequest) -> list[object]:
            text = request.messages[-1].text
            turns.write(f"{text}\n")
            turns.flush()
            return [lambda: asyncio.sleep(0.02), *say(f"re: {text}")]

        async with (
            started(
                Telegram(url, polling=way == "polling", seconds=0.5),
                home=home,
                only=AROUND,
                model=ScriptedModel(answer),
                clock=SystemClock(),  # type: ignore[arg-type]
                gateway={"port": 0},
                secrets={"telegram_webhook": SECRET},
                plugin={"channels": {"telegram": {"streaming": False}}},
            ) as gateway,
            listen(gateway) as listener,
        ):
            print(f"serves http://127.0.0.1:{listener.port}", flush=True)
            await asyncio.Event().wait()


Path(sys.argv[3]).mkdir(exist_ok=True)
asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
