"""Lexical search over capabilities: BM25 over weighted fields, with a relevance of 0 to 1."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hookgate.core.descriptors import Capability

__all__ = ["Hit", "LexicalIndex", "words_of"]

K1 = 1.2
B = 0.75
"""The usual parameters of BM25 (Robertson and Zaragoza, 2009, section 3.4)."""

NAME_WEIGHT = 3
TAG_WEIGHT = 2
"""A word of a name or a tag counts as often as if it stood so many times in the description."""

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMON_WORDS = """
    a about all an and any are as at be by can could do does for from get give has have help how
    i if in into is it its just let like make me my need of on or our please show so some tell
    that the their them there this to up use using want was we what when where which who will
    with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Hit:
    """A capability that fits.

    Attributes:
        row: The capability.
        relevance: 0 to 1; 1 is more than a text of any length can reach.
        words: The words of the query that it holds, as they were compared.
    """

    row: Capability
    relevance: float
    words: tuple[str, ...]


def words_of(text: str) -> list[str]:
    """Return the words of `text` as they are compared.

    Names in camelCase and snake_case fall into their parts, case and width of letters do not
    matter, common English words are left out, and a plural is its singular.
    """
    spread = unicodedata.normalize("NFKC", _HUMP.sub(" ", text)).casefold()
    return [_singular(word) for word in _WORD.findall(spread) if word not in _COMMON]


def _singular(word: str) -> str:
    # The first step of Porter's stemmer (1980), which takes nothing but the plural's ending.
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word


class LexicalIndex:
    """An index over fixed rows. A query costs what its words are held, not what rows there are."""

    def __init__(self, rows: Iterable[Capability]) -> None:
        self._rows = list(rows)
        self._lengths: list[int] = []
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for place, row in enumerate(self._rows):
            counts = _counts(row)
            self._lengths.append(sum(counts.values()))
            for word, count in counts.items():
                self._postings.setdefault(word, []).append((place, count))
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0

    def __len__(self) -> int:
        return len(self._rows)

    def search(self, query: str) -> list[Hit]:
        """Return all rows that hold a word of `query`, the most relevant first.

        A word that no row holds counts against every row: where a query is about something
        that there is not, a chance match of one of its words stays weak.
        """
        words = list(dict.fromkeys(words_of(query)))
        scores: Counter[int] = Counter()
        held: dict[int, list[str]] = {}
        best = 0.0
        for word in words:
            postings = self._postings.get(word, ())
            weight = self._weight(len(postings))
            best += weight * (K1 + 1)
            for place, count in postings:
                norm = K1 * (1 - B + B * self._lengths[place] / self._mean)
                scores[place] += weight * count * (K1 + 1) / (count + norm)  # type: ignore[assignment]  # Counter holds any number
                held.setdefault(place, []).append(word)
        hits = [
            Hit(self._rows[place], score / best, tuple(held[place]))
            for place, score in scores.items()
        ]
        hits.sort(key=lambda hit: (-hit.relevance, hit.row.id))
        return hits

    def _weight(self, rows: int) -> float:
        # BM25's idf with one added within the logarithm, which keeps it above zero.
        return math.log(1 + (len(self._rows) - rows + 0.5) / (rows + 0.5))


def _counts(row: Capability) -> Counter[str]:
    counts = Counter(words_of(row.description))
    counts.update(words_of(row.category))
    for word in {*words_of(row.name), *words_of(row.display_name)}:
        counts[word] += NAME_WEIGHT
    for word in {word for tag in row.tags for word in words_of(tag)}:
        counts[word] += TAG_WEIGHT
    return counts
