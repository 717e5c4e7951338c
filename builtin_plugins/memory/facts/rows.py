"""Facts as rows: how they are written, closed and read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from hookgate.builtin_plugins.memory.domain import ASSISTANT, Hit, Utterance
from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import vocabulary
from hookgate.builtin_plugins.memory.recall.words import terms_of
from hookgate.builtin_plugins.memory.tables.facts import FACTS, SOURCES, WORDS

MAX_SOURCES = 32
"""Messages that one fact is kept to rest on."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `FACTS`, its columns as attributes; times are texts."""

    number: int
    id: str
    scope: str
    kind: str
    subject: str
    subject_name: str
    relation: str
    object: str
    value: str
    text: str
    folded: str
    confidence: float
    speaker: str
    provenance: str
    taint: str
    session: str
    turn: str
    valid_from: str | None
    valid_to: str | None
    learned: str
    superseded: str | None
    ending: str | None
    ended_by: str | None
    ended_turn: str | None
    ended_session: str | None

    @property
    def trust(self) -> int:
        """How far its source is believed; see `trust_of`."""
        return trust_of(self.speaker, self.taint != "[]")


@dataclass(frozen=True, slots=True)
class Cause:
    """The message by which a fact has ended."""

    ended_by: str
    ended_turn: str
    ended_session: str


def trust_of(speaker: str, tainted: bool) -> int:
    """Return how far a source is believed: people before the answer, clean before tainted."""
    return 2 * (speaker != ASSISTANT) + (not tainted)


def iso(at: datetime) -> str:
    """Return a time in the form of the tables."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def render(subject: str, relation: str, value: str, dated: str = "") -> str:
    """Return a fact in words."""
    known = vocabulary().relation(relation)
    name = "the user" if subject == "user" else subject
    if not value:
        return f"{name} has a {relation}"
    text = known.text.format(subject=name, relation=relation, value=value)
    return f"{text} ({dated})" if dated else text


def current(at: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition of rows that hold at a time, as it is known now."""
    columns = FACTS.c
    return and_(
        columns.superseded.is_(None), or_(columns.valid_to.is_(None), columns.valid_to > at)
    )


def held_at(at: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition of rows that held at a time in the past, as it is known now."""
    columns = FACTS.c
    return and_(
        or_(columns.valid_from.is_(None), columns.valid_from <= at),
        or_(columns.valid_to.is_(None), columns.valid_to > at),
        or_(columns.ending.is_(None), columns.ending.in_(("changed", "over"))),
    )


def of_scope(column: ColumnElement[str], scope: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition of rows of a scope among some that were found by their numbers.

    Behind a function the scope only sifts them: for a plain column SQLite takes an index that
    begins with it, and walks the whole scope.
    """
    return func.coalesce(column, "") == scope


def rows_where(
    connection: Connection, scopes: Sequence[str], *where: ColumnElement[bool], limit: int
) -> list[Row]:
    """Return the latest rows of `scopes` that all conditions fit."""
    columns = FACTS.c
    found = connection.execute(
        select(FACTS)
        .where(columns.scope.in_(scopes), *where)
        .order_by(columns.number.desc())
        .limit(limit)
    )
    return [Row(*row) for row in found]


def insert_row(
    connection: Connection, values: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]
) -> int:
    """Insert a fact with what it rests on and the words that it is found by; return its number."""
    number = connection.execute(
        insert(FACTS).values(**values).returning(FACTS.c.number)
    ).scalar_one()
    if sources:
        connection.execute(insert(SOURCES), [{**source, "fact": number} for source in sources])
    scope = values["scope"]
    words = [{"scope": scope, "word": word, "fact": number} for word in words_of(values)]
    if words:
        connection.execute(insert(WORDS), words)
    return int(number)


def words_of(values: Mapping[str, Any]) -> list[str]:
    """Return the words that a fact is found by."""
    if values["kind"] == "note":
        return sorted(set(terms_of(values["text"])))
    name = "" if values["subject"] == "user" else values["subject_name"]
    return sorted(set(terms_of(f"{name} {values['relation']} {values['value']}")))


def source_of(said: Utterance, confidence: float) -> dict[str, Any]:
    """Return the row of what a fact rests on."""
    return {
        "said": said.id,
        "scope": said.scope,
        "session": said.session,
        "turn": said.turn,
        "at": iso(said.at),
        "speaker": said.speaker,
        "provenance": said.provenance,
        "taint": taint_text(said.taint),
        "confidence": confidence,
    }


def taint_text(taint: frozenset[str]) -> str:
    """Return a taint as it is kept."""
    return json.dumps(sorted(taint))


def add_source(connection: Connection, row: Row, said: Utterance, confidence: float) -> None:
    """Keep that `said` says the same as a fact that is there."""
    held = connection.execute(
        select(SOURCES.c.said).where(
            SOURCES.c.fact == row.number, of_scope(SOURCES.c.scope, row.scope)
        )
    ).scalars()
    known = set(held)
    if said.id in known or len(known) >= MAX_SOURCES:
        return
    connection.execute(insert(SOURCES).values(**source_of(said, confidence), fact=row.number))
    taint = frozenset(json.loads(row.taint)) | said.taint
    if taint_text(taint) != row.taint:
        connection.execute(
            update(FACTS).where(FACTS.c.number == row.number).values(taint=taint_text(taint))
        )


def close(
    connection: Connection, rows: Sequence[Row], *, why: str, at: str, until: str, by: Cause
) -> None:
    """Say of rows that they are not what is known any more. Only what is null is filled.

    Args:
        connection: Of the caller's transaction.
        rows: Current ones.
        why: `changed`, `corrected` or `confirmed`.
        at: When that was learned.
        until: Until when they held, where they have changed.
        by: The message that said so.
    """
    for row in rows:
        values: dict[str, Any] = {"superseded": at, "ending": why, **asdict(by)}
        if why == "changed" and row.valid_to is None:
            values["valid_to"] = until
        elif why == "changed":
            values["ending"] = "over"
        connection.execute(
            update(FACTS)
            .where(
                FACTS.c.scope == row.scope,
                FACTS.c.number == row.number,
                FACTS.c.superseded.is_(None),
            )
            .values(**values)
        )


def delete_rows(connection: Connection, scope: str, numbers: Sequence[int]) -> None:
    """Delete facts with their words and with what they rest on."""
    for begin in range(0, len(numbers), 500):
        some = numbers[begin : begin + 500]
        connection.execute(
            delete(WORDS).where(WORDS.c.fact.in_(some), of_scope(WORDS.c.scope, scope))
        )
        connection.execute(
            delete(SOURCES).where(SOURCES.c.fact.in_(some), of_scope(SOURCES.c.scope, scope))
        )
        connection.execute(
            delete(FACTS).where(FACTS.c.number.in_(some), of_scope(FACTS.c.scope, scope))
        )


def hit_of(row: Row, score: float, why: Sequence[str]) -> Hit:
    """Return a row as a search gives it back."""
    text = row.text
    if row.kind == "fact" and row.valid_to is not None and row.ending != "corrected":
        text = f"{text} (until {row.valid_to[:10]})"
    return Hit(
        id=row.id,
        kind="note" if row.kind == "note" else "fact",
        text=text,
        at=datetime.fromisoformat(row.learned),
        score=score,
        why=tuple(why),
        scope=row.scope,
        taint=frozenset(json.loads(row.taint)),
        provenance=row.provenance,
        session=row.session,
        turn=row.turn,
    )
