"""Keywords in a message: found as whole words, in any script, in linear time.

Messages and keywords are compared in one form: Unicode NFKC, without case, each run of white
space one space. A keyword is searched as it is, never as a pattern, so nothing in it has to be
escaped, and one that begins or ends with a symbol (``c++``, ``.env``) is found as well.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["SCANNED_CHARS", "Folded", "Keywords", "fold", "plain"]

SCANNED_CHARS = 4000
"""So many characters from the beginning of a message, and from its end, are searched. What
somebody asks stands in front of what was pasted or behind it."""

_SEAM = " \0 "
"""Between beginning and end; no keyword holds it."""

_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\0": " "})

# Scripts that put no space between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana, Bopomofo
# and Han. A keyword in one of them may stand anywhere.
_SPACELESS_RANGES = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPACELESS = re.compile(f"[{_SPACELESS_RANGES}]")
_PIECE = re.compile(f"[^\\W{_SPACELESS_RANGES}]+")
"""A piece of a word: a keyword that holds one stands in no text that does not hold the same."""


def plain(text: str) -> str:
    """Return `text` in the form in which words are compared."""
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_QUOTES).split())


@dataclass(frozen=True, slots=True)
class Folded:
    """What is searched of a message.

    Attributes:
        text: Its text, in the form in which words are compared.
        pieces: The pieces of its words.
    """

    text: str
    pieces: frozenset[str]


def fold(message: str) -> Folded:
    """Return what is searched of a message."""
    if len(message) <= 2 * SCANNED_CHARS:
        text = plain(message)
    else:
        text = plain(message[:SCANNED_CHARS]) + _SEAM + plain(message[-SCANNED_CHARS:])
    return Folded(text, frozenset(_PIECE.findall(text)))


def _in_word(character: str) -> bool:
    # A vowel sign or an accent is part of the word that it is written in.
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _joins(inside: str, outside: str) -> bool:
    """Whether `outside` continues the word that `inside`, beside it, belongs to."""
    return _in_word(outside) and not (_SPACELESS.match(inside) or _SPACELESS.match(outside))


class Keywords:
    """A list of keywords, made ready to be searched for.

    Attributes:
        names: The keywords as they were written, without those that come to the same.
    """

    __slots__ = ("_anywhere", "_by_piece", "_folded", "names")

    def __init__(self, keywords: Iterable[str]) -> None:
        wanted: dict[str, str] = {}
        for keyword in keywords:
            if folded := plain(keyword):
                wanted.setdefault(folded, " ".join(keyword.split()))
        self.names = tuple(wanted.values())
        self._folded = tuple(wanted)
        # By its longest piece, most keywords are ruled out without a look at the text.
        self._by_piece: dict[str, list[int]] = {}
        self._anywhere: list[int] = []
        for number, keyword in enumerate(self._folded):
            piece = max(_PIECE.findall(keyword), key=len, default="")
            (self._by_piece.setdefault(piece, []) if piece else self._anywhere).append(number)

    def __len__(self) -> int:
        return len(self.names)

    def held(self, message: Folded) -> bool:
        """Whether one of the keywords is in `message`."""
        text = message.text
        return any(_next(text, self._folded[at], 0) >= 0 for at in self._possible(message))

    def count(self, message: Folded) -> Mapping[str, int]:
        """Return how often each keyword that is in `message` is there, in their order."""
        found: dict[str, int] = {}
        for at in sorted(self._possible(message)):
            if times := _times(message.text, self._folded[at]):
                found[self.names[at]] = times
        return found

    def _possible(self, message: Folded) -> list[int]:
        numbers = list(self._anywhere)
        for piece in self._by_piece.keys() & message.pieces:
            numbers += self._by_piece[piece]
        return numbers


def _times(text: str, keyword: str) -> int:
    times, at = 0, _next(text, keyword, 0)
    while at >= 0:
        times += 1
        at = _next(text, keyword, at + len(keyword))
    return times


def _next(text: str, keyword: str, start: int) -> int:
    """Return where `keyword` stands as a word, from `start` on, or -1."""
    at = text.find(keyword, start)
    while at >= 0:
        end = at + len(keyword)
        if not (
            (at and _joins(keyword[0], text[at - 1]))
            or (end < len(text) and _joins(keyword[-1], text[end]))
        ):
            return at
        at = text.find(keyword, at + 1)
    return -1
