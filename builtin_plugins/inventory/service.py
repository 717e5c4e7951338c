"""The inventory as a whole: what is served, how fresh it is, and what turns make of it."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from pydantic import Field

from hookgate import (
    STORE,
    SWITCHES,
    Capability,
    Host,
    OperationModel,
    Principal,
    StartError,
    StoreError,
    Switch,
)
from hookgate.builtin_plugins.inventory.multiplexer import (
    RECORDS,
    Fed,
    Multiplexer,
    Projection,
    Served,
    SourceStatus,
    fed,
)
from hookgate.builtin_plugins.inventory.record import (
    KEY_CHARS,
    CapabilityRecord,
    Kind,
    Scope,
    Status,
    derived_writable,
)
from hookgate.builtin_plugins.inventory.settings import InventorySettings
from hookgate.builtin_plugins.inventory.sources import (
    RuntimeDisconnectedError,
    RuntimeSource,
    UnknownCapabilityError,
    inventory_sources,
)
from hookgate.builtin_plugins.inventory.switches import NATIVE, Keeping
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.tables import StoreProjection
    from hookgate.builtin_plugins.inventory.writing.writes import Writes

BROUGHT_BY = "inventory"
"""The name under which installed skills are capabilities."""

SHOWN_NAMES = 8
"""So many records are named where a short name can be several."""

ID_COLONS = 5
"""So many colons has an id: source:runtime:scope:agent:kind:key."""

_by_id = attrgetter("id")


class RecordFilter(OperationModel):
    """Which records are wanted; what is left out does not matter."""

    runtime: str = Field(default="", max_length=512)
    """One runtime only, such as `native`."""
    kind: Kind | None = None
    """One kind only."""
    scope: Scope | None = None
    """One scope only."""
    agent: str = Field(default="", max_length=512)
    """What belongs to this agent only."""
    status: Status | None = None
    """One status only."""
    text: str = Field(default="", max_length=200)
    """Only what holds this text in its key, name, description or provenance."""

    @property
    def narrows(self) -> bool:
        """Whether there is anything that it does not fit."""
        return any(getattr(self, name) for name in RecordFilter.model_fields)

    def fits(self, record: CapabilityRecord) -> bool:
        """Whether a record is wanted."""
        return (
            (not self.runtime or record.runtime == self.runtime)
            and (not self.kind or record.kind == self.kind)
            and (not self.scope or record.scope == self.scope)
            and (not self.agent or record.agent_id == self.agent)
            and (not self.status or record.status == self.status)
            and (not self.text or self._says(record))
        )

    def _says(self, record: CapabilityRecord) -> bool:
        text = self.text.casefold()
        texts = (record.source_key, record.name, record.description, record.provenance)
        return any(text in one.casefold() for one in texts)


@dataclass(frozen=True, slots=True)
class Merged:
    """All records of one moment, in the order of their ids, and how their sources stand."""

    records: tuple[CapabilityRecord, ...] = ()
    sources: tuple[SourceStatus, ...] = ()
    by_id: Mapping[str, CapabilityRecord] = field(default_factory=dict)
    names: Mapping[str, Sequence[CapabilityRecord]] = field(default_factory=dict)
    agents: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def page(
        self, wanted: RecordFilter, principal: Principal, *, after: str = "", limit: int
    ) -> tuple[Sequence[CapabilityRecord], int, bool]:
        """Return a page of what is wanted, how much that is in all, and whether there is more.

        What belongs to an agent that `principal` may not speak to is not shown. The records have
        their times, and whether they can be switched is derived.
        """
        found = self.records
        if wanted.narrows:
            found = tuple(filter(wanted.fits, found))
        if principal.agents is not None:
            may = principal.may_use_agent
            found = tuple(one for one in found if one.agent_id is None or may(one.agent_id))
        first = bisect_right(found, after, key=_by_id) if after else 0
        page = found[first : first + limit]
        return [self.whole(record) for record in page], len(found), first + limit < len(found)

    def short(self, record: CapabilityRecord) -> str:
        """Return what can be typed in the place of a record's id: the shortest name of its own."""
        own = [name for name in _names_of(record) if len(self.names.get(name, ())) == 1]
        return min(own, key=len, default=record.id)

    def meant(self, text: str, principal: Principal) -> Sequence[CapabilityRecord]:
        """Return the records that somebody may mean: by id, by a short name, or by how it ends.

        What belongs to an agent that `principal` may not speak to is not among them.
        """
        if text in self.by_id:
            return (self.by_id[text],)
        found = self.names.get(text, ())
        if not found:
            ends = tuple(f"{mark}{text}" for mark in ":/")
            found = [record for record in self.records if record.id.endswith(ends)]
        found = [
            record
            for record in found
            if record.agent_id is None or principal.may_use_agent(record.agent_id)
        ]
        # The whole key, and not what merely ends like it: `hub` is not called `github`.
        keyed = [record for record in found if f"/{text}".endswith(f"/{record.source_key}")]
        return keyed if len(keyed) == 1 else found

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
        self._fed = Fed()

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
        self._feed()
        for name in names:
            await self._projection.keep(name)

    async def read_source(self, name: str) -> SourceStatus:
        """Read one source anew, since something of it was changed; return how it stands."""
        await self._read_source(name, fresh=True)
        self._feed()
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

    async def named(self, text: str, principal: Principal) -> str:
        """Return the id that somebody means who types it, a short name, or a part that ends it.

        Raises:
            ValueError: Several records are meant.
            UnknownCapabilityError: None is called so.
        """
        merged = await self.read()
        found = merged.meant(text, principal)
        if len(found) > 1:
            names = sorted(merged.short(record) for record in found[:SHOWN_NAMES])
            more = f" and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
            raise ValueError(f"{text[:200]!r} can be {', '.join(names)}{more}")
        if found:
            return found[0].id
        if text.count(":") >= ID_COLONS:
            return text
        seen = [
            name
            for name, (first, *_) in merged.names.items()
            if first.agent_id is None or principal.may_use_agent(first.agent_id)
        ]
        near = get_close_matches(text[:KEY_CHARS], seen, n=1)
        raise UnknownCapabilityError(
            f"found {text[:200]!r}, which nothing in the inventory is called",
            action=f"did you mean {near[0]}?" if near else "list the inventory",
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

    def _feed(self) -> None:
        """Tell of what is switched off, and let discovery know which skills were installed."""
        self._host.switched_off = self._keeping.tools_off()
        served, skills, known = self._served.get(NATIVE), self._keeping.skills, self._fed
        if served is None or (known.records is served.records and known.skills is skills):
            return
        new = self._fed = fed(served.records, skills, known)
        upsert = [row for key, (_, row) in new.rows.items() if _differs(known, key, row)]
        gone = [key for key in known.rows if key not in new.rows]
        if upsert or gone:
            self._host.capabilities.apply(BROUGHT_BY, upsert=upsert, remove=gone)


def _differs(known: Fed, key: str, row: Capability) -> bool:
    before = known.rows.get(key)
    return before is None or before[1] is not row


def _statuses(served: Mapping[str, Served]) -> tuple[SourceStatus, ...]:
    return tuple(served[name].status for name in sorted(served))


def _merged(served: Mapping[str, Served]) -> Merged:
    records = sorted((one for each in served.values() for one in each.records), key=_by_id)
    agents: dict[str, set[str]] = {}
    names: dict[str, list[CapabilityRecord]] = {}
    for record in records:
        for name in _names_of(record):
            names.setdefault(name, []).append(record)
        if record.agent_id is not None and record.runtime != NATIVE:
            agents.setdefault(record.agent_id, set()).add(record.runtime)
    return Merged(
        records=tuple(records),
        sources=_statuses(served),
        by_id={record.id: record for record in records},
        names=names,
        agents={name: frozenset(runtimes) for name, runtimes in agents.items()},
    )


def _names_of(record: CapabilityRecord) -> set[str]:
    """Return what a person would call a record: runtime, agent if it has one, and key or name."""
    whose = f"{record.runtime}/{record.agent_id}" if record.agent_id else record.runtime
    return {f"{whose}/{name}" for name in (record.source_key, record.name) if " " not in name}


# -- opening ---------------------------------------------------------------------

# Opening the inventory: its tables, its sources, and what follows changes beside the turns.

PART = "inventory switches"
"""What `status` calls what is switched off, where it is not known for sure."""

CHANGED = "inventory.changed"
"""The small value by which gateways on one store hear of each other's switches."""


class Opened:
    """The inventory of a gateway that runs.

    Attributes:
        inventory: What there is.
        all_open: Set once all plugins are open; before that, sources of others may not work yet.
    """

    def __init__(
        self,
        host: Host,
        settings: InventorySettings,
        keeping: Keeping,
        multiplexer: Multiplexer,
        projection: Projection,
    ) -> None:
        self.inventory = Inventory(host, multiplexer, projection, keeping, settings)
        self._host = host
        self._multiplexer = multiplexer
        self._keeping = keeping
        self._seconds = settings.refresh_seconds
        self._changed = asyncio.Event()
        self.all_open = asyncio.Event()

    @cached_property
    def writes(self) -> Writes:
        """What changes it."""
        from hookgate.builtin_plugins.inventory.writing.writes import Writes

        return Writes(self._host, self.inventory, self._multiplexer, self.announce)

    async def follow(self) -> None:
        """Read all runtimes now and then, and switches whenever another gateway has set one."""
        await self.all_open.wait()
        self._host.tools.watch(self._changed.set)
        undo = self._host[SWITCHES].watch(CHANGED, self._noticed)
        try:
            while True:
                await self._load()
                await self.inventory.read(refresh=True)
                self._changed.clear()
                try:
                    async with asyncio.timeout(self._seconds or None):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            undo()

    def _noticed(self, switch: Switch) -> None:
        self._changed.set()

    async def _load(self) -> None:
        try:
            await self._keeping.load()
        except StoreError as error:
            self._host.standing(PART).bad(f"what other gateways switch off is not known: {error}")
        else:
            self._host.standing(PART).good()

    async def announce(self) -> None:
        """Let other gateways on the same store know that something was switched or installed."""
        store = self._host.get(STORE)
        if store is None or not store.shared:
            return
        switches = self._host[SWITCHES]
        try:
            known = await switches.get(CHANGED)
            # Where another one was faster, all have heard.
            await switches.put(CHANGED, known.version + 1, version=known.version)
        except StoreError as error:
            self._host.standing(PART).bad(f"other gateways hear of a change later: {error}")


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""The id of a source, which its records' ids begin with."""


@asynccontextmanager
async def opened(
    host: Host, settings: InventorySettings, keeping: Keeping
) -> AsyncIterator[Opened]:
    """Open the inventory, and close it at the end.

    What is switched off is known before anything else: no turn gets what it should not have.

    Raises:
        StoreError: What is switched off cannot be read.
    """
    kept = await _tables(host, keeping)
    multiplexer = Multiplexer(
        await _sources(host),
        read_seconds=settings.read_seconds,
        write_seconds=settings.write_seconds,
    )
    projection = Projection(
        kept, host.clock.now, host.clock.monotonic, standing=host.standing(RECORDS)
    )
    try:
        yield Opened(host, settings, keeping, multiplexer, projection)
    finally:
        await multiplexer.close()


async def _tables(host: Host, keeping: Keeping) -> StoreProjection | None:
    """Know what is switched off; return where records are kept, if they outlive the process."""
    module = "hookgate.builtin_plugins.inventory.tables"
    tables, store = await tables_of(host.get(STORE), "inventory", module)
    await keeping.open(tables.Toggle.records(store), tables.Skill.records(store))
    host.switched_off = keeping.tools_off()
    if store.problem:
        host.standing(PART).bad(
            "the store of earlier runs is lost, and with it what was switched off"
        )
    return tables.StoreProjection(store) if host.get(STORE) is not None else None


async def _sources(host: Host) -> dict[str, RuntimeSource]:
    """Return the sources of all plugins by id; those of builtin plugins count before others."""
    sources: dict[str, RuntimeSource] = {}
    brought = await host.hooks.each_by_plugin(inventory_sources, host)
    for answer in sorted(brought, key=lambda one: host.rank(one.plugin)):
        if answer.failure is not None:
            host.standing(f"inventory sources of {answer.plugin}").bad(answer.failure.message)
        for source in answer.value or ():
            name = str(source.id)
            wrong = ""
            if not _ID.fullmatch(name):
                wrong = "found no id of 1 to 32 lower-case letters, digits, _ and -: give it one"
            elif name in sources:
                wrong = "left out, since another one has this id: rename one of the two"
            if wrong:
                host.standing(f"inventory source {name[:80]} of {answer.plugin}").bad(wrong)
            else:
                sources[name] = source
    assert NATIVE in sources, "this plugin brings it, and whatever it brings comes first"
    return sources
