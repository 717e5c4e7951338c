"""Search by words: BM25 over weighted fields, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate import Capability
from hookgate.builtin_plugins.discovery.index.documents import weights_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Places: TypeAlias = npt.NDArray[np.int32]

K1 = 1.1
B = 0.75
"""The parameters of BM25 (Robertson and Zaragoza, 2009, section 3.4); of `K1` values from 0.8
to 2.2 this one did best on five public sets."""


@dataclass(frozen=True, slots=True)
class WordTable:
    """The words of many capabilities, as a sparse matrix by rows.

    Attributes:
        words: Word -> its number. It only grows, and tables made from one another share it.
        digests: One for each row: see `digest_of`.
        starts: Where each row begins in the other two arrays, and one more for the end.
        numbers: Numbers of words.
        weights: The weights of those words in those rows.
    """

    words: dict[str, int]
    digests: tuple[bytes, ...]
    starts: npt.NDArray[np.int64]
    numbers: Places
    weights: Floats

    @classmethod
    def of(
        cls,
        rows: Sequence[Capability],
        digests: Sequence[bytes],
        before: WordTable | None = None,
    ) -> WordTable:
        """Make a table of `rows`; what `before` holds of them is not read again."""
        words = {} if before is None else before.words
        known = {} if before is None else {key: at for at, key in enumerate(before.digests)}
        numbers: list[Places] = []
        weights: list[Floats] = []
        for row, digest in zip(rows, digests, strict=True):
            at = known.get(digest)
            if before is not None and at is not None:
                span = slice(before.starts[at], before.starts[at + 1])
                numbers.append(before.numbers[span])
                weights.append(before.weights[span])
                continue
            counted = weights_of(row)
            numbers.append(
                np.fromiter((words.setdefault(word, len(words)) for word in counted), np.int32)
            )
            weights.append(np.fromiter(counted.values(), np.float32, len(counted)))
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(part) for part in numbers], out=starts[1:])
        return cls(
            words=words,
            digests=tuple(digests),
            starts=starts,
            numbers=np.concatenate(numbers) if numbers else np.zeros(0, np.int32),
            weights=np.concatenate(weights) if weights else np.zeros(0, np.float32),
        )


class LexicalIndex:
    """BM25 over a fixed table. A query costs what its words are held, not what rows there are."""

    def __init__(self, table: WordTable, *, k1: float = K1, b: float = B) -> None:
        """Turn the table around: from rows with words to words with rows.

        Args:
            table: The words of the rows.
            k1: How soon more of a word makes no difference.
            b: How much the length of a row counts.
        """
        self.table = table
        self._k1 = k1
        rows = len(table.digests)
        owners = np.repeat(np.arange(rows, dtype=np.int32), np.diff(table.starts))
        lengths = np.bincount(owners, table.weights, rows).astype(np.float32)
        mean = float(lengths.mean()) or 1.0 if rows else 1.0
        norms = (k1 * (1 - b + b * lengths / mean)).astype(np.float32)
        order = np.argsort(table.numbers, kind="stable")
        owners = owners[order]
        weights = table.weights[order]
        held = np.bincount(table.numbers, minlength=len(table.words))
        # BM25's idf with one added within the logarithm, which keeps it above zero.
        self._idf = np.log(1 + (rows - held + 0.5) / (held + 0.5)).astype(np.float32)
        self._unknown = float(np.log(1 + (rows + 0.5) / 0.5))
        self._owners = owners
        saturated = weights * (k1 + 1) / (weights + norms[owners])
        self._scores = (saturated * np.repeat(self._idf, held)).astype(np.float32)
        self._starts = np.concatenate([[0], np.cumsum(held)]).tolist()
        self._words = table.words
        self._rows = rows
        self._known = len(held)

    def __len__(self) -> int:
        return self._rows

    def scores(self, words: Sequence[str]) -> tuple[Floats, float]:
        """Return the score of every row, and the score that no row can exceed.

        A word that no row holds counts for the second: where a query is about something that
        there is not, a chance match of one of its words stays weak.

        Args:
            words: The words of the query, each once.
        """
        scores = np.zeros(self._rows, np.float32)
        most = self.add(scores, words)
        return scores, most

    def add(self, scores: Floats, words: Iterable[str]) -> float:
        """Add what `words` score to `scores`; return the most that they can."""
        most = 0.0
        starts, owners, values = self._starts, self._owners, self._scores
        for word in words:
            number = self._words.get(word, self._known)
            if number >= self._known:
                most += self._unknown
                continue
            most += float(self._idf[number])
            first, last = starts[number], starts[number + 1]
            # A row holds a word once, so that no place comes twice in one span.
            scores[owners[first:last]] += values[first:last]
        return most * (self._k1 + 1)

    def held(self, words: Iterable[str], place: int) -> tuple[str, ...]:
        """Return those of `words` that the row at `place` holds."""
        start, end = self.table.starts[place : place + 2].tolist()
        numbers, known = set(self.table.numbers[start:end].tolist()), self._words
        return tuple([word for word in words if known.get(word) in numbers])
