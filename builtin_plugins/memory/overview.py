"""What is kept, as people look at it: rows of facts, notes and turns, each with whose it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from hookgate.builtin_plugins.memory.facts.rows import Row, rows_where, sources_of
from hookgate.builtin_plugins.memory.recall.turns import taint_of, time_of
from hookgate.builtin_plugins.memory.tables import FACTS, TURNS
from hookgate.builtin_plugins.memory.tables import SCOPES as TURN_SCOPES

_SHOWN = ("id", "kind", "scope", "text", "session", "turn", "speaker", "confidence")
_SOURCE = ("said", "session", "turn", "at", "speaker")
_TIMES = ("valid_from", "valid_to", "superseded", "ending", "ended_by")
"""What rows show; of the last ones, a text that is empty where there is none."""


def shown_fact(row: Row) -> dict[str, Any]:
    """Return a fact or a note as it is shown."""
    return {
        **{name: getattr(row, name) for name in _SHOWN},
        **{name: getattr(row, name) or "" for name in _TIMES},
        "at": row.learned,
        "taint": json.loads(row.taint),
    }


def shown_piece(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a piece of what was said as it is shown."""
    return {
        "id": f"{row['message']}#{row['part']}" if row["part"] else row["message"],
        "kind": "turn",
        "at": time_of(row["at"]).isoformat(timespec="microseconds"),
        "taint": sorted(taint_of(row["taint"])),
        **{name: row[name] for name in ("scope", "text", "session", "turn", "speaker")},
    }


def fact_rows(
    connection: Connection, wanted: Mapping[str, str], *, past: bool, before: int
) -> Iterator[Row]:
    """Yield facts and notes, the newest first.

    Args:
        connection: Of the caller's transaction.
        wanted: Values of columns that rows have.
        past: Whether those that are not what is known any more are among them.
        before: The number that all are below; 0 for none.
    """
    columns = FACTS.c
    where = [columns[name] == value for name, value in wanted.items()]
    if not past:
        where.append(columns.superseded.is_(None))
    if before:
        where.append(columns.number < before)
    query = select(FACTS).where(*where).order_by(columns.number.desc())
    yield from connection.execution_options(yield_per=200).execute(query)


def turn_rows(
    connection: Connection, wanted: Mapping[str, str], *, before: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what was said, the newest first, each with the number to go on before."""
    columns = TURNS.c
    where: list[ColumnElement[bool]] = [columns[name] == one for name, one in wanted.items()]
    if before:
        where.append(columns.at < before)
    order = (columns.at.desc(), columns.scope, columns.place.desc())
    query = select(TURNS).where(*where).order_by(*order)
    for row in connection.execution_options(yield_per=200).execute(query).mappings():
        yield row["at"], dict(row)


def facts_called(connection: Connection, ids: Sequence[str]) -> list[Row]:
    """Return the facts and notes of some ids, in whatever scope; a few are expected."""
    return list(connection.execute(select(FACTS).where(FACTS.c.id.in_(ids))))


ENDING = re.compile(r"[0-9a-f]{4,32}(?:#\d+)?")
"""What may be typed in the place of an id: how it ends, as far as no other one does."""

MOST_ENDINGS = 1000
"""So many ids that end alike are looked at."""


def ids_called(connection: Connection, names: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
    """Return for each name the ids that it means, each with its session: itself, or its ends."""
    found: dict[str, set[tuple[str, str]]] = {name: set() for name in names}
    for name, meant in found.items():
        ending, _, part = name.partition("#")
        for table, column in ((FACTS, FACTS.c.id), (TURNS, TURNS.c.message)):
            ids = select(column, table.c.session)
            same = connection.execute(ids.where(column == ending).limit(1)).first()
            if same is not None:
                meant |= {(name, same.session)}
            elif ENDING.fullmatch(name):
                # Of each message once: it may have many pieces, and those of others are left out
                # only where it is known who asks.
                like = ids.where(column.endswith(ending)).distinct().limit(MOST_ENDINGS)
                ends = connection.execute(like).all()
                meant |= {(f"{one}#{part}" if part else one, session) for one, session in ends}
    return found


def shown_sources(connection: Connection, row: Row) -> list[dict[str, Any]]:
    """Return what a fact rests on, the oldest first."""
    return [
        {**{name: one[name] for name in _SOURCE}, "taint": json.loads(one["taint"])}
        for one in sources_of(connection, row.scope, [row.number]).get(row.number, ())
    ]


def sessions_of(connection: Connection, row: Row) -> set[str]:
    """Return the sessions that a fact comes from."""
    return {row.session, *(one["session"] for one in shown_sources(connection, row))}


def chain_of(connection: Connection, row: Row) -> list[Row]:
    """Return all that was ever known of the same of the same one, the oldest first."""
    if row.kind == "note":
        return [row]
    columns = FACTS.c
    same = (columns.subject == row.subject, columns.relation == row.relation)
    return rows_where(connection, [row.scope], *same, limit=1000)[::-1]


def facts_about(connection: Connection, name: str, limit: int) -> list[Row]:
    """Return the latest facts about somebody, by the name as it is compared."""
    columns = FACTS.c
    about = select(FACTS).where(columns.subject == name, columns.kind == "fact")
    return list(connection.execute(about.order_by(columns.number.desc()).limit(limit)))


def scopes_there(connection: Connection) -> list[str]:
    """Return every scope that holds anything."""
    turns = connection.execute(select(TURN_SCOPES.c.scope)).scalars()
    facts = connection.execute(select(FACTS.c.scope).distinct()).scalars()
    return sorted({*turns, *facts})
