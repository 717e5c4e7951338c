"""Words as turns and queries are compared, and what a text shows beside them."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from enum import IntFlag
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from hookgate.kit.stemming import stems

MAX_TERMS = 1024
"""Words of one text that are looked at."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Scripts that put no space between words: two neighbours stand for a word there.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")

_LETTER = re.compile("[a-z]")

_WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
_COMMON = frozenset(_WORDS["common"])
_IRREGULAR: dict[str, str] = {
    form: word for word, forms in _WORDS["irregular"].items() for form in forms
}

_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|just|weekend|days?|weeks?"
    r"|months?|years?|morning|evening|night|summer|winter|spring|fall|autumn|(?:mon|tues|wednes"
    r"|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|\d{4})\b",
    re.IGNORECASE,
)


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class Signs(IntFlag):
    """What a text shows beside its words. The numbers are kept in the store."""

    NONE = 0
    ASKS = 1
    """A question is in it: what comes next may be its answer."""
    ONLY_ASKS = 2
    """It ends with a question."""
    TIME = 4
    """It says when something was or will be."""
    NOTHING_ELSE = 8
    """Each of its sentences asks. What was kept before this was noted has it not."""


def fold(text: str) -> str:
    """Return `text` in the form in which words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def terms_of(text: str, *, common: bool = False) -> list[str]:
    """Return the words of `text` as they are compared: folded, as stems, in their order.

    Args:
        text: Any text; of a very long one only the first words count.
        common: Whether words that say nothing by themselves are kept.
    """
    terms: list[str] = []
    for found in _WORD.finditer(fold(text)):
        word = found[0].replace("’", "'").partition("'")[0]
        if not common and (word in _COMMON or _LETTER.fullmatch(word)):
            continue
        if not word.isascii() and _UNSPACED.search(word):
            terms += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            terms.append(_IRREGULAR.get(word, word))
        if len(terms) >= MAX_TERMS:
            break
    # Two letters of a script without spaces are their own stem.
    return stems(terms[:MAX_TERMS])


@lru_cache(maxsize=1024)
def terms_of_name(name: str) -> tuple[str, ...]:
    """Return the words of the name of somebody who speaks."""
    return tuple(terms_of(name))


def numbers_of(terms: Iterable[str]) -> list[int]:
    """Return the numbers by which words are looked up: 32 bits of a checksum.

    Two words of one query that share a number with others are about as likely as one in a
    hundred thousand, and cost a wrong place in a list.
    """
    return [crc32(term.encode("utf-8", "surrogatepass")) for term in terms]


def signs_of(text: str) -> Signs:
    """Return what `text` shows."""
    signs = Signs.NONE
    if "?" in text:
        signs |= Signs.ASKS
    if text.rstrip().endswith("?"):
        signs |= Signs.ONLY_ASKS
        if all(one.endswith("?") for one in _SENTENCE_END.split(text.strip())):
            signs |= Signs.NOTHING_ELSE
    if _TIME.search(text):
        signs |= Signs.TIME
    return signs
