"""All sources read side by side, each in its own time, and the last good records of each."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from hookgate import Capability, CapabilityDetail, PartStanding, StoreError
from hookgate.builtin_plugins.inventory.record import CapabilityRecord, problem_of, readable
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    RuntimeDisconnectedError,
    RuntimeSource,
)
from hookgate.builtin_plugins.inventory.switches import NATIVE
from hookgate.tasks import Ended, apart, called, contained_task, told

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.tables import Skill, StoreProjection

RECORDS = "inventory records"
"""What `status` calls the table, where it cannot be read or written."""

AGAIN_SECONDS = 60.0
"""After so long the time of a good read is kept anew, although nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How a source stands.

    Attributes:
        id: Its id.
        ok: Whether it could be read.
        records: How many of its records are served.
        stale: Whether these are of an earlier read.
        why: Why it could not be read, or what of it is left out; "" for nothing.
        synced_at: When it was last read well, ISO 8601 in UTC; "" for never.
        seconds: How long the last read took.
    """

    id: str
    ok: bool
    records: int
    stale: bool
    why: str
    synced_at: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Served:
    """What is served of one source, and how it stands."""

    records: tuple[CapabilityRecord, ...]
    status: SourceStatus


@dataclass(slots=True)
class _Good:
    """The last good read of a source."""

    records: tuple[CapabilityRecord, ...]
    synced: str
    kept: tuple[CapabilityRecord, ...] | None = None
    kept_at: float = 0.0


class Projection:
    """Serves what was read, or what was read last; and keeps it for the next start.

    It is a cache: whatever is lost of it comes back with the next good read. So a store that fails
    costs nothing but that.
    """

    def __init__(
        self,
        kept: StoreProjection | None,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        *,
        standing: PartStanding,
    ) -> None:
        """Serve nothing yet.

        Args:
            kept: Where records are kept; None for this process alone.
            now: Returns the time in UTC.
            monotonic: Returns seconds that never go backwards.
            standing: How it stands; see `Host.standing`.
        """
        self._kept = kept
        self._now = now
        self._monotonic = monotonic
        self._standing = standing
        self._good: dict[str, _Good] = {}
        self._numbers: dict[str, int] = {}
        self._keeping = asyncio.Lock()

    async def serve(self, reading: SourceReading) -> Served | None:
        """Return what is served of a source after it was read.

        Returns:
            None where a later read was served meanwhile: what this one says is over.
        """
        source = reading.source
        if reading.number < self._numbers.get(source, 0):
            return None
        self._numbers[source] = reading.number
        if reading.records is None:
            good = await self._last_good(source)
            if reading.number < self._numbers[source]:
                return None
            records = good.records if good is not None else ()
            return _served(reading, records, good.synced if good is not None else "")
        good = self._good.setdefault(source, _Good((), ""))
        good.records = reading.records
        good.synced = self._now().isoformat()
        return _served(reading, good.records, good.synced)

    async def keep(self, source: str) -> None:
        """Keep the last good records of a source for the next start, where they are news."""
        async with self._keeping:
            good = self._good.get(source)
            if self._kept is None or good is None:
                return
            now, records = self._monotonic(), good.records
            same = good.kept is not None and (good.kept is records or good.kept == records)
            if same and now - good.kept_at < AGAIN_SECONDS:
                return
            try:
                await self._kept.reconcile(source, records, good.synced)
            except StoreError as error:
                self._standing.bad(f"the last good records of {source} are not kept: {error}")
                return
            good.kept, good.kept_at = records, now
            self._standing.good()

    async def _last_good(self, source: str) -> _Good | None:
        good = self._good.get(source)
        if good is not None or self._kept is None:
            return good
        try:
            records, synced = await self._kept.load(source)
        except StoreError as error:
            self._standing.bad(f"the last good records of {source} cannot be read: {error}")
            return None
        if not synced:
            return None
        self._good[source] = _Good(records, synced, kept=records, kept_at=self._monotonic())
        return self._good[source]


def _served(reading: SourceReading, records: tuple[CapabilityRecord, ...], synced: str) -> Served:
    return Served(
        records,
        SourceStatus(
            id=reading.source,
            ok=reading.records is not None,
            records=len(records),
            stale=reading.records is None and bool(records),
            why=reading.why,
            synced_at=synced,
            seconds=round(reading.seconds, 4),
        ),
    )


# -- feeding ---------------------------------------------------------------------

# What models find of the records: the skills that were installed here. What another runtime has
# stays out of it: from here nobody can call it, and a model would only be led astray by it.


@dataclass(frozen=True, slots=True)
class Fed:
    """What discovery knows of the installed skills.

    Attributes:
        records: The gateway's records that it follows from; None before there were any.
        skills: The installed skills then.
        rows: The capability that follows from each skill, with the skill, by the record's id.
    """

    records: Sequence[CapabilityRecord] | None = None
    skills: Mapping[str, Skill] = field(default_factory=dict)
    rows: Mapping[str, tuple[Skill, Capability]] = field(default_factory=dict)


def fed(records: Sequence[CapabilityRecord], skills: Mapping[str, Skill], before: Fed) -> Fed:
    """Return the capabilities that follow from installed skills: what is disabled is none.

    Args:
        records: All records of the gateway's own.
        skills: The installed skills by the id of their records.
        before: What followed last: a skill that is still the same object is not made anew.
    """
    rows: dict[str, tuple[Skill, Capability]] = {}
    for record in records:
        skill = skills.get(record.id)
        if skill is None or record.runtime != NATIVE or record.status == "disabled":
            continue
        known = before.rows.get(record.id)
        same = known is not None and known[0] is skill
        rows[record.id] = known if known and same else (skill, _of_skill(record, skill))
    return Fed(records, skills, rows)


def _of_skill(record: CapabilityRecord, skill: Skill) -> Capability:
    return Capability(
        id=record.id,
        kind="skill",
        name=skill.name,
        display_name=record.name,
        description=skill.description,
        category="skill",
        source_ref=record.provenance,
        # Somebody has installed it; its words are whose wrote it.
        whose="foreign",
        load=_detail(skill.content),
    )


def _detail(content: str) -> Callable[[], CapabilityDetail]:
    return lambda: CapabilityDetail(content=content)


# -- reading ---------------------------------------------------------------------

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
