"""The constants of the ranking, judged by leaving whole sets out.

A constant that was tuned on a set says little of the next one. So each set is left out once:
the constants are searched for on the others, one after the other over a stated grid, from a
start that knows no set, and the set that was left out is scored with what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.discovery._stages import Stages
from benchmarks.discovery._tool_sets import DEPTH, Run, Scores, score
from hookgate.builtin_plugins.discovery.index import CANDIDATES, Weights, best_first, blend
from hookgate.builtin_plugins.discovery.index.documents import (
    K1,
    B,
    IndexedFields,
    LexicalIndex,
    WordTable,
    digest_of,
    weights_of,
)

Floats: TypeAlias = npt.NDArray[np.float32]

PASSES = 2
"""How often each constant is looked at, unless nothing changes any more."""


@dataclass(frozen=True, slots=True)
class Constants:
    """All that the ranking of one version of the product is made with."""

    weights: Weights = field(default_factory=Weights)
    fields: IndexedFields = field(default_factory=IndexedFields)
    k1: float = K1
    b: float = B

    def of(self, name: str) -> float:
        """Return a constant by its name in `GRID`."""
        group, _, inner = name.rpartition(".")
        return float(getattr(getattr(self, group) if group else self, inner))

    def with_one(self, name: str, value: float) -> Constants:
        """Return these with another value of one of them."""
        group, _, inner = name.rpartition(".")
        if not group:
            return replace(self, **{inner: value})
        return replace(self, **{group: replace(getattr(self, group), **{inner: value})})


GRID: Mapping[str, tuple[float, ...]] = {
    "weights.meaning": (0.5, 0.6, 0.7),
    "weights.clause": (0.4, 0.5, 0.6, 0.7),
    "weights.power": (1.0, 1.4, 1.8),
    "weights.served": (0.9, 0.95, 1.0),
    "k1": (0.8, 1.2, 1.6),
    "b": (0.5, 0.75, 0.9),
    "fields.name": (1.0, 2.0, 3.0),
    "fields.category": (0.0, 0.5, 1.0),
    "fields.tag": (0.0, 0.5, 1.0),
    "fields.parameter": (0.0, 0.5, 1.0),
    "fields.parameter_text": (0.0, 0.5, 1.0),
}
"""What is tried. The description counts 1: the others are measured by it."""

START = Constants(
    weights=Weights(meaning=0.6, power=1.0, clause=0.5, served=1.0),
    fields=IndexedFields(1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    k1=1.2,
    b=0.75,
)
"""Where each search begins: the plain hybrid, and what textbooks recommend of BM25."""


class Trial:
    """One set, scored with any constants in a second or less.

    The cosines are computed once; the words are counted once, field by field.
    """

    def __init__(self, stages: Stages) -> None:
        self.name = stages.tools.name
        self._stages = stages
        self._starts = np.cumsum([0, *(len(query.parts) for query in stages.queries)])
        matrices = [query.matrix for query in stages.queries]
        held = np.concatenate([one for one in matrices if one is not None])
        dense = stages.index.dense
        if dense is None or len(held) != self._starts[-1]:
            raise SystemExit(f"{self.name}: expected a vector for each text")
        every = np.arange(len(stages.index.rows))
        self._cosines = dense.cosines(held, every)
        self._digests = tuple(digest_of(row) for row in stages.index.rows)
        self._words: dict[str, int] = {}
        self._counted = {one.name: self._count(one.name) for one in fields(IndexedFields)}
        self._latest: tuple[object, Floats] | None = None
        self._known: dict[Constants, Scores] = {}

    def scores(self, constants: Constants) -> Scores:
        """Return the metrics of this set with some constants."""
        if constants not in self._known:
            self._known[constants] = score(self._stages.tools.questions, self.run(constants))
        return self._known[constants]

    def run(self, constants: Constants) -> Run:
        """Return the best ids of each query."""
        parts = blend(self._by_words(constants), self._cosines, constants.weights)
        rows, run = self._stages.index.rows, {}
        every = np.arange(len(rows))
        for at, question in enumerate(self._stages.tools.questions):
            span = slice(self._starts[at], self._starts[at + 1])
            order, _ = best_first(parts[span], every, CANDIDATES, constants.weights)
            run[question.id] = [rows[place].id for place in order[:DEPTH].tolist()]
        return run

    def _count(self, name: str) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the words of one field: keys of row and word, and how often each is there."""
        alone = replace(IndexedFields(*[0.0] * len(fields(IndexedFields))), **{name: 1.0})
        keys, counts = [], []
        for at, row in enumerate(self._stages.index.rows):
            for word, count in weights_of(row, alone).items():
                number = self._words.setdefault(word, len(self._words))
                keys.append((at << 32) + number)
                counts.append(count)
        return np.array(keys, np.int64), np.array(counts, np.float32)

    def _by_words(self, constants: Constants) -> Floats:
        """Return the BM25 scores, an array (parts, rows)."""
        asked = (constants.fields, constants.k1, constants.b)
        if self._latest is not None and self._latest[0] == asked:
            return self._latest[1]
        self._latest = None
        index = LexicalIndex(self._table(constants.fields), k1=constants.k1, b=constants.b)
        made = np.zeros((int(self._starts[-1]), len(index)), np.float32)
        parts = (part for query in self._stages.queries for part in query.parts)
        for at, part in enumerate(parts):
            index.add(made[at], part.words)
        self._latest = (asked, made)
        return made

    def _table(self, chosen: IndexedFields) -> WordTable:
        counted = [(getattr(chosen, name), *held) for name, held in self._counted.items()]
        keys = np.concatenate([keys for weight, keys, _ in counted if weight])
        values = np.concatenate([weight * counts for weight, _, counts in counted if weight])
        keys, places = np.unique(keys, return_inverse=True)
        return WordTable(
            words=self._words,
            digests=self._digests,
            starts=np.searchsorted(keys >> 32, np.arange(len(self._digests) + 1)),
            numbers=(keys & 0xFFFFFFFF).astype(np.int32),
            weights=np.bincount(places, values, len(keys)).astype(np.float32),
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a set came to that nothing was tuned on.

    Attributes:
        name: The set.
        constants: What was found on the others.
        scores: The metrics of the set with these.
        shipped: The metrics of the set with the constants of the product.
    """

    name: str
    constants: Constants
    scores: Scores
    shipped: Scores


def tuned(
    trials: Sequence[Trial],
    grid: Mapping[str, Sequence[float]] = GRID,
    say: Callable[[str], object] = print,
) -> Constants:
    """Return the constants that a coordinate search finds: each in turn takes its best value.

    What is best has the highest mean of Recall@5 and NDCG@5 over the sets, each set counting
    the same.
    """
    found = START
    best = _worth(trials, found)
    for _ in range(PASSES):
        before = found
        for name, values in grid.items():
            for value in values:
                tried = found.with_one(name, value)
                worth = _worth(trials, tried)
                if worth > best + 1e-6:
                    found, best = tried, worth
        if found == before:
            break
    say(f"   {best:.4f} with {described(found, grid)}")
    return found


def described(constants: Constants, grid: Mapping[str, Sequence[float]] = GRID) -> str:
    """Return the constants as one line."""
    return ", ".join(f"{name.rpartition('.')[2]} {constants.of(name):g}" for name in grid)


def _worth(trials: Sequence[Trial], constants: Constants) -> float:
    found = [trial.scores(constants) for trial in trials]
    return sum(one["Recall@5"] + one["NDCG@5"] for one in found) / (2 * len(found))


def leave_one_out(
    trials: Sequence[Trial],
    grid: Mapping[str, Sequence[float]] = GRID,
    say: Callable[[str], object] = print,
) -> list[LeftOut]:
    """Tune on all sets but one and score that one, for each.

    Raises:
        SystemExit: There are fewer than two sets.
    """
    if len(trials) < 2:
        raise SystemExit("found one set, expected two or more to leave one of them out")
    results = []
    for left in trials:
        say(f"-- {left.name} is left out")
        others = [trial for trial in trials if trial is not left]
        constants = tuned(others, grid, say)
        shipped = left.scores(Constants())
        results.append(LeftOut(left.name, constants, left.scores(constants), shipped))
    return results
