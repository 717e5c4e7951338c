"""A gateway whose calls are counted: ``python -m benchmarks.weight.gateway SETTINGS``.

What is counted must not depend on how fast the machine is, so time stands still in it: timers of
its event loop and the gateway's clock go on by what they are told alone. What asyncio's own loop
does in Python is left out: a gateway that serves has uvloop's, where it is no Python.

It reads commands, one a line, and answers each with a line of JSON:

- ``stop``: let time stand still from here on.
- ``pass SECONDS``: let so much of it pass.
- ``count``: count from here on.
- ``begin``: a turn begins.
- ``told``: what was counted, and an end of counting.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from aiohttp import web

ROOT = Path(__file__).parents[2]
LOOP = ("base_events", "selector_events", "unix_events", "events", "transports", "trsock")
"""Modules of asyncio that are the event loop itself."""
UNCOUNTED = ""
"""The room of what is the event loop."""
METER = "meter"
"""The room of the meter itself: neither it nor what it calls is counted."""
OTHERS = ("watchdog", "watch folders", "commands")
"""Threads that have no part in a turn: they look now and then, by the real time."""


class Meter:
    """What a gateway does, by kind.

    Attributes:
        on: Whether anything is counted.
        behind: Whether the answer of the turn has gone out.
    """

    def __init__(self) -> None:
        self.on = self.behind = False
        self._rooms: dict[CodeType, str | None] = {}
        self._libraries: dict[CodeType, str] = {}
        self._calls: Counter[tuple[bool, CodeType, str]] = Counter()
        self._counts: Counter[str] = Counter()
        self._others: set[int | None] = set()

    def start(self) -> None:
        """Count from here on."""
        self._calls.clear()
        self._counts.clear()
        self._others = {each.ident for each in threading.enumerate() if each.name in OTHERS}
        self.on = True

    def begin(self) -> None:
        """A turn begins."""
        self.behind = False

    def told(self) -> dict[str, Any]:
        """Return what was counted: rows of calls, and how often each other thing was done."""
        self.on = False
        rows = [
            [room, behind, code.co_qualname, count]
            for (behind, code, room), count in self._calls.items()
        ]
        return {"calls": rows, "counts": dict(self._counts)}

    def note(self, what: str) -> None:
        """Count something that is no call."""
        if self.on and threading.get_ident() not in self._others:
            self._counts[what] += 1

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call; of a library's, the one of ours that is nearest makes it."""
        if not self.on or threading.get_ident() in self._others:
            return
        if event == "call":
            if (caller := self._caller(frame)) is not None:
                self._calls[self.behind, *caller] += 1
        elif event == "c_call" and self._caller(frame) is not None:
            self._counts["C calls"] += 1

    def statement(self, sql: str) -> None:
        """Count what SQLite is asked."""
        word = sql[:9].split(" ", 1)[0].upper()
        if word == "COMMIT":
            self.note("commits")
        elif sql == "BEGIN":
            self.note("read transactions")
        elif word not in ("BEGIN", "ROLLBACK", "--"):
            self.note("statements")

    def _caller(self, frame: FrameType) -> tuple[CodeType, str] | None:
        room = self._of(frame.f_code)
        if room is not None:
            return (frame.f_code, room) if room not in (UNCOUNTED, METER) else None
        outermost, above = frame, frame.f_back
        while above is not None:
            room = self._of(above.f_code)
            if room == METER:
                return None
            if room == UNCOUNTED:
                break
            if room is not None:
                return above.f_code, room
            outermost, above = above, above.f_back
        return outermost.f_code, self._library(outermost.f_code)

    def _of(self, code: CodeType) -> str | None:
        try:
            return self._rooms[code]
        except KeyError:
            room = self._rooms[code] = room_of(code.co_filename)
            return room

    def _library(self, code: CodeType) -> str:
        try:
            return self._libraries[code]
        except KeyError:
            name = self._libraries[code] = library_of(code.co_filename)
            return name


LIBRARIES = ("site-packages", f"python{sys.version_info.major}.{sys.version_info.minor}")


def library_of(file: str) -> str:
    """Return the name of the library that a file of code belongs to."""
    parts = Path(file).parts
    place = next((parts.index(each) for each in LIBRARIES if each in parts), None)
    return "kit" if place is None else parts[place + 1].removesuffix(".py")


