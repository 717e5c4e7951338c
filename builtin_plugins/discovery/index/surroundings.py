"""What the engine needs of the gateway, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hookgate.builtin_plugins.discovery.index.searching import Index
    from hookgate.builtin_plugins.discovery.index.vectors import Vectors
    from hookgate.builtin_plugins.discovery.show.results import Found
    from hookgate.core.domain.ports import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine needs of the gateway.

    Attributes:
        embedder: Returns the embedder, or None where there is none.
        degrade: Says that a part does not work as it should, and why.
        recover: Says that it does again.
        announce: Says of a part what an operator should know, though nothing is wrong.
        withdraw: Takes that back.
        path: Where the index is kept; None keeps it in memory alone.
        clock: Seconds that never go backwards.
        elsewhere: Returns the vectors of an embedder, by its fingerprint, where they are kept
            in a database; None where they are kept in memory.
    """

    embedder: Callable[[], Embedder | None] = lambda: None
    degrade: Callable[[str, str], None] = lambda _part, _why: None
    recover: Callable[[str], None] = lambda _part: None
    announce: Callable[[str, str], None] = lambda _part, _what: None
    withdraw: Callable[[str], None] = lambda _part: None
    path: Path | None = None
    clock: Callable[[], float] = perf_counter
    elsewhere: Callable[[str], Vectors | None] = lambda _: None

    def notice(self, part: str, what: str) -> None:
        """Announce `what` of a part; take back what was announced where it is ""."""
        if what:
            self.announce(part, what)
        else:
            self.withdraw(part)


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
