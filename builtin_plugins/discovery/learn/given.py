"""Example messages that capabilities bring, where a search goes by words alone.

By meaning they are vectors of their capability's row, which the index holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hookgate import Capability
from hookgate.builtin_plugins.discovery.learn.lessons import WordExamples

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.index.searching import Index, Query
    from hookgate.builtin_plugins.discovery.learn.learned import Boost

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

    def joined(self, learned: Boost, query: Query, index: Index) -> Boost:
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
