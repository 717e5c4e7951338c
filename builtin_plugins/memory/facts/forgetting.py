"""Forgetting: what was said is gone, with everything that rests on it alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, select, update

from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import vocabulary
from hookgate.builtin_plugins.memory.facts.rows import (
    Cause,
    Row,
    close,
    delete_rows,
    of_scope,
    rows_where,
    taint_text,
)
from hookgate.builtin_plugins.memory.tables.facts import FACTS, SOURCES

_BATCH = 500

_ENDED = ("superseded", "ending", "ended_by", "ended_turn", "ended_session")
_ENDINGS = (FACTS.c.ended_by, FACTS.c.ended_turn, FACTS.c.ended_session)
"""Where a fact says what message, turn and session it has ended by."""


def forget_facts(connection: Connection, scopes: Sequence[str], ids: Sequence[str]) -> int:
    """Delete facts and notes by their ids; return how many there were."""
    count = 0
    for scope in scopes:
        for begin in range(0, len(ids), _BATCH):
            some = ids[begin : begin + _BATCH]
            numbers = connection.execute(
                select(FACTS.c.number).where(FACTS.c.scope == scope, FACTS.c.id.in_(some))
            ).scalars()
            found = list(numbers)
            delete_rows(connection, scope, found)
            count += len(found)
    return count


def forget_all(connection: Connection, scopes: Sequence[str]) -> int:
    """Delete everything of the scopes; return how many facts and notes that were."""
    count = 0
    for scope in scopes:
        while True:
            found = list(
                connection.execute(
                    select(FACTS.c.number).where(FACTS.c.scope == scope).limit(_BATCH)
                ).scalars()
            )
            if not found:
                break
            delete_rows(connection, scope, found)
            count += len(found)
    return count


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
    count = 0
    for scope in scopes:
        for column, values in wanted:
            for begin in range(0, len(values), _BATCH):
                some = values[begin : begin + _BATCH]
                count += _forget_sources(connection, scope, column.in_(some))
        count += _forget_unsourced(connection, scope, turns, sessions)
        for ending, values in zip(_ENDINGS, (said, turns, sessions), strict=True):
            for begin in range(0, len(values), _BATCH):
                _restore(connection, scope, ending.in_(values[begin : begin + _BATCH]))
    return count


def _forget_sources(connection: Connection, scope: str, which: ColumnElement[bool]) -> int:
    columns = SOURCES.c
    found = connection.execute(select(columns.fact).where(columns.scope == scope, which))
    facts = sorted(set(found.scalars()))
    connection.execute(delete(SOURCES).where(columns.scope == scope, which))
    left = _left(connection, scope, facts)
    gone = [fact for fact in facts if fact not in left]
    delete_rows(connection, scope, gone)
    for fact, sources in left.items():
        _rest_on(connection, scope, fact, sources)
    return len(gone)


def _forget_unsourced(
    connection: Connection, scope: str, turns: Sequence[str], sessions: Sequence[str]
) -> int:
    """Delete the notes that were written in turns or sessions."""
    count = 0
    for column, values in ((FACTS.c.turn, turns), (FACTS.c.session, sessions)):
        for begin in range(0, len(values), _BATCH):
            some = values[begin : begin + _BATCH]
            found = list(
                connection.execute(
                    select(FACTS.c.number).where(
                        FACTS.c.scope == scope, FACTS.c.kind == "note", column.in_(some)
                    )
                ).scalars()
            )
            delete_rows(connection, scope, found)
            count += len(found)
    return count


def _left(
    connection: Connection, scope: str, facts: Sequence[int]
) -> dict[int, list[dict[str, object]]]:
    left: dict[int, list[dict[str, object]]] = {}
    columns = SOURCES.c
    for begin in range(0, len(facts), _BATCH):
        some = facts[begin : begin + _BATCH]
        rows = connection.execute(
            select(SOURCES)
            .where(of_scope(columns.scope, scope), columns.fact.in_(some))
            .order_by(columns.at, columns.said)
        )
        for row in rows.mappings():
            left.setdefault(row["fact"], []).append(dict(row))
    return left


def _rest_on(
    connection: Connection, scope: str, fact: int, sources: Sequence[dict[str, object]]
) -> None:
    """Say of a fact what it rests on now."""
    first = sources[0]
    taint: frozenset[str] = frozenset().union(*(json.loads(str(one["taint"])) for one in sources))
    names = ("speaker", "provenance", "session", "turn", "confidence")
    connection.execute(
        update(FACTS)
        .where(FACTS.c.scope == scope, FACTS.c.number == fact)
        .values(taint=taint_text(taint), **{name: first[name] for name in names})
    )


def _restore(connection: Connection, scope: str, by: ColumnElement[bool]) -> None:
    """Let what messages had ended hold again."""
    columns = FACTS.c
    ended = select(FACTS).where(columns.scope == scope, by)
    rows = [Row(*row) for row in connection.execute(ended.order_by(columns.number.desc()))]
    for row in rows:
        values: dict[str, str | None] = dict.fromkeys(_ENDED)
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
    columns_of = SOURCES.c
    cause = connection.execute(
        select(columns_of.said, columns_of.turn, columns_of.session)
        .where(of_scope(columns_of.scope, row.scope), columns_of.fact == by.number)
        .order_by(columns_of.at)
        .limit(1)
    ).first()
    close(
        connection,
        [row],
        why="confirmed" if twin else "changed",
        at=by.learned,
        until=by.valid_from or by.learned,
        by=Cause(*cause) if cause else Cause("", "", ""),
    )