def room_of(file: str) -> str | None:
    """Return the room that a file of code belongs to; None for a library's."""
    path = Path(file)
    if (path.parent.name == "asyncio" and path.stem in LOOP) or path.stem == "selectors":
        return UNCOUNTED
    if not path.is_relative_to(ROOT) or "site-packages" in path.parts:
        return None
    parts = [each for each in path.relative_to(ROOT).parts if each not in ("src", "hookgate")]
    if parts[0] == "benchmarks":
        return METER
    if parts[0] == "builtin_plugins":
        return f"plugin {parts[1].removesuffix('.py')}"
    if parts[0] == "core":
        return f"core {parts[1].removesuffix('.py')}"
    # The kit is a library of ours.
    return None if parts[0] == "kit" else "composition"


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time can be stopped.

    Attributes:
        passed: The seconds that have passed by what it was told.
    """

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self._stands: float | None = None
        self.passed = 0.0

    def time(self) -> float:
        return super().time() if self._stands is None else self._stands

    def stop_time(self) -> None:
        """Let time stand still."""
        self._stands = self.time()

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.passed += seconds
        self._stands = self.time() + seconds

    def call_soon_threadsafe(self, *args: Any, **more: Any) -> asyncio.Handle:
        self._meter.note("hand-overs")
        return super().call_soon_threadsafe(*args, **more)


class Clock:
    """The gateway's clock: a morning that each run has."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(seconds=self._loop.passed)

    def monotonic(self) -> float:
        return self._loop.time()


def plugin_of(clock: Clock) -> object:
    """Return a plugin that brings `clock` as the gateway's."""
    from hookgate import hookimpl
    from hookgate.core.domain.ports import CLOCK

    class Standing:
        name = "standing-clock"
        provides = (CLOCK,)

        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Any) -> AsyncIterator[None]:
            host.provide(CLOCK, clock)
            yield

    return Standing()


def watch(meter: Meter) -> None:
    """Have every thread, every connection to SQLite and the end of every answer counted."""
    connect, write_eof = sqlite3.connect, web.StreamResponse.write_eof

    def watched(*args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*args, **more)
        connection.set_trace_callback(meter.statement)
        return connection

    async def answered(self: web.StreamResponse, data: bytes = b"") -> None:
        await write_eof(self, data)
        meter.behind = True

    sqlite3.connect = sqlite3.dbapi2.connect = watched
    web.StreamResponse.write_eof = answered  # type: ignore[method-assign]
    threading.setprofile(meter.profile)
    sys.setprofile(meter.profile)


async def run(meter: Meter, settings: dict[str, Any]) -> None:
    """Run the gateway until this process is ended."""
    from hookgate import Gateway, Settings
    from hookgate.core.gateway.serve import listen
    from hookgate.core.runtime import OPERATIONS_TASK

    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    commands = {
        "stop": loop.stop_time,
        "pass": loop.pass_time,
        "count": meter.start,
        "begin": meter.begin,
        "told": meter.told,
    }
    plugins: Sequence[object] = [plugin_of(Clock(loop))]
    async with Gateway(Settings.model_validate(settings), plugins=plugins) as gate, listen(gate):
        # What a start puts off is no part of a turn, and its pauses would fall between turns.
        put_off = [task for task in asyncio.all_tasks() if task.get_name() == OPERATIONS_TASK]
        await asyncio.gather(*put_off)
        obey = partial(_obey, loop, commands)
        threading.Thread(target=obey, name="commands", daemon=True).start()
        await asyncio.Event().wait()


def _obey(loop: Loop, commands: dict[str, Callable[..., Any]]) -> None:
    sys.setprofile(None)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        word, *arguments = line.split()
        said: Future[Any] = Future()
        loop.call_soon_threadsafe(_run, commands[word], arguments, said)
        print(json.dumps(said.result()), flush=True)


def _run(command: Callable[..., Any], arguments: Sequence[str], said: Future[Any]) -> None:
    said.set_result(command(*map(float, arguments)))


def main() -> None:
    meter = Meter()
    watch(meter)
    with asyncio.Runner(loop_factory=lambda: Loop(meter)) as runner:
        runner.run(run(meter, json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
