"""Finding many strings in a text with one pass over it.

The strings are the hints of patterns that cost more: a pattern is tried near its hints
only. A hint that begins with a letter counts at the beginning of a word ("job" in
"jobs", and not in "logjob"); any other counts wherever it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Cues", "either"]


class Cues:
    """The hints of a number of patterns.

    Args:
        hints: For each pattern, its hints in small letters.
    """

    def __init__(self, hints: Iterable[Sequence[str]]) -> None:
        owners: dict[str, set[int]] = defaultdict(set)
        for number, several in enumerate(hints):
            for hint in several:
                if not hint.strip():
                    raise ValueError(f"pattern {number} has the empty hint {hint!r}")
                owners[hint.lstrip()].add(number)
        # Scripts without spaces have no beginnings of words.
        self._foreign = [hint for hint in owners if not hint.isascii()]
        words = [hint for hint in owners if hint.isascii() and hint[0].isalnum()]
        signs = [hint for hint in owners if hint.isascii() and not hint[0].isalnum()]
        self._owners = {hint: sorted(owners[hint]) for hint in self._foreign}
        self._owners |= _owners_by_longest(words, owners) | _owners_by_longest(signs, owners)
        self._passes = [
            re.compile(pattern)
            for pattern, several in (
                (rf"\b(?=({either(words)}))", words),
                (f"({either(signs)})", signs),
            )
            if several
        ]

    def places(self, text: str) -> dict[int, list[int]]:
        """Return where hints are, in order, by the number of their pattern."""
        by_hint: dict[str, list[int]] = defaultdict(list)
        for pattern in self._passes:
            for match in pattern.finditer(text):
                by_hint[match[1]].append(match.start())
        if not text.isascii():
            for hint in self._foreign:
                at = text.find(hint)
                while at >= 0:
                    by_hint[hint].append(at)
                    at = text.find(hint, at + len(hint))
        found: dict[int, list[int]] = defaultdict(list)
        for hint, places in by_hint.items():
            for number in self._owners[hint]:
                found[number] += places
        for places in found.values():
            places.sort()
        return found


def _owners_by_longest(hints: list[str], owners: dict[str, set[int]]) -> dict[str, list[int]]:
    """Return, for each hint, the patterns of it and of all hints that it begins with."""
    return {
        hint: sorted(
            set().union(
                *(owners[hint[:size]] for size in range(1, len(hint) + 1) if hint[:size] in owners)
            )
        )
        for hint in hints
    }


def either(words: Iterable[str]) -> str:
    """Return a pattern of the longest of the words: a tree, so that no letter is read twice."""
    tails: dict[str, list[str]] = defaultdict(list)
    complete = False
    for word in words:
        if word:
            tails[word[0]].append(word[1:])
        else:
            complete = True
    ways = [re.escape(first) + either(tails[first]) for first in sorted(tails)]
    if not ways:
        return ""
    tree = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
    return f"(?:{tree})?" if complete else tree
