"""Facts and turns in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.domain import Hit

K = 60
"""Of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""


def fused(*found: Sequence[Hit]) -> list[Hit]:
    """Return the hits of several searches, the best first, by their places in each.

    Scores of searches of different kinds do not compare; places do. Of equal places the search
    that is named first comes first.
    """
    ranked: dict[tuple[str, str, str], Hit] = {}
    for hits in found:
        for place, hit in enumerate(hits):
            key = (hit.scope, hit.kind, hit.id)
            known = ranked.get(key)
            score = 1 / (K + place) + (known.score if known is not None else 0.0)
            why = hit.why if known is None else tuple(dict.fromkeys((*known.why, *hit.why)))
            ranked[key] = replace(hit, score=score, why=why)
    return sorted(ranked.values(), key=lambda hit: -hit.score)
