"""The index of one version of the rows, and how words and meaning come together in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Capability, Embedder, PartStanding, Standings
from hookgate.builtin_plugins.discovery.index.documents import LexicalIndex, clause_spans, words_of
from hookgate.builtin_plugins.discovery.show.entries import FoundCapability
from hookgate.kit.modules import np
from hookgate.kit.vectors import products

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.discovery.index.vectors import Vectors

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
    others: ``benchmarks/discovery/retrieval.py --leave-one-out``.

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


# -- searching -------------------------------------------------------------------

# The index of one version of the rows, and how words and meaning come together in it.

READY_VECTORS = 4096
"""Vectors that a version keeps at hand as 32-bit floats: 6 MB with MiniLM."""

CANDIDATES = 64
"""Rows that each part of a query brings by words and by meaning, before they are compared."""

FURTHER = 64
"""A search looks through so many times the vectors that it wants, where most of the nearest
belong to other versions of the rows."""


@dataclass(frozen=True, slots=True)
class Part:
    """The whole of a message, or one of its clauses.

    Attributes:
        text: What is said.
        words: Its words, each once.
        vector: Its vector; None where there is none.
        start: Where it begins in the message.
    """

    text: str
    words: tuple[str, ...]
    vector: Floats | None = None
    start: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """Where it begins and ends in the message."""
        return self.start, self.start + len(self.text)


@dataclass(frozen=True, eq=False)
class IndexQuery:
    """A message as it is searched for.

    Attributes:
        parts: The whole message, and behind it its clauses where it has several.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str) -> IndexQuery:
        """Take `text` apart; the vectors are not there yet."""
        spans = [(0, len(text)), *clause_spans(text)]
        return cls(
            tuple(
                Part(part, tuple(dict.fromkeys(words_of(part))), start=start)
                for start, part in ((start, text[start:end]) for start, end in spans)
            )
        )

    def with_vectors(self, vectors: Sequence[Floats]) -> IndexQuery:
        """Return the query with a vector for each part."""
        return IndexQuery(
            tuple(
                replace(part, vector=vector)
                for part, vector in zip(self.parts, vectors, strict=True)
            )
        )

    def without_vectors(self) -> IndexQuery:
        """Return the query as it is searched for by words alone."""
        if all(part.vector is None for part in self.parts):
            return self
        return IndexQuery(tuple(replace(part, vector=None) for part in self.parts))

    @cached_property
    def matrix(self) -> Floats | None:
        """The vectors of all parts, one a row; None where one is missing."""
        vectors = [part.vector for part in self.parts if part.vector is not None]
        return np.stack(vectors) if len(vectors) == len(self.parts) else None


