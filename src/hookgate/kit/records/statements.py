"""Statements that run often: compiled once, and the ones in which the two databases differ.

SQLAlchemy finds out for each statement anew what it had found out for the one before, which takes
several times as long as SQLite itself. `Prepared` compiles one once::

    TAKEN = Prepared(select(VISITS.c.id).where(VISITS.c.place == bindparam("at")))

    ids = [row.id for row in TAKEN.rows(connection, at="here")]

`insert_new`, `upsert` and `Trim` are prepared, and say the same to SQLite and to PostgreSQL. What
else knows ``ON CONFLICT`` is made of the database's own `insert`, which a function gets that is
given in place of a statement::

    COUNT = Prepared(lambda insert: insert(COUNTS).on_conflict_do_update(...), COUNTS.c.keys())
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["ManyRows", "Prepared", "PreparedIn", "Trim", "insert_new", "insert_of", "upsert"]

Convert: TypeAlias = Callable[[Any], Any]


def insert_of(connection: sa.Connection) -> Any:
    """Return the database's own `insert`, which knows ``ON CONFLICT``."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert
    from sqlalchemy.dialects import postgresql

    return postgresql.insert


class Prepared:
    """A statement that is compiled once, where its driver can be asked directly.

    PostgreSQL's driver is asynchronous: there SQLAlchemy runs the statement. Lists
    (``bindparam(..., expanding=True)``) cannot be prepared: `PreparedIn` takes one.

    Args:
        statement: The statement, or what returns it when it gets the database's own `insert`.
        columns: The columns of an ``INSERT``; each row names all of them.
    """

    def __init__(
        self, statement: Executable | Callable[[Any], Any], columns: Iterable[str] = ()
    ) -> None:
        self._statement = statement
        self._columns = list(columns)
        self._made: dict[str, Any] = {}

    def rows(self, connection: sa.Connection, **values: Any) -> Sequence[Any]:
        """Run it, and return all of its rows, whose columns are attributes."""
        made = self._made.get(connection.dialect.name)
        if made is None:
            made = self._make(connection)
        if type(made) is _Plan:
            return made.rows(made.execute(connection, values).fetchall())
        found: Sequence[Any] = connection.execute(made, values).all()
        return found

    def count(self, connection: sa.Connection, **values: Any) -> int:
        """Run it, and return how many rows it has changed."""
        made = self._made.get(connection.dialect.name)
        if made is None:
            made = self._make(connection)
        if type(made) is _Plan:
            return int(made.execute(connection, values).rowcount)
        return connection.execute(made, values).rowcount

    def run(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each of `rows`."""
        if not rows:
            return
        made = self._made.get(connection.dialect.name)
        if made is None:
            made = self._make(connection)
        if type(made) is _Plan:
            made.execute_many(connection, rows)
        else:
            connection.execute(made, rows)

    def _make(self, connection: sa.Connection) -> Any:
        made: Any = self._statement
        if not isinstance(made, Executable):
            made = made(insert_of(connection))
        if connection.dialect.name == "sqlite":
            made = _Plan(made, self._columns)
        self._made[connection.dialect.name] = made
        return made


class _Plan:
    """A statement as SQLite's driver takes it: by the names of its values."""

    def __init__(self, statement: Any, columns: Sequence[str]) -> None:
        # Compiled once more where it is run for many rows, as most are not.
        self._many = cache(partial(ManyRows.of, statement, columns))
        dialect = sqlite.dialect(paramstyle="named")
        compiled = statement.compile(dialect=dialect, column_keys=columns or None)
        assert isinstance(compiled, SQLCompiler), "it is a statement"
        assert not compiled.post_compile_params, f"{compiled} has a list: it has no one form"
        self._sql = str(compiled)
        self._converts: dict[str, Convert] = {
            name: convert
            for bind, name in compiled.bind_names.items()
            if (convert := _to_driver(bind, dialect))
        }
        # What the statement says itself, such as a limit.
        self._said = self._converted(
            {
                name: bind.effective_value
                for bind, name in compiled.bind_names.items()
                if not bind.required
            }
        )
        shown = list(statement.exported_columns)
        self._read = [
            (place, convert)
            for place, column in enumerate(shown)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]
        names = [str(column.key) for column in shown]
        # No class of its own has names that are known when it is written.
        self._row = partial(tuple.__new__, namedtuple("Row", names, rename=True))

    def execute(self, connection: sa.Connection, values: dict[str, Any]) -> Any:
        if self._converts:
            values = self._converted(values)
        if self._said:
            values = self._said | values
        return connection.connection.dbapi_connection.execute(self._sql, values)  # type: ignore[union-attr]

    def execute_many(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if (many := self._many()) is not None:
            many.insert(connection, rows)
            return
        driver: Any = connection.connection.dbapi_connection
        if self._converts or self._said:
            rows = [self._said | self._converted(row) for row in rows]
        driver.executemany(self._sql, rows)

    def rows(self, found: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        if self._read:
            found = [self._read_row(row) for row in found]
        return list(map(self._row, found))

    def _converted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(values)
        for name, convert in self._converts.items():
            if name in made:
                made[name] = convert(made[name])
        return made

    def _read_row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        read = list(row)
        for place, convert in self._read:
            read[place] = convert(read[place])
        return tuple(read)


def _to_driver(bind: Any, dialect: Any) -> Convert | None:
    """Return what makes of a value what the driver takes; None where it takes it as it is."""
    if type(bind.type) is sa.Boolean:
        return _BITS
    found: Convert | None = bind.type.dialect_impl(dialect).bind_processor(dialect)
    return found


_BITS: Convert = {True: 1, False: 0, None: None}.__getitem__
"""What SQLAlchemy does of SQLite's booleans in two calls; what is none is an error here, too."""


class ManyRows:
    """An ``INSERT`` as SQLite's driver takes it for many rows: several are one statement.

    The driver lets other threads have the interpreter at each statement, and who waits takes it.
    """

    def __init__(
        self, sql: str, names: Sequence[str], processes: Sequence[Convert | None], said: list[Any]
    ) -> None:
        self._one = f"({', '.join('?' * len(names))})"
        self._head, _, self._tail = sql.partition(self._one)
        self._is_single = len(names) == 1
        self._values: Callable[[Mapping[str, Any]], Any] = itemgetter(*names)
        self._processes = [(place, each) for place, each in enumerate(processes) if each]
        self._said = said

    @classmethod
    def of(cls, statement: Any, columns: Sequence[str]) -> ManyRows | None:
        """Return it for rows that name `columns`; None where rows are not all that it takes."""
        dialect = sqlite.dialect()
        compiled = statement.compile(dialect=dialect, column_keys=list(columns) or None)
        names = compiled.positiontup or ()
        own, others = names[: len(columns)], [compiled.binds[one] for one in names[len(columns) :]]
        values = f" VALUES ({', '.join('?' * len(columns))})"
        if not columns or sorted(own) != sorted(columns) or values not in str(compiled):
            return None
        if any(bind.required for bind in others) or compiled.effective_returning:
            return None
        processes = [_to_driver(compiled.binds[name], dialect) for name in own]
        said = [
            bind.effective_value if convert is None else convert(bind.effective_value)
            for bind in others
            for convert in (_to_driver(bind, dialect),)
        ]
        return cls(str(compiled), own, processes, said)

    def insert(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows`.

        Raises:
            Exception: Whatever the driver raises, not SQLAlchemy's form of it.
        """
        found = list(map(self._values, rows))
        if self._is_single:
            found = [(value,) for value in found]
        if self._processes:
            found = list(map(self._processed, found))
        driver: Any = connection.connection.dbapi_connection
        size, said, start = MOST_ROWS, self._said, 0
        while start < len(found):
            while size > len(found) - start:
                size //= 2
            some = chain(*found[start : start + size], said)
            driver.execute(self._head + ", ".join([self._one] * size) + self._tail, tuple(some))
            start += size

    def _processed(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(values)
        for place, process in self._processes:
            changed[place] = process(changed[place])
        return tuple(changed)


MOST_ROWS = 32
"""So many rows are one statement at most, and halves of it: SQLite compiles a few sizes once."""


class PreparedIn:
    """A statement about the rows in which a column has one of some values.

    Args:
        statement: All of the statement but that condition.
        column: The column.
        most: So many values at once, at most: one of many takes as long to compile as it saves.
    """

    def __init__(
        self, statement: sa.Select[Any] | sa.Delete, column: sa.Column[Any], *, most: int = 512
    ) -> None:
        self._statement, self._column, self._most = statement, column, most
        self._made: dict[int, Prepared] = {}

    def rows(
        self, connection: sa.Connection, listed: Sequence[Any], **values: Any
    ) -> Sequence[Any]:
        """Run it for the values in `listed`, and return all of its rows."""
        return [
            row
            for made, named in self._each(listed)
            for row in made.rows(connection, **named, **values)
        ]

    def count(self, connection: sa.Connection, listed: Sequence[Any], **values: Any) -> int:
        """Run it for the values in `listed`, and return how many rows it has changed."""
        return sum(made.count(connection, **named, **values) for made, named in self._each(listed))

    def _each(self, listed: Sequence[Any]) -> Iterator[tuple[Prepared, dict[str, Any]]]:
        """Yield what is run for so many of the values at once, and these by their names."""
        for start in range(0, len(listed), self._most):
            some = listed[start : start + self._most]
            # A few sizes, and the first value again and again where there are fewer.
            size = next(size for size in _SIZES if size >= len(some))
            names = _names(size)
            if (made := self._made.get(size)) is None:
                wanted = self._column.in_([sa.bindparam(name) for name in names])
                made = self._made[size] = Prepared(self._statement.where(wanted))
            yield made, dict.fromkeys(names, some[0]) | dict(zip(names, some, strict=False))


_SIZES = (8, 64, 512)
"""How many values a list has when it is prepared."""


@cache
def _names(size: int) -> tuple[str, ...]:
    return tuple(f"listed_{place}" for place in range(size))


# -- where the databases differ ----------------------------------------------


def insert_new(connection: sa.Connection, table: sa.Table, *rows: Mapping[str, Any]) -> bool:
    """Insert those of `rows` whose key nobody has; return, of one row, whether it is new.

    The values of a single row may be expressions.
    """
    if not rows:
        return True
    if len(rows) > 1:
        _new(table, tuple(rows[0])).run(connection, _in_order(table, rows))
        return True
    (row,) = rows
    if _PLAIN.issuperset(map(type, row.values())):
        return bool(_new(table, tuple(row)).count(connection, **row))
    made = _insert_new(insert_of(connection), table).values(dict(row))
    return bool(connection.execute(made).rowcount)


def upsert(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that name all columns, each in place of the one of its key."""
    _upsert(table).run(connection, _in_order(table, rows))


_PLAIN = frozenset((str, int, float, bool, bytes, datetime, NoneType))


@cache
def _new(table: sa.Table, columns: Sequence[str]) -> Prepared:
    return Prepared(lambda insert: _insert_new(insert, table), columns)


def _insert_new(insert: Any, table: sa.Table) -> Any:
    return insert(table).on_conflict_do_nothing(index_elements=_key(table))


@cache
def _upsert(table: sa.Table) -> Prepared:
    def made(insert: Any) -> Any:
        put = insert(table)
        changed = {each.name: put.excluded[each.name] for each in table.c if not each.primary_key}
        return put.on_conflict_do_update(index_elements=_key(table), set_=changed)

    return Prepared(made, table.c.keys())


def _in_order(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in one order, so that two gateways never wait for each other."""
    key = _key(table)
    return sorted(map(dict, rows), key=lambda row: [row[name] for name in key])


def _key(table: sa.Table) -> list[str]:
    return [column.name for column in table.primary_key]


class Trim:
    """Deletes all but the newest rows of each owner.

    Args:
        by: Columns that give each row a place of its own; the newest has the highest.
        of: The columns that say whose a row is; none where all are of one.
        spared: What else is to be true of a row that goes.
    """

    def __init__(
        self,
        by: Sequence[sa.Column[Any]],
        of: Sequence[sa.Column[Any]],
        *spared: sa.ColumnElement[bool],
    ) -> None:
        self._of = [f"of_{column.name}" for column in of]
        mine = [column == sa.bindparam(f"of_{column.name}") for column in of]
        newest = sa.select(*by).where(*mine).order_by(*(column.desc() for column in by))
        self._first = Prepared(newest.offset(sa.bindparam("keep")).limit(1))
        first = [sa.bindparam(f"first_{column.name}", type_=column.type) for column in by]
        self._places = [one.key for one in first]
        gone = sa.tuple_(*by) <= sa.tuple_(*first)
        self._delete = Prepared(sa.delete(by[0].table).where(*mine, gone, *spared))

    def __call__(self, connection: sa.Connection, keep: int, *owner: Any) -> None:
        """Leave the `keep` newest rows of `owner`, given as the values of the columns `of`."""
        mine = dict(zip(self._of, owner, strict=True))
        for first in self._first.rows(connection, keep=keep, **mine):
            places = dict(zip(self._places, first, strict=True))
            self._delete.count(connection, **mine, **places)
