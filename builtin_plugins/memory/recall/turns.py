"""Turns that are kept for recall: taken apart, written to the store, and read from it.

A row holds all there is of a piece of a message: its text, the numbers of its words, its vector. So
whatever is forgotten takes everything with it, and nothing can be half done. What a search needs
of a scope beside texts is read into memory once, and afterwards only what has changed since.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from sys import byteorder
from time import time_ns
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from hookgate import CLEAN
from hookgate.builtin_plugins.memory.domain import Utterance
from hookgate.builtin_plugins.memory.recall.words import number_of, signs_of, terms_of
from hookgate.builtin_plugins.memory.scopes import check_scope
from hookgate.builtin_plugins.memory.tables import CURSORS, SCOPES, TURNS, in_parts
from hookgate.wire import well_formed

Piece: TypeAlias = dict[str, Any]
"""A row of `TURNS`, but for where in its scope it is to stand."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
    return [
        {
            "scope": check_scope(one.scope),
            "message": one.id,
            "part": part,
            "session": one.session,
            "turn": one.turn,
            "at": (one.at - _EPOCH) // timedelta(microseconds=1),
            "speaker": one.speaker,
            "text": passage,
            "taint": json.dumps(sorted(one.taint)),
            "provenance": one.provenance,
            "terms": _packed(number_of(term) for term in terms_of(passage)),
            "signs": int(signs_of(passage)),
            "fingerprint": "",
            "vector": None,
        }
        for one in said
        # No database takes a zero byte, and none a half of a pair.
        for part, passage in enumerate(passages(well_formed(one.text).replace("\0", "")))
    ]


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


# -- rows ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """How far a scope is."""

    version: int = 0
    removed: int = 0
    next: int = 0


# -- writing: each within one transaction ------------------------------------------


def add_pieces(connection: Connection, pieces: Sequence[Piece], *, most: int) -> int:
    """Keep `pieces`, but for those of messages that are kept already; return how many are new.

    Args:
        connection: A connection in a write transaction.
        pieces: What is to be kept, the oldest first.
        most: Pieces of one scope; beyond it the oldest go.
    """
    by_scope: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_scope.setdefault(piece["scope"], []).append(piece)
    added = 0
    for scope in sorted(by_scope):  # in one order, so that two writers never wait for each other
        held = _hold(connection, scope)
        known = _known(connection, scope, {piece["message"] for piece in by_scope[scope]})
        new = list(
            {
                (piece["message"], piece["part"]): piece
                for piece in reversed(by_scope[scope])
                if piece["message"] not in known
            }.values()
        )[::-1]
        if not new:
            continue
        rows = [
            {**piece, "place": held.next + at, "stamp": held.version}
            for at, piece in enumerate(new)
        ]
        connection.execute(insert(TURNS), rows)
        following = held.next + len(rows)
        values = {"version": held.version, "next": following}
        gone = connection.execute(
            delete(TURNS).where(TURNS.c.scope == scope, TURNS.c.place < following - most)
        ).rowcount
        if gone:
            values["removed"] = held.version
        connection.execute(update(SCOPES).where(SCOPES.c.scope == scope).values(values))
        added += len(rows)
    return added


def keep_vectors(
    connection: Connection, fingerprint: str, vectors: Sequence[tuple[str, int, str, bytes]]
) -> None:
    """Keep the vectors of rows: scope, place, message and vector of each.

    A row that was taken away in between stays away.
    """
    by_scope: dict[str, list[tuple[int, str, bytes]]] = {}
    for scope, place, message, vector in vectors:
        by_scope.setdefault(scope, []).append((place, message, vector))
    for scope in sorted(by_scope):
        held = _hold(connection, scope)
        for place, message, vector in by_scope[scope]:
            connection.execute(
                update(TURNS)
                .where(TURNS.c.scope == scope, TURNS.c.place == place, TURNS.c.message == message)
                .values(fingerprint=fingerprint, vector=vector, stamp=held.version)
            )
        connection.execute(
            update(SCOPES).where(SCOPES.c.scope == scope).values(version=held.version)
        )


def forget_pieces(
    connection: Connection,
    *,
    scopes: Collection[str] | None,
    session: str | None = None,
    turns: Collection[str] | None = None,
    messages: Collection[str] | None = None,
) -> int:
    """Delete the rows that fit everything that is not None; return how many."""
    columns = TURNS.c
    wanted = ((columns.scope, scopes), (columns.turn, turns), (columns.message, messages))
    fits: list[ColumnElement[bool]] = [
        column.in_(values) for column, values in wanted if values is not None
    ]
    if session is not None:
        fits.append(columns.session == session)
    touched = connection.execute(select(TURNS.c.scope).where(*fits).distinct()).scalars().all()
    gone = 0
    for scope in sorted(touched):
        held = _hold(connection, scope)
        gone += connection.execute(delete(TURNS).where(TURNS.c.scope == scope, *fits)).rowcount
        left = connection.execute(select(TURNS.c.place).where(TURNS.c.scope == scope).limit(1))
        if left.first() is None:
            connection.execute(delete(SCOPES).where(SCOPES.c.scope == scope))
            continue
        connection.execute(
            update(SCOPES)
            .where(SCOPES.c.scope == scope)
            .values(version=held.version, removed=held.version)
        )
    touch_cursor(connection)
    return gone


