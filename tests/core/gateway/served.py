"""A gateway in a process of its own, for tests that end it. Prints its port once it listens.

The model says ``begun`` and then waits: for the file that is named on the command line, or
for ever.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.script import settings

from hookgate import Gateway
from hookgate.core.domain.models import ModelEvent, ModelInfo, ModelRequest, StopEvent, TextDelta
from hookgate.core.domain.turn import Turn
from hookgate.core.gateway.serve import loop_factory, serve
from hookgate.hookspecs import hookimpl


class Slow:
    """A provider and the plugin that brings it."""

    name = "script"

    def __init__(self, signal: Path) -> None:
        self.signal = signal

    @hookimpl
    def list_providers(self, host: Any) -> Sequence[Any]:
        return [self]

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name="*")]

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("begun")
        while not self.signal.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
        yield TextDelta(" and ended")
        yield StopEvent("end")


async def main(home: Path, seconds: float, wait: float) -> int:
    limits = {"drain_seconds": seconds, "drain_wait_seconds": wait}
    config = settings(home, gateway={"port": 0, "limits": limits})
    async with Gateway(config, builtin=("control",), plugins=[Slow(home / "go")]) as gateway:
        return await serve(gateway, started=lambda listener: print(listener.port, flush=True))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        sys.exit(runner.run(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
