"""Messages as they are kept: their words read, long ones in pieces."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from sys import byteorder

from hookgate.builtin_plugins.memory.domain import Utterance, check_scope
from hookgate.builtin_plugins.memory.recall.words import number_of, signs_of, terms_of
from hookgate.builtin_plugins.memory.tables.episodes import Piece
from hookgate.wire import well_formed

PIECE_CHARS = 1000
"""A longer message is kept in pieces of at most this many characters: about as much as an
embedder reads, and a fifth of what a turn may recall."""

MAX_PIECES = 64
"""Pieces of one message; what is behind them stays in the conversation, and is not recalled."""

# What pieces end with, the best first.
_ENDS = tuple(re.compile(end) for end in (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s*", r"\s"))


def pieces_of(said: Iterable[Utterance]) -> list[Piece]:
    """Return what is kept of messages. It takes about a millisecond for a long one.

    Raises:
        ValueError: One of them has a scope that is none.
    """
    made = []
    for one in said:
        scope = check_scope(one.scope)
        # No database takes a zero byte, and none a half of a pair.
        text = well_formed(one.text).replace("\0", "")
        for part, passage in enumerate(passages(text)):
            made.append(
                Piece(
                    scope=scope,
                    message=one.id,
                    part=part,
                    session=one.session,
                    turn=one.turn,
                    at=one.at,
                    speaker=one.speaker,
                    text=passage,
                    taint=one.taint,
                    provenance=one.provenance,
                    terms=_packed(number_of(term) for term in terms_of(passage)),
                    signs=int(signs_of(passage)),
                )
            )
    return made


def passages(text: str) -> Iterator[str]:
    """Yield the pieces of `text`, which end with a paragraph, a line, a sentence or a word."""
    text, count = text.strip(), 0
    while text and count < MAX_PIECES:
        end = len(text) if len(text) <= PIECE_CHARS else _end_of_piece(text)
        yield text[:end].rstrip()
        text, count = text[end:].lstrip(), count + 1


def _end_of_piece(text: str) -> int:
    for ending in _ENDS:
        ends = [found.end() for found in ending.finditer(text, 1, PIECE_CHARS)]
        # A heading by itself is no piece.
        if ends and ends[-1] >= PIECE_CHARS // 4:
            return ends[-1]
    return PIECE_CHARS


def _packed(numbers: Iterable[int]) -> bytes:
    packed = array("I", numbers)
    if byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
