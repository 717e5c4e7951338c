"""The last good records of each source: what is served while a source cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from hookgate import Capability, CapabilityDetail, PartStanding, StoreError
from hookgate.builtin_plugins.inventory.record import CapabilityRecord
from hookgate.builtin_plugins.inventory.switches import NATIVE

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.multiplexer import SourceReading
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
