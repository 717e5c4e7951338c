"""Facts and notes as rows: how they are written, closed, read and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeAlias

import sqlalchemy
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from hookgate.builtin_plugins.memory.domain import ASSISTANT, FullError, Hit, Note, Utterance
from hookgate.builtin_plugins.memory.facts.grammar import vocabulary
from hookgate.builtin_plugins.memory.recall.words import fold, terms_of
from hookgate.builtin_plugins.memory.tables import FACTS, IN_ONE, SOURCES, WORDS, in_parts

Cause: TypeAlias = tuple[str, str, str]
"""The message by which a fact has ended, its turn and its session."""

ENDED = ("ended_by", "ended_turn", "ended_session")
"""The columns of a cause."""

Row: TypeAlias = sqlalchemy.Row[Any]
"""A row of `FACTS`, its columns as attributes; times are texts."""

MOST_SURE = 0.99
"""However often people say something."""

DOUBTFUL = 0.65
"""A fact that is less sure is shown as one."""

MAX_SOURCES = 32
"""Messages that one fact is kept to rest on."""

_IS_NOTE = FACTS.c.kind == "note"


MOST_TRUST = 3
"""How far people are believed whose message is clean."""


def trust_of(speaker: str, tainted: bool) -> int:
    """Return how far a source is believed: people before the answer, clean before tainted."""
    return 2 * (speaker != ASSISTANT) + (not tainted)


def trust_in(row: Row) -> int:
    """Return how far the source of a row is believed."""
    return trust_of(row.speaker, row.taint != "[]")


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
        or_(columns.ending.is_(None), columns.ending == "changed", columns.ending == "over"),
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
    return list(found)


def insert_row(
    connection: Connection, values: Mapping[str, Any], sources: Sequence[Mapping[str, Any]] = ()
) -> Row:
    """Insert a fact with what it rests on and the words that it is found by; return its row."""
    row = connection.execute(insert(FACTS).values(**values).returning(FACTS)).one()
    if sources:
        connection.execute(insert(SOURCES), [{**source, "fact": row.number} for source in sources])
    words = [{"scope": row.scope, "word": word, "fact": row.number} for word in words_of(values)]
    if words:
        connection.execute(insert(WORDS), words)
    return row


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


def surely(sources: Sequence[Mapping[str, Any]]) -> float:
    """Return how sure a fact is by what it rests on: each turn that somebody says it in adds to it.

    An answer says again what it has read, so that of several answers the surest one counts.
    """
    doubt = 1.0
    for one in {one["turn"]: one for one in sources if one["speaker"] != ASSISTANT}.values():
        doubt *= 1.0 - one["confidence"]
    answered = [one["confidence"] for one in sources if one["speaker"] == ASSISTANT]
    return float(max(min(1.0 - doubt, MOST_SURE), *answered, 0.0))


def sources_of(
    connection: Connection, scope: str, numbers: Sequence[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of what facts rest on, by the numbers of these, the oldest first."""
    found: dict[int, list[dict[str, Any]]] = {}
    columns = SOURCES.c
    for some in in_parts(numbers):
        query = (
            select(SOURCES)
            .where(of_scope(columns.scope, scope), columns.fact.in_(some))
            .order_by(columns.at, columns.said)
        )
        for row in connection.execute(query).mappings():
            found.setdefault(row["fact"], []).append(dict(row))
    return found


