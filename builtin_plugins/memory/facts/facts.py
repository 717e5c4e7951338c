"""Facts, as the rest of memory uses them.

Everything here is synchronous and runs where `Store.read` and `Store.write` run functions, in the
transaction of the caller: whoever follows what is said keeps its cursor with what was learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookgate import CLEAN, Taint
from hookgate.builtin_plugins.memory.facts.exchange import (
    Imported,
    export_rows,
    import_rows,
    latest_rows,
    rows_of,
)
from hookgate.builtin_plugins.memory.facts.forgetting import forget_all, forget_facts, forget_said
from hookgate.builtin_plugins.memory.facts.learning import Learned, learn
from hookgate.builtin_plugins.memory.facts.searching import search
from hookgate.builtin_plugins.memory.tables.notes import add_note

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate.builtin_plugins.memory.domain import Hit, Utterance
    from hookgate.builtin_plugins.memory.notes import Note


class Facts:
    """Learns, finds and forgets facts and notes.

    Args:
        redact: Masks every known secret; what holds one is not kept.
        max_notes: Notes of one scope at most.
    """

    def __init__(self, *, redact: Callable[[str], str], max_notes: int = 1000) -> None:
        self._redact = redact
        self._max_notes = max_notes

    def learn(self, said: Sequence[Utterance], connection: Connection) -> Learned:
        """Learn from messages, in their order."""
        return learn(said, connection, redact=self._redact)

    def search(
        self,
        scopes: Sequence[str],
        query: str,
        connection: Connection,
        *,
        at: datetime,
        as_of: datetime | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Return what a message is about, the best first.

        Args:
            scopes: Whose rows may be read; no other is.
            query: The message.
            connection: Of the caller's transaction.
            at: Now, in UTC.
            as_of: A time: what held then, as it is known now.
            limit: How many at most.
        """
        return search(connection, scopes, query, at=at, as_of=as_of, limit=limit)

    def note(self, note: Note, connection: Connection) -> Note:
        """Keep a text as it is; see `ProcessNotes.add`.

        Raises:
            FullError: The scope holds as many notes as it may.
        """
        return add_note(connection, note, limit=self._max_notes)

    def forget(
        self,
        scopes: Sequence[str],
        connection: Connection,
        *,
        ids: Sequence[str] = (),
        said: Sequence[str] = (),
        turns: Sequence[str] = (),
        sessions: Sequence[str] = (),
        everything: bool = False,
    ) -> int:
        """Delete facts and notes of `scopes` for good; return how many.

        Args:
            scopes: Whose; nothing of another one goes.
            connection: Of the caller's transaction.
            ids: Of facts and notes.
            said: Ids of messages: what rests on them alone goes, what they had ended holds again.
            turns: The same of all messages of turns, with the notes that were written in them.
            sessions: The same of sessions.
            everything: All there is.
        """
        if everything:
            return forget_all(connection, scopes)
        count = forget_facts(connection, scopes, ids)
        return count + forget_said(connection, scopes, said=said, turns=turns, sessions=sessions)

    def show(
        self, scopes: Sequence[str], ids: Sequence[str], connection: Connection
    ) -> list[dict[str, Any]]:
        """Return facts and notes by their ids with what they rest on, in the form of the export."""
        return rows_of(connection, scopes, ids)

    def latest(
        self,
        scopes: Sequence[str],
        connection: Connection,
        *,
        limit: int = 50,
        holding: bool = True,
    ) -> list[dict[str, Any]]:
        """Return what was learned last, in the form of the export, without sources.

        Args:
            scopes: Whose.
            connection: Of the caller's transaction.
            limit: How many at most.
            holding: Whether only what is known still is wanted.
        """
        return latest_rows(connection, scopes, limit=limit, holding=holding)

    def export(self, scopes: Sequence[str], connection: Connection) -> Iterator[dict[str, Any]]:
        """Yield all of `scopes`, a row of JSONL each."""
        return export_rows(connection, scopes)

    def import_(
        self, rows: Iterable[Mapping[str, Any]], connection: Connection, *, taint: Taint = CLEAN
    ) -> Imported:
        """Add exported rows; what is there already is left as it is.

        Args:
            rows: The rows.
            connection: Of the caller's transaction.
            taint: What all of it is tainted with besides; `CLEAN` where its writer is trusted.

        Raises:
            FactFormatError: A row is not of the format; the transaction is to be undone.
            FullError: A scope holds as many notes as it may; the same goes for the transaction.
        """
        return import_rows(connection, rows, max_notes=self._max_notes, taint=taint)
