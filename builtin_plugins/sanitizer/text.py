"""What a text says once it is normalised, and what is packed into it."""

from __future__ import annotations

import base64
import codecs
import html
import re
import unicodedata
import urllib.parse
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hookgate.builtin_plugins.sanitizer.detector import LookBudget

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


# -- unpacking -------------------------------------------------------------------

# What a text holds in disguise: packed, or spelt so that no word of it is whole.
#
# `decoded` returns the pieces in plain. A way to pack is one line of `_WAYS`.

FIND = 80
"""Steps that a place takes in which something may be packed."""
UNPACK = 12
"""Steps that a character of it takes."""


class Packed(NamedTuple):
    """A piece of a text that was packed.

    Attributes:
        how: How it was packed.
        text: What was in it.
        start: Where the packed piece starts in the original.
        end: Where it ends.
        hidden: Whether nobody reads it as it stands; else it is only spelt in an odd way.
    """

    how: str
    text: str
    start: int
    end: int
    hidden: bool


class _Way(NamedTuple):
    how: str
    pattern: re.Pattern[str]
    unpack: Callable[[str], str | bytes]  # a ValueError where nothing is packed
    # One of them stands in each line that holds something packed so, in the view of it.
    hints: tuple[bytes, ...]
    view: bytes | None = None
    hidden: bool = True
    least: int = 0  # so often in a line, which is then read as a whole
    across: bool = False  # it may reach across lines


def decoded(text: str, budget: LookBudget) -> list[Packed]:
    """Return what is packed in `text` and holds words."""
    pieces = []
    # Each line has a line break before it, so that patterns begin with something rare.
    text = f"\n{text}"
    # A byte for each character: what is looked for in bytes costs an honest text next to nothing.
    small = text.encode("ascii", "replace").lower()
    views = {view: small.translate(view) for view in _VIEWS}
    for way in _WAYS:
        for hint in way.hints:
            if hint in views[way.view]:
                break
        else:
            continue
        places = _lines(text, way, budget) if way.least else _spans(text, way, views, budget)
        for start, end in places:
            try:
                inside = _text_of(way.unpack(text[start:end]))
            except ValueError:
                continue
            if way.least or _is_words(inside):
                pieces.append(Packed(way.how, inside, max(start - 1, 0), end - 1, way.hidden))
    return pieces


def _spans(
    text: str, way: _Way, views: dict[bytes | None, bytes], budget: LookBudget
) -> Iterator[tuple[int, int]]:
    """Yield where a way is found."""
    lines = {0: len(text)} if way.across else _hinted(views[None], views[way.view], way.hints)
    for first, last in lines.items():
        for found in way.pattern.finditer(text, first, last):
            start, end = found.span()
            budget.spend(FIND + UNPACK * (end - start))
            yield start, end


def _hinted(small: bytes, view: bytes, hints: tuple[bytes, ...]) -> dict[int, int]:
    """Return where each line with a hint in it starts, and where it ends."""
    lines = {}
    for hint in hints:
        at = view.find(hint)
        while at >= 0:
            end = small.find(b"\n", at + 1)
            end = end if end >= 0 else len(small)
            lines[max(small.rfind(b"\n", 0, at + 1), 0)] = end
            at = view.find(hint, end)
    return lines


def _lines(text: str, way: _Way, budget: LookBudget) -> Iterator[tuple[int, int]]:
    """Yield the lines in which a way is found often enough."""
    at = 0
    while found := way.pattern.search(text, at):
        start = text.rfind("\n", 0, found.start() + 1) + 1
        end = text.find("\n", found.end())
        at = end = end if end >= 0 else len(text)
        budget.spend(FIND)
        often = way.pattern.finditer(text, found.start(), end)
        if sum(1 for _ in islice(often, way.least)) == way.least:
            budget.spend(UNPACK * (end - start))
            yield start, end


def _is_words(text: str) -> bool:
    """Tell text with words in it, or packed again, from bytes that happen to decode."""
    if _RUN.fullmatch(text):
        return True
    if len(text) < 8:
        return False
    good = sum(map(text.count, " .,:;!?'\"-\n/")) + sum(map(str.isalpha, text))
    return good >= 0.85 * len(text) and (" " in text or "\n" in text or not text.isascii())


def _text_of(inside: str | bytes) -> str:
    """Read bytes as text, also as Windows writes it."""
    if isinstance(inside, str):
        return inside
    wide = inside[1::2].count(0) * 2 > len(inside) * 0.8
    return inside.decode("utf-16-le" if wide else "utf-8")


def _from_base64(blob: str) -> str | bytes:
    """Read a run of letters and digits: as base32 or as base64, also backwards or by ROT13."""
    body = re.sub(r"[^A-Za-z0-9+/_-]", "", blob).replace("-", "+").replace("_", "/")
    if _BASE32.fullmatch(blob):
        body = body[: len(body) - (len(body) % 8 in {1, 3, 6})]
        return base64.b32decode(body + "=" * (-len(body) % 8))
    for turned in (body, body[::-1], _rot13(body)):
        whole = turned[: len(turned) - (len(turned) % 4 == 1)]
        try:
            inside = _text_of(base64.b64decode(whole + "=" * (-len(whole) % 4)))
        except ValueError:
            continue
        if _is_words(inside):
            return inside
    return ""


