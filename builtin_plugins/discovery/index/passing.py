"""What of a ranking is found: all that is relevant enough, and what a tag speaks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Capability
from hookgate.builtin_plugins.discovery.show.results import Found

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hookgate.builtin_plugins.discovery.index.relevance import Relevance
    from hookgate.builtin_plugins.discovery.index.searching import Index, Query, Ranking

    Floats: TypeAlias = npt.NDArray[np.float32]

TAGGED = 0.35
"""A tag of a capability speaks for it where a message is at least so likely to ask for anything:
"I am no good person" does not ask for what has the tag "personal"."""


def tag_of(relevance: Relevance, query: Query) -> Callable[[Capability], str]:
    """Return what names the tag of a capability that stands in a message."""
    words, content = query.parts[0].words, relevance.content(query)
    return lambda row: relevance.tag_in(row, words, content)


def no_tag(row: Capability) -> str:
    """Name no tag."""
    del row
    return ""


def passed(
    index: Index,
    query: Query,
    ranking: Ranking,
    relevance: Floats,
    shown: Callable[[Capability], bool],
    *,
    limit: int,
    floor: float,
    tag: Callable[[Capability], str],
) -> tuple[Found, ...]:
    """Return the rows of a ranking that pass, best first: by their relevance, or by a tag.

    Args:
        index: What was searched.
        query: For what.
        ranking: What the search came to.
        relevance: The relevance of each of its rows.
        shown: Whether a capability may be found at all.
        limit: So many at most.
        floor: The least relevance.
        tag: Names a tag of a capability for which it passes below the floor, or "".
    """
    found: list[Found] = []
    spoken = bool(len(relevance)) and float(relevance[0]) >= TAGGED
    for at, place in enumerate(ranking.places.tolist()):
        sure = float(relevance[at])
        if sure <= 0 or len(found) >= limit:
            break
        row = index.rows[place]
        evident = tag(row) if spoken and sure < floor else ""
        if (sure < floor and not evident) or not shown(row):
            continue
        found.append(
            Found(
                row=row,
                relevance=sure,
                dense=float(ranking.cosines[at]),
                lexical=float(ranking.shares[at]),
                words=index.lexical.held(query.parts[0].words, place),
                tag=evident,
            )
        )
    return tuple(found)
