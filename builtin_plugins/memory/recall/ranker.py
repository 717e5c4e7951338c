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

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER
from hookgate.builtin_plugins.memory.recall.index import (
    NONE,
    SAYS_NOTHING,
    Floats,
    Ints,
    Postings,
    RowVectors,
    TurnIndex,
)
from hookgate.builtin_plugins.memory.recall.query import Query, speakers_in
from hookgate.builtin_plugins.memory.recall.words import Signs, numbers_of, terms_of_name
from hookgate.kit.modules import np
from hookgate.kit.vectors import idleness

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask: TypeAlias = npt.NDArray[np.bool_]

# As numbers: an array takes ten times as long with a flag.
_ASKS, _ONLY_ASKS = int(Signs.ASKS), int(Signs.ONLY_ASKS)
_TIME, _NOTHING_ELSE = int(Signs.TIME), int(Signs.NOTHING_ELSE)

_Best: TypeAlias = tuple[int, int, float]
"""A turn's index, its place among those that are scored, and its score."""

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
"""Ints in which two words are looked for side by side at most."""
WORDS = 0.5
WORDS_POWER = 1.3
"""Above 1: one turn with all words counts for more than two with half of them."""
MEANING = 0.5
SITTING = 0.5
"""How much of its sitting's best turn each turn gets."""
FROM_FARTHER = 0.05
"""How much flows to a turn from two turns away; more from beside it, see above."""
NEAR = 0.25
"""The least cosine that speaks for anything by itself, where no turn has a word of the message."""

SHARE, CHATTER, FLOOR = 0.22, 0.9, 0.12
"""The floor of relevance: the best cosine of a turn, with a part of the best share of the message's
words and less most of how near small talk is, must come to so much, or nothing is shown.
Fitted to the questions of three of the shared conversations, as they are and in the first person,
and to half of the small talk; `benchmarks/memory.py` measures it."""
IDLE, LOOKED_AT = 0.37, 8
"""For a message that is as near to small talk, turns that are as near to it themselves do not
count, among so many of the nearest: whoever says thanks has said so before."""

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
    without: Sequence[Mask] = (),
    chatter: Floats | None = None,
    *,
    answers: bool = False,
    worth: float = 0.0,
) -> list[Found] | float:
    """Return the turns that answer `query` best, the best first.

    Args:
        indexes: One for each scope that is searched, locked by the caller.
        query: The message, read.
        limit: How many at most.
        as_of: Leaves out what was said later.
        without: For each index which rows are left out. What flows from them flows all the same.
        chatter: The vectors of small talk, where there is a floor of relevance.
        answers: Whether only what may answer is wanted: no message of the user that asks, and says
            nothing else. What flows from it flows: an answer stands behind it.
        worth: The share of the best one's score that a turn must come to.

    Returns:
        None of them where the message says nothing that could be looked for, or no turn has any
        word of it or is near to it. Where it is below the floor, how near it came to `FLOOR`.
    """
    if not query.words or not any(len(index) for index in indexes):
        return []
    spoken_of = {one for index in indexes for one in index.speakers}
    named = speakers_in(query.text, spoken_of)
    direction = direction_of(query)
    weights = weights_of(indexes, [*query.words])
    until = None if as_of is None else int(as_of.timestamp() * 1_000_000)
    scored = [scored_alone(index, query, weights, direction, until) for index in indexes]
    if not any(one.words.any() or one.meaning.max(initial=0) >= NEAR for one in scored):
        return []
    if answers:
        for one in scored:
            one.leave_out_questions()
    hidden = [one.asks for one in scored]
    if without:
        hidden = [one.asks | one.taken(rows) for one, rows in zip(scored, without, strict=True)]
    if chatter is not None:
        near = _relevance(scored, hidden, query, weights, chatter)
        if near < FLOOR:
            return near
    if len(named) == 1:
        add_speaker(scored, named[0])
    _flow(scored)
    if _feed_back(scored, query, direction):
        _flow(scored)
    nearly = [0.75 * float(one.meaning.max(initial=0)) or np.inf for one in scored]
    for one, left_out in zip(scored, hidden, strict=True):
        one.sum[left_out] = -np.inf
    best = _best(scored, limit)
    best = [one for one in best if one[2] >= worth * best[0][2]] if worth else best
    held = [
        _words_in(one, [place for of, place, _ in best if of == at], query)
        for at, one in enumerate(scored)
    ]
    return [
        Found(
            at,
            scored[at].row(place),
            score,
            _why(scored[at], place, held[at][place], query, named, nearly[at]),
        )
        for at, place, score in best
    ]


