"""A gateway that many peers talk to at once; says which answers were acknowledged.

Run as a program: ``python talker.py HOME ROUND``. Each line ``PEER NUMBER`` is printed
when `done` of that message has gone out, so it must be found again whatever happens next.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hookgate.core.domain.events import Event
from hookgate.core.domain.turn import Address
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

PEERS = 50
MESSAGES = 20


async def talk(gate: Gateway, peer: int, part: str) -> None:
    for number in range(MESSAGES):

        def sink(event: Event, number: int = number) -> None:
            if event.type == "done" and event.data["ending"] == "done":
                sys.stdout.write(f"{peer} {part}.{number}\n")
                sys.stdout.flush()

        address = Address(peer=f"p{peer}")
        await gate.chat(f"/say {peer} {part}.{number}", address=address, sink=sink)


async def main(home: Path, part: str) -> None:
    settings = Settings(home=home, plugins={"entry_points": False})  # type: ignore[arg-type]
    async with Gateway(settings) as gate:
        print("ready", flush=True)
        await asyncio.gather(*(talk(gate, peer, part) for peer in range(PEERS)))
        print("all", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
