"""Turns that are kept for recall: taken apart, written to the store, and read from it.

A row holds all there is of a piece of a message: its text, the numbers of its words, its vector. So
whatever is forgotten takes everything with it, and nothing can be half done. What a search needs
of a scope beside texts is read into memory once, and afterwards only what has changed since.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from sys import byteorder
from time import time_ns
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, or_, select, update

from hookgate import CLEAN
from hookgate.builtin_plugins.memory.domain import Utterance, check_scope
from hookgate.builtin_plugins.memory.recall.words import numbers_of, signs_of, terms_of
from hookgate.builtin_plugins.memory.tables import CURSORS, SCOPES, TURNS
from hookgate.kit.records.statements import Prepared, PreparedIn
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
            "taint": json.dumps(sorted(one.taint)) if one.taint else "[]",
            "provenance": one.provenance,
            "terms": _packed(numbers_of(terms_of(passage))),
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


# -- statements ----------------------------------------------------------------------

_SCOPE_ROW = Prepared(
    select(SCOPES.c.version, SCOPES.c.removed, SCOPES.c.next).where(
        SCOPES.c.scope == bindparam("of")
    )
)


def _held(insert: Any) -> Any:
    held = insert(SCOPES)
    moved = {"version": SCOPES.c.version + 1, "next": SCOPES.c.next + held.excluded.next}
    return held.on_conflict_do_update(index_elements=["scope"], set_=moved).returning(
        SCOPES.c.version, SCOPES.c.removed, SCOPES.c.next
    )


_HOLD = Prepared(_held, SCOPES.c.keys())
_REMOVED = Prepared(
    update(SCOPES).where(SCOPES.c.scope == bindparam("of")).values(removed=SCOPES.c.version)
)
_KNOWN = PreparedIn(
    select(TURNS.c.message).where(TURNS.c.scope == bindparam("of")), TURNS.c.message
)
_ADD = Prepared(insert(TURNS), TURNS.c.keys())
_TRIM = Prepared(
    delete(TURNS).where(TURNS.c.scope == bindparam("of"), TURNS.c.place < bindparam("first"))
)
_GIVE_VECTOR = Prepared(
    update(TURNS)
    .where(
        TURNS.c.scope == bindparam("of"),
        TURNS.c.place == bindparam("at_place"),
        TURNS.c.message == bindparam("id"),
    )
    .values(fingerprint=bindparam("made_by"), vector=bindparam("made"), stamp=bindparam("to"))
)
_CURSOR = Prepared(
    select(CURSORS.c.cursor, CURSORS.c.version).where(CURSORS.c.name == bindparam("of"))
)
_MOVE_CURSOR = Prepared(
    update(CURSORS)
    .where(
        CURSORS.c.name == bindparam("of"),
        CURSORS.c.cursor == bindparam("before"),
        CURSORS.c.version == bindparam("counted"),
    )
    .values(cursor=bindparam("to"))
)


def _touched(insert: Any) -> Any:
    touched = insert(CURSORS)
    moved = {"version": CURSORS.c.version + touched.excluded.version}
    return touched.on_conflict_do_update(index_elements=["name"], set_=moved)


_TOUCH_CURSOR = Prepared(_touched, CURSORS.c.keys())
_SEARCHED = ("place", "session", "turn", "at", "speaker", "terms", "signs", "fingerprint", "vector")
_CHANGED = Prepared(
    select(*(TURNS.c[name] for name in _SEARCHED))
    .where(
        TURNS.c.scope == bindparam("of"),
        TURNS.c.place > bindparam("after"),
        TURNS.c.stamp > bindparam("known"),
    )
    .order_by(TURNS.c.place)
    .limit(bindparam("most"))
)

_SHOWN = PreparedIn(
    select(
        *(TURNS.c.place, TURNS.c.message, TURNS.c.part, TURNS.c.session, TURNS.c.turn, TURNS.c.at),
        *(TURNS.c.speaker, TURNS.c.text, TURNS.c.taint, TURNS.c.provenance),
    ).where(TURNS.c.scope == bindparam("of")),
    TURNS.c.place,
)

# -- writing: each within one transaction ------------------------------------------


class Added(NamedTuple):
    """What was added to a scope.

    Attributes:
        scope: The scope.
        version: Its version by that.
        rows: The rows, as `changed_since` returns them.
        cut: Whether older ones went for them.
        first: Whether the scope holds nothing else: it was not there before.
    """

    scope: str
    version: int
    rows: Sequence[Any]
    cut: bool
    first: bool


def add_pieces(connection: Connection, pieces: Sequence[Piece], *, most: int) -> list[Added]:
    """Keep `pieces`, but for those of messages that are kept already; return what is new.

    Args:
        connection: A connection in a write transaction.
        pieces: What is to be kept, the oldest first.
        most: Pieces of one scope; beyond it the oldest go.
    """
    by_scope: dict[str, dict[tuple[str, int], Piece]] = {}
    for piece in pieces:
        ours = by_scope.setdefault(piece["scope"], {})
        ours.setdefault((piece["message"], piece["part"]), piece)
    added: list[Added] = []
    held = _hold(connection, {scope: len(ours) for scope, ours in by_scope.items()})
    for scope, standing in held.items():
        mine = by_scope[scope].values()
        messages = list({piece["message"] for piece in mine})
        known = {row.message for row in _KNOWN.rows(connection, messages, of=scope)}
        new = [piece for piece in mine if piece["message"] not in known]
        # Places that were taken for what is known stay free.
        first = standing.next - len(new)
        rows = [
            {**piece, "place": first + at, "stamp": standing.version}
            for at, piece in enumerate(new)
        ]
        over = standing.next - most
        cut = bool(new and over > 0 and _TRIM.count(connection, of=scope, first=over))
        if cut:
            _REMOVED.count(connection, of=scope)
        _ADD.run(connection, rows)
        shown = [SimpleNamespace(**row) for row in rows]
        is_first = standing.version == standing.removed
        added.append(Added(scope, standing.version, shown, cut, is_first))
    return added


def keep_vectors(
    connection: Connection, fingerprint: str, vectors: Sequence[tuple[str, int, str, bytes]]
) -> None:
    """Keep the vectors of rows: scope, place, message and vector of each.

    A row that was taken away in between stays away.
    """
    held = _hold(connection, dict.fromkeys([scope for scope, *_ in vectors], 0))
    _GIVE_VECTOR.run(
        connection,
        [
            {"of": scope, "at_place": place, "id": message, "made": vector}
            | {"made_by": fingerprint, "to": held[scope].version}
            for scope, place, message, vector in vectors
        ],
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
    for scope in _hold(connection, dict.fromkeys(touched, 0)):
        gone += connection.execute(delete(TURNS).where(TURNS.c.scope == scope, *fits)).rowcount
        left = connection.execute(select(TURNS.c.place).where(TURNS.c.scope == scope).limit(1))
        if left.first() is None:
            connection.execute(delete(SCOPES).where(SCOPES.c.scope == scope))
            continue
        _REMOVED.count(connection, of=scope)
    touch_cursor(connection)
    return gone


def _hold(connection: Connection, scopes: Mapping[str, int]) -> dict[str, ScopeRow]:
    """Take scopes' rows until the end of the transaction, and some more places in each.

    Returns:
        The rows, with the next versions and behind the places that were taken.
    """
    # Above all versions of a scope of this name that was forgotten as a whole.
    now = time_ns() // 1000
    held = {}
    for scope in sorted(scopes):  # in one order, so that two writers never wait for each other
        row = {"scope": scope, "version": now, "removed": now, "next": scopes[scope]}
        held[scope] = ScopeRow(*_HOLD.rows(connection, **row)[0])
    return held


# -- how far what was said is known ---------------------------------------------------


def cursor_of(connection: Connection, name: str = "turns") -> tuple[str, int]:
    """Return the cursor behind what was learned, and its version; "" and 0 at first."""
    rows = _CURSOR.rows(connection, of=name)
    return (rows[0].cursor, rows[0].version) if rows else ("", 0)


def move_cursor(
    connection: Connection, before: tuple[str, int], cursor: str, name: str = "turns"
) -> bool:
    """Move the cursor on from where it was; return False where somebody else has done so."""
    place, version = before
    if not place:
        touch_cursor(connection, by=0, name=name)
    return bool(_MOVE_CURSOR.count(connection, of=name, before=place, counted=version, to=cursor))


def touch_cursor(connection: Connection, *, by: int = 1, name: str = "turns") -> None:
    """See to it that what was read before now is read again before anything is learned."""
    _TOUCH_CURSOR.count(connection, name=name, cursor="", version=by)


# -- reading ------------------------------------------------------------------------


def scope_row(connection: Connection, scope: str) -> ScopeRow:
    """Return how far a scope is."""
    rows = _SCOPE_ROW.rows(connection, of=scope)
    return ScopeRow(*rows[0]) if rows else ScopeRow()


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
    return _CHANGED.rows(connection, of=scope, known=version, after=after, most=limit)


def shown_at(connection: Connection, scope: str, places: Collection[int]) -> dict[int, Any]:
    """Return what is shown of the rows at `places` of `scope`, by their places."""
    return {row.place: row for row in _SHOWN.rows(connection, list(places), of=scope)}


def time_of(kept: int) -> datetime:
    """Return the time that a number of microseconds since 1970 stands for."""
    return _EPOCH + timedelta(microseconds=kept)


def taint_of(kept: str) -> frozenset[str]:
    """Return the taint that a JSON array stands for."""
    return CLEAN if kept == "[]" else frozenset(json.loads(kept))


def without_vector(connection: Connection, fingerprint: str, limit: int) -> Sequence[Any]:
    """Return the latest rows without a vector of an embedder: scope, place, message, text."""
    other = or_(TURNS.c.fingerprint < fingerprint, TURNS.c.fingerprint > fingerprint)
    return connection.execute(
        select(TURNS.c.scope, TURNS.c.place, TURNS.c.message, TURNS.c.text)
        .where(other)
        .order_by(TURNS.c.at.desc())
        .limit(limit)
    ).all()
