"""Which turns answer a message: words, meaning, who spoke, when, and what stands beside it.

Each turn gets a sum of what speaks for it. Words are scored by BM25 and meaning by the cosine of
vectors, each divided by the best one of the scopes that are searched. To that is added who spoke,
where the message speaks of somebody, and when, where it names a time. Then a part of that flows
to the turns beside it, since what answers a question often has none of its words. The best turns of
this first pass bring words and a direction of meaning that the message did not have (Rocchio's
feedback), by which a second pass finds what belongs to them.

The constants were searched for on conversations of which one was always left out and scored with
those that the others had led to; what made no difference is not here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER
from hookgate.builtin_plugins.memory.recall.index import NONE, TurnIndex
from hookgate.builtin_plugins.memory.recall.query import Query, speakers_in
from hookgate.builtin_plugins.memory.recall.scores import (
    TIME_NAMED,
    Scored,
    add_speaker,
    by_words,
    chosen_of,
    direction_of,
    likeness,
    moved,
    scored_alone,
    unit,
    weights_of,
)
from hookgate.builtin_plugins.memory.recall.words import number_of, terms_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Rows: TypeAlias = npt.NDArray[np.int64]
    _Best: TypeAlias = tuple[int, int, float]
    """A turn's index, its place among those that are scored, and its score."""

WORDS = 0.5
WORDS_POWER = 1.3
"""Above 1: one turn with all words counts for more than two with half of them."""
MEANING = 0.5
SITTING = 0.5
"""How much of its sitting's best turn each turn gets."""
FROM_FARTHER = 0.05
"""How much flows to a turn from two turns away; more from beside it, see `scoring`."""
NEAR = 0.25
"""The least cosine that speaks for anything by itself, where no turn has a word of the message."""

