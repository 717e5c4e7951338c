"""What the gateway can offer, in snapshots.

Plugins say what there is with ``registry.apply(source, upsert, remove)``. A turn takes
one snapshot at its start and keeps it; the next turn sees the newest one, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from hookgate.core.domain.descriptors import Capability, CapabilityKind, Card, identity
from hookgate.core.domain.errors import HookgateError
from hookgate.core.domain.tools import Tool

T = TypeVar("T")
_EMPTY: Mapping[str, Capability] = MappingProxyType({})


class Registry(Mapping[str, T]):
    """Things by name, each with the source that brought it; it reads as a mapping does.

    Names that read alike are one, see `identity`: ``Clock`` beside ``clock`` is left out. Of two
    sources that bring a thing of one name, the one that ranks lower counts, whichever
    came first; where neither does, the one that came first. What is left out takes its place once
    the name is free. A name can be reserved for a source: others that rank behind it do not get
    it, whether that source brings it or not.

    Attributes:
        what: What it holds, in one word.
        admit: Takes a source and a thing that it brings; returns the thing as it is kept.
        clashes: What was left out, as source and name, and whose counts in its place.
        version: Grows by one with each change.
    """

    def __init__(
        self,
        what: str,
        name_of: Callable[[T], str],
        admit: Callable[[str, T], T] = lambda _, thing: thing,
        *,
        rank: Callable[[str, T | None], int] = lambda *_: 0,
        reserved: Mapping[str, str] = MappingProxyType({}),
        tell: Callable[[str, str, str, str, T | None], None] = lambda *_: None,
    ) -> None:
        """Hold nothing yet.

        Args:
            what: What it holds, in one word.
            name_of: Returns a thing's name.
            admit: See the attribute.
            rank: Returns the place of a source that brings a thing, the most trusted one first;
                of the source itself where the thing is None.
            reserved: Names of things, and whose each is.
            tell: Hears of what is left out: what it is, its source, its name, the source whose
                counts, and the thing; "" and None where it is left out no more.
        """
        self.what = what
        self.name_of = name_of
        self.admit = admit
        self.clashes: Mapping[tuple[str, str], str] = {}
        self._rank = rank
        self._reserved = {identity(name): whose for name, whose in reserved.items()}
        self._tell = tell
        self._items: dict[str, T] = {}
        self._sources: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._left_out: dict[tuple[str, str], T] = {}
        self._watchers: list[Callable[[], None]] = []
        self.version = 0

    def apply(self, source: str, upsert: Iterable[T] = (), remove: Iterable[str] = ()) -> None:
        """Change what `source` brings; everybody sees the whole change or nothing of it.

        A thing whose name belongs to another source is left out, and that is told.

        Args:
            source: Who brings it, usually the plugin's name.
            upsert: Things that are new or have changed.
            remove: Names that are gone; ones that `source` never brought are passed over.

        Raises:
            HookgateError: A thing cannot be admitted. Nothing is changed.
        """
        fresh: set[str] = set()
        left_out = dict(self._left_out)
        items, sources, clashes = dict(self._items), dict(self._sources), dict(self.clashes)
        names = dict(self._names)  # identity -> the name that is there
        for name in remove:
            clashes.pop((source, name), None)
            if sources.get(name) == source:
                del items[name], sources[name], names[identity(name)]
        for item in upsert:
            name = self.name_of(item)
            key = identity(name)
            known = names.get(key, name)
            owner = sources.get(known) or self._reserved.get(key, source)
            theirs = items.get(known)
            twin = known != name and owner == source
            if key in fresh or twin or not self._may_bring(source, item, owner, theirs):
                clashes[source, name], left_out[source, name] = owner, item
                continue
            fresh.add(key)
            if clashes:
                clashes.pop((source, name), None)
            admitted = self.admit(source, item)
            if owner != source and theirs is not None:
                clashes[owner, known], left_out[owner, known] = source, theirs
                del items[known], sources[known]
            items[name], sources[name], names[key] = admitted, source, name
        before, self.clashes = self.clashes, clashes
        free = self._names.keys() - names.keys()
        self._items, self._sources, self._names = items, sources, names
        self._left_out = {pair: left_out[pair] for pair in clashes}
        self.changed()
        for pair in before.keys() | clashes.keys():
            if before.get(pair) != clashes.get(pair):
                self._tell(self.what, *pair, clashes.get(pair, ""), self._left_out.get(pair))
        self._fill(free)

    def _fill(self, free: Collection[str]) -> None:
        """Let what was left out take the names that have come free, the most trusted first."""
        waiting = [pair for pair in self.clashes if free and identity(pair[1]) in free]
        for source, name in sorted(
            waiting, key=lambda pair: self._rank(pair[0], self._left_out[pair])
        ):
            if identity(name) not in self._names:
                # One that cannot be admitted is told of when its source brings it the next time.
                with suppress(HookgateError):
                    self.apply(source, [self._left_out[source, name]])

    def _may_bring(self, source: str, item: T, owner: str, theirs: T | None) -> bool:
        return owner == source or self._rank(source, item) < self._rank(owner, theirs)

    def replace(self, source: str, items: Iterable[T]) -> None:
        """Make `items` all that `source` brings."""
        new = list(items)
        names = {self.name_of(item) for item in new}
        known = [name for name, owner in self._sources.items() if owner == source]
        known += [name for owner, name in self.clashes if owner == source]
        if not new and not known:
            return  # who brings nothing and brought nothing changes nothing
        self.apply(source, new, [name for name in known if name not in names])

    def changed(self) -> None:
        """Let everybody look again, since what is there, or what is known of it, has changed."""
        self.version += 1
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after each change."""
        self._watchers.append(watcher)

    def source_of(self, name: str) -> str | None:
        """Return who brought the thing called `name`."""
        return self._sources.get(name)

    def alike(self, name: str) -> str | None:
        """Return the name that is there and reads as `name` does."""
        return self._names.get(identity(name))

    def view(self) -> Mapping[str, T]:
        """Return everything as it is now, by name; later changes do not show in it."""
        return MappingProxyType(self._items)

    def __getitem__(self, name: str) -> T:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class CapabilityIndex:
    """An indexed, read-only view of capabilities, without what is withheld of them.

    Selectors get this instead of a list: with 100,000 rows, walking all of them on each
    turn is what to avoid.
    """

    def __init__(
        self,
        rows: Mapping[str, Capability],
        version: int,
        *,
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self._rows = rows
        self._version = version
        self._withheld = withheld
        self._kinds: dict[CapabilityKind, dict[str, Capability]] = {}
        for row in () if withheld else rows.values():
            self._kinds.setdefault(row.kind, {})[row.id] = row

    @property
    def version(self) -> int:
        """Grows by one with each change of the registry."""
        return self._version

    def get(self, capability_id: str) -> Capability | None:
        """Return the capability with this id."""
        return None if capability_id in self._withheld else self._rows.get(capability_id)

    def of_kind(self, kind: CapabilityKind) -> Mapping[str, Capability]:
        """Return the capabilities of one kind by id."""
        rows = self._kinds.get(kind, _EMPTY)
        if self._withheld.isdisjoint(rows):
            return rows
        return {key: row for key, row in rows.items() if key not in self._withheld}

    def without(self, ids: frozenset[str]) -> CapabilityIndex:
        """Return a view that lacks `ids`, and copies none of the rest."""
        if not ids:
            return self
        view = CapabilityIndex(self._rows, self._version, withheld=self._withheld | ids)
        view._kinds = self._kinds
        return view

    def __len__(self) -> int:
        rows, withheld = self._rows, self._withheld
        return len(rows) - len(rows.keys() & withheld) if withheld else len(rows)

    def __contains__(self, capability_id: object) -> bool:
        return capability_id not in self._withheld and capability_id in self._rows

    def __iter__(self) -> Iterator[Capability]:
        rows, withheld = self._rows.values(), self._withheld
        return (row for row in rows if row.id not in withheld) if withheld else iter(rows)


Capabilities: TypeAlias = CapabilityIndex
"""What hooks are handed of a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a turn can draw on; it stays as it is for the whole turn.

    Attributes:
        tools: Tools by name, without those that no model may see.
        faces: How models see a tool whose words were cleaned, by its name; others as they are.
        cards: Cards by id, sanitized when they are used.
        capabilities: All capabilities: tools, channels and cards among them.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    faces: Mapping[str, Tool] = field(default_factory=dict)
    cards: Mapping[str, Card] = field(default_factory=dict)
    capabilities: CapabilityIndex = field(default_factory=lambda: CapabilityIndex({}, 0))
