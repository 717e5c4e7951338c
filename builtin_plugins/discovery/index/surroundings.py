"""What the engine needs of the gateway, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from hookgate import Embedder, PartStanding, Standings

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.index import Index
    from hookgate.builtin_plugins.discovery.index.vectors import Vectors
    from hookgate.builtin_plugins.discovery.show.results import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine needs of the gateway.

    Attributes:
        embedder: Returns the embedder, or None where there is none.
        standing: Returns how a part stands, to say otherwise; see `Host.standing`.
        path: Where the index is kept; None keeps it in memory alone.
        clock: Seconds that never go backwards.
        elsewhere: Returns the vectors of an embedder, by its fingerprint, where they are kept
            in a database; None where they are kept in memory.
    """

    embedder: Callable[[], Embedder | None] = lambda: None
    standing: Callable[[str], PartStanding] = field(default_factory=Standings)
    path: Path | None = None
    clock: Callable[[], float] = perf_counter
    elsewhere: Callable[[str], Vectors | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
        found: What fits, best first.
        version: The version of the rows that was searched.
        dense: Whether vectors took part.
        milliseconds: Time by step.
    """

    found: tuple[Found, ...]
    version: int
    dense: bool
    milliseconds: Mapping[str, float]


def nothing_found(version: int) -> SearchResult:
    """Return what a search comes to where nothing may be found."""
    times = {"index": 0.0, "embed": 0.0, "search": 0.0}
    return SearchResult(found=(), version=version, dense=False, milliseconds=times)


def is_loaded(embedder: Embedder) -> bool:
    """Whether `embedder` answers without loading a model first; it may not know `loaded`."""
    return bool(getattr(embedder, "loaded", True))


def words_alone(embedder: Embedder | None, index: Index) -> str:
    """Return why searches in `index` go by words alone; "" where they do not."""
    if embedder is None:
        return "there is no embedder: search goes by words alone"
    if index.dense is None and len(index):
        return "vectors are being made: until they are there, search goes by words alone"
    return ""
