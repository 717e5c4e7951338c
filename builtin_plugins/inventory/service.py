"""The inventory as a whole: what is served, how fresh it is, and what turns make of it."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from hookgate import Capability, Host, Principal, StartError
from hookgate.builtin_plugins.inventory.feeding import Fed, fed
from hookgate.builtin_plugins.inventory.kept.keeping import NATIVE, Keeping
from hookgate.builtin_plugins.inventory.sources.source import (
    RuntimeDisconnectedError,
    UnknownCapabilityError,
)
from hookgate.builtin_plugins.inventory.tiers import derived_writable

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.multiplexer import Multiplexer
    from hookgate.builtin_plugins.inventory.projection import Projection, Served, SourceStatus
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord
    from hookgate.builtin_plugins.inventory.settings import InventorySettings

BROUGHT_BY = "inventory"
"""The name under which the records of others are capabilities."""

MANY = 2000
"""From so many records on, what is made of each is made on a thread."""

_by_id = attrgetter("id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records are wanted; "" stands for any."""

    runtime: str = ""
    kind: str = ""
    scope: str = ""
    agent: str = ""
    status: str = ""

    def fits(self, record: CapabilityRecord) -> bool:
        """Whether a record is wanted."""
        return (
            (not self.runtime or record.runtime == self.runtime)
            and (not self.kind or record.kind == self.kind)
            and (not self.scope or record.scope == self.scope)
            and (not self.agent or record.agent_id == self.agent)
            and (not self.status or record.status == self.status)
        )


@dataclass(frozen=True, slots=True)
class Merged:
    """All records of one moment, in the order of their ids, and how their sources stand."""

    records: tuple[CapabilityRecord, ...] = ()
    sources: tuple[SourceStatus, ...] = ()
    by_id: Mapping[str, CapabilityRecord] = field(default_factory=dict)
    agents: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def page(
        self, wanted: Wanted, principal: Principal, *, after: str = "", limit: int
    ) -> tuple[Sequence[CapabilityRecord], int, bool]:
        """Return a page of what is wanted, how much that is in all, and whether there is more.

        What belongs to an agent that `principal` may not speak to is not shown. The records have
        their times, and whether they can be switched is derived.
        """
        found = self.records
        if wanted != Wanted():
            found = tuple(filter(wanted.fits, found))
        if principal.agents is not None:
            may = principal.may_use_agent
            found = tuple(one for one in found if one.agent_id is None or may(one.agent_id))
        first = bisect_right(found, after, key=_by_id) if after else 0
        page = found[first : first + limit]
        return [self.whole(record) for record in page], len(found), first + limit < len(found)

    def whole(self, record: CapabilityRecord) -> CapabilityRecord:
        """Return a record as it goes out: with what is derived each time, and never kept."""
        name = record.id.partition(":")[0]
        synced = next((one.synced_at for one in self.sources if one.id == name), "")
        writable = record.writable and derived_writable(record.source, record.manageability)
        return replace(record, synced_at=record.synced_at or synced, writable=writable)