FEEDBACK_TURNS = 8
FEEDBACK_WORDS = 5
FEEDBACK_WORD = 0.2
FEEDBACK_HELD = 1.2
"""The best turns of the first pass, how many of their words are looked for, how much the best of
them counts, and how much of the turns must hold it."""
MEANING_TURNS = 5
FEEDBACK_MEANING = 0.2


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
        None of them where the message says nothing that could be looked for, or no turn has any
        word of it or is near to it.
    """
    if not query.words or not any(len(index) for index in indexes):
        return []
    spoken_of = {one for index in indexes for one in index.speakers}
    named = speakers_in(query.text, spoken_of)
    direction = direction_of(query)
    weights = weights_of(indexes, dict.fromkeys(query.words, 1.0))
    until = None if as_of is None else int(as_of.timestamp() * 1_000_000)
    scored = [scored_alone(index, query, weights, direction, until) for index in indexes]
    if not any(one.words.any() or one.meaning.max(initial=0) >= NEAR for one in scored):
        return []
    if len(named) == 1:
        add_speaker(scored, named[0])
    _flow(scored)
    if _feed_back(scored, query, direction):
        _flow(scored)
    for one, places in zip(scored, without, strict=False):
        if places:
            one.sum[np.isin(one.taken(one.index.places), list(places))] = -np.inf
    nearly = [0.75 * float(one.meaning.max(initial=0)) or np.inf for one in scored]
    return [
        Found(at, scored[at].row(place), score, _why(scored[at], place, query, named, nearly[at]))
        for at, place, score in _best(scored, limit)
    ]


# -- what it gets from others ------------------------------------------------------------


def _flow(scored: Sequence[Scored]) -> None:
    """Put together what speaks for each turn, and let it flow."""
    words = max((float(one.words.max(initial=0)) for one in scored), default=0) or 1.0
    meaning = max((float(one.meaning.max(initial=0)) for one in scored), default=0) or 1.0
    for one in scored:
        own = one.known + np.float32(MEANING / meaning) * one.meaning
        held = np.flatnonzero(one.words)
        own[held] += WORDS * np.power(one.words[held] / words, WORDS_POWER)
        before, after = moved(own, one.before), moved(own, one.after)
        sums = own + one.from_before * before + one.from_after * after + one.flat
        sums += FROM_FARTHER * (moved(before, one.before) + moved(after, one.after))
        best = np.zeros(max(one.index.sittings, 1), np.float32)
        np.maximum.at(best, one.sitting, own)
        sums += SITTING * best[one.sitting]
        if one.later is not None:
            sums[one.later] = -np.inf
        one.own, one.sum = own, sums


def _feed_back(scored: Sequence[Scored], query: Query, direction: Floats | None) -> bool:
    """Add what the best turns say; return whether that is anything."""
    indexes = [one.index for one in scored]
    best = _best(scored, FEEDBACK_TURNS)
    held: Counter[int] = Counter()
    for at, place, score in best:
        share = score / best[0][2] if best[0][2] > 0 else 0.0
        for word in set(indexes[at].terms(scored[at].row(place)).tolist()):
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
        ((weight, word) for word, weight in weights_of(indexes, more).items()), reverse=True
    )[:FEEDBACK_WORDS]
    if telling:
        most = telling[0][0]
        scale = {word: FEEDBACK_WORD * weight / most for weight, word in telling}
        weights = weights_of(indexes, scale)
        for one in scored:
            one.words = one.words + one.taken(by_words(one.index, weights))
    if direction is not None:
        _add_meaning(scored, best[:MEANING_TURNS])
    return bool(telling) or direction is not None


def _add_meaning(scored: Sequence[Scored], best: Sequence[_Best]) -> None:
    """Add how near turns are to the middle of the best ones."""
    vectors = [scored[at].index.vector(scored[at].row(place)) for at, place, _ in best]
    middle = [vector for vector in vectors if vector is not None]
    if not middle:
        return
    towards = unit(np.mean(middle, axis=0))
    for one in scored:
        if one.vectors is not None:
            one.meaning[chosen_of(one.near)] += FEEDBACK_MEANING * likeness(one.vectors, towards)


# -- the best ------------------------------------------------------------------------------


def _best(scored: Sequence[Scored], limit: int) -> list[_Best]:
    """Return the turns for which most speaks; of equals the newest first."""
    found: list[tuple[float, int, int, int]] = []
    for at, one in enumerate(scored):
        sums, times = one.sum, one.taken(one.index.at)
        if limit < len(sums):
            # All that equal the last one are taken, so that the newest of them is among them.
            least = np.partition(sums, len(sums) - limit)[len(sums) - limit]
            rows = np.flatnonzero(sums >= least)
        else:
            rows = np.arange(len(sums))
        found += [
            (-score, -when, at, row)
            for score, when, row in zip(
                sums[rows].tolist(), times[rows].tolist(), rows.tolist(), strict=True
            )
            if score > -np.inf
        ]
    found.sort()
    return [(at, row, -score) for score, _, at, row in found[:limit]]


def _why(
    one: Scored, place: int, query: Query, named: Sequence[str], nearly: float
) -> tuple[str, ...]:
    """Say in words what spoke for a turn."""
    index, row = one.index, one.row(place)
    terms = set(index.terms(row).tolist())
    reasons = [f"word: {word}" for number, word in query.words.items() if number in terms]
    if one.meaning[place] >= nearly:
        reasons.append("means nearly the same")
    speaker = index.speakers[index.speaker[row]]
    if speaker in named and speaker not in (USER, ASSISTANT):
        reasons.append(f"said by {speaker}")
    if query.spans and one.known[place] >= TIME_NAMED / 2:
        reasons += [f"of the time: {span.said}" for span in query.spans]
    own = one.own[place]
    if not reasons or one.sum[place] > 2 * own:
        beside = one.before[place], one.after[place]
        if any(other != NONE and one.own[other] > own for other in beside):
            reasons.append("beside a found one")
    return tuple(reasons) or ("of a sitting with a found one",)
