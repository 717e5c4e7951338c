"""One plain form of a text in disguise, with the way back to where it was written.

`fold` undoes what changes how a text looks and not how a model reads it: full-width and
styled letters (NFKC), accents and strike-through marks, letters of other alphabets that
look Latin, characters that nobody sees. `decoded` unpacks what is packed: base64,
hexadecimal, percent and character escapes, Unicode tags.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
import urllib.parse
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, repeat

__all__ = ["MAX_BLOBS", "MAX_BLOB_CHARS", "Folded", "Packed", "decoded", "fold", "unleet"]

MAX_BLOBS = 12
"""So many pieces packed one way are read, of those that hold words."""

MAX_BLOB_CHARS = 4000
"""So much of one packed piece is unpacked."""

# Letters of Cyrillic, Greek and the phonetic alphabets, and the Latin ones they look like.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d"
    "\u0432\u043a\u043c\u043d\u0442\u0433"
    "\u03b1\u03b5\u03bf\u03c1\u03b9\u03ba\u03bd\u03c5\u03c4\u03c7\u03b3\u03c3\u03b7"  # Greek
    "\u0131\u0261\u0269\u028f\u1d00\u1d04\u1d05\u1d07\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d"
    "\u0274\u1d0f\u1d18\u0280\u1d1b\u1d1c\u1d20\u1d21\u1d22\u0585\u057d",
    "aeopcyxijsdhqwbkmhtr" + "aeopikvutxyon" + "igiyacdeghijklmnoprtuvwzou",
)
_QUOTES = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201a": "'",
    "\u2032": "'",
    "\u0060": "`",
} | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d", '"')
_UNSEEN = ("Cf", "Mn", "Me", "Cc", "Co", "Cn")
_FILLERS = "\u115f\u1160\u3164\uffa0\u17b4\u17b5"
_EAST = 0x2E80
_FEW = 10
"""Parts of a text that have fewer characters, in the mean, are not worth a call each."""

_LEET = str.maketrans("013457", "oieast")


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    """Return the plain form of a character: none, one or more characters."""
    if character in "\n\t":
        return character
    if character in _QUOTES:
        return _QUOTES[character]
    if character in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
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
        table: The plain form of each character that is not ASCII; empty where both have the
            same offsets.
    """

    text: str
    original: str = ""
    table: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _ends(self) -> list[int]:
        """For each character of the original, where its plain form ends."""
        sizes = {chr(code): len(plain) for code, plain in self.table.items()}
        return list(accumulate(map(sizes.get, self.original, repeat(1))))

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a span in the plain form."""
        if not self.table:
            return start, end
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, max(start, end - 1))
        size = len(self._ends)
        return min(first, size), min(last + 1, size)


def fold(text: str) -> Folded:
    """Return the plain form of `text`, in time linear in its length."""
    if text.isascii():
        return Folded(text.lower().translate(_CONTROLS))
    parts = _FOREIGN.split(text)
    signs = set("".join(parts[1::2]))
    table = {ord(sign): _fold_character(sign) for sign in signs}
    if len(parts) * _FEW > len(text):
        # Many short parts: each character is looked up.
        every = {ord(sign): sign.lower() for sign in set(text) - signs} | table
        plain = text.translate(every)
    else:
        parts[1::2] = [part.translate(table) for part in parts[1::2]]
        parts[::2] = [part.lower() for part in parts[::2]]
        plain = "".join(parts)
    if _CONTROL.search(plain):
        plain = plain.translate(_CONTROLS)
    if all(len(value) == 1 for value in table.values()):
        return Folded(plain)
    return Folded(plain, text, table)


# The same length: offsets in ASCII text stay what they are.
_CONTROLS = dict.fromkeys((*range(9), *range(14, 28), 31, 127), " ") | dict.fromkeys(
    (11, 12, 13, 28, 29, 30), "\n"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_FOREIGN = re.compile(r"([^\x00-\x7f]+)")


def unleet(word: str) -> str:
    """Return a word with its digits read as the letters they look like."""
    return word.translate(_LEET)


@dataclass(frozen=True, slots=True)
class Packed:
    """A piece of a text that was packed.

    Attributes:
        how: How it was packed.
        text: What was in it.
        start: Where the packed piece starts in the original.
        end: Where it ends.
    """

    how: str
    text: str
    start: int
    end: int


# The boundary keeps a run that is too short from being tried again from its middle.
_RUN = re.compile(r"\b[A-Za-z0-9+/_-]{20,}={0,2}")
_BASE32 = re.compile(r"[A-Z2-7]{24,}={0,6}")
_ASCII85 = re.compile(r"<~[^~]{16,4000}~>")
# They begin with a digit, as letters in ASCII do, so that there is little to try.
_HEX = re.compile(
    r"[2-7](?<![0-9A-Za-z].)[0-9A-Fa-f](?:[0-9A-Fa-f]{22,}"
    r"|[ :,][0-9A-Fa-f]{2}(?:[ :,][0-9A-Fa-f]{2}){10,})"
)
_ESCAPED = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u00[0-9A-Fa-f]{2})(?:\\(?:x|u00)[0-9A-Fa-f]{2}){5,}")
_ESCAPE = re.compile(r"\\(?:x|u00)([0-9A-Fa-f]{2})")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_ENTITY = re.compile(r"&(?:#x?[0-9A-Fa-f]{1,6}|lt|gt|quot|nbsp);")
_TAGS = re.compile("[\U000e0020-\U000e007e]{4,}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}")
_BITS = re.compile(r"[01](?<![0-9A-Za-z].)[01]{7}(?: [01]{8}){7,}")


def decoded(text: str) -> list[Packed]:
    """Return the packed pieces of `text` that hold words."""
    pieces: list[Packed] = []
    for how, hint, pattern, unpack in (
        ("base64", "", _RUN, _from_base64),
        ("hexadecimal", "", _HEX, _from_hex),
        ("ASCII85", "<~", _ASCII85, _from_ascii85),
        ("escapes", "\\", _ESCAPED, _from_escapes),
        ("binary", "01", _BITS, _from_bits),
    ):
        if hint not in text:
            continue
        left = MAX_BLOBS
        for found in pattern.finditer(text):
            inside = unpack(found.group()[:MAX_BLOB_CHARS])
            if inside and (_is_prose(inside) or _RUN.fullmatch(inside)):
                pieces.append(Packed(how, inside, found.start(), found.end()))
                left -= 1
                if not left:
                    break
    foreign = "" if text.isascii() or max(text) < "\ufe00" else "".join(_FOREIGN.findall(text))
    for how, pattern, unpack in (
        ("tag characters", _TAGS, _untagged),
        ("variation selectors", _SELECTORS, _from_selectors),
    ):
        for found in pattern.finditer(text) if pattern.search(foreign) else ():
            inside = unpack(found.group()[:MAX_BLOB_CHARS])
            if inside and (how == "tag characters" or _is_prose(inside)):
                pieces.append(Packed(how, inside, found.start(), found.end()))
    pieces += _escaped_lines(text)
    pieces += _ciphered_lines(text)
    return pieces


def _escaped_lines(text: str) -> list[Packed]:
    if "%" not in text and "&" not in text:
        return []
    pieces: list[Packed] = []
    for how, pattern, unpack in (
        ("percent escapes", _PERCENT, urllib.parse.unquote_plus),
        ("character entities", _ENTITY, html.unescape),
    ):
        done, left = 0, MAX_BLOBS
        while found := pattern.search(text, done):
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            done = end = end if end >= 0 else len(text)
            line = text[start:end]
            if len(pattern.findall(line)) >= 3:
                pieces.append(Packed(how, unpack(line[:MAX_BLOB_CHARS]), start, end))
                left -= 1
                if not left:
                    break
    return pieces


_ROT13 = (
    "vtaber",
    "qvfertneq",
    "cerivbhf",
    "vafgehpgvba",
    "cnffjbeq",
    "cebzcg",
    "frperg",
    "fraq ",
    "qryrgr",
)
_BACKWARDS = (
    "erongi",
    "dragersid",
    "suoiverp",
    "snoitcurtsni",
    "drowssap",
    "tpmorp",
    "terces",
    " dnes",
    "eteled",
)
"""Words of orders, in disguise: ignore, disregard, previous, instruction, password, prompt,
secret, send, delete."""


def _ciphered_lines(text: str) -> list[Packed]:
    pieces: list[Packed] = []
    small = text.lower()
    for how, words, unpack in (
        ("ROT13", _ROT13, _rot13),
        ("backwards", _BACKWARDS, _turned),
    ):
        for word in words:
            at, number = small.find(word), 0
            while at >= 0 and number < MAX_BLOBS:
                start = max(text.rfind("\n", 0, at) + 1, at - 300)
                end = text.find("\n", at, at + 300)
                end = end if end >= 0 else min(len(text), at + 300)
                pieces.append(Packed(how, unpack(text[start:end]), start, end))
                at, number = small.find(word, end), number + 1
    return pieces


def _rot13(line: str) -> str:
    return codecs.encode(line, "rot13")


def _turned(line: str) -> str:
    return line[::-1]


def _is_prose(text: str) -> bool:
    """Tell text with words in it from bytes that happen to decode."""
    if len(text) < 8:
        return False
    good = sum(character.isalpha() or character in " .,:;!?'\"-\n/" for character in text)
    return good >= 0.85 * len(text) and (" " in text or "\n" in text)


def _from_base64(blob: str) -> str | None:
    """Read a run of letters and digits: as base32 or as base64."""
    if _BASE32.fullmatch(blob):
        return _from_base32(blob)
    body = blob.rstrip("=").replace("-", "+").replace("_", "/")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _from_base32(blob: str) -> str | None:
    body = blob.rstrip("=")
    try:
        return base64.b32decode(body + "=" * (-len(body) % 8)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _from_ascii85(blob: str) -> str | None:
    try:
        return base64.a85decode(blob, adobe=True).decode()
    except (ValueError, UnicodeDecodeError):
        return None


def _from_hex(blob: str) -> str | None:
    digits = re.sub("[ :,]", "", blob)
    try:
        return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode()
    except (ValueError, UnicodeDecodeError):
        return None


def _from_escapes(blob: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), blob)


def _from_bits(blob: str) -> str:
    return "".join(chr(int(octet, 2)) for octet in blob.split())


def _untagged(blob: str) -> str:
    return "".join(chr(ord(character) - 0xE0000) for character in blob)


def _from_selectors(blob: str) -> str | None:
    octets = bytes(
        code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16 for code in map(ord, blob)
    )
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None