class Inventory:
    """Reads the sources, merges what they have, and tells discovery and policy of it."""

    def __init__(
        self,
        host: Host,
        multiplexer: Multiplexer,
        projection: Projection,
        keeping: Keeping,
        settings: InventorySettings,
    ) -> None:
        self._host = host
        self._multiplexer = multiplexer
        self._projection = projection
        self._keeping = keeping
        self._settings = settings
        self._served: dict[str, Served] = {}
        self._merged: Merged | None = None
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._whole = False
        self._fed: dict[str, Fed] = {}

    # -- reading -----------------------------------------------------------

    async def read(self, *, refresh: bool = False) -> Merged:
        """Return all records: as they were read a moment ago, or read now.

        Args:
            refresh: Whether to read now, however fresh what is known is.
        """
        now = self._host.clock.monotonic()
        stale = self._read_at is None or now - self._read_at >= self._settings.fresh_seconds
        if refresh or stale:
            await self._read_now()
        # A read that began while the gateway still opened has not seen all that it has. One that
        # is under way may have begun then too, so what counts is how it began.
        while self._host.ready and not self._whole:
            await self._read_now()
        return self.merged

    async def _read_now(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = self._host.spawn(self._read_all(), name="inventory.read")
        await asyncio.shield(self._reading)

    async def _read_all(self) -> None:
        begun = self._host.clock.monotonic()
        self._whole = self._host.ready
        names = tuple(self._multiplexer.sources)
        await asyncio.gather(*(self._read_source(name) for name in names))
        self._read_at = begun
        await self._feed()
        for name in names:
            await self._projection.keep(name)

    async def read_source(self, name: str) -> SourceStatus:
        """Read one source anew, since something of it was changed; return how it stands."""
        await self._read_source(name, fresh=True)
        await self._feed()
        await self._projection.keep(name)
        return self._served[name].status

    async def _read_source(self, name: str, *, fresh: bool = False) -> None:
        reading = await self._multiplexer.read_one(name, fresh=fresh)
        served = await self._projection.serve(reading)
        if served is None:
            return
        known = self._served.get(name)
        self._served[name] = served
        if self._merged is not None and known is not None and known.records is served.records:
            self._merged = replace(self._merged, sources=_statuses(self._served))
        else:
            self._merged = None
        self._tell(served.status)

    def _tell(self, status: SourceStatus) -> None:
        part = f"inventory: {status.id}"
        why = status.why
        if not status.ok:
            shown = "what it had last is shown" if status.stale else "nothing of it is known"
            why = f"{why}; {shown}"
        self._host.standing(part).bad(why)

    @property
    def merged(self) -> Merged:
        """All records as they were read last."""
        if self._merged is None:
            self._merged = _merged(self._served)
        return self._merged

    def find(self, record_id: str) -> CapabilityRecord:
        """Return the record with this id, as it was read last.

        Raises:
            UnknownCapabilityError: There is none.
            RuntimeDisconnectedError: There is none, and its source could not be read.
        """
        record = self.merged.by_id.get(record_id)
        if record is not None:
            return self.merged.whole(record)
        status = self.status(record_id.partition(":")[0])
        if status is not None and not status.ok:
            raise RuntimeDisconnectedError(f"{status.id} cannot be read: {status.why}")
        raise UnknownCapabilityError(
            f"found the id {record_id[:200]!r}, which nothing in the inventory has",
            action="list the inventory, and take an id from there",
        )

    def status(self, source: str) -> SourceStatus | None:
        """Return how the source of this id stands; None where there is none."""
        served = self._served.get(source)
        return None if served is None else served.status

    def runtime_of(self, agent: str) -> str:
        """Return the runtime that an agent belongs to.

        Raises:
            UnknownCapabilityError: There is no such agent.
            ValueError: Several runtimes have an agent of this name.
        """
        if agent in self._agents():
            return NATIVE
        runtimes = self.merged.agents.get(agent, frozenset())
        if not runtimes:
            raise UnknownCapabilityError(
                f"found the agent {agent!r}, which no runtime has",
                action="name an agent of the settings, or one that the inventory shows",
            )
        if len(runtimes) > 1:
            raise ValueError(f"{', '.join(sorted(runtimes))} have an agent called {agent!r}")
        return next(iter(runtimes))

    def _agents(self) -> Sequence[str]:
        try:
            return self._host.agents()
        except StartError:
            return ()

    # -- what turns make of it ---------------------------------------------

    async def _feed(self) -> None:
        """Let discovery know what other runtimes have, and which skills were installed.

        What has not changed is not made anew: there may be very much of it.
        """
        skills, others = self._keeping.skills, self._settings.discovery
        for name, served in self._served.items():
            known = self._fed.get(name, Fed())
            if known.records is served.records and known.skills is skills:
                continue
            made = partial(fed, served.records, skills, known, others=others)
            new = await asyncio.to_thread(made) if len(served.records) > MANY else made()
            if self._served[name] is not served:
                continue  # Somebody has read it meanwhile, and feeds it.
            self._fed[name] = new
            upsert = [row for key, (_, row) in new.rows.items() if _differs(known, key, row)]
            gone = [key for key in known.rows if key not in new.rows]
            if upsert or gone:
                self._host.capabilities.apply(BROUGHT_BY, upsert=upsert, remove=gone)


def _differs(known: Fed, key: str, row: Capability) -> bool:
    before = known.rows.get(key)
    return before is None or (before[1] is not row and before[1] != row)


def _statuses(served: Mapping[str, Served]) -> tuple[SourceStatus, ...]:
    return tuple(served[name].status for name in sorted(served))


def _merged(served: Mapping[str, Served]) -> Merged:
    records = sorted((one for each in served.values() for one in each.records), key=_by_id)
    agents: dict[str, set[str]] = {}
    for record in records:
        if record.agent_id is not None and record.runtime != NATIVE:
            agents.setdefault(record.agent_id, set()).add(record.runtime)
    return Merged(
        records=tuple(records),
        sources=_statuses(served),
        by_id={record.id: record for record in records},
        agents={name: frozenset(runtimes) for name, runtimes in agents.items()},
    )
