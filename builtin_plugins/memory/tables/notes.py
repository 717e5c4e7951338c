"""The notes in the store: facts in words of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, delete, func, insert, or_, select, update

from hookgate.builtin_plugins.memory.domain import ASSISTANT
from hookgate.builtin_plugins.memory.notes import FullError, Note, fold
from hookgate.builtin_plugins.memory.recall.words import terms_of
from hookgate.builtin_plugins.memory.tables.facts import FACTS, SOURCES, WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.core.domain.ports import Store

__all__ = ["StoreNotes", "add_note"]

_IS_NOTE = FACTS.c.kind == "note"


def add_note(connection: Connection, note: Note, *, limit: int) -> Note:
    """Keep `note`; see `Notes.add`.

    Raises:
        FullError: The scope holds `limit` notes already.
    """
    row = _row(note)
    columns = FACTS.c
    same = connection.execute(
        select(columns.number, columns.id, columns.taint)
        .where(columns.scope == note.scope, columns.object == row["object"], _IS_NOTE)
        .limit(1)
    ).first()
    if same is not None:
        note = replace(note, id=same.id, taint=note.taint | frozenset(json.loads(same.taint)))
        connection.execute(
            update(FACTS)
            .where(columns.scope == note.scope, columns.number == same.number)
            .values(**_row(note))
        )
        return note
    kept = connection.execute(
        select(func.count()).select_from(FACTS).where(columns.scope == note.scope, _IS_NOTE)
    ).scalar_one()
    if kept >= limit:
        raise FullError(f"{limit} notes are kept already")
    number = connection.execute(insert(FACTS).values(**row).returning(columns.number)).scalar_one()
    words = sorted(set(terms_of(note.text)))
    postings = [{"scope": note.scope, "word": word, "fact": number} for word in words]
    if postings:
        connection.execute(insert(WORDS), postings)
    return note


class StoreNotes:
    """Keeps notes in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, note: Note, *, limit: int) -> Note:
        """Keep `note`; see `Notes.add`."""
        return await self._store.write(lambda connection: add_note(connection, note, limit=limit))

    async def search(self, scope: str, words: Sequence[str], *, limit: int) -> Sequence[Note]:
        """Return the notes that hold most of `words`, of equals the newest first."""
        if not words:
            return []
        columns = FACTS.c
        held = [columns.folded.contains(word, autoescape=True) for word in words]
        count = sum((case((one, 1), else_=0) for one in held[1:]), case((held[0], 1), else_=0))
        query = (
            select(FACTS)
            .where(columns.scope == scope, columns.subject == "", _IS_NOTE, or_(*held))
            .order_by(count.desc(), columns.learned.desc(), columns.id)
            .limit(limit)
        )

        def work(connection: Connection) -> list[Note]:
            return [_note(row) for row in connection.execute(query).mappings()]

        return await self._store.read(work)

    async def remove(self, scope: str, note_id: str) -> bool:
        """Remove a note; see `Notes.remove`."""
        columns = FACTS.c
        where = (columns.scope == scope, columns.id == note_id, _IS_NOTE)

        def work(connection: Connection) -> bool:
            number = connection.execute(select(columns.number).where(*where)).scalar()
            if number is None:
                return False
            connection.execute(delete(WORDS).where(WORDS.c.scope == scope, WORDS.c.fact == number))
            connection.execute(
                delete(SOURCES).where(SOURCES.c.scope == scope, SOURCES.c.fact == number)
            )
            connection.execute(delete(FACTS).where(*where))
            return True

        return await self._store.write(work)


def _row(note: Note) -> dict[str, Any]:
    folded = fold(note.text)
    return {
        **dict.fromkeys(("subject", "subject_name", "relation", "value"), ""),
        "id": note.id,
        "scope": note.scope,
        "kind": "note",
        "object": sha256(folded.encode("utf-8", "surrogatepass")).hexdigest(),
        "text": note.text,
        "folded": folded,
        "confidence": 1.0,
        "speaker": ASSISTANT,
        "taint": json.dumps(sorted(note.taint)),
        "provenance": note.provenance,
        "session": note.session,
        "turn": note.turn,
        "learned": note.created.astimezone(UTC).isoformat(timespec="microseconds"),
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
        created=datetime.fromisoformat(row["learned"]),
    )
