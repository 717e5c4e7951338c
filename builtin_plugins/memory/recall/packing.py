"""What was found, as lines under a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.domain import Hit


def line_of(hit: Hit) -> str:
    """Return a hit as a model reads it: when, who, what."""
    who = f"{hit.speaker}: " if hit.speaker else ""
    return f"[{hit.at:%Y-%m-%d %H:%M}] {who}{hit.text}"


def packed(hits: Sequence[Hit], budget: int, count: Callable[[str], int]) -> list[Hit]:
    """Return the hits that fit into `budget`, the best first.

    One that does not fit is passed over, and a shorter one behind it may still.

    Args:
        hits: What was found, the best first.
        budget: Tokens for all of them.
        count: Returns the tokens of a text.
    """
    taken, left = [], budget
    for hit in hits:
        cost = count(line_of(hit))
        if cost <= left:
            taken.append(hit)
            left -= cost
    return taken