def _hold(connection: Connection, scope: str) -> ScopeRow:
    """Take a scope's row until the end of the transaction; return it with the next version."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(
        dialect.insert(SCOPES)
        # Above all versions of a scope of this name that was forgotten as a whole.
        .values(scope=scope, version=(now := time_ns() // 1000), removed=now, next=0)
        .on_conflict_do_update(index_elements=["scope"], set_={"version": SCOPES.c.version + 1})
    )
    return scope_row(connection, scope)


def _known(connection: Connection, scope: str, messages: Collection[str]) -> set[str]:
    found: set[str] = set()
    for some in in_parts(sorted(messages)):
        found.update(
            connection.execute(
                select(TURNS.c.message).where(TURNS.c.scope == scope, TURNS.c.message.in_(some))
            ).scalars()
        )
    return found


# -- how far what was said is known ---------------------------------------------------


def cursor_of(connection: Connection, name: str = "turns") -> tuple[str, int]:
    """Return the cursor behind what was learned, and its version; "" and 0 at first."""
    row = connection.execute(
        select(CURSORS.c.cursor, CURSORS.c.version).where(CURSORS.c.name == name)
    ).first()
    return ("", 0) if row is None else (row.cursor, row.version)


def move_cursor(
    connection: Connection, before: tuple[str, int], cursor: str, name: str = "turns"
) -> bool:
    """Move the cursor on from where it was; return False where somebody else has done so."""
    touch_cursor(connection, by=0, name=name)
    moved = connection.execute(
        update(CURSORS)
        .where(
            CURSORS.c.name == name, CURSORS.c.cursor == before[0], CURSORS.c.version == before[1]
        )
        .values(cursor=cursor)
    )
    return moved.rowcount == 1


def touch_cursor(connection: Connection, *, by: int = 1, name: str = "turns") -> None:
    """See to it that what was read before now is read again before anything is learned."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(
        dialect.insert(CURSORS)
        .values(name=name, cursor="", version=by)
        .on_conflict_do_update(index_elements=["name"], set_={"version": CURSORS.c.version + by})
    )


# -- reading ------------------------------------------------------------------------


# Made once: to put a statement together takes as long as to run it.
_SCOPE_ROW = select(SCOPES.c.version, SCOPES.c.removed, SCOPES.c.next).where(
    SCOPES.c.scope == bindparam("scope")
)
_SHOWN = select(
    *(TURNS.c.place, TURNS.c.message, TURNS.c.part, TURNS.c.session, TURNS.c.turn, TURNS.c.at),
    *(TURNS.c.speaker, TURNS.c.text, TURNS.c.taint, TURNS.c.provenance),
).where(TURNS.c.scope == bindparam("scope"), TURNS.c.place.in_(bindparam("places", expanding=True)))
_SEARCHED = ("place", "session", "at", "speaker", "terms", "signs", "fingerprint", "vector")


def scope_row(connection: Connection, scope: str) -> ScopeRow:
    """Return how far a scope is."""
    row = connection.execute(_SCOPE_ROW, {"scope": scope}).first()
    return ScopeRow() if row is None else ScopeRow(*row)


def changed_since(
    connection: Connection, scope: str, version: int, *, after: int, limit: int
) -> Sequence[Any]:
    """Return what a search needs of rows of `scope` that are newer than `version`.

    Args:
        connection: A connection.
        scope: The scope.
        version: A version of the scope; 0 for all rows.
        after: The place behind which rows are wanted.
        limit: How many at most, the first ones.
    """
    columns = TURNS.c
    query = (
        select(*(columns[name] for name in _SEARCHED))
        .where(columns.scope == scope, columns.place > after)
        .order_by(columns.place)
        .limit(limit)
    )
    if version:
        query = query.where(columns.stamp > version)
    return connection.execute(query).all()


def shown_at(connection: Connection, scope: str, places: Collection[int]) -> dict[int, Any]:
    """Return what is shown of the rows at `places` of `scope`, by their places."""
    found: dict[int, Any] = {}
    for some in in_parts(list(places)):
        rows = connection.execute(_SHOWN, {"scope": scope, "places": some}).all()
        found.update((row[0], row) for row in rows)
    return found


def time_of(kept: int) -> datetime:
    """Return the time that a number of microseconds since 1970 stands for."""
    return _EPOCH + timedelta(microseconds=kept)


def taint_of(kept: str) -> frozenset[str]:
    """Return the taint that a JSON array stands for."""
    return CLEAN if kept == "[]" else frozenset(json.loads(kept))


def places_of(connection: Connection, scope: str, turns: Collection[str]) -> list[int]:
    """Return the places of what was said in `turns` of a scope."""
    found: list[int] = []
    for some in in_parts(sorted(turns)):
        found += connection.execute(
            select(TURNS.c.place).where(TURNS.c.scope == scope, TURNS.c.turn.in_(some))
        ).scalars()
    return found


def without_vector(connection: Connection, fingerprint: str, limit: int) -> Sequence[Any]:
    """Return the latest rows without a vector of an embedder: scope, place, message, text."""
    other = or_(TURNS.c.fingerprint < fingerprint, TURNS.c.fingerprint > fingerprint)
    return connection.execute(
        select(TURNS.c.scope, TURNS.c.place, TURNS.c.message, TURNS.c.text)
        .where(other)
        .order_by(TURNS.c.at.desc())
        .limit(limit)
    ).all()
