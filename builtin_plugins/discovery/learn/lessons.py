"""What was learned, as a search uses it: by vectors where they are there, else by words."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hookgate.builtin_plugins.discovery.index.words import words_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.searching import Index, Query
    from hookgate.builtin_plugins.discovery.learn.learned import Boost, Learned, LearnedCache
    from hookgate.builtin_plugins.discovery.learn.view import ExampleSet

ALIKE = 0.5
"""The share of words that a message and an earlier one have in common, of all words of both,
from which on the earlier one counts. Half of the words may differ by the name of a city."""

TEXTS = 1000
"""Examples of a scope that are compared by their words: those that were used last. Taking them
apart takes some ten milliseconds."""

SCOPES = 64
"""Scopes whose examples are kept taken apart, the latest used."""


class WordExamples:
    """Example queries by their words. They are there at once, whatever the embedder does.

    Args:
        texts: The queries, the least recently used first.
        owners: The ids of the capabilities that they were answered with.
    """

    def __init__(self, texts: Sequence[str], owners: Sequence[str]) -> None:
        self._owners = owners[-TEXTS:]
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = {}
        for number, text in enumerate(texts[-TEXTS:]):
            words = frozenset(words_of(text))
            self._sizes.append(len(words))
            for word in words:
                self._holders.setdefault(word, []).append(number)
        self._places: tuple[Index, Mapping[str, int]] | None = None

    def of(self, query: Query, index: Index) -> Boost:
        """Return the rows with examples like `query`, and how like: the share of their words.

        Returns:
            The rows in order, and an array (parts, rows); None where there is none.
        """
        places = self._places_in(index)
        best: dict[int, list[float]] = {}
        for at, part in enumerate(query.parts):
            shared = Counter(
                number for word in part.words for number in self._holders.get(word, ())
            )
            for number, count in shared.items():
                like = count / (len(part.words) + self._sizes[number] - count)
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

    def of(self, query: Query, index: Index) -> Boost:
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
            known = (examples.version, WordExamples(examples.texts, examples.owners))
            self._words[scope] = known
            while len(self._words) > SCOPES:
                self._words.popitem(last=False)
        self._words.move_to_end(scope)
        return Lessons(meant, known[1])