# -- the floor of relevance ----------------------------------------------------------------


def _relevance(
    scored: Sequence[Scored],
    hidden: Sequence[Mask],
    query: Query,
    weights: Floats,
    chatter: Floats,
) -> float:
    """Return how near a turn that may be shown is to a message that is no small talk.

    Who asks for something of their own means what they have said, however near to small talk that
    is. And where a turn with a word of the message has no vector yet, nobody can tell.
    """
    if query.vector is None or query.asks_own:
        return np.inf
    cosine = word = 0.0
    idle = float(idleness(query.vector[None], chatter)[0])
    for one, left_out in zip(scored, hidden, strict=True):
        words = np.where(left_out, 0, one.words)
        if (words > 0)[~one.taken(one.index.read)].any():
            return np.inf
        word = max(word, float(words.max(initial=0)))
        if one.vectors is not None:
            near = one.vectors.likeness(query.vector)
            near[left_out[chosen_of(one.near)]] = 0
            best = np.argsort(-near)[:LOOKED_AT]
            if idle >= IDLE:
                near[best[idleness(one.vectors.units(best), chatter) >= IDLE]] = 0
            cosine = max(cosine, float(near[best].max(initial=0)))
    return cosine + SHARE * word / ((K1 + 1) * float(weights.sum())) - CHATTER * idle


# -- what it gets from others ------------------------------------------------------------


def _flow(scored: Sequence[Scored]) -> None:
    """Put together what speaks for each turn, and let it flow.

    What was only asked, which is left out, is no measure of the others: it may be the message
    word for word, and says nothing of its sitting.
    """
    said = [~one.asks for one in scored]
    words = max(map(_most, [one.words for one in scored], said), default=0) or 1.0
    meaning = max(map(_most, [one.meaning for one in scored], said), default=0) or 1.0
    for one, answers in zip(scored, said, strict=True):
        own = one.known + np.float32(MEANING / meaning) * one.meaning
        held = np.flatnonzero(one.words)
        own[held] += WORDS * np.power(one.words[held] / words, WORDS_POWER)
        own[one.asks] = np.minimum(own[one.asks], WORDS + MEANING)
        before, after = moved(own, one.before), moved(own, one.after)
        sums = own + one.from_before * before + one.from_after * after + one.flat
        sums += FROM_FARTHER * (moved(before, one.before) + moved(after, one.after))
        best = np.zeros(max(one.index.sittings, 1), np.float32)
        np.maximum.at(best, one.sitting[answers], own[answers])
        sums += SITTING * best[one.sitting]
        if one.later is not None:
            sums[one.later] = -np.inf
        sums[one.asks] = -np.inf
        one.own, one.sum = own, sums


def _most(values: Floats, among: Mask) -> float:
    return float(values[among].max(initial=0))


