"""All sources read side by side, each in its own time; written to one change after the other."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, problem_of, readable
from hookgate.builtin_plugins.inventory.sources.source import (
    CapabilityChange,
    RuntimeDisconnectedError,
    RuntimeSource,
)
from hookgate.tasks import Ended, apart, called, contained_task, told

Read = Sequence[CapabilityRecord]

SHOWN_FAULTS = 3
"""So many records that are left out are told of by name; the rest is counted."""

MANY = 2000
"""From so many records on, they are looked at on a thread."""

WHY_CHARS = 300
"""So much of what a source has raised is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """What came of reading one source.

    Attributes:
        source: The source's id.
        records: What it has; None where it could not be read.
        why: Why it could not be read, or what of it is left out; "" for nothing.
        seconds: How long it took.
        number: Grows with each read of the source that was begun.
    """

    source: str
    records: tuple[CapabilityRecord, ...] | None
    why: str = ""
    seconds: float = 0.0
    number: int = 0


class Multiplexer:
    """Reads sources and hands changes to them.

    A read never fails: whatever a source raises, and however long it takes, is a reading that says
    so. One that ignores its end is not asked again before it has ended.
    """

    def __init__(
        self,
        sources: Mapping[str, RuntimeSource],
        *,
        read_seconds: float = 2.0,
        write_seconds: float = 30.0,
    ) -> None:
        """Take the sources, by id.

        Args:
            sources: The sources.
            read_seconds: The limit of one source's read.
            write_seconds: The limit of one change.
        """
        self.sources = dict(sources)
        self._read_seconds = read_seconds
        self._write_seconds = write_seconds
        self._reads: dict[str, asyncio.Task[Read]] = {}
        self._numbers: dict[str, int] = {}
        # Whether the last read on a thread is over; its thread lives a moment longer.
        self._over: dict[str, threading.Event] = {}
        self._writing = {name: asyncio.Lock() for name in self.sources}
        # What was returned last, and what was made of it: the same is not looked at again.
        self._known: dict[str, tuple[tuple[Any, ...], SourceReading]] = {}

    async def read(self) -> list[SourceReading]:
        """Read all sources, side by side."""
        return list(await asyncio.gather(*(self.read_one(name) for name in self.sources)))

    async def read_one(self, name: str, *, fresh: bool = False) -> SourceReading:
        """Read the source called `name`, together with whoever reads it at the moment.

        Args:
            name: Its id.
            fresh: Whether the read has to begin after this call, since something was changed.
        """
        begun, limit = monotonic(), self._read_seconds
        running = self._reads.get(name)
        if fresh and running is not None and not running.done():
            await asyncio.wait({running}, timeout=limit)
        running = self._reads.get(name)
        if running is None or running.done():
            running = contained_task(self._started(name), name=f"inventory.{name}")
            # Whoever waits for it may go away; nobody is to be told of it then.
            running.add_done_callback(_heard)
            self._reads[name] = running
            self._numbers[name] = self._numbers.get(name, 0) + 1
        number = self._numbers[name]
        await asyncio.wait({running}, timeout=limit)
        seconds = monotonic() - begun
        if not running.done():
            running.cancel()
            why = f"it did not answer within {limit:g} s"
        elif running.cancelled():
            why = "its read was cancelled"
        elif (error := running.exception()) is not None:
            why = told(error)[:WHY_CHARS]
        else:
            found: Any = running.result()
            if isinstance(found, Sequence) and len(found) > MANY:
                good = await asyncio.to_thread(self._good, name, found)
            else:
                good = self._good(name, found)
            return replace(good, seconds=seconds, number=number)
        return SourceReading(source=name, records=None, why=why, seconds=seconds, number=number)

    async def _started(self, name: str) -> Read:
        """Read a source, on a thread of its own where its `read` is a plain function."""
        source = self.sources[name]
        if inspect.iscoroutinefunction(source.read):
            return cast("Read", await source.read())
        known = self._over.get(name)
        if known is not None and not known.is_set():
            raise RuntimeError("the read before hangs still; it is not asked again until then")
        self._over[name], future = _on_a_thread(source.read)
        found: Any = await future
        return cast("Read", await found if inspect.isawaitable(found) else found)

    def _good(self, name: str, found: Any) -> SourceReading:
        """Return the reading of what a source has returned: what is wrong of it is left out."""
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            kind = type(found).__name__
            why = f"it returned a {kind}, where a list of records was expected"
            return SourceReading(source=name, records=None, why=why)
        things, known = tuple(found), self._known.get(name)
        if known is not None and known[0] == things:
            # The very same objects, so that nobody after this need compare them again.
            return known[1]
        before = () if known is None or known[1].records is None else known[1].records
        sound = {record.id: record for record in before}
        records: dict[str, CapabilityRecord] = {}
        faults: list[str] = []
        for thing in things:
            record = _readable(thing)
            if type(record) is not CapabilityRecord:
                faults.append(f"found a {type(record).__name__}, expected a record")
            elif record.id in records:
                faults.append(f"{record.id!r} comes twice")
            elif sound.get(record.id) == record:
                # What is equal stays the very same object; nobody after this compares it again.
                records[record.id] = sound[record.id]
            elif wrong := _fault(record, name):
                faults.append(wrong)
            else:
                records[record.id] = record
        why = ""
        if faults:
            why = f"{len(faults)} left out: {'; '.join(faults[:SHOWN_FAULTS])}"
        reading = SourceReading(source=name, records=tuple(records.values()), why=why)
        self._known[name] = (things, reading)
        return reading

    def writing(self, name: str) -> asyncio.Lock:
        """Return the lock that is held while the source called `name` is looked at and changed."""
        return self._writing[name]

    async def write(self, name: str, change: CapabilityChange) -> CapabilityRecord:
        """Hand a change to the source called `name`; hold its lock.

        Raises:
            RuntimeDisconnectedError: It did not come to an end in time.
            Exception: Whatever the source raises.
        """
        source = self.sources[name]

        async def start() -> CapabilityRecord:
            return await source.write(change)

        ended = await apart(start, limit=self._write_seconds)
        if ended.late:
            raise RuntimeDisconnectedError(
                f"{name} did not answer within {self._write_seconds:g} s; whether it has made the "
                "change is not known",
                action="look at what it has, and try again",
            )
        if isinstance(ended.error, Exception):
            raise ended.error
        if ended.error is not None:
            raise RuntimeError(f"{name} raised {type(ended.error).__name__}") from ended.error
        record = ended.value
        if type(record) is not CapabilityRecord or _fault(record, name):
            raise RuntimeError(f"{name} has made the change and returned no record of its own")
        return record

    async def close(self) -> None:
        """Cancel what is still read. One that ignores that is left alone."""
        running = {task for task in self._reads.values() if not task.done()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=1.0)


