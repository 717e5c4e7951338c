"""One plain form of a text in disguise, with the way back to where it was written.

`fold` undoes what changes how a text looks and not how a model reads it: full-width and
styled letters (NFKC), accents and strike-through marks, letters of other alphabets that
look Latin, characters that nobody sees. What is packed is for `unpacking`.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate

# Letters of Cyrillic, Greek and the phonetic alphabets, and the Latin ones they look like.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d"
    "\u0432\u043a\u043c\u043d\u0442\u0433"
    "\u03b1\u03b5\u03bf\u03c1\u03b9\u03ba\u03bd\u03c5\u03c4\u03c7\u03b3\u03c3\u03b7"  # Greek
    "\u0131\u0261\u0269\u028f\u1d00\u1d04\u1d05\u1d07\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d"
    "\u0274\u1d0f\u1d18\u0280\u1d1b\u1d1c\u1d20\u1d21\u1d22\u0585\u057d",
    "aeopcyxijsdhqwbkmhtr" + "aeopikvutxyon" + "igiyacdeghijklmnoprtuvwzou",
)
# Letters in boxes and circles, and those that flags are made of.
_LOOKALIKES |= {
    first + at: 97 + at for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}
_QUOTES = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201a": "'",
    "\u2032": "'",
} | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d", '"')
_UNSEEN = ("Cf", "Mn", "Me", "Cc", "Co", "Cn", "Cs")
_FILLERS = "\u115f\u1160\u3164\uffa0\u17b4\u17b5"
_EAST = 0x2E80
FEW = 32
"""So many signs, and no more, are changed one after the other."""


# The same length: offsets in ASCII text stay what they are.
_CONTROLS = dict.fromkeys((*range(9), *range(14, 28), 31, 127), " ") | dict.fromkeys(
    (11, 12, 13, 28, 29, 30), "\n"
)


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    """Return the plain form of a character: none, one or more characters."""
    if character.isascii():
        return character.lower().translate(_CONTROLS)
    if "\u4e00" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3":
        return character
    if character in _QUOTES:
        return _QUOTES[character]
    if character in "\x85\u2028\u2029":
        return "\n"
    plain = unicodedata.normalize("NFKC", character).lower()
    if not plain or ord(plain[0]) < _EAST:
        # Marks are no part of the letters here; in the scripts further east they are.
        plain = unicodedata.normalize("NFKD", plain)
    seen = "".join(
        sign for sign in plain if unicodedata.category(sign) not in _UNSEEN and sign not in _FILLERS
    )
    return seen.translate(_LOOKALIKES)


@dataclass(frozen=True)
class Folded:
    """A text in plain form.

    Attributes:
        text: The plain form, in small letters.
        original: The text as it came.
        table: The plain form of each character; empty where both have the same offsets.
    """

    text: str
    original: str = ""
    table: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _ends(self) -> list[int]:
        """For each character of the original, where its plain form ends."""
        sizes = {sign: len(plain) for sign, plain in self.table.items()}
        return list(accumulate(map(sizes.__getitem__, self.original)))

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a span in the plain form."""
        if not self.table:
            return start, end
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, max(start, end - 1))
        size = len(self._ends)
        return min(first, size), min(last + 1, size)

    def place(self, at: int) -> int:
        """Return the place in the plain form of a place in the original."""
        return self._ends[at - 1] if self.table and at else at


def fold(text: str) -> Folded:
    """Return the plain form of `text`, in time linear in its length."""
    # One line break and not two: an empty line ends a paragraph.
    text = text.replace("\r\n", " \n")
    if text.isascii():
        return Folded(text.lower().translate(_CONTROLS))
    table = {sign: _fold_character(sign) for sign in set(text)}
    # An honest text holds few other signs than letters: each is changed in the whole text at once.
    changed = {sign: plain for sign, plain in table.items() if plain != sign.lower()}
    if len(changed) <= FEW and all(map(str.isascii, changed.values())):
        plain = text
        for sign, instead in changed.items():
            plain = plain.replace(sign, instead)
        plain = plain.lower()
    else:
        plain = "".join(map(table.__getitem__, text))
    if all(len(value) == 1 for value in table.values()):
        return Folded(plain)
    return Folded(plain, text, table)