def add_sources(
    connection: Connection, row: Row, sources: Iterable[Mapping[str, Any]], taint: frozenset[str]
) -> None:
    """Let a fact that is there rest on more, as far as there is room, and take on its taint."""
    there = sources_of(connection, row.scope, [row.number]).get(row.number, ())
    known = {source["said"] for source in there}
    more = [source for source in sources if source["said"] not in known]
    more = more[: max(0, MAX_SOURCES - len(known))]
    if more:
        connection.execute(insert(SOURCES), [{**source, "fact": row.number} for source in more])
    joined = taint_text(frozenset(json.loads(row.taint)) | taint)
    sure = max(row.confidence, surely([*there, *more]))
    if (joined, sure) != (row.taint, row.confidence):
        connection.execute(
            update(FACTS)
            .where(FACTS.c.scope == row.scope, FACTS.c.number == row.number)
            .values(taint=joined, confidence=sure)
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
        values: dict[str, Any] = dict(zip(ENDED, by, strict=True), superseded=at, ending=why)
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


def delete_rows(connection: Connection, scope: str, numbers: Sequence[int]) -> int:
    """Delete facts with their words and with what they rest on; return how many."""
    keys = ((WORDS, WORDS.c.fact), (SOURCES, SOURCES.c.fact), (FACTS, FACTS.c.number))
    for some in in_parts(numbers):
        for table, key in keys:
            rows = delete(table).where(key.in_(some), of_scope(table.c.scope, scope))
            connection.execute(rows)
    return len(numbers)


def hit_of(row: Row, score: float, why: Sequence[str]) -> Hit:
    """Return a row as a search gives it back."""
    text = row.text
    if row.kind == "fact" and row.valid_to is not None and row.ending != "corrected":
        text = f"{text} (until {row.valid_to[:10]})"
    if row.confidence < DOUBTFUL:
        text = f"{text} (not sure)"
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


# -- notes ------------------------------------------------------------------------


def add_note(connection: Connection, note: Note, *, limit: int) -> Note:
    """Keep `note`; return what is kept.

    A note that says the same as one of its scope takes that one's place: with its id, the later
    time, and the taint of both.

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
    if same is None:
        check_room(connection, note.scope, limit=limit)
        insert_row(connection, row)
        return note
    note = replace(note, id=same.id, taint=note.taint | frozenset(json.loads(same.taint)))
    connection.execute(
        update(FACTS)
        .where(columns.scope == note.scope, columns.number == same.number)
        .values(**_row(note))
    )
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
        "object": digest_of(folded),
        "text": note.text,
        "folded": folded,
        "confidence": 1.0,
        "speaker": ASSISTANT,
        "taint": taint_text(note.taint),
        "provenance": note.provenance,
        "session": note.session,
        "turn": note.turn,
        "learned": iso(note.created),
    }


def digest_of(folded: str) -> str:
    """Return what notes that say the same have in common, of a folded text."""
    return sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


# -- taking facts away -------------------------------------------------------------


def forget_facts(connection: Connection, scopes: Sequence[str], ids: Sequence[str]) -> int:
    """Delete facts and notes by their ids; return how many there were."""
    return sum(
        _delete(connection, scope, FACTS.c.id.in_(some))
        for scope in scopes
        for some in in_parts(ids)
    )


def forget_all(connection: Connection, scopes: Sequence[str]) -> int:
    """Delete everything of the scopes; return how many facts and notes that were."""
    count = 0
    for scope in scopes:
        while gone := _delete(connection, scope):
            count += gone
    return count


def _delete(connection: Connection, scope: str, *where: ColumnElement[bool]) -> int:
    """Delete facts and notes that fit, `IN_ONE` at most."""
    found = select(FACTS.c.number).where(FACTS.c.scope == scope, *where).limit(IN_ONE)
    return delete_rows(connection, scope, list(connection.execute(found).scalars()))


def forget_said(
    connection: Connection,
    scopes: Sequence[str],
    *,
    said: Sequence[str] = (),
    turns: Sequence[str] = (),
    sessions: Sequence[str] = (),
) -> int:
    """Delete what messages, turns or sessions have taught; return how many facts went.

    A fact that another message has said too stays, with the taint of what is left. A fact that
    a forgotten message had ended holds again, unless another one has taken its place since.
    """
    columns = SOURCES.c
    wanted = ((columns.said, said), (columns.turn, turns), (columns.session, sessions))
    written = ((FACTS.c.turn, turns), (FACTS.c.session, sessions))
    count = 0
    for scope in scopes:
        for column, values in wanted:
            for some in in_parts(values):
                count += _forget_sources(connection, scope, column.in_(some))
        for column, values in written:  # the notes that were written there
            for some in in_parts(values):
                notes = FACTS.c.kind == "note", column.in_(some)
                while gone := _delete(connection, scope, *notes):
                    count += gone
        for ending, values in zip(ENDED, (said, turns, sessions), strict=True):
            for some in in_parts(values):
                _restore(connection, scope, FACTS.c[ending].in_(some))
    return count


def _forget_sources(connection: Connection, scope: str, which: ColumnElement[bool]) -> int:
    columns = SOURCES.c
    found = connection.execute(select(columns.fact).where(columns.scope == scope, which))
    facts = sorted(set(found.scalars()))
    connection.execute(delete(SOURCES).where(columns.scope == scope, which))
    left = sources_of(connection, scope, facts)
    for fact, sources in left.items():
        _rest_on(connection, scope, fact, sources)
    return delete_rows(connection, scope, [fact for fact in facts if fact not in left])


def _rest_on(
    connection: Connection, scope: str, fact: int, sources: Sequence[Mapping[str, Any]]
) -> None:
    """Say of a fact what it rests on now."""
    first = sources[0]
    taint: frozenset[str] = frozenset().union(*(json.loads(one["taint"]) for one in sources))
    values = {name: first[name] for name in ("speaker", "provenance", "session", "turn")}
    connection.execute(
        update(FACTS)
        .where(FACTS.c.scope == scope, FACTS.c.number == fact)
        .values(taint=taint_text(taint), confidence=surely(sources), **values)
    )


def _restore(connection: Connection, scope: str, by: ColumnElement[bool]) -> None:
    """Let what messages had ended hold again."""
    columns = FACTS.c
    ended = select(FACTS).where(columns.scope == scope, by)
    for row in connection.execute(ended.order_by(columns.number.desc())).all():
        values: dict[str, str | None] = dict.fromkeys(("superseded", "ending", *ENDED))
        if row.ending == "changed":
            values["valid_to"] = None
        connection.execute(
            update(FACTS)
            .where(columns.scope == scope, columns.number == row.number)
            .values(**values)
        )
        if row.kind == "fact":
            _replaced_since(connection, row)


def _replaced_since(connection: Connection, row: Row) -> None:
    """End a fact again that another one has taken the place of in the meantime."""
    columns = FACTS.c
    same = (columns.subject == row.subject, columns.relation == row.relation)
    later = [
        one
        for one in rows_where(
            connection, [row.scope], *same, columns.superseded.is_(None), limit=64
        )
        if one.number > row.number and one.valid_to is None
    ]
    twin = [one for one in later if one.object == row.object]
    single = vocabulary().relation(row.relation).single
    if not twin and not (single and later):
        return
    by = twin[-1] if twin else later[-1]
    sources = sources_of(connection, row.scope, [by.number]).get(by.number)
    cause = (sources[0]["said"], sources[0]["turn"], sources[0]["session"]) if sources else None
    close(
        connection,
        [row],
        why="confirmed" if twin else "changed",
        at=by.learned,
        until=by.valid_from or by.learned,
        by=cause or ("", "", ""),
    )