@dataclass(frozen=True, slots=True)
class Dense:
    """The vectors of one version's rows.

    Attributes:
        store: Where they are.
        slots: The slots of the rows' vectors, row by row: that of its text, and those of
            the example messages that it brings.
        starts: Where each row begins in `slots`, and one more for the end.
        owners: The rows of each slot of the store, slot by slot: none where no row of this
            version has it, several where they say the same.
        heads: Where each slot begins in `owners`, and one more for the end.
        counts: How many vectors each row has.
        whole: Whether every row has one.
        ready: The vectors in the order of the rows, where there are few: taking them out of
            the store for each search would take longer than the search.
        fingerprint: The embedder's, that the vectors are from.
        discounts: What is taken off the cosine with each vector, in the order of `slots`; None
            where it is nothing.
    """

    store: Vectors
    slots: Places
    starts: Places
    owners: Places
    heads: Places
    counts: Places
    whole: bool
    ready: Floats | None
    fingerprint: str = ""
    discounts: Floats | None = None

    @classmethod
    def of(
        cls,
        store: Vectors,
        digests: Sequence[Sequence[bytes]],
        fingerprint: str = "",
        discounts: Sequence[Sequence[float]] = (),
    ) -> Dense:
        """Point the rows to their vectors in `store`.

        Args:
            store: Where they are.
            digests: The digests of each row's texts; a row whose text is not in the store
                has no vectors yet.
            fingerprint: The embedder's, that the vectors are from.
            discounts: What is taken off the cosine with each text; nothing where it is empty.
        """
        found = [[store.slots[key] for key in keys if key in store.slots] for keys in digests]
        off = [
            discount
            for keys, each in zip(digests, discounts, strict=False)
            for key, discount in zip(keys, each, strict=True)
            if key in store.slots
        ]
        taken = np.array(off, np.float32) if any(off) else None
        starts = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(part) for part in found], out=starts[1:])
        slots = np.array([slot for part in found for slot in part], np.int64)
        counts = np.diff(starts)
        owners = np.repeat(np.arange(len(found)), counts)[np.argsort(slots, kind="stable")]
        heads = np.zeros(len(store) + 1, np.int64)
        np.cumsum(np.bincount(slots, minlength=len(store)), out=heads[1:])
        ready = store.vectors(slots) if len(slots) <= READY_VECTORS else None
        whole = bool((counts > 0).all())
        return cls(store, slots, starts, owners, heads, counts, whole, ready, fingerprint, taken)

    def best(self, queries: Floats, count: int) -> Places:
        """Return the rows of the `count` vectors that are nearest to each query, in order."""
        wanted = count
        while True:
            _, slots = self.store.search(queries, wanted)
            # The store may hold more than this version knows of: what came later has no head.
            slots = np.where(slots < len(self.heads) - 1, slots, -1)
            held = (slots >= 0) & (self.heads[slots + 1] > self.heads[slots])
            least = held.sum(axis=1).min(initial=count)
            if least >= count or wanted >= min(len(self.store), FURTHER * count):
                break
            # Vectors of other versions stand in front of those of this one.
            wanted *= 4
        slots = np.unique(slots[held])
        first = self.heads[slots]
        return np.unique(self.owners[_spread(first, self.heads[slots + 1] - first)])

    def cosines(self, queries: Floats, places: Places) -> Floats:
        """Return the best cosine of each row with each query: an array (queries, places).

        A row that has no vector yet has NaN.
        """
        if self.ready is not None and self.whole and len(places) == len(self.counts):
            cosines = self._discounted(products(queries, self.ready), slice(None))
            every: Floats = np.maximum.reduceat(cosines, self.starts[:-1], axis=1)
            return every
        counts = self.counts[places]
        result = np.full((len(queries), len(places)), np.nan, np.float32)
        has = counts > 0
        if not has.any():
            return result
        first, counts = self.starts[places[has]], counts[has]
        each = _spread(first, counts)
        cosines = self._discounted(products(queries, self.store.vectors(self.slots[each])), each)
        result[:, has] = np.maximum.reduceat(cosines, np.cumsum(counts) - counts, axis=1)
        return result

    def _discounted(self, cosines: Floats, each: Places | slice) -> Floats:
        return cosines if self.discounts is None else cosines - self.discounts[each]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a search came to, best first.

    Attributes:
        places: The rows.
        scores: How well they fit, compared with the best: 1 is as well as anything here.
        cosines: The best cosine of a part of the query with each.
        shares: The best share of the reachable BM25 score.
        complete: Whether every row that fits at all is among them.
        known: How like an earlier query the message is by its words, 0 to 1, where words
            alone count.
    """

    places: Places
    scores: Floats
    cosines: Floats
    shares: Floats
    complete: bool
    known: float = 0.0


class Index:
    """The rows of one version, to be searched. It never changes."""

    def __init__(
        self,
        version: int,
        rows: Sequence[Capability],
        lexical: LexicalIndex,
        dense: Dense | None,
        background: Floats | None = None,
    ) -> None:
        """Take what `building` has made.

        Args:
            version: The version of the rows.
            rows: The rows.
            lexical: Their words.
            dense: Their vectors; None where there are not enough yet.
            background: The vectors of messages that need no capability.
        """
        self.version = version
        self.rows = rows
        self.lexical = lexical
        self.dense = dense
        self.background = background

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def blocking(self) -> bool:
        """Whether a search may take long, and must not be made on the event loop."""
        return self.dense is not None and self.dense.store.blocking

    def without_vectors(self) -> Index:
        """Return the index as it is searched by words alone."""
        return Index(self.version, self.rows, self.lexical, None)

    def search(
        self,
        query: IndexQuery,
        *,
        count: int = CANDIDATES,
        mode: str = "fused",
        learned: tuple[Places, Floats] | None = None,
    ) -> Ranking:
        """Rank the rows.

        The score of a part is a weighted mean of meaning, which is the cosine against the best
        one, and of words, which is the BM25 score against the best one. The score of a message
        with clauses is that of the whole and that of the clause that fits the row best, so that
        each thing that is asked for brings its own rows; see `blending`.

        Args:
            query: What is looked for, with vectors where meaning counts.
            count: Candidates by words and by meaning, for each part.
            mode: ``fused``, or ``lexical`` or ``dense`` to leave out the other.
            learned: Rows that an earlier query like this one was answered with, and how
                like: the cosines, or the shares of words. An array (parts, rows).
        """
        matrix = query.matrix if self.dense is not None and mode != "lexical" else None
        lexical = np.zeros((len(query.parts), len(self.rows)), np.float32)
        most = np.ones(len(query.parts), np.float32)
        if mode != "dense":
            for at, part in enumerate(query.parts):
                most[at] = max(self.lexical.add(lexical[at], part.words), 1e-6)
        places, complete = self._candidates(lexical, matrix, count)
        if learned is not None:
            places = np.union1d(places, learned[0])
        by_words = lexical[:, places]
        shares = by_words / most[:, None]
        cosines = np.zeros_like(by_words)
        known = 0.0
        if matrix is None or self.dense is None:
            parts = shares_of_words(by_words)
            if learned is not None:
                parts = _with_learned(parts, places, learned)
                known = float(learned[1].max(initial=0.0))
        else:
            cosines = self.dense.cosines(matrix, places)
            if learned is not None:
                cosines = _with_learned(cosines, places, learned)
            there = None if self.dense.whole else ~np.isnan(cosines)
            if there is not None:
                cosines = np.where(there, cosines, 0)
            if mode == "dense":
                parts = shares_of_meaning(cosines)
            else:
                parts = blend(by_words, cosines)
                if there is not None:
                    # Of a row whose vector is not there yet, the words speak alone.
                    parts = np.where(there, parts, shares_of_words(by_words))
        order, scores = best_first(parts, places, count)
        # Where nothing is better than nothing, there is no best one to measure by.
        top = float(scores.max(initial=0.0)) or 1.0
        return Ranking(
            places=places[order],
            scores=scores / top,
            cosines=cosines.max(axis=0, initial=-1.0)[order],
            shares=shares.max(axis=0, initial=0.0)[order],
            complete=complete,
            known=known,
        )

    def _candidates(
        self, lexical: Floats, matrix: Floats | None, count: int
    ) -> tuple[Places, bool]:
        """Return the rows that are compared, and whether no other row can fit."""
        rows = len(self.rows)
        if rows <= 2 * count:
            return np.arange(rows), True
        if matrix is not None and self.dense is not None and self.dense.ready is not None:
            # All of them in one go take less time than choosing.
            return np.arange(rows), False
        found = []
        complete = matrix is None
        for scores in lexical:
            held = np.flatnonzero(scores)
            if len(held) > count:
                complete = False
                held = held[np.argpartition(-scores[held], count)[:count]]
            found.append(held)
        if matrix is not None and self.dense is not None:
            found.append(self.dense.best(matrix, count))
        return np.unique(np.concatenate(found)), complete


def _spread(first: Places, counts: Places) -> Places:
    """Return the places of spans that begin at `first` and have `counts` places, in order."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: Places = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return places


