"""Which turns answer a message: words, meaning, who spoke, when, and what stands beside it.

Each turn gets a sum of what speaks for it. Words are scored by BM25 and meaning by the cosine of
vectors, each divided by the best one of the scopes that are searched. To that is added who spoke,
where the message speaks of somebody, and when, where it names a time. Then a part of that flows
to the turns beside it, since what answers a question often has none of its words. The best turns of
this first pass bring words and a direction of meaning that the message did not have (Rocchio's
feedback), by which a second pass finds what belongs to them.

The constants were searched for on conversations of which one was always left out and scored with
those that the others had led to; each was kept only because all of them got worse without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER
from hookgate.builtin_plugins.memory.episodes.index import NONE
from hookgate.builtin_plugins.memory.recall.query import speakers_in
from hookgate.builtin_plugins.memory.recall.words import Signs, number_of, terms_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    import numpy.typing as npt

    from hookgate.builtin_plugins.memory.episodes.index import TurnIndex
    from hookgate.builtin_plugins.memory.recall.query import Query

    Floats: TypeAlias = npt.NDArray[np.float32]
    Rows: TypeAlias = npt.NDArray[np.int64]

__all__ = ["Found", "rank"]

K1 = 1.1
B = 0.3
"""The parameters of BM25 (Robertson and Zaragoza, 2009, section 3.4)."""

WORDS = 0.5
WORDS_POWER = 1.3
"""Above 1: one turn with all words counts for more than two with half of them."""
MEANING = 0.5
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
FROM_FARTHER = 0.05
FROM_QUESTION = 0.2
"""How much flows to a turn from the one before it, after it, two turns away, and, beside the first,
from one before it that asks."""
SITTING = 0.5
"""How much of its sitting's best turn each turn gets."""
ONLY_ASKS = 0.1
"""What a turn loses that only asks."""

FEEDBACK_TURNS = 8
FEEDBACK_WORDS = 5
FEEDBACK_WORD = 0.2
FEEDBACK_HELD = 1.2
"""The best turns of the first pass, how many of their words are looked for, how much the best of
them counts, and how much of the turns must hold it."""
MEANING_TURNS = 5
FEEDBACK_MEANING = 0.2