def _from_hex(blob: str) -> bytes:
    digits = re.sub("0x|[^0-9A-Fa-f]", "", blob)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def _from_bits(blob: str) -> bytes:
    bits = blob.replace(" ", "")
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))


def _from_escapes(blob: str) -> str:
    def sign(found: re.Match[str]) -> str:
        code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
        return chr(min(code, 0x10FFFF))

    plain = _ESCAPE.sub(sign, blob)
    try:
        # Escapes of bytes, and not of characters.
        return plain.encode("latin-1").decode()
    except UnicodeError:
        return plain


def _from_morse(blob: str) -> str:
    words = re.split(r" ?[/|] ?| {3,}", blob)
    return " ".join("".join(_MORSE.get(sign, "") for sign in word.split()) for word in words)


def _joined(blob: str) -> str:
    """Read letters that stand apart: what stands between most of them stands within words."""
    blob = blob[1:]
    between = Counter(re.findall(r"[ ._*-]+", blob))
    usual = between.most_common(1)[0][0]
    return re.sub(r"[ ._*-]+", lambda found: "" if found[0] == usual else " ", blob)


def _rot13(line: str) -> str:
    return codecs.encode(line, "rot13")


def _backwards(line: str) -> str:
    """Read a line from its end, and each word of it."""
    return f"{line[::-1]}\n\n{' '.join(word[::-1] for word in line.split())}"


def _without(pattern: re.Pattern[str], instead: str = "") -> Callable[[str], str]:
    return lambda line: pattern.sub(instead, line)


def _view(**classes: str) -> bytes:
    """Return a table that shows small letters by the class that they are of, the rest as stops."""
    of = {sign: name for name, signs in classes.items() for sign in signs}
    return "".join(of.get(chr(at), ".") for at in range(128)).encode() + b"." * 128


_SIGNS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- "
    ".-- -..- -.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE = dict(zip(_SIGNS.split(" "), "abcdefghijklmnopqrstuvwxyz0123456789", strict=True))
_TURNED = str.maketrans("ɐqɔpǝɟƃɥᴉɾʞןɯuodbɹsʇnʌʍxʎz", "abcdefghijklmnopqrstuvwxyz")
_LEET = str.maketrans("013457@$!", "oieastasi")

# The boundary keeps a run that is too short from being tried again from its middle.
_RUN = re.compile(r"\b[A-Za-z0-9+/_-]{20,}+={0,2}")
_BLOCK = r"""\n[ \t>#*"']{0,8}[A-Za-z0-9+/]{8,}+={0,2}["' \t+\\,]{0,8}\r?(?=\n|\Z)"""
_BASE32 = re.compile(r"[A-Z2-7]{24,}={0,6}")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|[uU]\{?([0-9A-Fa-f]{2,8})\}?|([0-3][0-7]{2}))")
_ALONE = re.compile(
    r"\n[ \t>#|*+-]{0,8}(?:[0-9]{1,3}[.)] ?)?([^\W_][\w'.,;:!?@]{0,30})[ \t]{0,4}"
    r"(?:\|[^\n]{0,40})?\r?(?=\n|\Z)\n{0,2}(?=\n|\Z)"
)
_INSIDE = re.compile(
    r"[*`~](?<=\w[*`~])[*`~]{0,2}(?=\w)|__(?<=[^\W_]__)(?=[^\W_])"
    r"|<(?<=\w<)[^<>\n]{1,80}>(?:<[^<>\n]{1,80}>){0,3}(?=\w)"
)
_TAG = re.compile(r"</?\w{1,20}>")
_GLUED = re.compile(r"[\"'`] {0,3}[+.] {0,3}[\"'`]")
_BREAKS = re.compile(r"\\[nrt]")

# Ignore, disregard, previous, instruction, password, prompt, secret, send, delete, the, and.
_ROT13 = (
    *(b"vtaber", b"qvfertneq", b"cerivbhf", b"vafgehpgvba", b"cnffjbeq", b"cebzcg", b"frperg"),
    *(b"fraq ", b"qryrgr", b" gur ", b" naq "),
)
_BACKWARDS = (
    *(b"erongi", b"dragersid", b"suoiverp", b"noitcurtsni", b"drowssap", b"tpmorp", b"terces"),
    *(b" dnes", b"eteled", b" eht "),
)

_ALNUM = "abcdefghijklmnopqrstuvwxyz0123456789"
_RUNS = _view(a=f"{_ALNUM}+/_-")
_HEX = _view(h="0123456789abcdef", x="x", s=" :,")
# Letters that are not ASCII are question marks there.
_APART = _view(a=f"{_ALNUM}?", s=" ._*-")
_WITHIN = _view(a=f"{_ALNUM}?", m="*`~", u="_", t="<")
_VIEWS = (None, _RUNS, _HEX, _APART, _WITHIN)


