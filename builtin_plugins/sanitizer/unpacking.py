"""What a text holds in disguise: packed, or spelt so that no word of it is whole.

`decoded` returns the pieces in plain. A way to pack is one line of `_WAYS` or `_LINES`.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
import urllib.parse
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hookgate.builtin_plugins.sanitizer.budget import Budget

__all__ = ["Packed", "decoded"]

FIND = 80
"""Steps that a place takes in which something may be packed."""
UNPACK = 8
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


@dataclass(frozen=True, slots=True)
class _Way:
    how: str
    hint: tuple[str, ...]  # one of them stands in every text that holds something packed so
    pattern: re.Pattern[str]
    unpack: Callable[[str], str | None]
    hidden: bool = True
    least: int = 0  # so often in a line, which is then read as a whole


def decoded(text: str, budget: Budget) -> list[Packed]:
    """Return what is packed in `text` and holds words."""
    pieces = []
    # Each line has a line break before it, so that patterns begin with something rare.
    text = f"\n{text}"
    small = text.lower()
    last = max(text)
    for way in _WAYS:
        if (last < "\ufe00" and way.how in _UNSEEN) or not any(hint in small for hint in way.hint):
            continue
        places = _lines(text, way, budget) if way.least else _spans(text, way, budget)
        for start, end in places:
            inside = way.unpack(text[start:end])
            if inside and (way.least or _is_prose(inside) or _RUN.fullmatch(inside)):
                pieces.append(Packed(way.how, inside, max(start - 1, 0), end - 1, way.hidden))
    return pieces


def _spans(text: str, way: _Way, budget: Budget) -> Iterator[tuple[int, int]]:
    """Yield where a way is found."""
    for found in way.pattern.finditer(text):
        start, end = found.span()
        budget.spend(FIND + UNPACK * (end - start))
        yield start, end


def _lines(text: str, way: _Way, budget: Budget) -> Iterator[tuple[int, int]]:
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


def _is_prose(text: str) -> bool:
    """Tell text with words in it from bytes that happen to decode."""
    if len(text) < 8:
        return False
    good = sum(map(text.count, " .,:;!?'\"-\n/")) + sum(map(str.isalpha, text))
    return good >= 0.85 * len(text) and (" " in text or "\n" in text or not text.isascii())


def _text_of(octets: bytes) -> str | None:
    """Read bytes as text, also as Windows writes it."""
    try:
        return octets.decode(
            "utf-16-le" if octets[1::2].count(0) * 2 > len(octets) * 0.8 else "utf-8"
        )
    except UnicodeDecodeError:
        return None


def _from_base64(blob: str) -> str | None:
    """Read a run of letters and digits: as base32 or as base64, also backwards or by ROT13."""
    body = re.sub(r"[^A-Za-z0-9+/_-]", "", blob).replace("-", "+").replace("_", "/")
    if _BASE32.fullmatch(blob):
        body = body[: len(body) - (len(body) % 8 in {1, 3, 6})]
        return _text_of(base64.b32decode(body + "=" * (-len(body) % 8)))
    for turned in (body, body[::-1], codecs.encode(body, "rot13")):
        whole = turned[: len(turned) - (len(turned) % 4 == 1)]
        inside = _text_of(base64.b64decode(whole + "=" * (-len(whole) % 4)))
        if inside and (_is_prose(inside) or _RUN.fullmatch(inside)):
            return inside
    return None


def _from_ascii85(blob: str) -> str | None:
    try:
        return _text_of(base64.a85decode(blob, adobe=True))
    except ValueError:
        return None


def _from_hex(blob: str) -> str | None:
    digits = re.sub("0x|[^0-9A-Fa-f]", "", blob)
    return _text_of(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _from_numbers(blob: str) -> str | None:
    numbers = [int(number) for number in re.findall("[0-9]+", blob)]
    return _text_of(bytes(numbers)) if max(numbers) < 256 else None


def _from_bits(blob: str) -> str | None:
    bits = blob.replace(" ", "")
    return _text_of(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))


def _from_escapes(blob: str) -> str:
    def sign(found: re.Match[str]) -> str:
        return chr(
            min(int(found[1] or found[2], 16) if not found[3] else int(found[3], 8), 0x10FFFF)
        )

    plain = _ESCAPE.sub(sign, blob)
    try:
        # Escapes of bytes, and not of characters.
        return plain.encode("latin-1").decode()
    except UnicodeError:
        return plain


def _from_morse(blob: str) -> str:
    words = re.split(r" ?[/|] ?| {3,}", blob)
    return " ".join("".join(_MORSE.get(sign, "") for sign in word.split()) for word in words)


def _untagged(blob: str) -> str:
    return "".join(chr(ord(character) - 0xE0000) for character in blob)


def _from_selectors(blob: str) -> str | None:
    return _text_of(
        bytes(code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16 for code in map(ord, blob))
    )


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


def _upside_down(line: str) -> str:
    return line[::-1].lower().translate(_TURNED)


def _one_line(lines: str) -> str:
    return " ".join(found[1] for found in _ALONE.finditer(lines))


def _without(pattern: re.Pattern[str], instead: str = "") -> Callable[[str], str]:
    return lambda line: pattern.sub(instead, line)


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
_MARKS = re.compile(r"[*`]+")
_GLUED = re.compile(r"[\"'`] {0,3}[+.] {0,3}[\"'`]")
_BREAKS = re.compile(r"\\[nrt]")

_UNSEEN = ("tag characters", "variation selectors")
# Ignore, disregard, previous, instruction, password, prompt, secret, send, delete, the, and.
_ROT13 = (
    *("vtaber", "qvfertneq", "cerivbhf", "vafgehpgvba", "cnffjbeq", "cebzcg", "frperg", "fraq "),
    *("qryrgr", " gur ", " naq "),
)
_BACKWARDS = (
    *("erongi", "dragersid", "suoiverp", "noitcurtsni", "drowssap", "tpmorp", "terces", " dnes"),
    *("eteled", " eht "),
)


def _way(
    how: str,
    hint: str | tuple[str, ...],
    pattern: str | re.Pattern[str],
    unpack: Callable[[str], str | None],
    least: int = 0,
    *,
    hidden: bool = True,
) -> _Way:
    hints = (hint,) if isinstance(hint, str) else hint
    return _Way(how, hints, re.compile(pattern), unpack, hidden, least)


def _spelt(
    how: str,
    hint: str | tuple[str, ...],
    pattern: str | re.Pattern[str],
    unpack: Callable[[str], str | None],
    least: int = 0,
) -> _Way:
    return _way(how, hint, pattern, unpack, least, hidden=False)


_WAYS = (
    _way("base64", "", _RUN, _from_base64),
    _way(
        "base64",
        "\n",
        rf"{_BLOCK}(?:{_BLOCK})+",
        _from_base64,
    ),
    _way(
        "hexadecimal",
        "",
        r"[2-7c-fC-F](?<![0-9A-Za-z].)(?<!0x.)[0-9A-Fa-f](?:[0-9A-Fa-f]{22,}"
        r"|[ :,][0-9A-Fa-f]{2}(?:[ :,][0-9A-Fa-f]{2}){10,})"
        r"|0x[0-9A-Fa-f]{2}(?:[ ,]{0,2}(?:0x)?[0-9A-Fa-f]{2}){10,}",
        _from_hex,
    ),
    _way(
        "numbers",
        "",
        r"[1-9](?<![0-9].)[0-9]{1,2}(?:\)?[ ,;+]{1,3}(?:chr\()?[1-9][0-9]{1,2}(?![0-9])){10,}",
        _from_numbers,
    ),
    _way("ASCII85", "<~", r"<~[^~]{16,}+~>", _from_ascii85),
    _way("escapes", "\\", rf"(?:{_ESCAPE.pattern}){{6,}}", _from_escapes),
    _way("binary", "01", r"[01](?<![0-9A-Za-z].)[01]{7}(?: ?[01]{8}){7,}", _from_bits),
    _way(
        "Morse",
        (".-", "-."),
        r"(?:[.-]{1,6}(?: {0,2}[/|] {0,2}| {1,4})){10,}[.-]*",
        _from_morse,
    ),
    _way("tag characters", "", "[\U000e0020-\U000e007e]{4,}", _untagged),
    _way("variation selectors", "", "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}", _from_selectors),
    _spelt(
        "letters apart", "", r"[\n\t \"'`(|>:.-](?:[^\W_][ ._*-]{1,4}){8,}[^\W_](?![^\W_])", _joined
    ),
    _spelt("a word on each line", "\n", rf"{_ALONE.pattern}(?:{_ALONE.pattern}){{3,}}", _one_line),
    _way("percent escapes", "%", "%[0-9A-Fa-f]{2}", urllib.parse.unquote_plus, 3),
    _way(
        "character entities",
        "&",
        r"&(?:#x?[0-9A-Fa-f]{1,6}|lt|gt|quot|nbsp);",
        html.unescape,
        3,
    ),
    _way("ROT13", _ROT13, f"(?i:{'|'.join(_ROT13)})", _rot13, 1),
    _way("backwards", _BACKWARDS, f"(?i:{'|'.join(_BACKWARDS)})", _backwards, 1),
    _way("letters upside down", "ǝ", "ǝ", _upside_down, 2),
    # Where there are tags within words, those around words say nothing either.
    _spelt("marks within words", "", _INSIDE, lambda line: _TAG.sub("", _INSIDE.sub("", line)), 2),
    _spelt("marks around words", ("*", "`"), r"[*`]\w{1,30}[.,]?[*`]", _without(_MARKS), 5),
    _spelt("pieces in quotes", "", _GLUED, _without(_GLUED), 3),
    _spelt("escaped line breaks", "\\", _BREAKS, _without(_BREAKS, " "), 3),
    _spelt(
        "digits for letters",
        "",
        r"[013457@$](?<=[A-Za-z][013457@$])[013457@$]{0,2}(?=[A-Za-z])",
        lambda line: line.translate(_LEET),
        3,
    ),
)
