"""Examples as a search uses them: brought or learned, by vectors or else by words."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import Capability, Embedder, EmbeddingError
from hookgate.builtin_plugins.discovery.index import Index, IndexQuery
from hookgate.builtin_plugins.discovery.index.documents import words_of
from hookgate.kit.modules import np
from hookgate.kit.vectors import products

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.learn.view import ExampleSet


if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.discovery.learn.view import ExampleSet

    Boost = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None

SCOPES = 64
"""Scopes whose examples are kept with their vectors, the latest used."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Examples row by row, as one index has the rows.

    Attributes:
        places: The rows that have examples, in order.
        starts: Where each of them begins in `vectors`.
        vectors: The vectors of their examples.
        off: What is taken off the cosine with each of them.
    """

    places: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]
    off: npt.NDArray[np.float32]


class Learned:
    """Example queries with their vectors. It never changes."""

    def __init__(
        self,
        owners: Sequence[str],
        vectors: npt.NDArray[np.float32],
        foreign: Collection[int] = (),
    ) -> None:
        """Take the examples.

        Args:
            owners: The id of the capability that each example was answered with.
            vectors: The vector of each example, one a row.
            foreign: The rows of those that nobody here has vouched for: they count less.
        """
        self._owners = owners
        self._vectors = vectors
        self._off = np.zeros(len(owners), np.float32)
        self._off[list(foreign)] = OTHERS
        self._grouped_for: tuple[Index, _Groups] | None = None

    def of(self, query: IndexQuery, index: Index) -> Boost:
        """Return the rows with examples, and how like them the parts of the query are.

        Returns:
            The rows in order, and an array (parts, rows) of the best cosine with the examples
            of each; None where vectors do not take part.
        """
        if query.matrix is None or query.matrix.shape[1] != self._vectors.shape[-1]:
            return None
        groups = self._grouped(index)
        if not len(groups.places):
            return None
        cosines = products(query.matrix, groups.vectors) - groups.off
        return groups.places, np.maximum.reduceat(cosines, groups.starts, axis=1)

    def _grouped(self, index: Index) -> _Groups:
        if self._grouped_for is None or self._grouped_for[0] is not index:
            where = {row.id: place for place, row in enumerate(index.rows)}
            at = np.array([where.get(owner, -1) for owner in self._owners], np.int64)
            order = np.argsort(at, kind="stable")
            order = order[at[order] >= 0]
            places, starts = np.unique(at[order], return_index=True)
            self._grouped_for = (
                index,
                _Groups(places, starts, self._vectors[order], self._off[order]),
            )
        return self._grouped_for[1]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a scope: the examples of one version, by the vectors of one embedder."""

    version: int
    fingerprint: str
    examples: tuple[tuple[str, str, bool], ...]
    vectors: Mapping[str, npt.NDArray[np.float32]]
    learned: Learned

    @classmethod
    def of(
        cls,
        version: int,
        fingerprint: str,
        examples: Sequence[tuple[str, str, bool]],
        vectors: Mapping[str, npt.NDArray[np.float32]],
    ) -> _Known:
        """Put the vectors of texts behind `examples`: text, owner and whether it is foreign."""
        stacked = np.stack([vectors[text] for text, *_ in examples])
        kept = {text: vectors[text] for text, *_ in examples}
        foreign = [place for place, (*_, one) in enumerate(examples) if one]
        learned = Learned([owner for _, owner, _ in examples], stacked, foreign)
        return cls(version, fingerprint, tuple(examples), kept, learned)