ALL_ROWS = 4096
"""Up to so many turns are all compared by their vectors; of more, those that seem near."""
NEAR_ROWS = 2048
PAIR_ROWS = 512
"""Rows in which two words are looked for side by side at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """A turn that was found.

    Attributes:
        index: Its scope's place among those that were searched.
        row: Its row there.
        score: What speaks for it, summed; compares within one search.
        why: Why, in words.
    """

    index: int
    row: int
    score: float
    why: tuple[str, ...]


@dataclass(slots=True)
class _Scored:
    """What speaks for the turns of one scope.

    Attributes:
        words: By words: not divided yet.
        meaning: By meaning: not divided yet.
        known: Other reasons that a turn brings itself.
        flat: What does not flow to others.
        own: All that a turn brings itself.
        sum: All of it, with what flowed.
    """

    words: Floats
    meaning: Floats
    known: Floats
    flat: Floats
    own: Floats
    sum: Floats


def rank(
    indexes: Sequence[TurnIndex],
    query: Query,
    limit: int,
    as_of: datetime | None = None,
    without: Sequence[Collection[int]] = (),
) -> list[Found]:
    """Return the turns that answer `query` best, the best first.

    Args:
        indexes: One for each scope that is searched, locked by the caller.
        query: The message, read.
        limit: How many at most.
        as_of: Leaves out what was said later.
        without: For each index the places of turns that are left out. What flows from them
            flows all the same.

    Returns:
        None of them where the message says nothing that could be looked for.
    """
    if not query.words or not any(len(index) for index in indexes):
        return []
    spoken_of = {one for index in indexes for one in index.speakers}
    named = speakers_in(query.text, spoken_of)
    direction = _direction(query)
    weights = _weights(indexes, dict.fromkeys(query.words, 1.0))
    scored = [
        _first(index, query, weights, direction, named[0] if len(named) == 1 else None)
        for index in indexes
    ]
    _flow(indexes, scored)
    if _feed_back(indexes, scored, query, direction):
        _flow(indexes, scored)
    _leave_out(indexes, scored, as_of, without)
    best = _best(indexes, scored, limit)
    return [
        replace(found, why=_why(indexes[found.index], scored[found.index], found, query, named))
        for found in best
    ]


# -- what a turn brings itself -----------------------------------------------------------


def _first(
    index: TurnIndex,
    query: Query,
    weights: dict[int, float],
    direction: Floats | None,
    spoken_of: str | None,
) -> _Scored:
    count = len(index)
    known, flat = np.zeros(count, np.float32), np.zeros(count, np.float32)
    words = _by_words(index, weights)
    _add_pairs(index, list(query.words), words)
    meaning = np.zeros(count, np.float32)
    if direction is not None and index.has_vectors:
        rows = _near(index, direction, words)
        meaning[_all(rows)] = np.maximum(index.cosines(direction[None, :], rows)[0], 0)
    if spoken_of in index.speakers:
        theirs = index.speaker == index.speakers.index(spoken_of)
        known += SPEAKER * theirs
        flat += SPEAKER_ITSELF * theirs
    if query.asks_when:
        known += TIME_SAID * ((index.signs & Signs.TIME) > 0)
    if query.spans:
        known += TIME_NAMED * _in_spans(index, query)
    flat -= ONLY_ASKS * ((index.signs & Signs.ONLY_ASKS) > 0)
    return _Scored(words, meaning, known, flat, known, known)


def _weights(indexes: Sequence[TurnIndex], words: dict[int, float]) -> dict[int, float]:
    """Return what each word counts for: more, the fewer turns hold it."""
    turns = sum(len(index) for index in indexes)
    held = {word: sum(index.held(word) for index in indexes) for word in words}
    return {
        word: share * log(1 + (turns - held[word] + 0.5) / (held[word] + 0.5))
        for word, share in words.items()
        if held[word]
    }


def _by_words(index: TurnIndex, weights: dict[int, float]) -> Floats:
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
        both = np.intersect1d(index.postings(first)[0], index.postings(second)[0])[-PAIR_ROWS:]
        together = []
        for row in both.tolist():
            terms = index.terms(row)
            if np.any((terms[:-1] == first) & (terms[1:] == second)):
                together.append(row)
        if together:
            scores[together] += PAIR * log(1 + len(index) / len(together))


def _near(index: TurnIndex, direction: Floats, words: Floats) -> Rows | None:
    """Return the rows whose vectors are looked at; None for all."""
    if len(index) <= ALL_ROWS:
        return None
    near = index.nearest_by_sign(direction, NEAR_ROWS)
    worded = np.argpartition(-words, NEAR_ROWS // 2)[: NEAR_ROWS // 2]
    return np.union1d(near, worded)


def _all(rows: Rows | None) -> Rows | slice:
    return slice(None) if rows is None else rows


def _direction(query: Query) -> Floats | None:
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
    return _unit(direction)


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector if length == 0 else vector / np.float32(length)


def _in_spans(index: TurnIndex, query: Query) -> Floats:
    within = np.zeros(len(index), np.float32)
    for span in query.spans:
        first, last, until = (
            int(each.timestamp() * 1_000_000) for each in (span.first, span.last, span.until)
        )
        inside = (index.at >= first) & (index.at < last)
        shortly_after = (index.at >= last) & (index.at < until)
        within = np.maximum(within, inside + 0.5 * shortly_after)
    return within


# -- what it gets from others ------------------------------------------------------------


def _flow(indexes: Sequence[TurnIndex], scored: Sequence[_Scored]) -> None:
    """Put together what speaks for each turn, and let it flow."""
    words = max((float(one.words.max(initial=0)) for one in scored), default=0) or 1.0
    meaning = max((float(one.meaning.max(initial=0)) for one in scored), default=0) or 1.0
    for index, one in zip(indexes, scored, strict=True):
        by_words = WORDS * np.power(one.words / words, WORDS_POWER)
        own = (one.known + by_words + MEANING / meaning * one.meaning).astype(np.float32)
        before, after = _moved(own, index.before), _moved(own, index.after)
        asked = _moved(own * ((index.signs & Signs.ASKS) > 0), index.before)
        sums = own + FROM_BEFORE * before + FROM_AFTER * after + FROM_QUESTION * asked
        sums += FROM_FARTHER * (_moved(before, index.before) + _moved(after, index.after))
        best = np.zeros(max(index.sittings, 1), np.float32)
        np.maximum.at(best, index.sitting, own)
        sums += SITTING * best[index.sitting] + one.flat
        one.own, one.sum = own, np.asarray(sums, np.float32)


def _moved(scores: Floats, source: Rows) -> Floats:
    """Return for each turn the score of its `source`, and 0 where there is none."""
    if not len(scores):
        return scores
    return np.where(source == NONE, np.float32(0), scores[source])


def _feed_back(
    indexes: Sequence[TurnIndex],
    scored: Sequence[_Scored],
    query: Query,
    direction: Floats | None,
) -> bool:
    """Add what the best turns say; return whether that is anything."""
    best = _best(indexes, scored, FEEDBACK_TURNS)
    held: Counter[int] = Counter()
    for found in best:
        share = found.score / best[0].score if best[0].score > 0 else 0.0
        for word in np.unique(indexes[found.index].terms(found.row)).tolist():
            held[word] += share  # type: ignore[assignment]
    names = {number_of(term) for one in indexes for name in one.speakers for term in terms_of(name)}
    more = {
        word: float(share)
        for word, share in held.items()
        if share > FEEDBACK_HELD and word not in query.words and word not in names
    }
    # Where no turn has any word of the message, others would decide by themselves.
    if not any(index.held(word) for index in indexes for word in query.words):
        more = {}
    telling = sorted(
        ((weight, word) for word, weight in _weights(indexes, more).items()), reverse=True
    )[:FEEDBACK_WORDS]
    if telling:
        most = telling[0][0]
        scale = {word: FEEDBACK_WORD * weight / most for weight, word in telling}
        weights = _weights(indexes, scale)
        for index, one in zip(indexes, scored, strict=True):
            one.words = one.words + _by_words(index, weights)
    if direction is not None:
        _add_meaning(indexes, scored, best[:MEANING_TURNS], direction)
    return bool(telling) or direction is not None


def _add_meaning(
    indexes: Sequence[TurnIndex],
    scored: Sequence[_Scored],
    best: Sequence[Found],
    direction: Floats,
) -> None:
    vectors = [indexes[one.index].vector(one.row) for one in best]
    middle = [vector for vector in vectors if vector is not None]
    if not middle:
        return
    towards = _unit(np.mean(middle, axis=0))
    for index, one in zip(indexes, scored, strict=True):
        if index.has_vectors:
            rows = None if len(index) <= ALL_ROWS else np.flatnonzero(one.meaning)
            likeness = index.cosines(towards[None, :], rows)[0]
            one.meaning[_all(rows)] += FEEDBACK_MEANING * np.maximum(likeness, 0)


# -- the best ------------------------------------------------------------------------------


def _leave_out(
    indexes: Sequence[TurnIndex],
    scored: Sequence[_Scored],
    as_of: datetime | None,
    without: Sequence[Collection[int]],
) -> None:
    for index, one in zip(indexes, scored, strict=True):
        if as_of is not None:
            one.sum[index.at > int(as_of.timestamp() * 1_000_000)] = -np.inf
    for index, one, places in zip(indexes, scored, without, strict=False):
        if places:
            one.sum[np.isin(index.places, list(places))] = -np.inf


def _best(indexes: Sequence[TurnIndex], scored: Sequence[_Scored], limit: int) -> list[Found]:
    """Return the turns for which most speaks; of equals the newest first."""
    found: list[tuple[float, int, int, int]] = []
    for at, (index, one) in enumerate(zip(indexes, scored, strict=True)):
        sums = one.sum
        if limit < len(sums):
            # All that equal the last one are taken, so that the newest of them is among them.
            least = np.partition(sums, len(sums) - limit)[len(sums) - limit]
            rows = np.flatnonzero(sums >= least)
        else:
            rows = np.arange(len(sums))
        found += [
            (-score, -when, at, row)
            for score, when, row in zip(
                sums[rows].tolist(), index.at[rows].tolist(), rows.tolist(), strict=True
            )
            if score > -np.inf
        ]
    found.sort()
    return [Found(at, row, -score, ()) for score, _, at, row in found[:limit]]


def _why(
    index: TurnIndex, one: _Scored, found: Found, query: Query, named: Sequence[str]
) -> tuple[str, ...]:
    """Say in words what spoke for a turn."""
    row = found.row
    terms = set(index.terms(row).tolist())
    reasons = [f"word: {word}" for number, word in query.words.items() if number in terms]
    best = float(one.meaning.max(initial=0))
    if best > 0 and one.meaning[row] >= 0.75 * best:
        reasons.append("means nearly the same")
    speaker = index.speakers[index.speaker[row]]
    if speaker in named and speaker not in (USER, ASSISTANT):
        reasons.append(f"said by {speaker}")
    if query.spans and one.known[row] >= TIME_NAMED / 2:
        reasons += [f"of the time: {span.said}" for span in query.spans]
    if not reasons or one.sum[row] > 2 * one.own[row]:
        beside = index.before[row], index.after[row]
        if any(other != NONE and one.own[other] > one.own[row] for other in beside):
            reasons.append("beside a found one")
    return tuple(reasons) or ("of a sitting with a found one",)
