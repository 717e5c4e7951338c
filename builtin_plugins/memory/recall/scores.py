"""What speaks for each turn by itself: its words, its meaning, who spoke, when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hookgate.builtin_plugins.memory.domain import ASSISTANT
from hookgate.builtin_plugins.memory.recall.index import NONE, TurnIndex
from hookgate.builtin_plugins.memory.recall.words import Signs

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.memory.recall.query import Query

    Floats: TypeAlias = npt.NDArray[np.float32]
    Rows: TypeAlias = npt.NDArray[np.int64]

K1 = 1.1
B = 0.3
"""The parameters of BM25 (Robertson and Zaragoza, 2009, section 3.4)."""

PAIR = 0.5
"""What two words that follow each other count for, beside each of them."""
SPEAKER = 0.05
SPEAKER_ITSELF = 0.2
"""For turns of the one that the message speaks of; the second part does not flow to others."""
TIME_SAID = 0.1
"""For turns that say when something was, where the message asks for it."""
TIME_NAMED = 0.2
"""For turns of the time that the message names."""
FROM_BEFORE = 0.15
FROM_AFTER = 0.45
FROM_QUESTION = 0.2
"""How much flows to a turn from the one before it, from the one after it, and, beside the first,
from one before it that asks."""
ONLY_ASKS = 0.1
"""What a turn loses that only asks."""

ALL_ROWS = 4096
NEAR_ROWS = 512
"""Of more turns than the first, so many are looked at that have most of the words, and so many that
seem nearest, with those beside them."""
PAIR_ROWS = 256
"""Rows in which two words are looked for side by side at most."""


@dataclass(slots=True)
class Scored:
    """What speaks for the turns of one scope, or, of a large one, for those that may be found.

    Attributes:
        index: The scope's index.
        rows: Which of its rows these are; None for all.
        later: Which are left out, as they were said later than asked for; None for none.
        signs: See `TurnIndex.signs`.
        sitting: See `TurnIndex.sitting`.
        before: The turn before each, as a place among these, or `NONE`.
        after: The turn after each.
        words: By words: not divided yet.
        meaning: By meaning: not divided yet.
        known: Other reasons that a turn brings itself.
        flat: What does not flow to others.
        from_before: How much flows to each from the turn before it.
        from_after: How much flows to each from the turn after it.
        near: Which of these were compared by their vectors; None for all.
        vectors: Their vectors; None where there are none.
        own: All that a turn brings itself.
        sum: All of it, with what flowed.
    """

    index: TurnIndex
    rows: Rows | None
    later: npt.NDArray[np.bool_] | None
    signs: Rows
    sitting: Rows
    before: Rows
    after: Rows
    words: Floats
    meaning: Floats
    known: Floats
    flat: Floats
    from_before: Floats
    from_after: Floats
    near: Rows | None = None
    vectors: Floats | None = None
    own: Floats = field(init=False)
    sum: Floats = field(init=False)

    @classmethod
    def of(
        cls,
        index: TurnIndex,
        words: Floats,
        rows: Rows | None,
        later: npt.NDArray[np.bool_] | None,
    ) -> Scored:
        """Begin with what is known by words of all turns of a scope."""
        before, after = index.before, index.after
        if rows is not None:
            # Where each row stands among these. `NONE` is the place behind the last.
            places = np.full(len(index) + 1, NONE, np.int64)
            places[rows] = np.arange(len(rows))
            before, after = places[before[rows]], places[after[rows]]
        chosen = chosen_of(rows)
        signs = index.signs[chosen]
        asked = moved(((signs & Signs.ASKS) > 0).astype(np.float32), before)
        # The assistant answers what was said before, and what comes next is another matter.
        answers = np.zeros(len(signs), bool)
        if ASSISTANT in index.speakers:
            answers = index.speaker[chosen] == index.speakers.index(ASSISTANT)
        return cls(
            index=index,
            rows=rows,
            later=None if later is None else later[chosen],
            signs=signs,
            sitting=index.sitting[chosen],
            before=before,
            after=after,
            words=words[chosen],
            meaning=np.zeros(len(signs), np.float32),
            known=np.zeros(len(signs), np.float32),
            flat=np.float32(-ONLY_ASKS) * ((signs & Signs.ONLY_ASKS) > 0),
            from_before=np.where(answers, FROM_AFTER, FROM_BEFORE + FROM_QUESTION * asked),
            from_after=np.where(answers, FROM_BEFORE, FROM_AFTER).astype(np.float32),
        )

    def row(self, at: int) -> int:
        """Return the row of the index that stands at a place."""
        return at if self.rows is None else int(self.rows[at])

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return those of a value for each row of the index that these rows have."""
        return values[chosen_of(self.rows)]


