"""Inserting many rows: the hot path of ledgers and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy.sql.compiler import SQLCompiler

from hookgate import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Insert, Table

Process: TypeAlias = "Callable[[Any], Any] | None"


class _Plan:
    """A compiled ``INSERT`` for rows of one shape.

    SQLAlchemy's own ``executemany`` spends 7 µs on each row to find out what it found out
    for the row before. Here the statement is compiled once, and rows become tuples.
    """

    def __init__(self, sql: str, names: Sequence[str], processes: Sequence[Process]) -> None:
        self._sql = sql
        self._names = tuple(names)
        self._values: Callable[[Mapping[str, Any]], Any] = itemgetter(*names)
        self._processes = [(place, each) for place, each in enumerate(processes) if each]

    def insert(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows` with one ``executemany``."""
        values = self._values
        tuples = [values(row) for row in rows] if len(self._names) > 1 else self._singles(rows)
        if self._processes:
            tuples = [self._processed(each) for each in tuples]
        driver = connection.connection.dbapi_connection
        assert driver is not None
        driver.executemany(self._sql, tuples)

    def _singles(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        return [(self._values(row),) for row in rows]

    def _processed(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(values)
        for place, process in self._processes:
            changed[place] = process(changed[place])
        return tuple(changed)


class Inserts:
    """Inserts rows, with a plan for each table and shape of rows."""

    def __init__(self) -> None:
        self._plans: dict[tuple[Table, tuple[str, ...]], _Plan | Insert] = {}

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
        if isinstance(plan, _Plan):
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


def _plan(connection: Connection, table: Table, columns: tuple[str, ...]) -> _Plan | Insert:
    """Return a plan, or the statement itself where only SQLAlchemy can fill it in."""
    check_columns(table, columns)
    statement = table.insert().inline()
    dialect = connection.dialect
    if dialect.paramstyle != "qmark":
        return statement
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    assert isinstance(compiled, SQLCompiler)
    names = compiled.positiontup or ()
    if sorted(names) != sorted(columns):
        # Columns with a default that Python computes.
        return statement
    processes = [table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in names]
    return _Plan(str(compiled), names, processes)
