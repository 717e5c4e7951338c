"""Notes written to the store: facts in words of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from hookgate.builtin_plugins.memory.domain import ASSISTANT
from hookgate.builtin_plugins.memory.notes import FullError, Note, fold
from hookgate.builtin_plugins.memory.recall.words import terms_of
from hookgate.builtin_plugins.memory.tables.facts import FACTS, WORDS

_IS_NOTE = FACTS.c.kind == "note"


def add_note(connection: Connection, note: Note, *, limit: int) -> Note:
    """Keep `note`; see `ProcessNotes.add`.

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
    check_room(connection, note.scope, limit=limit)
    number = connection.execute(insert(FACTS).values(**row).returning(columns.number)).scalar_one()
    words = sorted(set(terms_of(note.text)))
    postings = [{"scope": note.scope, "word": word, "fact": number} for word in words]
    if postings:
        connection.execute(insert(WORDS), postings)
    return note


def check_room(connection: Connection, scope: str, *, limit: int) -> None:
    """Look whether a scope may hold one more note.

    Raises:
        FullError: It holds `limit` notes already.
    """
    kept = connection.execute(
        select(func.count()).select_from(FACTS).where(FACTS.c.scope == scope, _IS_NOTE)
    ).scalar_one()
    if kept >= limit:
        raise FullError(f"{limit} notes are kept already")


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