def scored_alone(
    index: TurnIndex,
    query: Query,
    weights: dict[int, float],
    direction: Floats | None,
    until: int | None,
) -> Scored:
    """Return what speaks for the turns of a scope, each looked at by itself.

    Args:
        index: The scope's index.
        query: The message.
        weights: What its words count for: see `weights_of`.
        direction: Which way its vector points: see `direction_of`.
        until: Leaves out what was said later, in microseconds since 1970.
    """
    words = by_words(index, weights)
    _add_pairs(index, list(query.words), words)
    later = None if until is None else index.at > until
    if later is not None:
        words[later] = 0
    if direction is not None and index.dimension != len(direction):
        direction = None
    near = None
    if len(index) > ALL_ROWS:
        near = _near(index, direction, words, later)
    one = Scored.of(index, words, None if near is None else _around(index, near), later)
    if direction is not None:
        one.vectors = index.vectors(near)
        one.near = near if one.rows is None or near is None else np.searchsorted(one.rows, near)
        one.meaning[chosen_of(one.near)] = likeness(one.vectors, direction)
    if query.asks_when:
        one.known += TIME_SAID * ((one.signs & Signs.TIME) > 0)
    if query.spans:
        one.known += TIME_NAMED * _in_spans(one.taken(index.at), query)
    return one


def add_speaker(scored: Sequence[Scored], name: str) -> None:
    """Add that the message speaks of `name`."""
    for one in scored:
        if name in one.index.speakers:
            theirs = one.taken(one.index.speaker) == one.index.speakers.index(name)
            one.known += SPEAKER * theirs
            one.flat += SPEAKER_ITSELF * theirs


def weights_of(indexes: Sequence[TurnIndex], words: dict[int, float]) -> dict[int, float]:
    """Return what each word counts for: more, the fewer turns hold it."""
    turns = sum(len(index) for index in indexes)
    held = {word: sum(index.held(word) for index in indexes) for word in words}
    return {
        word: share * log(1 + (turns - held[word] + 0.5) / (held[word] + 0.5))
        for word, share in words.items()
        if held[word]
    }


def by_words(index: TurnIndex, weights: dict[int, float]) -> Floats:
    """Return the BM25 score of every turn of a scope."""
    scores = np.zeros(len(index), np.float32)
    mean = max(index.total / max(len(index), 1), 1.0)
    for word, weight in weights.items():
        rows, counts = index.postings(word)
        norms = K1 * (1 - B + B * index.lengths[rows] / mean)
        scores[rows] += (weight * (K1 + 1)) * counts / (counts + norms)
    return scores


def _add_pairs(index: TurnIndex, words: Sequence[int], scores: Floats) -> None:
    """Add to `scores` what words count for that follow each other as in the query."""
    for first, second in pairwise(words):
        together = index.with_pair(first, second, PAIR_ROWS)
        if len(together):
            scores[together] += PAIR * log(1 + len(index) / len(together))


def _near(
    index: TurnIndex,
    direction: Floats | None,
    words: Floats,
    later: npt.NDArray[np.bool_] | None,
) -> Rows:
    """Return the rows of a large scope that have most of the words, or seem nearest."""
    worded = np.flatnonzero(words)
    if len(worded) > NEAR_ROWS:
        worded = worded[np.argpartition(-words[worded], NEAR_ROWS)[:NEAR_ROWS]]
    marked = np.zeros(len(index), bool)
    marked[worded] = True
    if direction is not None:
        marked[index.nearest_by_sign(direction, NEAR_ROWS)] = True
    if later is not None:
        marked &= ~later
    return np.flatnonzero(marked)


def _around(index: TurnIndex, rows: Rows) -> Rows:
    """Return rows with those up to two turns away, which something flows to."""
    marked = np.zeros(len(index) + 1, bool)
    marked[rows] = True
    for _ in range(2):
        marked[index.before[rows]] = True
        marked[index.after[rows]] = True
        rows = np.flatnonzero(marked[:-1])
    return rows


def chosen_of(rows: Rows | None) -> Rows | slice:
    """Return what picks `rows` from an array; None picks all."""
    return slice(None) if rows is None else rows


def direction_of(query: Query) -> Floats | None:
    """Return the query's vector without what the names in it say.

    What a message is about shows little in its vector beside a name: of all turns those would
    be near that say the name.
    """
    if query.vector is None:
        return None
    direction = query.vector
    if query.names:
        basis = np.linalg.qr(np.stack(query.names).T)[0]
        direction = np.asarray(direction - basis @ (basis.T @ direction), np.float32)
    return unit(direction)


def likeness(vectors: Floats, direction: Floats) -> Floats:
    """Return the cosine of each of `vectors` with `direction`, where it is above zero."""
    # Not by the linear algebra library, which would share so little out among threads.
    cosines: Floats = np.maximum(np.einsum("ij,j->i", vectors, direction), 0)
    return cosines


def unit(vector: Floats) -> Floats:
    """Return a vector of length 1 in the direction of `vector`."""
    length = float(np.linalg.norm(vector))
    return vector if length == 0 else vector / np.float32(length)


def _in_spans(at: Rows, query: Query) -> Floats:
    within = np.zeros(len(at), np.float32)
    for span in query.spans:
        first, last, until = (
            int(each.timestamp() * 1_000_000) for each in (span.first, span.last, span.until)
        )
        inside = (at >= first) & (at < last)
        shortly_after = (at >= last) & (at < until)
        within = np.maximum(within, inside + 0.5 * shortly_after)
    return within


def moved(scores: Floats, source: Rows) -> Floats:
    """Return for each turn the score of its `source`, and 0 where there is none."""
    # `NONE` is the place behind the last one.
    padded = np.empty(len(scores) + 1, np.float32)
    padded[:-1], padded[-1] = scores, 0
    return padded[source]
