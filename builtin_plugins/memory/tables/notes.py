"""The notes in the store."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Index,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hookgate.builtin_plugins.memory.notes import FullError, Note, fold
from hookgate.builtin_plugins.memory.tables.metadata import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.core.domain.ports import Store

__all__ = ["NOTES", "StoreNotes"]

NOTES = Table(
    "memory_note",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("text", Text, nullable=False),
    # The text as queries are compared with it: LIKE knows upper and lower case of ASCII on
    # SQLite, of nothing on PostgreSQL.
    Column("folded", Text, nullable=False),
    # A JSON array, sorted.
    Column("taint", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text, nullable=False),
    # ISO 8601 in UTC with microseconds: one form, which sorts as text.
    Column("created", Text, nullable=False),
    Index("memory_note_by_scope", "scope", "created"),
)


class StoreNotes:
    """Keeps notes in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, note: Note, *, limit: int) -> Note:
        """Keep `note`; see `Notes.add`."""

        def work(connection: Connection) -> Note:
            row = _row(note)
            same = connection.execute(
                select(NOTES.c.id, NOTES.c.taint)
                .where(NOTES.c.scope == note.scope, NOTES.c.folded == row["folded"])
                .limit(1)
            ).first()
            if same is not None:
                taint = note.taint | frozenset(json.loads(same.taint))
                row |= {"id": same.id, "taint": json.dumps(sorted(taint))}
                connection.execute(update(NOTES).where(NOTES.c.id == same.id).values(row))
                return _note(row)
            kept = connection.execute(
                select(func.count()).select_from(NOTES).where(NOTES.c.scope == note.scope)
            ).scalar_one()
            if kept >= limit:
                raise FullError(f"{limit} notes are kept already")
            connection.execute(insert(NOTES).values(row))
            return note

        return await self._store.write(work)

    async def search(self, scope: str, words: Sequence[str], *, limit: int) -> Sequence[Note]:
        """Return the notes that hold most of `words`; see `Notes.search`."""
        if not words:
            return []
        held = [NOTES.c.folded.contains(word, autoescape=True) for word in words]
        count = sum((case((one, 1), else_=0) for one in held[1:]), case((held[0], 1), else_=0))
        query = (
            select(NOTES)
            .where(NOTES.c.scope == scope, or_(*held))
            .order_by(count.desc(), NOTES.c.created.desc(), NOTES.c.id)
            .limit(limit)
        )

        def work(connection: Connection) -> list[Note]:
            return [_note(row) for row in connection.execute(query).mappings()]

        return await self._store.read(work)

    async def remove(self, scope: str, note_id: str) -> bool:
        """Remove a note; see `Notes.remove`."""
        query = delete(NOTES).where(NOTES.c.scope == scope, NOTES.c.id == note_id)
        return await self._store.write(lambda connection: connection.execute(query).rowcount > 0)


def _row(note: Note) -> dict[str, Any]:
    return {
        "id": note.id,
        "scope": note.scope,
        "text": note.text,
        "folded": fold(note.text),
        "taint": json.dumps(sorted(note.taint)),
        "provenance": note.provenance,
        "session": note.session,
        "turn": note.turn,
        "created": note.created.astimezone(UTC).isoformat(timespec="microseconds"),
    }


def _note(row: Mapping[Any, Any]) -> Note:
    return Note(
        id=row["id"],
        scope=row["scope"],
        text=row["text"],
        taint=frozenset(json.loads(row["taint"])),
        provenance=row["provenance"],
        session=row["session"],
        turn=row["turn"],
        created=datetime.fromisoformat(row["created"]),
    )