def _any(words: tuple[bytes, ...]) -> re.Pattern[str]:
    return re.compile(f"(?i:{'|'.join(word.decode() for word in words)})")


_WAYS = (
    _Way("base64", _RUN, _from_base64, (b"a" * 20,), _RUNS),
    _Way("base64", re.compile(rf"{_BLOCK}(?:{_BLOCK})+"), _from_base64, (b"\n",), across=True),
    _Way(
        "hexadecimal",
        re.compile(
            r"[2-7c-fC-F](?<![0-9A-Za-z].)(?<!0x.)[0-9A-Fa-f](?:[0-9A-Fa-f]{22,}"
            r"|[ :,][0-9A-Fa-f]{2}(?:[ :,][0-9A-Fa-f]{2}){10,})"
            r"|0x[0-9A-Fa-f]{2}(?:[ ,]{0,2}(?:0x)?[0-9A-Fa-f]{2}){10,}"
        ),
        _from_hex,
        (b"h" * 24, b"hhshhshhshhshh", b"hxhh"),
        _HEX,
    ),
    _Way(
        "numbers",
        re.compile(
            r"[1-9](?<![0-9].)[0-9]{1,2}(?:\)?[ ,;+]{1,3}(?:chr\()?[1-9][0-9]{1,2}(?![0-9])){10,}"
        ),
        lambda blob: bytes(map(int, re.findall("[0-9]+", blob))),
        (b"",),
        across=True,
    ),
    _Way(
        "ASCII85",
        re.compile(r"<~[^~]{16,}+~>"),
        lambda blob: base64.a85decode(blob, adobe=True),
        (b"<~",),
        across=True,
    ),
    _Way("escapes", re.compile(rf"(?:{_ESCAPE.pattern}){{6,}}"), _from_escapes, (b"\\",)),
    _Way(
        "binary", re.compile(r"[01](?<![0-9A-Za-z].)[01]{7}(?: ?[01]{8}){7,}"), _from_bits, (b"01",)
    ),
    _Way(
        "Morse",
        re.compile(r"(?:[.-]{1,6}(?: {0,2}[/|] {0,2}| {1,4})){10,}[.-]*"),
        _from_morse,
        (b".-", b"-."),
    ),
    _Way(
        "tag characters",
        re.compile("[\U000e0020-\U000e007e]{4,}"),
        lambda blob: "".join(chr(ord(sign) - 0xE0000) for sign in blob),
        (b"????",),
    ),
    _Way(
        "variation selectors",
        re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}"),
        lambda blob: bytes(
            code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16 for code in map(ord, blob)
        ),
        (b"????????",),
    ),
    _Way(
        "letters apart",
        re.compile(r"[\n\t \"'`(|>:.-](?:[^\W_][ ._*-]{1,4}){8,}[^\W_](?![^\W_])"),
        _joined,
        tuple(b"sa" + b"s" * wide + b"as" for wide in range(1, 5)),
        _APART,
        hidden=False,
    ),
    _Way(
        "a word on each line",
        re.compile(rf"{_ALONE.pattern}(?:{_ALONE.pattern}){{3,}}"),
        lambda lines: " ".join(found[1] for found in _ALONE.finditer(lines)),
        (b"\n",),
        hidden=False,
        across=True,
    ),
    _Way(
        "percent escapes",
        re.compile("%[0-9A-Fa-f]{2}"),
        urllib.parse.unquote_plus,
        (b"%",),
        least=3,
    ),
    _Way(
        "character entities",
        re.compile(r"&(?:#x?[0-9A-Fa-f]{1,6}|lt|gt|quot|nbsp);"),
        html.unescape,
        (b"&",),
        least=3,
    ),
    _Way("ROT13", _any(_ROT13), _rot13, _ROT13, least=1),
    _Way("backwards", _any(_BACKWARDS), _backwards, _BACKWARDS, least=1),
    _Way(
        "letters upside down",
        re.compile("ǝ"),
        lambda line: line[::-1].lower().translate(_TURNED),
        (b"?",),
        least=2,
    ),
    _Way(
        "marks within words",
        _INSIDE,
        lambda line: _TAG.sub("", _INSIDE.sub("", line)),
        (b"ama", b"amma", b"ammma", b"auua", b"at"),
        _WITHIN,
        hidden=False,
        least=2,
    ),
    _Way(
        "marks around words",
        re.compile(r"[*`]\w{1,30}[.,]?[*`]"),
        _without(re.compile(r"[*`]+")),
        (b"*", b"`"),
        hidden=False,
        least=5,
    ),
    _Way("pieces in quotes", _GLUED, _without(_GLUED), (b"+", b"."), hidden=False, least=3),
    _Way("escaped line breaks", _BREAKS, _without(_BREAKS, " "), (b"\\",), hidden=False, least=3),
    _Way(
        "digits for letters",
        re.compile(r"[013457@$](?<=[A-Za-z][013457@$])[013457@$]{0,2}(?=[A-Za-z])"),
        lambda line: line.translate(_LEET),
        (b"",),
        hidden=False,
        least=3,
    ),
)
