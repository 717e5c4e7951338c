"""What the gateway can offer, in snapshots.

Plugins say what there is with ``registry.apply(source, upsert, remove)``. A turn takes
one snapshot at its start and keeps it; the next turn sees the newest one, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from hookgate.core.errors import StartError

if TYPE_CHECKING:
    from hookgate.core.descriptors import Capability, CapabilityKind, Card
    from hookgate.core.tools import Tool

__all__ = ["CapabilityIndex", "Registry", "Snapshot"]

T = TypeVar("T")
_EMPTY: Mapping[str, Capability] = MappingProxyType({})


class Registry(Generic[T]):
    """Things by name, each with the source that brought it.

    Attributes:
        admit: Takes a source and a thing that it brings; returns the thing as it is kept.
        version: Grows by one with each change.
    """

    def __init__(
        self,
        what: str,
        name_of: Callable[[T], str],
        admit: Callable[[str, T], T] = lambda _, thing: thing,
    ) -> None:
        self._what = what
        self._name_of = name_of
        self.admit = admit
        self._items: dict[str, T] = {}
        self._sources: dict[str, str] = {}
        self._watchers: list[Callable[[], None]] = []
        self.version = 0

    def apply(self, source: str, upsert: Iterable[T] = (), remove: Iterable[str] = ()) -> None:
        """Change what `source` brings; everybody sees the whole change or nothing of it.

        Args:
            source: Who brings it, usually the plugin's name.
            upsert: Things that are new or have changed.
            remove: Names that are gone; ones that `source` never brought are passed over.

        Raises:
            StartError: Another source has brought a thing of the same name, or this one
                brings two.
            ToolDefinitionError: It is a tool, and cannot be offered. Nothing is changed.
        """
        fresh: set[str] = set()
        items, sources = dict(self._items), dict(self._sources)
        for name in remove:
            if sources.get(name) == source:
                del items[name], sources[name]
        for item in upsert:
            name = self._name_of(item)
            owner = sources.get(name, source)
            if owner != source:
                raise StartError(
                    f"{self._what} {name!r} is brought by both {owner!r} and {source!r}: "
                    "rename one, or disable one of the two plugins"
                )
            if name in fresh:
                raise StartError(f"{source!r} brings two {self._what}s called {name!r}: rename one")
            fresh.add(name)
            items[name], sources[name] = self.admit(source, item), source
        self._items, self._sources = items, sources
        self.version += 1
        for watcher in self._watchers:
            watcher()

    def replace(self, source: str, items: Iterable[T]) -> None:
        """Make `items` all that `source` brings."""
        new = list(items)
        names = {self._name_of(item) for item in new}
        gone = [name for name, owner in self._sources.items() if owner == source]
        self.apply(source, new, [name for name in gone if name not in names])

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after each change."""
        self._watchers.append(watcher)

    def unclaimed(self, source: str, items: Iterable[T]) -> tuple[list[T], dict[str, str]]:
        """Return the items that `source` may bring, and who has brought each other one."""
        good, owners = [], {}
        for item in items:
            name = self._name_of(item)
            owner = self._sources.get(name, source)
            if owner == source:
                good.append(item)
            else:
                owners[name] = owner
        return good, owners

    def source_of(self, name: str) -> str | None:
        """Return who brought the thing called `name`."""
        return self._sources.get(name)

    def view(self) -> Mapping[str, T]:
        """Return everything as it is now, by name; later changes do not show in it."""
        return MappingProxyType(self._items)

    def __len__(self) -> int:
        return len(self._items)


class CapabilityIndex:
    """A `Capabilities` view over fixed rows, indexed by kind."""

    def __init__(self, rows: Mapping[str, Capability], version: int) -> None:
        self._rows = rows
        self._version = version
        kinds: dict[CapabilityKind, dict[str, Capability]] = {}
        for row in rows.values():
            kinds.setdefault(row.kind, {})[row.id] = row
        self._kinds = kinds

    @property
    def version(self) -> int:
        """Grows by one with each change of the registry."""
        return self._version

    def get(self, capability_id: str) -> Capability | None:
        """Return the capability with this id."""
        return self._rows.get(capability_id)

    def of_kind(self, kind: CapabilityKind) -> Mapping[str, Capability]:
        """Return the capabilities of one kind by id."""
        return self._kinds.get(kind, _EMPTY)

    def without(self, ids: frozenset[str]) -> CapabilityIndex | WithheldView:
        """Return a view that lacks `ids`; costs nothing where `ids` is empty."""
        return WithheldView(self, ids) if ids else self

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, capability_id: object) -> bool:
        return capability_id in self._rows

    def __iter__(self) -> Iterator[Capability]:
        return iter(self._rows.values())


class WithheldView:
    """A `Capabilities` view that lacks some ids, without copying the rest."""

    def __init__(self, index: CapabilityIndex, ids: frozenset[str]) -> None:
        self._index = index
        self._ids = ids

    @property
    def version(self) -> int:
        """The version of the index below."""
        return self._index.version

    def get(self, capability_id: str) -> Capability | None:
        """Return the capability with this id, unless it is withheld."""
        return None if capability_id in self._ids else self._index.get(capability_id)

    def of_kind(self, kind: CapabilityKind) -> Mapping[str, Capability]:
        """Return the capabilities of one kind that are not withheld."""
        rows = self._index.of_kind(kind)
        if self._ids.isdisjoint(rows):
            return rows
        return {key: row for key, row in rows.items() if key not in self._ids}

    def __len__(self) -> int:
        return len(self._index) - sum(1 for key in self._ids if key in self._index)

    def __contains__(self, capability_id: object) -> bool:
        return capability_id not in self._ids and capability_id in self._index

    def __iter__(self) -> Iterator[Capability]:
        return (row for row in self._index if row.id not in self._ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a turn can draw on; it stays as it is for the whole turn.

    Attributes:
        tools: Tools by name.
        cards: Cards by id, sanitized when they are used.
        capabilities: All capabilities: tools, channels and cards among them.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    cards: Mapping[str, Card] = field(default_factory=dict)
    capabilities: CapabilityIndex = field(default_factory=lambda: CapabilityIndex({}, 0))
