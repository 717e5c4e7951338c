"""A gateway that is killed in the middle of a turn: ``python lane_holder.py URL HOME``.

It says ``serves URL`` once it does, and ``asks`` when its model is asked, which never answers.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.builtin_plugins.channels.bells import AROUND, Bell
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS

from hookgate.builtin_plugins.channels import plugin
from hookgate.builtin_plugins.channels.book import events
from hookgate.builtin_plugins.storage import lanes
from hookgate.core.gateway.serve import listen
from hookgate.core.host import SystemClock
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel


async def ask() -> None:
    """Ask, and wait for ever."""
    print("asks", flush=True)
    await asyncio.Event().wait()


async def main(url: str, home: Path) -> None:
    """Serve until it is killed."""
    plugin.LATE_SECONDS = 0.0
    # It has not stopped because the machine is slow.
    events.LEASE_SECONDS = lanes.TERM_SECONDS = 600.0
    async with (
        started(
            Bell(HEADER),
            home=home,
            only=AROUND,
            model=ScriptedModel([ask]),
            clock=SystemClock(),  # type: ignore[arg-type]
            gateway={"port": 0},
            secrets=SECRETS,
            plugin={"storage": {"url": url}},
        ) as gateway,
        listen(gateway) as listener,
    ):
        print(f"serves http://127.0.0.1:{listener.port}", flush=True)
        await asyncio.Event().wait()


Path(sys.argv[2]).mkdir(exist_ok=True)
asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
