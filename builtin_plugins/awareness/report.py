"""Success figures: what cards have cost, and how often they came up."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.builtin_plugins.awareness.records import TurnRecord

__all__ = ["GOALS", "figures"]

GOALS = {
    "tokensWithoutCard": 0,
    "tokensWithCard": 1500,
    "shareOfSessions": 0.15,
    "falseInjections": 0.05,
    "usedWhenItFits": 0.90,
}
"""What is aimed at. The first two and the fourth are at most, the third is less than, and the
last one is more than."""


def figures(records: Sequence[TurnRecord]) -> dict[str, Any]:
    """Return what records of turns come to, JSON-ready; figures of nothing are None.

    Args:
        records: The records, oldest first.
    """
    with_card = [record for record in records if record.injected]
    without = [record for record in records if not record.injected]
    sessions = {record.session for record in records}
    tokens = [record.tokens for record in with_card]
    times = [record.selection_ms for record in records]
    cards = Counter(card.id for record in with_card for card in record.injected)
    tags = Counter(tag for record in records for tag in record.tags)
    return {
        "turns": len(records),
        "turnsWithCard": len(with_card),
        "shareOfTurns": _share(len(with_card), len(records)),
        "sessions": len(sessions),
        "shareOfSessions": _share(len({one.session for one in with_card}), len(sessions)),
        "tokensWithoutCard": max((record.tokens for record in without), default=None),
        "tokensWithCard": {
            "mean": round(fmean(tokens), 1) if tokens else None,
            "highest": max(tokens, default=None),
        },
        "selectionMs": {
            "mean": round(fmean(times), 3) if times else None,
            "p99": round(quantiles(times, n=100)[98], 3) if len(times) > 1 else None,
        },
        "cards": dict(cards.most_common()),
        "routerTags": dict(tags.most_common()),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
