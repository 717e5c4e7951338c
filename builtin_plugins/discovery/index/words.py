"""Words as they are compared, and the parts of a message that ask for one thing each."""

from __future__ import annotations

import re
import unicodedata

from hookgate.kit.stemming import stem

CLAUSES = 8
"""Clauses of a message that are searched for at most; the longest ones are kept."""

CLAUSE_WORDS = 3
"""A shorter piece of a message does not ask for anything by itself."""

_WORD = re.compile(r"[^\W_]+")
# What a pattern begins with is looked for at once: here the letter that a part begins with.
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]))")
_APART = r" \g<0>"
_CLAUSE = re.compile(
    # Most characters begin no end of a clause: they are passed over without trying each of them.
    r"(?=[\s,])(?:(?<=[.!?;])\s+|\n+|,\s+and\s+"
    # A run of spaces is entered at its start alone: from each of them it would take the square
    # of its length.
    r"|(?<!\s),?\s+(?:and then|then|and also|also|as well as|additionally|finally|furthermore"
    r"|moreover|next|after that|lastly|secondly|first)\b,?\s*)",
    re.IGNORECASE,
)
_AROUND = " ,.;"
_COMMON_WORDS = """
    a about all an any and are as at be by can could do does for from get give has have help how
    i if in into is it its just let like make me my need of on or our please show so some tell
    that the their them there this to up use using want was we what when where which who will
    with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def words_of(text: str, *, common: bool = False) -> list[str]:
    """Return the words of `text` as they are compared.

    Names in camelCase and snake_case fall into their parts; case and width of letters do not
    matter; a word is its stem (Porter's second stemmer for English).

    Args:
        text: Any text.
        common: Whether words such as "the" and "get" are kept. They say nothing in a
            sentence, and something in a name.
    """
    spread = unicodedata.normalize("NFKC", _HUMP.sub(_APART, text)).casefold()
    return [stem(word) for word in _WORD.findall(spread) if common or word not in _COMMON]


def human_name(name: str) -> str:
    """Return `name` as words: ``getAlbumSales`` becomes "get Album Sales"."""
    return " ".join(_WORD.findall(_HUMP.sub(_APART, name)))


def clause_spans(text: str) -> list[tuple[int, int]]:
    """Return where the sentences and clauses of `text` stand; none where it is a single one.

    A message may ask for several things. Searched as a whole, the thing that takes most words
    hides the others; searched clause by clause, each is found.
    """
    pieces, start = [], 0
    for end, behind in [*(found.span() for found in _CLAUSE.finditer(text)), (len(text), 0)]:
        piece = text[start:end].lstrip(_AROUND)
        begin, piece = end - len(piece), piece.rstrip(_AROUND)
        if len(piece.split()) >= CLAUSE_WORDS:
            pieces.append((begin, begin + len(piece)))
        start = behind
    if len(pieces) < 2:
        return []
    if len(pieces) > CLAUSES:
        pieces = sorted(sorted(pieces, key=lambda span: span[0] - span[1])[:CLAUSES])
    return pieces
