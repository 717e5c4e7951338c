"""A gateway with budgets whose peers spend at once; says what of it was acknowledged.

Run as a program: ``python spender.py HOME PORT``. Each line is JSON: the id of a turn, and the ids
of the model calls that it has made, printed when its `done` has gone out. So each of these calls
must be found again whatever happens next.

Each call is answered by whoever listens on PORT: it gets the call's id in a line, and answers with
the tokens of input and output that it bills. What it has read it bills, whatever happens next.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.metering import ledger
from hookgate.builtin_plugins.metering.budgets import engine
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.events import Event
from hookgate.core.domain.models import (
    Ending,
    ModelRequest,
    Provider,
    StopEvent,
    TextDelta,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Address, Turn
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.testing.model import ScriptedModel, call
from hookgate.kit.tooling import tool

PEERS = 24
AMPLE, TIGHT = 10**12, 60_000
"""The limits of a budget that lasts, and of one that each peer uses up."""


def settings(home: Path) -> Settings:
    """Return the settings of the gateway that is killed, and of the one that looks after it."""
    metering = {
        "budgets": {
            "ample": {"tokens": AMPLE, "usd": 1_000_000, "window": "month"},
            "tight": {"tokens": TIGHT, "scope": "session", "window": "month"},
        },
        "limits": {"side": {"parallel": 1000}},
        "prices": {"script/*": {"input": 3, "output": 15}},
    }
    return Settings.model_validate(
        {
            "home": home,
            "agents": {"main": {"model": "script/test"}},
            "default_agent": "main",
            "plugins": {"entry_points": False},
            "plugin": {
                "embedding": {"embedder": "none"},
                "policy": {"profile": "open"},
                "metering": metering,
            },
        }
    )


class Spending:
    """A model that somebody else bills, a tool, and a memory of which turn made which call."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.chance = random.Random()
        self.calls: dict[str, list[str]] = defaultdict(list)

    def answer(self, request: ModelRequest) -> Iterator[Any]:
        """Call a tool first, now and then."""
        billed: list[int] = []
        yield partial(self.ask, request.call_id, billed)
        usage = UsageEvent(Usage(input_tokens=billed[0], output_tokens=billed[1]))
        if request.iteration == 0 and self.chance.random() < 0.3:
            yield from (usage if isinstance(one, UsageEvent) else one for one in call("look"))
        else:
            yield from (TextDelta("fine"), usage, StopEvent("end"))

    async def ask(self, call_id: str, billed: list[int]) -> None:
        """Ask for an answer, and put down what it is billed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{call_id}\n".encode())
        billed += map(int, (await reader.readline()).split())
        writer.close()

    @hookimpl
    def list_providers(self) -> Sequence[Provider]:
        return [ScriptedModel(self.answer)]  # type: ignore[arg-type]

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        def look() -> str:
            """Look at something."""
            return "nothing to be seen"

        return [tool(look, flags=Flags.none())]

    @hookimpl
    def after_model_call(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> None:
        self.calls[turn.id].append(request.call_id)


async def spend(gate: Gateway, spending: Spending, peer: int, numbers: Iterator[int]) -> None:
    """Ask on and on, and say which turns were acknowledged."""

    def sink(event: Event) -> None:
        if event.type == "done":
            line = {"turn": event.turn, "calls": spending.calls.pop(event.turn, [])}
            sys.stdout.write(f"{json.dumps(line)}\n")
            sys.stdout.flush()

    for number in numbers:
        await gate.chat(f"message {number}", address=Address(peer=f"p{peer}"), sink=sink)


async def main(home: Path, port: int) -> None:
    # What happens every few seconds happens all the time, so that kills fall into it.
    ledger.EVERY = engine.FLUSH = engine.SCAN = 0.05
    spending = Spending(port)
    async with Gateway(settings(home), plugins=[spending]) as gate:
        numbers = count()
        await asyncio.gather(*(spend(gate, spending, peer, numbers) for peer in range(PEERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
