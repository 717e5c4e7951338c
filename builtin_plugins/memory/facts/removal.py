"""Forgetting: what was said is gone, with everything that rests on it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

from hookgate.builtin_plugins.memory.facts.grammar import vocabulary
from hookgate.builtin_plugins.memory.facts.rows import (
    ENDED,
    Row,
    close,
    delete_rows,
    rows_where,
    sources_of,
    surely,
    taint_text,
)
from hookgate.builtin_plugins.memory.tables import FACTS, IN_ONE, SOURCES, in_parts


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