def _feed_back(scored: Sequence[Scored], query: Query, direction: Floats | None) -> bool:
    """Add what the best turns say; return whether that is anything."""
    indexes = [one.index for one in scored]
    best = _best(scored, FEEDBACK_TURNS)
    if not best:
        return False
    held, shares = _held_by(scored, best)
    often = shares > FEEDBACK_HELD
    speakers = {name for one in indexes for name in one.speakers}
    names = {number for name in speakers for number in numbers_of(terms_of_name(name))}
    more = {
        word: share
        for word, share in zip(held[often].tolist(), shares[often].tolist(), strict=True)
        if word not in query.words and word not in names
    }
    # Where no turn has any word of the message, others would decide by themselves.
    if not any(index.held(word) for index in indexes for word in query.words):
        more = {}
    weighed = weights_of(indexes, [*more]).tolist()
    telling = sorted(
        ((share * weight, weight, word) for (word, share), weight in
         zip(more.items(), weighed, strict=True)), reverse=True
    )[:FEEDBACK_WORDS]  # fmt: skip
    if telling:
        most, words = telling[0][0], [word for *_, word in telling]
        weights = np.array([FEEDBACK_WORD * share / most * weight for share, weight, _ in telling])
        for one in scored:
            found = one.index.postings(words)
            one.words = one.words + one.taken(by_words(one.index, found, weights))
    if direction is not None:
        _add_meaning(scored, best[:MEANING_TURNS])
    return bool(telling) or direction is not None


def _held_by(scored: Sequence[Scored], best: Sequence[_Best]) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the words of the best turns, and how much of these turns holds each."""
    scores = np.array([score for *_, score in best])
    shares = scores / scores[0] if scores[0] > 0 else np.zeros(len(best))
    pairs = []
    for at, one in enumerate(scored):
        ours = [(seat, one.row(place)) for seat, (of, place, _) in enumerate(best) if of == at]
        if ours:
            seats, rows = np.array(ours).T
            terms, owners = one.index.terms_of(rows)
            pairs.append(seats[owners] << 32 | terms)
    # Each turn holds a word once.
    seats, held = np.divmod(np.unique(np.concatenate(pairs)), 1 << 32)
    words, places = np.unique(held, return_inverse=True)
    return words, np.bincount(places, shares[seats])


def _add_meaning(scored: Sequence[Scored], best: Sequence[_Best]) -> None:
    """Add how near turns are to the middle of the best ones."""
    vectors = [scored[at].index.vector(scored[at].row(place)) for at, place, _ in best]
    middle = [vector for vector in vectors if vector is not None]
    if not middle:
        return
    towards = unit(np.sum(middle, axis=0))
    for one in scored:
        if one.vectors is not None:
            one.meaning[chosen_of(one.near)] += FEEDBACK_MEANING * one.vectors.likeness(towards)


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


def _words_in(one: Scored, places: Sequence[int], query: Query) -> dict[int, list[str]]:
    """Return the words of the message that some turns hold, in its order, as reasons."""
    reasons = [f"word: {word}" for word in query.words.values()]
    seats = np.full(len(one.index), NONE)
    seats[[one.row(place) for place in places]] = np.arange(len(places))
    owners = seats[one.found.rows]
    there = np.flatnonzero(owners != NONE)
    there = there[owners[there].argsort(kind="stable")]
    ends = owners[there].searchsorted(np.arange(len(places)), side="right").tolist()
    said = [reasons[which] for which in one.found.which[there].tolist()]
    return {
        place: said[start:end] for place, start, end in zip(places, [0, *ends], ends, strict=False)
    }


def _why(
    one: Scored,
    place: int,
    reasons: list[str],
    query: Query,
    named: Sequence[str],
    nearly: float,
) -> tuple[str, ...]:
    """Say in words what spoke for a turn, beside the reasons that its words are."""
    index, row = one.index, one.row(place)
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


# -- what speaks for each by itself --------------------------------------------------


@dataclass(slots=True)
class Scored:
    """What speaks for the turns of one scope, or, of a large one, for those that may be found.

    Attributes:
        index: The scope's index.
        found: Where it holds the words of the message.
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
        asks: Which are left out, as they ask and say nothing.
        near: Which of these were compared by their vectors; None for all.
        vectors: Their vectors; None where there are none.
        own: All that a turn brings itself.
        sum: All of it, with what flowed.
    """

    index: TurnIndex
    found: Postings
    rows: Ints | None
    later: Mask | None
    signs: Ints
    sitting: Ints
    before: Ints
    after: Ints
    words: Floats
    meaning: Floats
    known: Floats
    flat: Floats
    from_before: Floats
    from_after: Floats
    asks: Mask
    near: Ints | None = None
    vectors: RowVectors | None = None
    own: Floats = field(init=False)
    sum: Floats = field(init=False)

    @classmethod
    def of(
        cls,
        index: TurnIndex,
        found: Postings,
        words: Floats,
        rows: Ints | None,
        later: Mask | None,
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
        asked = moved(((signs & _ASKS) > 0).astype(np.float32), before)
        # The assistant answers what was said before, and what comes next is another matter.
        answers = np.zeros(len(signs), bool)
        if ASSISTANT in index.speakers:
            answers = index.speaker[chosen] == index.speakers.index(ASSISTANT)
        speaks = ~(answers & (index.lengths[chosen] <= SAYS_NOTHING))
        from_before = np.where(answers, FROM_AFTER, FROM_BEFORE + FROM_QUESTION * asked)
        from_after = np.where(answers, FROM_BEFORE, FROM_AFTER)
        return cls(
            index=index,
            found=found,
            rows=rows,
            later=None if later is None else later[chosen],
            signs=signs,
            sitting=index.sitting[chosen],
            before=before,
            after=after,
            words=words[chosen],
            meaning=np.zeros(len(signs), np.float32),
            asks=np.zeros(len(signs), bool),
            known=np.zeros(len(signs), np.float32),
            flat=np.float32(-ONLY_ASKS) * ((signs & _ONLY_ASKS) > 0),
            from_before=(speaks * from_before).astype(np.float32),
            from_after=(speaks * from_after).astype(np.float32),
        )

    def leave_out_questions(self) -> None:
        """Leave out what the user has asked, and said nothing with."""
        speakers = self.index.speakers
        if USER in speakers:
            theirs = self.taken(self.index.speaker) == speakers.index(USER)
            self.asks = theirs & ((self.signs & _NOTHING_ELSE) > 0)

    def row(self, at: int) -> int:
        """Return the row of the index that stands at a place."""
        return at if self.rows is None else int(self.rows[at])

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return those of a value for each row of the index that these rows have."""
        return values[chosen_of(self.rows)]


