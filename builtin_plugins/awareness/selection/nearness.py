"""Which tags the vector of a message is near to.

The nearest example counts most: what somebody asks is mostly asked in one of a few ways. A line
that divides the examples from unrelated messages, fitted to their vectors, counts a little: it
knows what the examples have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate.kit.vectors import products

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Doubles: TypeAlias = npt.NDArray[np.float64]

UNRELATED_SHARE, LINE_SHARE, FLOOR = 0.5, 0.1, 0.32
"""A message has a tag where its best cosine with an example, less so much of the best cosine
with an unrelated message, plus so much of its side of the line, is at least the floor. Found
with the messages of `benchmarks/awareness.py` and the model that comes with hookgate: lower
floors show more cards for nothing, higher ones miss more. Another model has other cosines."""

OWN_LINE_SHARE = 0.3
"""So much does the line of a tag count, which divides its examples from all others, when the
tag of a message is chosen."""

OTHER_SIDE, KNOWN_EXAMPLES = -0.7, 20
"""A message so far on the other side of the line has no tag with so many examples: it shares
the subject of an example ("weather in Oslo", "remember that I live in Oslo") and nothing of
what the examples have in common. No message of the tuning half of `benchmarks/awareness.py`
that shows a right card lies so far off. What few examples have in common a line cannot know,
so that their tags go by the nearest one alone."""

NEAR = 0.05
"""A second tag counts where its best cosine is so near to the best one of all."""

STIFFNESS = 3.0
"""The ridge of the lines: the higher, the less they follow single examples."""


class Nearness:
    """Judges vectors by examples.

    Args:
        examples: The vectors of the examples, those of one tag next to each other.
        counts: How many examples each tag has, at least one.
        unrelated: The vectors of the unrelated messages.
    """

    def __init__(self, examples: Floats, counts: Sequence[int], unrelated: Floats) -> None:
        self._examples, self._unrelated = examples, unrelated
        self._starts = np.cumsum([0, *counts[:-1]])
        self._known = np.asarray(counts) >= KNOWN_EXAMPLES
        self._lines = _lines(examples, counts, unrelated)

    def nearest(self, vector: Floats) -> list[int]:
        """Return the places of the tags that `vector` is near to: at most two, best first."""
        bests = np.maximum.reduceat(products(vector[None], self._examples)[0], self._starts)
        sides = vector @ self._lines[:-1] + self._lines[-1]
        if sides[-1] < OTHER_SIDE:
            bests = np.where(self._known, -1.0, bests)
        best = float(bests.max())
        # Where no message is like it at all, nothing is taken off.
        apart = float(products(vector[None], self._unrelated).max(initial=0.0))
        sure = best - UNRELATED_SHARE * apart + LINE_SHARE * float(sides[-1])
        # What is no number is not sure.
        if not sure >= FLOOR:
            return []
        order = np.argsort(-(bests + OWN_LINE_SHARE * sides[:-1]), kind="stable").tolist()
        return [order[0], *(at for at in order[1:2] if bests[at] >= best - NEAR)]


def _lines(examples: Floats, counts: Sequence[int], unrelated: Floats) -> Doubles:
    """Return a line for each tag, and one for all of them: the columns, the constant last.

    On the one side a line is near 1, on the other near -1, by least squares with a ridge;
    examples and unrelated messages weigh the same together, whatever their number.
    """
    width = examples.shape[1] + 1
    if not len(unrelated):
        return np.zeros((width, len(counts) + 1))
    vectors = np.ones((len(examples) + len(unrelated), width))
    vectors[:, :-1] = np.concatenate([examples, unrelated])
    tags = np.repeat(np.arange(len(counts)), counts)
    sides = np.full((len(vectors), len(counts) + 1), -1.0)
    sides[np.arange(len(examples)), tags] = 1.0
    sides[: len(examples), -1] = 1.0
    weights = np.full(len(vectors), len(vectors) / 2 / len(examples))
    weights[len(examples) :] = len(vectors) / 2 / len(unrelated)
    ridge = np.full(width, STIFFNESS)
    ridge[-1] = 0.0
    weighted = vectors.T * weights
    return np.linalg.solve(weighted @ vectors + np.diag(ridge), weighted @ sides)
