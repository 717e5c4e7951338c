"""What a text is made of, and how many tokens that is: by kind of writing, for any model.

A tokenizer that goes by bytes makes a token of one byte of UTF-8 at most, and of many where it
knows the writing: English takes one for four bytes, Korean at an old model one for three letters
or less. So a text is counted as so many bytes of each kind, which is one pass over its UTF-8: the
first byte of a character tells its writing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

KINDS: tuple[str, ...] = (
    "letters",  # a to z, and white space
    "capitals",
    "digits",
    "marks",  # all else of ASCII
    "accents",  # Latin letters beyond ASCII
    "cyrillic",
    "alphabets",  # Greek, Armenian, Hebrew, Arabic
    "abugidas",  # of India, Thai, Khmer, Georgian, Ethiopic; the double accents of Vietnamese
    "symbols",  # quotes and dashes, emoji, and what lies beyond
    "cjk",  # Chinese, and the kana of Japanese
    "hangul",
    "json",  # ASCII in tools, calls and options
    "framing",  # what a chat format puts around messages, parts and results
    "tools",  # what a provider tells its model of tools in general
    "opaque",  # a provider's own parts, such as signatures
)
"""Of what a request is made; the first eleven are bytes of text in each writing."""

TYPICAL: tuple[float, ...] = (
    *(0.235, 0.6, 0.6, 0.3, 0.6),
    *(0.22, 0.26, 0.2, 0.4, 0.25, 0.26),
    *(0.24, 0.15, 0.2, 0.3),
)
"""Tokens of a byte of each kind: between those of the tokenizers of GPT-4, GPT-4o, DeepSeek,
Mistral (Tekken) and Qwen, over texts of 40 languages, code, JSON and base64. Of letters these
differ by a fifth, of rare writings by five times; `benchmarks/RESULTS.md` has the errors."""

PLAIN = KINDS.index("json")
LETTERS = bytes(range(ord("a"), ord("z") + 1)) + b" \t\r\n"
TAILS = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


def _kind_of_byte(byte: int) -> int:
    """Return the kind that a character is of whose UTF-8 begins with `byte`."""
    if byte < 0x80:
        named = (chr(byte).isupper(), "capitals"), (chr(byte).isdigit(), "digits")
        kind = next((name for holds, name in named if holds), "marks")
    elif byte < 0xE0:
        kind = "accents" if byte < 0xCE else "cyrillic" if 0xD0 <= byte < 0xD4 else "alphabets"
    elif byte < 0xE2:
        kind = "abugidas"
    elif 0xE3 <= byte < 0xEE:
        kind = "cjk" if byte < 0xEA else "hangul"
    else:
        kind = "symbols"
    return KINDS.index(kind)


TABLE = bytes(map(_kind_of_byte, range(256)))
ASCII_KINDS = tuple(KINDS.index(name) for name in ("capitals", "digits", "marks"))
WIDE_KINDS = tuple(
    (KINDS.index(name), width)
    for name, width in (
        *(("accents", 2), ("cyrillic", 2), ("alphabets", 2)),
        *(("abugidas", 3), ("cjk", 3), ("hangul", 3)),
    )
)
"""Kinds beyond ASCII, and the bytes of one character; `symbols` have three or four."""
SYMBOLS = KINDS.index("symbols")


class Sizes:
    """How much of each kind something holds.

    Attributes:
        counts: By the order of `KINDS`, the most tokens that each can take: bytes, of text.
        media: The most tokens of its pictures, sounds and documents.
        pictures: How many pictures there are.
    """

    __slots__ = ("counts", "media", "pictures")

    def __init__(self) -> None:
        self.counts = [0] * len(KINDS)
        self.media = self.pictures = 0

    @property
    def most(self) -> int:
        """The most tokens that all of it can take."""
        return sum(self.counts) + self.media

    def add(self, kind: str, amount: int) -> None:
        """Add so much of one kind."""
        self.counts[KINDS.index(kind)] += amount

    def add_text(self, text: str) -> None:
        """Add a text, each of its bytes to the kind of its writing."""
        counts = self.counts
        # A lone half of a surrogate pair is sent as the three bytes of a replacement.
        data = text.encode("utf-8", "surrogatepass")
        rest = data.translate(TABLE, LETTERS + TAILS)
        taken = 0
        for kind in ASCII_KINDS:
            found = rest.count(kind)
            counts[kind] += found
            taken += found
        if not text.isascii():
            for kind, width in WIDE_KINDS:
                found = rest.count(kind) * width
                counts[kind] += found
                taken += found
            beyond = len(data.translate(None, LETTERS)) - taken
            counts[SYMBOLS] += beyond
            taken += beyond
        counts[0] += len(data) - taken

    def add_json(self, data: str | bytes, times: int = 1) -> None:
        """Add a piece of JSON: `times` its length, what is ASCII of it as one kind."""
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        if data.isascii():
            self.counts[PLAIN] += times * len(data)
            return
        inside = Sizes()
        inside.add_text(data.decode("utf-8", "surrogatepass"))
        for kind, count in enumerate(inside.counts):
            self.counts[kind if kind > ASCII_KINDS[-1] else PLAIN] += times * count


def typical_tokens(counts: Sequence[int]) -> int:
    """Return how many tokens `Sizes.counts` take at a model of which nothing is known."""
    tokens: float = sum(map(mul, TYPICAL, counts))
    return math.ceil(tokens)


def typical_of_text(text: str) -> int:
    """Return how many tokens a text takes at such a model."""
    sizes = Sizes()
    sizes.add_text(text)
    return typical_tokens(sizes.counts)