def scored_alone(
    index: TurnIndex,
    query: Query,
    weights: Floats,
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
    found = index.postings([*query.words])
    words = by_words(index, found, weights)
    _add_pairs(index, [*query.words], found, words)
    later = None if until is None else index.at > until
    if later is not None:
        words[later] = 0
    if direction is not None and index.dimension != len(direction):
        direction = None
    near = None
    if len(index) > ALL_ROWS:
        near = _near(index, direction, words, later)
    one = Scored.of(index, found, words, None if near is None else _around(index, near), later)
    if direction is not None:
        one.vectors = index.vectors(near)
        one.near = near if one.rows is None or near is None else np.searchsorted(one.rows, near)
        one.meaning[chosen_of(one.near)] = one.vectors.likeness(direction)
    if query.asks_when:
        one.known += TIME_SAID * ((one.signs & _TIME) > 0)
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


def weights_of(indexes: Sequence[TurnIndex], words: Sequence[int]) -> Floats:
    """Return what each word counts for: more, the fewer turns hold it."""
    turns = sum([len(index) for index in indexes])
    held = np.array([sum([index.held(word) for index in indexes]) for word in words], float)
    return np.log(1 + (turns - held + 0.5) / (held + 0.5))


def by_words(index: TurnIndex, found: Postings, weights: Floats) -> Floats:
    """Return the BM25 score of every turn of a scope.

    Args:
        index: The scope's index.
        found: Where it holds some words.
        weights: What each of them counts for.
    """
    mean = max(index.total / max(len(index), 1), 1.0)
    norms = K1 * (1 - B + B * index.lengths[found.rows] / mean)
    parts = (K1 + 1) * weights[found.which] * found.counts / (found.counts + norms)
    return np.bincount(found.rows, parts, len(index)).astype(np.float32)


def _add_pairs(index: TurnIndex, words: Sequence[int], found: Postings, scores: Floats) -> None:
    """Add to `scores` what words count for that follow each other as in the query."""
    several = np.bincount(found.rows, minlength=len(index)) > 1
    rows, among = np.flatnonzero(several), several[found.rows]
    held = np.zeros((len(words), len(rows)), bool)
    held[found.which[among], (several.cumsum() - 1)[found.rows[among]]] = True
    both = held[:-1] & held[1:]
    for pair in np.flatnonzero(both.sum(axis=1) > PAIR_ROWS):
        both[pair, np.flatnonzero(both[pair])[:-PAIR_ROWS]] = False
    here = both.any(axis=0)
    if not here.any():
        return
    rows, both = rows[here], both[:, here]
    terms, owners = index.terms_of(rows)
    which = _places_of(terms, words)
    follows = (which[:-1] > 0) & (which[1:] == which[:-1] + 1) & (owners[1:] == owners[:-1])
    at = np.flatnonzero(follows)
    together = np.zeros_like(both)
    together[which[at] - 1, owners[at]] = True
    together &= both
    counts = together.sum(axis=1)
    pairs, places = np.nonzero(together)
    parts = PAIR * np.log(1 + len(index) / counts[pairs])
    scores += np.bincount(rows[places], parts, len(index)).astype(np.float32)


def _places_of(terms: npt.NDArray[np.uint32], words: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Return the place of each of `terms` among `words`, from 1; 0 of what is none of them."""
    known = np.array([0, *words], np.uint32)
    # By their lower halves, which two words seldom share.
    seats = np.zeros(1 << 16, np.uint8)
    halves = known[1:] & 0xFFFF
    seats[halves] = np.arange(1, len(known))
    places = seats.take(terms & 0xFFFF)
    places[known[places] != terms] = 0
    for lost in np.flatnonzero(seats[halves] != np.arange(1, len(known))):
        places[terms == known[lost + 1]] = lost + 1
    return places


def _near(
    index: TurnIndex,
    direction: Floats | None,
    words: Floats,
    later: Mask | None,
) -> Ints:
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


def _around(index: TurnIndex, rows: Ints) -> Ints:
    """Return rows with those up to two turns away, which something flows to."""
    marked = np.zeros(len(index) + 1, bool)
    marked[rows] = True
    for _ in range(2):
        marked[index.before[rows]] = True
        marked[index.after[rows]] = True
        rows = np.flatnonzero(marked[:-1])
    return rows


def chosen_of(rows: Ints | None) -> Ints | slice:
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


def unit(vector: Floats) -> Floats:
    """Return a vector of length 1 in the direction of `vector`."""
    length = float(np.linalg.norm(vector))
    return vector if length == 0 else vector / np.float32(length)


def _in_spans(at: Ints, query: Query) -> Floats:
    within = np.zeros(len(at), np.float32)
    for span in query.spans:
        first, last, until = (
            int(each.timestamp() * 1_000_000) for each in (span.first, span.last, span.until)
        )
        inside = (at >= first) & (at < last)
        shortly_after = (at >= last) & (at < until)
        within = np.maximum(within, inside + 0.5 * shortly_after)
    return within


def moved(scores: Floats, source: Ints) -> Floats:
    """Return for each turn the score of its `source`, and 0 where there is none."""
    # `NONE` is the place behind the last one.
    padded = np.empty(len(scores) + 1, np.float32)
    padded[:-1], padded[-1] = scores, 0
    return padded[source]