class LearnedCache:
    """The vectors of the examples of the latest scopes. A search never waits for them.

    A scope whose examples have changed is embedded anew beside the turns, only the texts that
    are new; until then its searches do without, or with those before.
    """

    def __init__(
        self,
        embedder: Callable[[], Embedder | None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """Take what the gateway offers.

        Args:
            embedder: Returns the embedder, or None where there is none.
            spawn: Runs work beside the turns, under a name.
        """
        self._embedder = embedder
        self._spawn = spawn
        self._scopes: OrderedDict[str, _Known] = OrderedDict()
        self._working: set[str] = set()

    def of(self, scope: str, examples: ExampleSet) -> Learned | None:
        """Return the examples of a scope with their vectors; None where they are not there."""
        known = self._scopes.get(scope)
        if known is None and not examples.texts:
            return None
        embedder = self._embedder()
        if known is not None:
            self._scopes.move_to_end(scope)
            if embedder is not None and embedder.fingerprint != known.fingerprint:
                known = None
            elif known.version == examples.version:
                return known.learned
        if not examples.texts:
            self._scopes.pop(scope, None)
            return None
        if scope not in self._working and embedder is not None:
            self._working.add(scope)
            self._spawn(self._embed(scope, examples, embedder), "discovery.examples")
        known = None if known is None else self._without_erased(scope, known, examples)
        return None if known is None else known.learned

    def _without_erased(self, scope: str, known: _Known, examples: ExampleSet) -> _Known | None:
        """Return what is known without the examples that are not there any more."""
        there = set(_rows(examples))
        kept = [row for row in known.examples if row in there]
        if len(kept) == len(known.examples):
            return known
        if not kept:
            del self._scopes[scope]
            return None
        # Still of its own version, so that what is new is embedded.
        known = _Known.of(known.version, known.fingerprint, kept, known.vectors)
        self._scopes[scope] = known
        return known

    async def _embed(self, scope: str, examples: ExampleSet, embedder: Embedder) -> None:
        try:
            fingerprint, known = embedder.fingerprint, self._scopes.get(scope)
            same = known is not None and known.fingerprint == fingerprint
            vectors = dict(known.vectors) if known is not None and same else {}
            fresh = [text for text in dict.fromkeys(examples.texts) if text not in vectors]
            vectors.update(zip(fresh, await embedder.embed(fresh) if fresh else (), strict=True))
        except EmbeddingError:
            # The engine says what is wrong with the embedder; examples are a bonus.
            return
        finally:
            self._working.discard(scope)
        rows = list(_rows(examples))
        self._scopes[scope] = _Known.of(examples.version, fingerprint, rows, vectors)
        self._scopes.move_to_end(scope)
        while len(self._scopes) > SCOPES:
            self._scopes.popitem(last=False)


def _rows(examples: ExampleSet) -> Iterator[tuple[str, str, bool]]:
    for place, (text, owner) in enumerate(zip(examples.texts, examples.owners, strict=True)):
        yield text, owner, place in examples.foreign


# -- lessons ---------------------------------------------------------------------

# What was learned, as a search uses it: by vectors where they are there, else by words.

ALIKE = 0.5
"""The share of words that a message and an earlier one have in common, of all words of both,
from which on the earlier one counts. Half of the words may differ by the name of a city."""

TEXTS = 1000
"""Examples of a scope that are compared by their words: those that were used last. Taking them
apart takes some ten milliseconds."""


class WordExamples:
    """Example queries by their words. They are there at once, whatever the embedder does.

    Args:
        texts: The queries, the least recently used first.
        owners: The ids of the capabilities that they were answered with.
        foreign: The places of those that nobody here has vouched for: they count less.
    """

    def __init__(
        self, texts: Sequence[str], owners: Sequence[str], foreign: Collection[int] = ()
    ) -> None:
        passed = max(0, len(texts) - TEXTS)
        self._foreign = frozenset(place - passed for place in foreign)
        self._owners = owners[-TEXTS:]
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = {}
        for number, text in enumerate(texts[-TEXTS:]):
            words = frozenset(words_of(text))
            self._sizes.append(len(words))
            for word in words:
                self._holders.setdefault(word, []).append(number)
        self._places: tuple[Index, Mapping[str, int]] | None = None

    def of(self, query: IndexQuery, index: Index) -> Boost:
        """Return the rows with examples like `query`, and how like: the share of their words.

        Returns:
            The rows in order, and an array (parts, rows); None where there is none.
        """
        places = self._places_in(index)
        best: dict[int, list[float]] = {}
        for at, part in enumerate(query.parts):
            shared = Counter(
                [number for word in part.words for number in self._holders.get(word, ())]
            )
            for number, count in shared.items():
                like = count / (len(part.words) + self._sizes[number] - count)
                like -= OTHERS * (number in self._foreign)
                place = places.get(self._owners[number])
                if like >= ALIKE and place is not None:
                    row = best.setdefault(place, [0.0] * len(query.parts))
                    row[at] = max(row[at], like)
        if not best:
            return None
        found = sorted(best)
        return np.array(found, np.int64), np.array([best[place] for place in found], np.float32).T

    def _places_in(self, index: Index) -> Mapping[str, int]:
        if self._places is None or self._places[0] is not index:
            owners = frozenset(self._owners)
            where = {row.id: place for place, row in enumerate(index.rows) if row.id in owners}
            self._places = (index, where)
        return self._places[1]


@dataclass(frozen=True, slots=True)
class Lessons:
    """The examples of one scope.

    Attributes:
        meant: Their vectors; None where they are not there.
        said: Their words.
    """

    meant: Learned | None = None
    said: WordExamples | None = None

    def of(self, query: IndexQuery, index: Index) -> Boost:
        """Return the rows with examples like `query`, and how like; see `Index.search`."""
        boost = None
        if self.meant is not None and index.dense is not None:
            boost = self.meant.of(query, index)
        if boost is None and self.said is not None:
            boost = self.said.of(query, index)
        return boost


class LessonsCache:
    """The examples of the latest scopes, ready for a search.

    Args:
        vectors: Keeps their vectors; a search never waits for it.
    """

    def __init__(self, vectors: LearnedCache) -> None:
        self._vectors = vectors
        self._words: OrderedDict[str, tuple[int, WordExamples]] = OrderedDict()

    def of(self, scope: str, examples: ExampleSet) -> Lessons | None:
        """Return the examples of a scope; None where there is none."""
        meant = self._vectors.of(scope, examples)
        if not examples.texts:
            self._words.pop(scope, None)
            return None
        known = self._words.get(scope)
        if known is None or known[0] != examples.version:
            known = (
                examples.version,
                WordExamples(examples.texts, examples.owners, examples.foreign),
            )
            self._words[scope] = known
            while len(self._words) > SCOPES:
                self._words.popitem(last=False)
        self._words.move_to_end(scope)
        return Lessons(meant, known[1])


# -- given -----------------------------------------------------------------------

# Example messages that capabilities bring, where a search goes by words alone.
#
# By meaning they are vectors of their capability's row, which the index holds.

GIVEN, OTHERS = 0.05, 0.1
"""What is taken off the cosine with an example that a capability brings, and with one that neither
hookgate nor the operator has written. Two messages are more alike than a message and a description
that fits it as well; and nobody is found first for having guessed a whole message."""


def discount_of(row: Capability) -> float:
    """Return what is taken off the cosine with an example of `row`."""
    return GIVEN if row.whose == "own" else OTHERS


class GivenExamples:
    """The examples of the rows of the latest index that was searched by words.

    Args:
        counts: Whether a message asks for anything: an example that is small talk does not
            count, whoever brings it.
    """

    def __init__(self, counts: Callable[[str], bool]) -> None:
        self._counts = counts
        self._made: tuple[Index, WordExamples] | None = None

    def joined(self, learned: Boost, query: IndexQuery, index: Index) -> Boost:
        """Return what was learned, and beside it the rows that bring an example like `query`.

        Args:
            learned: The rows that earlier queries like this one were answered with.
            query: What is looked for.
            index: What is searched; where meaning takes part, nothing is added.
        """
        if query.matrix is not None and index.dense is not None:
            return learned
        given = self._of(index).of(query, index)
        if given is not None:
            off = [discount_of(index.rows[at]) for at in given[0].tolist()]
            given = given[0], np.maximum(given[1] - np.array(off, np.float32), 0)
        if given is None or learned is None:
            return learned if given is None else given
        places = np.union1d(given[0], learned[0])
        likeness = np.zeros((len(query.parts), len(places)), np.float32)
        for known, like in (given, learned):
            at = np.searchsorted(places, known)
            likeness[:, at] = np.fmax(likeness[:, at], like)
        return places, likeness

    def _of(self, index: Index) -> WordExamples:
        made = self._made
        if made is None or made[0] is not index:
            # Of very many the last ones are compared: those of hookgate and the operator.
            rows = sorted(index.rows, key=lambda row: row.whose == "own")
            pairs = [(text, row.id) for row in rows for text in row.examples if self._counts(text)]
            words = WordExamples([text for text, _ in pairs], [owner for _, owner in pairs])
            made = self._made = (index, words)
        return made[1]
