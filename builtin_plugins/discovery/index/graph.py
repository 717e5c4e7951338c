"""How capabilities are related, and what that changes in a list of results.

Four types of edges are read from what capabilities say of themselves:

- ``DEPENDS_ON``, weight 1.0, one way: the tools without which a capability does not work.
- ``COMPOSED_WITH``, 0.5, both ways: members of one preset.
- ``TAGGED_WITH``, 0.3 for each shared tag where two or more are shared, both ways.
- ``SAME_CATEGORY``, 0.1, both ways: same kind and category, in groups of 2 to 8.

Two capabilities may be joined by edges of several types; each stands for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from hookgate import Capability
from hookgate.builtin_plugins.discovery.show.entries import EDGES, EdgeType, FoundCapability

DEPENDS = 1.0
COMPOSED = 0.5
TAGGED = 0.3
SAME = 0.1

SHARED_TAGS = 2
"""So many tags must be shared: one common tag joins half of a large corpus."""

GROUP = range(2, 9)
"""Sizes of a category whose members are related; a larger one says little of any two."""

PULLS: tuple[EdgeType, ...] = ("DEPENDS_ON", "COMPOSED_WITH")
"""Edges that pull in what a search did not find itself."""

PAIR_STEPS = 2_000_000
"""Beyond so many pairs of rows that share a tag (or a preset), edges are not counted."""

CANDIDATES = 20_000
"""So many rows are compared by tags at most when one row's edges are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation as it is seen from `source`.

    Attributes:
        source: The id of the capability that was asked about.
        target: The id of the related one.
        type: Why they are related; `DEPENDS_ON` leads one way, the others both.
        weight: How closely.
    """

    source: str
    target: str
    type: EdgeType
    weight: float


class Graph:
    """The relations between fixed rows.

    Dependencies and presets are kept as they are named. Shared tags and categories are
    worked out when they are asked for: a tag that 50,000 rows share would make 1.25
    billion edges.

    Attributes:
        missing: Ids that are required or stand in a preset, but that no row has, each with
            who named it: ids of rows, and ``preset NAME``.
    """

    def __init__(self, rows: Iterable[Capability], presets: Mapping[str, Sequence[str]]) -> None:
        """Read the relations; neither the order of rows nor that of presets matters.

        Args:
            rows: The capabilities.
            presets: Name to the ids that are used together; a tool's name is enough.
        """
        self._rows = {row.id: row for row in sorted(rows, key=lambda row: row.id)}
        # A tool from a manifest may have an id of its own: it is still required by its name.
        self._by_name: dict[str, str] = {}
        for row in self._rows.values():
            if row.kind == "tool":
                self._by_name.setdefault(row.name, row.id)
        self._named: dict[str, set[str]] = {}
        self._depends = self._read_requirements()
        self._presets = self._read_presets(presets)
        self.missing: Mapping[str, tuple[str, ...]] = {
            name: tuple(sorted(who)) for name, who in sorted(self._named.items())
        }
        self._tagged: dict[str, list[str]] = {}
        groups: dict[tuple[str, str], list[str]] = {}
        for row in self._rows.values():
            for tag in _tags(row):
                self._tagged.setdefault(tag, []).append(row.id)
            if row.category:
                groups.setdefault((row.kind, row.category.casefold()), []).append(row.id)
        self._groups = {key: ids for key, ids in groups.items() if len(ids) in GROUP}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Mapping[str, Capability]:
        """The rows by id, in the order of their ids."""
        return self._rows

    def edges(self, capability_id: str, *, limit: int = 50) -> tuple[Edge, ...]:
        """Return the edges that start at a capability, by type, the heaviest first.

        Args:
            capability_id: Whose; without edges where there is no such row.
            limit: So many at most.
        """
        if capability_id not in self._rows:
            return ()
        found = [
            Edge(source=capability_id, target=target, type=type_, weight=weight)
            for type_ in EDGES
            for target, weight in sorted(
                self._neighbours(capability_id, type_), key=lambda pair: (-pair[1], pair[0])
            )
        ]
        return tuple(found[:limit])

    def edge_counts(self) -> Mapping[EdgeType, int | None]:
        """Return how many edges there are by type; an edge that goes both ways counts once.

        None means that counting would take more than `PAIR_STEPS` comparisons. The first call
        may take some tenths of a second and belongs on a thread; later ones are free.
        """
        return dict(self._counts)

    def rerank(
        self,
        found: Sequence[FoundCapability],
        *,
        factor: float = 0.15,
        boosts: Collection[EdgeType] = (),
        pulls: Collection[EdgeType] = PULLS,
        admit: Callable[[Capability], bool] = lambda _: True,
        places: int = 3,
    ) -> list[FoundCapability]:
        """Return `found` with what is related to it: neighbours over one edge.

        Args:
            found: What a search found, best first.
            factor: How much of an edge's weight counts.
            boosts: Edges that make two found capabilities lift each other: each gains
                ``factor * weight``, up to a relevance of 1. What gained is sorted in anew.
            pulls: Edges that bring in a capability that was not found, with a relevance of
                ``factor * weight`` of that of the one which brings it. Of several that could,
                it is the one which gives the most.
            admit: Whether a capability may be brought in.
            places: So many are brought in at most, over and above `found`.

        Returns:
            All of `found`, then what was pulled in, the most relevant first.
        """
        ranked = self._boosted(found, factor, boosts) if boosts else list(found)
        if pulls and places > 0:
            ranked += self._pulled(ranked, factor, pulls, admit, places)
        return ranked

    def _pulled(
        self,
        found: Sequence[FoundCapability],
        factor: float,
        pulls: Collection[EdgeType],
        admit: Callable[[Capability], bool],
        places: int,
    ) -> list[FoundCapability]:
        # Most capabilities name no other one: where none does, nobody is asked.
        named = {"DEPENDS_ON": self._depends, "COMPOSED_WITH": self._presets}
        pulls = [type_ for type_ in pulls if named.get(type_, True)]
        if not pulls:
            return []
        held = {item.row.id for item in found}
        best: dict[str, tuple[float, int, str]] = {}
        for type_ in pulls:
            for item in found:
                if item.pulled_by:
                    continue
                parent = item.row.id
                for target, weight in self._neighbours(parent, type_):
                    if target in held:
                        continue
                    # Of equals the stronger type and then the smaller id wins.
                    offer = (-item.relevance * factor * weight, EDGES.index(type_), parent)
                    if target not in best or offer < best[target]:
                        best[target] = offer
        pulled: list[FoundCapability] = []
        for target, (less, place, parent) in sorted(best.items(), key=lambda at: (at[1][0], at[0])):
            row = self._rows[target]
            if admit(row):
                edge = EDGES[place]
                pulled.append(
                    FoundCapability(row=row, relevance=-less, pulled_by=parent, edge=edge)
                )
                if len(pulled) == places:
                    break
        return pulled

    def _boosted(
        self, found: Sequence[FoundCapability], factor: float, boosts: Collection[EdgeType]
    ) -> list[FoundCapability]:
        gains: Counter[str] = Counter()
        ids = sorted({item.row.id for item in found} & self._rows.keys())
        tags = {id_: _tags(self._rows[id_]) for id_ in ids}
        for type_ in EDGES:
            if type_ not in boosts:
                continue
            for left, right, weight in self._pairs(ids, type_, tags):
                gains[left] += factor * weight  # type: ignore[assignment]  # Counter holds any number
                gains[right] += factor * weight  # type: ignore[assignment]  # as above
        if not gains:
            return list(found)
        ranked = []
        for item in found:
            relevance = max(item.relevance, min(1.0, item.relevance + gains[item.row.id]))
            graph = item.graph + relevance - item.relevance
            ranked.append(replace(item, relevance=relevance, graph=graph))
        ranked.sort(key=lambda item: (-item.relevance, item.row.id))
        return ranked

    def _pairs(
        self, ids: Sequence[str], type_: EdgeType, tags: Mapping[str, frozenset[str]]
    ) -> list[tuple[str, str, float]]:
        """Return the pairs of `ids`, each once, that edges of a type join."""
        if type_ == "TAGGED_WITH":
            # Among few rows comparing all is less work than walking who else has a tag.
            return [
                (left, right, TAGGED * shared)
                for left, right in combinations(ids, 2)
                if (shared := len(tags[left] & tags[right])) >= SHARED_TAGS
            ]
        held = set(ids)
        joined = {
            (min(source, target), max(source, target)): weight
            for source in ids
            for target, weight in self._neighbours(source, type_)
            if target in held
        }
        return [(left, right, weight) for (left, right), weight in joined.items()]

    def _neighbours(self, source: str, type_: EdgeType) -> Collection[tuple[str, float]]:
        if type_ == "DEPENDS_ON":
            return self._depends.get(source, ())
        if type_ == "COMPOSED_WITH":
            presets = self._presets.get(source)
            if presets is None:
                return ()
            return {(other, COMPOSED) for ids in presets for other in ids if other != source}
        row = self._rows.get(source)
        if row is None:
            return ()
        if type_ == "SAME_CATEGORY":
            group = self._groups.get((row.kind, row.category.casefold()), ())
            return [(other, SAME) for other in group if other != source]
        return self._tag_neighbours(row)

    def _tag_neighbours(self, row: Capability) -> list[tuple[str, float]]:
        tags = _tags(row)
        # Whoever shares two tags shares one that is not the most common: that list, perhaps
        # of half the corpus, need not be walked.
        lists = sorted((self._tagged[tag] for tag in tags), key=lambda ids: (len(ids), ids))
        candidates: dict[str, None] = {}
        for ids in lists[:-1]:
            candidates.update(dict.fromkeys(ids[: CANDIDATES - len(candidates)]))
        candidates.pop(row.id, None)
        return [
            (other, TAGGED * shared)
            for other in candidates
            if (shared := len(tags & _tags(self._rows[other]))) >= SHARED_TAGS
        ]

    def _read_requirements(self) -> dict[str, tuple[tuple[str, float], ...]]:
        depends = {}
        for row in self._rows.values():
            if row.required_tools:
                ids = dict.fromkeys(self._resolve(name, row.id) for name in row.required_tools)
                edges = tuple((id_, DEPENDS) for id_ in ids if id_ and id_ != row.id)
                if edges:
                    depends[row.id] = edges
        return depends

    def _read_presets(
        self, presets: Mapping[str, Sequence[str]]
    ) -> dict[str, list[tuple[str, ...]]]:
        members: dict[str, list[tuple[str, ...]]] = {}
        for name, named in sorted(presets.items()):
            resolved = (self._resolve(member, f"preset {name}") for member in named)
            ids = tuple(sorted({id_ for id_ in resolved if id_}))
            if len(ids) > 1:
                for id_ in ids:
                    members.setdefault(id_, []).append(ids)
        return members

    def _resolve(self, name: str, who: str) -> str:
        """Return the id that is meant by a tool's name or an id; "" where no row has it."""
        prefixed = f"tool:{name}"
        for id_ in (prefixed, name, self._by_name.get(name, "")):
            if id_ in self._rows:
                return id_
        self._named.setdefault(name if ":" in name else prefixed, set()).add(who)
        return ""

    @cached_property
    def _counts(self) -> Mapping[EdgeType, int | None]:
        return {
            "DEPENDS_ON": sum(len(edges) for edges in self._depends.values()),
            "COMPOSED_WITH": self._count_composed(),
            "TAGGED_WITH": self._count_tagged(),
            "SAME_CATEGORY": sum(_pairs_of(len(ids)) for ids in self._groups.values()),
        }

    def _count_composed(self) -> int | None:
        if sum(len(ids) for presets in self._presets.values() for ids in presets) > PAIR_STEPS:
            return None
        return sum(len(self._neighbours(id_, "COMPOSED_WITH")) for id_ in self._presets) // 2

    def _count_tagged(self) -> int | None:
        if sum(_pairs_of(len(ids)) for ids in self._tagged.values()) > PAIR_STEPS:
            return None
        count = 0
        before: dict[str, list[str]] = {tag: [] for tag in self._tagged}
        for row in self._rows.values():
            shared: Counter[str] = Counter()
            for tag in _tags(row):
                shared.update(before[tag])
                before[tag].append(row.id)
            count += sum(1 for tags in shared.values() if tags >= SHARED_TAGS)
        return count


def _tags(row: Capability) -> frozenset[str]:
    """Return the tags that can join a row to another: none where there are too few."""
    if len(row.tags) < SHARED_TAGS:
        return frozenset()
    tags = frozenset(tag.casefold() for tag in row.tags)
    return tags if len(tags) >= SHARED_TAGS else frozenset()


def _pairs_of(count: int) -> int:
    return count * (count - 1) // 2
