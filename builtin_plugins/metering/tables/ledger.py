"""The ledger: a row for each model call, and sums of them by day."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

import sqlalchemy as sa

from hookgate.builtin_plugins.metering.calls import COUNTS, TALLIES, WORDS, LedgerRow
from hookgate.builtin_plugins.metering.tables.budgets import METADATA, WINDOWS
from hookgate.kit.records.statements import Prepared, Trim, insert_new

MONEY = ("cost_dollars", "cost_rest", "saved_dollars", "saved_rest")
"""Sums of money, whole dollars and units of 1e-12 dollars apart: together they could be more
than 64 bits hold."""

MOST_IN_MEMORY = 10_000
"""So many of the last calls are kept where no plugin provides a store."""
MOST_WINDOWS_IN_MEMORY = 100_000
"""So many windows of budgets are kept then, those that were used last."""

_TYPES: Mapping[Any, Any] = {
    str: sa.Text,
    int: sa.BigInteger,
    bool: sa.Boolean,
    int | None: sa.BigInteger,
}
_SMALL = ("attempt", "iteration")


def _of_call() -> Iterator[sa.Column[Any]]:
    """Yield a column for each field of a call, and for each of its usage."""
    kinds = get_type_hints(LedgerRow)
    del kinds["usage"]
    for name, kind in {**kinds, "reported": bool, **dict.fromkeys(COUNTS, int)}.items():
        yield sa.Column(
            name,
            sa.Integer if name in _SMALL else _TYPES[kind],
            primary_key=name == "id",
            nullable=kind == int | None,
            server_default=LedgerRow._field_defaults.get(name),
        )


CALLS = sa.Table(
    "metering_call",
    METADATA,
    *_of_call(),
    # One writer for each start of a gateway; `seq` counts from 1 within it. A row keeps its number
    # however often it is tried, so a number that is missing is still to come, or never will.
    sa.Column("writer", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Index("metering_call_by_place", "writer", "seq", unique=True),
    sa.Index("metering_call_by_session", "session", "at"),
)

MARKS = sa.Table(
    "metering_mark",
    METADATA,
    sa.Column("writer", sa.Text, primary_key=True),
    # All rows of the writer up to this one are in the sums.
    sa.Column("seq", sa.BigInteger, nullable=False),
)


def _sums(name: str, *words: str) -> sa.Table:
    return sa.Table(
        name,
        METADATA,
        # A digest of the words: they are too long for the key of an index together.
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(word, sa.Text, nullable=False) for word in (*words, "provider", "model")),
        *(sa.Column(sum_, sa.BigInteger, nullable=False) for sum_ in (*COUNTS, *TALLIES, *MONEY)),
        sa.Index(f"{name}_by_day", "day"),
    )


DAYS = _sums("metering_day", "day", *WORDS)
"""Sums by day. Sessions are left out of them: there are many."""

SESSION_DAYS = _sums("metering_session_day", "day", "session", *WORDS)
sa.Index("metering_session_day_by_session", SESSION_DAYS.c.session, SESSION_DAYS.c.day)


def written(writer: str, rows: Sequence[Mapping[str, Any]]) -> Callable[[sa.Connection], set[str]]:
    """Return a function that writes those of `rows` that are not there yet, and the writer's mark.

    It returns the ids of those that are there from another writer: calls that were swept.

    A row that was tried before may have been committed after all: it is there with the same
    number, and stays as it is.
    """

    def write(connection: sa.Connection) -> set[str]:
        insert_new(connection, MARKS, {"writer": writer, "seq": 0})
        insert_new(connection, CALLS, *rows)
        ids = [row["id"] for row in rows]
        others = sa.select(CALLS.c.id).where(CALLS.c.id.in_(ids), CALLS.c.writer != writer)
        return set(connection.execute(others).scalars())

    return write


def calls_of(session: str, turn: str, most: int) -> Callable[[sa.Connection], list[LedgerRow]]:
    """Return a reader of the last calls of a session, or of one of its turns, the newest first.

    Args:
        session: The session, as text.
        turn: The turn's id; "" for all.
        most: So many calls at most.
    """
    query = sa.select(CALLS).where(CALLS.c.session == session)
    query = query.order_by(CALLS.c.at.desc()).limit(most)
    if turn:
        query = query.where(CALLS.c.turn == turn)

    def read(connection: sa.Connection) -> list[LedgerRow]:
        return [LedgerRow.from_row(dict(row)) for row in connection.execute(query).mappings()]

    return read


def turns_of(
    session: str, since: str, most: int
) -> Callable[[sa.Connection], list[tuple[Any, ...]]]:
    """Return a reader of what the last turns of a session have used, the oldest first.

    Args:
        session: The session, as text.
        since: Calls before this time are left out; as in the column `at`.
        most: How many calls are looked at, the last ones.

    Returns:
        A reader of rows: the turn's id, when it ended, its tokens.
    """

    def read(connection: sa.Connection) -> list[tuple[Any, ...]]:
        found = _TURNS.rows(connection, whose=session, since=since, most=most)
        return [tuple(row) for row in found]

    return read


def _turns() -> Prepared:
    tokens = sum((CALLS.c[name] for name in COUNTS[1:]), start=CALLS.c[COUNTS[0]])
    last = (
        sa.select(CALLS.c.turn, CALLS.c.at, tokens.label("tokens"))
        .where(CALLS.c.session == sa.bindparam("whose"), CALLS.c.at >= sa.bindparam("since"))
        .order_by(CALLS.c.at.desc())
        .limit(sa.bindparam("most"))
        .subquery()
    )
    ended, used = sa.func.max(last.c.at).label("ended"), sa.func.sum(last.c.tokens).label("used")
    return Prepared(sa.select(last.c.turn, ended, used).group_by(last.c.turn).order_by(ended))


_TURNS = _turns()


def trimmed(connection: sa.Connection) -> None:
    """Keep the last calls alone, and the windows of budgets that were used last."""
    _LAST(connection, MOST_IN_MEMORY)
    _LAST_WINDOWS(connection, MOST_WINDOWS_IN_MEMORY)


_LAST = Trim([CALLS.c.seq], [])
_LAST_WINDOWS = Trim([WINDOWS.c.touched, WINDOWS.c.key], [], WINDOWS.c.leased == 0)
