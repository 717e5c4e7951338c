"""Inserting many rows: the hot path of ledgers and logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Table

from hookgate import StoreError
from hookgate.kit.records.statements import ManyRows


class Inserts:
    """Inserts rows, with a plan for each table and shape of rows.

    SQLAlchemy's own ``executemany`` spends 7 µs on each row to find out what it found out for
    the row before.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[Table, tuple[str, ...]], ManyRows | Insert] = {}

    def insert(
        self,
        connection: Connection,
        table: Table,
        columns: tuple[str, ...],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """Insert `rows`, all of which have the keys `columns`, in that order.

        Raises:
            Exception: Whatever the driver raises, not SQLAlchemy's form of it.
        """
        plan = self._plans.get((table, columns))
        if plan is None:
            plan = self._plans[table, columns] = _plan(connection, table, columns)
        if isinstance(plan, ManyRows):
            plan.insert(connection, rows)
        else:
            connection.execute(plan, list(rows))


def check_columns(table: Table, columns: Iterable[str]) -> None:
    """Raise StoreError for keys that are no columns: SQLAlchemy would leave them out silently."""
    for name in columns:
        if name not in table.c:
            raise StoreError(
                f"table {table.name!r} has no column {name!r}: expected {', '.join(table.c.keys())}"
            )


def _plan(connection: Connection, table: Table, columns: tuple[str, ...]) -> ManyRows | Insert:
    """Return a plan, or the statement itself where only SQLAlchemy can fill it in."""
    check_columns(table, columns)
    statement = table.insert().inline()
    if connection.dialect.paramstyle != "qmark":
        return statement
    # None for columns with a default that Python computes.
    return ManyRows.of(statement, columns) or statement
