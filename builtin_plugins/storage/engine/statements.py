"""Statements that every turn runs, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.sql.base import Executable


class _Plan:
    """A statement as SQLite's driver takes it."""

    def __init__(self, connection: Connection, statement: Any, columns: Sequence[str]) -> None:
        dialect = connection.dialect
        compiled = statement.compile(dialect=dialect, column_keys=list(columns) or None)
        assert isinstance(compiled, SQLCompiler), "it is a statement"
        self.sql = str(compiled)
        types = ((name, compiled.binds[name].type) for name in compiled.positiontup or ())
        self._values: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, kind.dialect_impl(dialect).bind_processor(dialect)) for name, kind in types
        ]

    def values(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what stands in the places of the statement."""
        return tuple(
            [given[name] if make is None else make(given[name]) for name, make in self._values]
        )


class Prepared:
    """A statement that is compiled once, where its driver can be asked directly.

    For each statement SQLAlchemy finds out anew what it had found out for the one before, which
    takes four times as long as SQLite itself. PostgreSQL's driver is asynchronous: there
    SQLAlchemy runs the statement.

    Args:
        statement: The statement. What it returns is texts and integers: they are not converted.
        columns: The columns of an ``INSERT``.
    """

    def __init__(self, statement: Executable, columns: Iterable[str] = ()) -> None:
        self._statement = statement
        self._columns = tuple(columns)
        self._plan: _Plan | None = None

    def rows(self, connection: Connection, **values: Any) -> Sequence[Sequence[Any]]:
        """Run it, and return all of its rows."""
        plan = self._plan_for(connection)
        if plan is None:
            return connection.execute(self._statement, values).all()
        found: list[tuple[Any, ...]] = (
            _driver(connection).execute(plan.sql, plan.values(values)).fetchall()
        )
        return found

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each of `rows`, of which there is one at least."""
        plan = self._plan_for(connection)
        if plan is None:
            connection.execute(self._statement, rows)
        else:
            _driver(connection).executemany(plan.sql, map(plan.values, rows))

    def _plan_for(self, connection: Connection) -> _Plan | None:
        if connection.dialect.name != "sqlite":
            return None
        if self._plan is None:
            self._plan = _Plan(connection, self._statement, self._columns)
        return self._plan


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection
