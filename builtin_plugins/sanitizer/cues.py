"""Finding many strings in a text with one pass over it.

The strings are the hints of patterns that cost more: a pattern is tried near its hints
only. A hint that begins with a letter counts at the beginning of a word ("job" in
"jobs", and not in "logjob"); any other counts wherever it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.context import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hookgate.builtin_plugins.sanitizer.context import Pieces

__all__ = ["Cues", "either"]

_RUN = re.compile(r"\w+")


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
        self._longest = max(map(len, words), default=0)
        self._firsts = {found.group() for hint in words if (found := _RUN.match(hint))}
        self._heads = {first[:2] for first in self._firsts}
        # What goes on behind its first word is looked for where that word is.
        self._several = {
            found.group() for hint in words if (found := _RUN.match(hint)) and found.group() != hint
        }
        self._words = re.compile(either(words))
        self._signs = re.compile(either(signs)) if signs else None

    def places(self, text: str, split: Pieces | None = None) -> dict[int, list[int]]:
        """Return where hints are, in order, by the number of their pattern."""
        by_hint: dict[str, list[int]] = defaultdict(list)
        self._find_words(text, split or pieces(text), by_hint)
        if self._signs is not None:
            for match in self._signs.finditer(text):
                by_hint[match.group()].append(match.start())
        if not text.isascii():
            for hint in self._foreign:
                at = text.find(hint)
                while at >= 0:
                    by_hint[hint].append(at)
                    at = text.find(hint, at + len(hint))
        return self._by_owner(by_hint)

    def _find_words(self, text: str, split: Pieces, by_hint: dict[str, list[int]]) -> None:
        """Look each different word up once, and go to its places only if a hint begins so."""
        tokens, edges, distinct = split
        hints = {token: self._hint(token) for token in distinct}
        starts = edges[::2]
        alone = {token for token, hint in hints.items() if hint}
        if alone:
            chosen = list(map(alone.__contains__, tokens))
            for token, place in zip(
                compress(tokens, chosen), compress(starts, chosen), strict=True
            ):
                by_hint[hints[token] or ""].append(place)
        unsure = {token for token, hint in hints.items() if hint is None}
        if not unsure:
            return
        tried = list(compress(starts, map(unsure.__contains__, tokens)))
        odd = {token: inner for token in unsure if len(inner := _starts(token)) > 1}
        if odd:
            chosen = list(map(odd.__contains__, tokens))
            for token, place in zip(
                compress(tokens, chosen), compress(starts, chosen), strict=True
            ):
                tried += [place + inner for inner in odd[token][1:]]
            tried.sort()
        for found in filter(None, map(self._words.match, repeat(text), tried)):
            by_hint[found.group()].append(found.start())

    def _hint(self, token: str) -> str | None:
        """Return the longest hint that begins `token`, or none if that depends on its place."""
        if token in self._several:
            return None
        if not token.isalnum() and _RUN.fullmatch(token) is None:
            # An address, or a word with an apostrophe: of more than one word.
            return None
        if token[:2] in self._heads or token[:1] in self._heads:
            for size in range(min(len(token), self._longest), 0, -1):
                if token[:size] in self._owners:
                    return token[:size]
        return ""

    def _by_owner(self, by_hint: dict[str, list[int]]) -> dict[int, list[int]]:
        lists: dict[int, list[list[int]]] = defaultdict(list)
        for hint, places in by_hint.items():
            for number in self._owners[hint]:
                lists[number].append(places)
        return {
            number: several[0] if len(several) == 1 else sorted(chain.from_iterable(several))
            for number, several in lists.items()
        }


def _starts(token: str) -> list[int]:
    return [found.start() for found in _RUN.finditer(token)]


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