def _with_learned(cosines: Floats, places: Places, learned: tuple[Places, Floats]) -> Floats:
    known, likeness = learned
    at = np.searchsorted(places, known)
    cosines = cosines.copy()
    cosines[:, at] = np.fmax(cosines[:, at], likeness)
    return cosines


# -- What the engine needs of the gateway, and what it returns -------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine needs of the gateway.

    Attributes:
        embedder: Returns the embedder, or None where there is none.
        standing: Returns how a part stands, to say otherwise; see `Host.standing`.
        path: Where the index is kept; None keeps it in memory alone.
        clock: Seconds that never go backwards.
        elsewhere: Returns the vectors of an embedder, by its fingerprint, where they are kept
            in a database; None where they are kept in memory.
    """

    embedder: Callable[[], Embedder | None] = lambda: None
    standing: Callable[[str], PartStanding] = field(default_factory=Standings)
    path: Path | None = None
    clock: Callable[[], float] = perf_counter
    elsewhere: Callable[[str], Vectors | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
        found: What fits, best first.
        version: The version of the rows that was searched.
        dense: Whether vectors took part.
        milliseconds: Time by step.
    """

    found: tuple[FoundCapability, ...]
    version: int
    dense: bool
    milliseconds: Mapping[str, float]


def nothing_found(version: int) -> SearchResult:
    """Return what a search comes to where nothing may be found."""
    times = {"index": 0.0, "embed": 0.0, "search": 0.0}
    return SearchResult(found=(), version=version, dense=False, milliseconds=times)


def is_loaded(embedder: Embedder) -> bool:
    """Whether `embedder` answers without loading a model first; it may not know `loaded`."""
    return bool(getattr(embedder, "loaded", True))


def words_alone(embedder: Embedder | None, index: Index) -> str:
    """Return why searches in `index` go by words alone; "" where they do not."""
    if embedder is None:
        return "there is no embedder: search goes by words alone"
    if index.dense is None and len(index):
        return "vectors are being made: until they are there, search goes by words alone"
    return ""
