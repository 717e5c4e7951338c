"""How words and meaning, and the parts of a message, come together in one order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Places: TypeAlias = npt.NDArray[np.int64]

LEAST_COSINE = 0.05
"""Meaning counts in shares of the best cosine; where that is less, in shares of this."""

COVERED = 5
"""So many of the first rows are to serve what a message asks for, one thing as well as another."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How words and meaning come together.

    Round values, judged by leaving out each of five public sets in turn and tuning on the
    others: ``benchmarks/retrieval.py --leave-one-out``.

    Attributes:
        meaning: What meaning counts against words.
        power: A row that reaches half of the best row's BM25 score fits less than half as
            well, where this is more than 1.
        clause: What the best clause counts against the whole message, where it has several.
        served: What a clause counts for the next row, against what it counted for the one
            before that serves it: of rows that fit alike, the one comes first that serves
            another clause.
    """

    meaning: float = 0.6
    power: float = 1.4
    clause: float = 0.6
    served: float = 0.95


WEIGHTS = Weights()


def blend(by_words: Floats, cosines: Floats, weights: Weights = WEIGHTS) -> Floats:
    """Return the weighted mean of words and meaning, by part and row.

    Args:
        by_words: The BM25 scores, an array (parts, rows).
        cosines: The cosines, an array of the same shape.
        weights: How they come together.
    """
    words, meaning = shares_of_words(by_words, weights), shares_of_meaning(cosines)
    blended: Floats = weights.meaning * meaning + (1 - weights.meaning) * words
    return blended


def shares_of_words(by_words: Floats, weights: Weights = WEIGHTS) -> Floats:
    """Return BM25 scores as shares of the best one of each part."""
    best = by_words.max(axis=1, initial=1e-6)
    shares: Floats = (by_words / best[:, None]) ** weights.power
    return shares


def shares_of_meaning(cosines: Floats) -> Floats:
    """Return cosines as shares of the best one of each part."""
    shares: Floats = cosines / cosines.max(axis=1, initial=LEAST_COSINE)[:, None]
    return shares


def best_first(
    parts: Floats, places: Places, count: int, weights: Weights = WEIGHTS
) -> tuple[Places, Floats]:
    """Return the order of the rows, the best first, and their scores in that order.

    The score of a row is that of the whole message and that of the clause that it serves best.

    Args:
        parts: The scores by part and row; the first part is the whole message.
        places: The rows; of two that fit alike, the lower one comes first.
        count: So many are wanted: of many more, the best ones alone are returned.
        weights: How they come together.
    """
    scores: Floats = parts[0]
    if len(parts) > 1:
        scores = (1 - weights.clause) * scores + weights.clause * parts[1:].max(axis=0)
    if len(scores) <= 4 * count:
        order: Places = np.lexsort((places, -scores))
    else:
        best = np.argpartition(-scores, 2 * count)[: 2 * count]
        order = best[np.lexsort((places[best], -scores[best]))]
    if len(parts) <= 2 or len(order) <= 2:
        return order, scores[order]
    covering, scores = _covering(parts[:, order], weights)
    return order[covering], scores


def _covering(parts: Floats, weights: Weights) -> tuple[Places, Floats]:
    """Return the order in which rows serve the clauses, and their scores in that order.

    Each of the first rows lowers the clause that it serves best, so that a second row for the
    same clause has to be better than the first one for another.
    """
    whole, clauses = (1 - weights.clause) * parts[0], weights.clause * parts[1:]
    first: list[int] = []
    scores: list[float] = []
    for _ in range(min(COVERED, len(whole))):
        left = whole + clauses.max(axis=0)
        left[first] = -np.inf
        at = int(left.argmax())
        first.append(at)
        scores.append(float(left[at]))
        clause = clauses[clauses[:, at].argmax()]
        np.minimum(clause, weights.served * clause, out=clause)
    left = whole + clauses.max(axis=0)
    left[first] = -np.inf
    rest = np.argsort(-left, kind="stable")[: len(left) - len(first)]
    return np.concatenate([first, rest]), np.concatenate([scores, left[rest]]).astype(np.float32)
