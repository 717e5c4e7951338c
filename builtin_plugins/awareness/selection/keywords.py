"""Keywords in a message: found as whole words, in any script, in linear time.

Messages and keywords are compared in one form: Unicode NFKC, without case, each run of white
space one space. A keyword is searched as it is, never as a pattern, so nothing in it has to be
escaped, and one that begins or ends with a symbol (``c++``, ``.env``) is found as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

T = TypeVar("T")

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


@cache
def _spaceless() -> re.Pattern[str]:
    """Return what matches a character of such a script; made when the first message comes."""
    return re.compile(f"[{_SPACELESS_RANGES}]")


@cache
def _piece() -> re.Pattern[str]:
    """Return what matches a piece of a word.

    A keyword that holds a piece stands in no text that does not hold the same.
    """
    return re.compile(f"[^\\W{_SPACELESS_RANGES}]+")


def plain(text: str) -> str:
    """Return `text` in the form in which words are compared."""
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_QUOTES).split())


@dataclass(frozen=True, slots=True)
class FoldedMessage:
    """What is searched of a message.

    Attributes:
        text: Its text, in the form in which words are compared.
        pieces: The pieces of its words.
    """

    text: str
    pieces: frozenset[str]


def fold(message: str) -> FoldedMessage:
    """Return what is searched of a message."""
    if len(message) <= 2 * SCANNED_CHARS:
        text = plain(message)
    else:
        text = plain(message[:SCANNED_CHARS]) + _SEAM + plain(message[-SCANNED_CHARS:])
    return FoldedMessage(text, frozenset(_piece().findall(text)))


def _in_word(character: str) -> bool:
    # A vowel sign or an accent is part of the word that it is written in.
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _joins(inside: str, outside: str) -> bool:
    """Whether `outside` continues the word that `inside`, beside it, belongs to."""
    return _in_word(outside) and not (_spaceless().match(inside) or _spaceless().match(outside))


class Keywords:
    """A list of keywords, made ready to be searched for.

    Attributes:
        names: The keywords as they were written, without those that come to the same.
    """

    __slots__ = ("_anywhere", "_by_piece", "_places", "names")

    def __init__(self, keywords: Iterable[str]) -> None:
        wanted: dict[str, str] = {}
        for keyword in keywords:
            if folded := plain(keyword):
                wanted.setdefault(folded, " ".join(keyword.split()))
        self.names = tuple(wanted.values())
        self._places = {folded: place for place, folded in enumerate(wanted)}
        self._by_piece, self._anywhere = _by_piece(wanted)

    def __len__(self) -> int:
        return len(self.names)

    def held(self, message: FoldedMessage) -> bool:
        """Whether one of the keywords is in `message`."""
        possible = _possible(self._by_piece, self._anywhere, message)
        return any(_next(message.text, keyword, 0) >= 0 for keyword in possible)

    def count(self, message: FoldedMessage) -> Mapping[str, int]:
        """Return how often each keyword that is in `message` is there, in their order."""
        found: dict[int, int] = {}
        for keyword in _possible(self._by_piece, self._anywhere, message):
            if times := _times(message.text, keyword):
                found[self._places[keyword]] = times
        return {self.names[place]: found[place] for place in sorted(found)}


class KeywordIndex(Generic[T]):
    """The keywords of many owners, searched for at once: what a message lacks costs nothing.

    Args:
        keywords: The keywords of each owner.
    """

    __slots__ = ("_anywhere", "_by_piece", "_owners")

    def __init__(self, keywords: Iterable[tuple[T, Iterable[str]]]) -> None:
        self._owners: dict[str, list[T]] = {}
        for owner, own in keywords:
            for keyword in own:
                if folded := plain(keyword):
                    self._owners.setdefault(folded, []).append(owner)
        self._by_piece, self._anywhere = _by_piece(self._owners)

    def owners(self, message: FoldedMessage) -> set[T]:
        """Return the owners of the keywords that are in `message`."""
        text, found = message.text, set[T]()
        for keyword in _possible(self._by_piece, self._anywhere, message):
            if _next(text, keyword, 0) >= 0:
                found.update(self._owners[keyword])
        return found


def _by_piece(keywords: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return folded keywords by their longest piece, and those that have none.

    By its longest piece, most keywords are ruled out without a look at the text.
    """
    by_piece: dict[str, list[str]] = {}
    anywhere: list[str] = []
    for keyword in keywords:
        piece = max(_piece().findall(keyword), key=len, default="")
        (by_piece.setdefault(piece, []) if piece else anywhere).append(keyword)
    return by_piece, anywhere


def _possible(
    by_piece: Mapping[str, list[str]], anywhere: list[str], message: FoldedMessage
) -> Iterator[str]:
    """Yield the folded keywords whose longest piece is in `message`."""
    yield from anywhere
    pieces = message.pieces
    few, many = (pieces, by_piece) if len(pieces) < len(by_piece) else (by_piece, pieces)
    for piece in few:
        if piece in many:
            yield from by_piece[piece]


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