def _readable(thing: Any) -> Any:
    try:
        return readable(thing) if type(thing) is CapabilityRecord else thing
    except (TypeError, AttributeError):
        # A field that is no text: `_fault` says so.
        return thing


def _fault(record: CapabilityRecord, source: str) -> str:
    try:
        return problem_of(record, source)
    except (TypeError, AttributeError) as error:
        # A field that is no text; its record was made of whatever lay there.
        return f"found a record that is none: {error}"


def _heard(task: asyncio.Task[Read]) -> None:
    if not task.cancelled():
        task.exception()


def _on_a_thread(work: Callable[[], Any]) -> tuple[threading.Event, asyncio.Future[Any]]:
    """Run `work` on a thread that a stop does not wait for: a folder may hang for ever."""
    loop, over = asyncio.get_running_loop(), threading.Event()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(ended: Ended[Any]) -> None:
        if future.done():
            return
        if ended.error is None:
            future.set_result(ended.value)
        elif isinstance(ended.error, Exception):
            future.set_exception(ended.error)
        else:
            future.set_exception(RuntimeError(told(ended.error)))

    def run() -> None:
        ended = called(work)
        over.set()
        with suppress(RuntimeError):  # the loop was closed meanwhile, so nobody waits
            loop.call_soon_threadsafe(settle, ended)

    threading.Thread(target=run, name="inventory", daemon=True).start()
    return over, future
