"""Rows that a plugin keeps: a class is its table, the check of each row, and what goes out.

A plugin's ``tables.py`` has metadata of its own, and a class for each table::

    METADATA = MetaData()
    SCRIPTS = Path(__file__).parent / "migrations"

    class Visit(Record):
        \"\"\"One visit.\"\"\"

        __tablename__ = "acme_visit"
        metadata = METADATA

        id: str = Field(primary_key=True)
        session: str
        at: str
        \"\"\"ISO 8601 in UTC.\"\"\"

`hookgate.kit.tables.tables_of` imports it off the event loop and opens the store, and `Records`
reads and writes the rows::

    tables, store = await tables_of(host.get(STORE), "acme", "acme_visits.tables")
    visits = tables.Visit.records(store)
    await visits.save([tables.Visit(id="1", session="", at=now)])
    latest = await visits.page(by=(visits.c.at, visits.c.id), limit=10)

What is more than that is a statement of SQLAlchemy's on ``Visit.table``, in a function that
``store.read`` or ``store.write`` runs. It has to be one that SQLite and PostgreSQL both take:
`hookgate.kit.records.statements` has those in which they differ, and compiles once what runs often.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
)

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from hookgate.core.domain.turn import Claim, Principal, SessionKey
from hookgate.core.gateway.operations import OperationModel
from hookgate.kit.records.statements import Prepared, insert_new, upsert
from hookgate.ports import Store

__all__ = ["Field", "MemoryStore", "Record", "Records"]

T = TypeVar("T")
R = TypeVar("R", bound="Record")

PAGE = 1000
"""So many rows are read at once where all are wanted."""

_TYPES: Mapping[Any, Any] = {
    str: sa.Text,
    int: sa.BigInteger,
    float: sa.Float,
    bool: sa.Boolean,
    bytes: sa.LargeBinary,
    datetime: sa.DateTime(timezone=True),
}


class Record(OperationModel, SQLModel):  # type: ignore[misc]  # whose settings are a dict each
    """A row. Its class says the table; a value that does not fit is refused when it is made.

    It is a model of SQLModel, and no mapped class (``table=True``): those check nothing, and cost
    eight times as much to make. It can be the result of an operation as it is.

    Attributes:
        metadata: The plugin's own; a class with ``__tablename__`` needs it.
        table: The table, for statements.
    """

    table: ClassVar[sa.Table]

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        super().__pydantic_init_subclass__(**more)
        name = cls.__dict__.get("__tablename__")
        if name is None:
            return
        if cls.metadata is SQLModel.metadata:
            raise TypeError(
                f"found no `metadata` in {cls.__name__}, expected `metadata = METADATA` of its "
                "plugin: in one that all share, each would be asked for the tables of the others"
            )
        columns = [_column(each, field) for each, field in cls.model_fields.items()]
        cls.table = sa.Table(name, cls.metadata, *columns, *cls.__dict__.get("__table_args__", ()))

    @classmethod
    def records(cls, store: Store) -> Records[Self]:
        """Return what reads and writes the rows in `store`."""
        return Records(store, cls)


def _column(name: str, field: Any) -> sa.Column[Any]:
    kind = field.annotation
    optional = NoneType in get_args(kind)
    if optional:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return sa.Column(
        name,
        _said(field, "sa_type") or (sa.Text if get_origin(kind) is Literal else _TYPES[kind]),
        primary_key=bool(_said(field, "primary_key")),
        nullable=optional,
        index=bool(_said(field, "index")),
        autoincrement=False,
        **(_said(field, "sa_column_kwargs") or {}),
    )


def _said(field: Any, name: str) -> Any:
    """Return what SQLModel's `Field` was told; None where it was not, or another made it."""
    value = getattr(field, name, None)
    return None if repr(value) == "PydanticUndefined" else value


class MemoryStore:
    """A store of the process, for a plugin's tables where no plugin provides one.

    It does what `hookgate.core.domain.ports.Store` says, but that all of it ends with the process.
    """

    durable = False
    problem = ""
    shared = False
    outside = 0

    def __init__(self, metadata: sa.MetaData) -> None:
        self._engine = sa.create_engine(
            "sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False}
        )
        metadata.create_all(self._engine, checkfirst=False)
        weakref.finalize(self, self._engine.dispose)

    async def migrate(self, plugin: str, metadata: sa.MetaData, scripts: Path) -> None:
        """Do nothing: the tables were made as they are to be."""

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a transaction, at once."""
        with self._engine.begin() as connection:
            return work(connection)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a transaction."""
        return self.run(work)

    async def write(self, work: Callable[[sa.Connection], T], *, order: str = "") -> T:
        """Run `work` in a transaction; if it raises, nothing was changed."""
        return self.run(work)

    async def insert(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows`, all or none."""
        self.run(lambda connection: connection.execute(sa.insert(table), list(rows)))

    def insert_soon(
        self, table: sa.Table, rows: Sequence[Mapping[str, Any]]
    ) -> asyncio.Future[None]:
        """Insert `rows` at once."""

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.insert(table), list(rows))

        return self.write_soon(work)

    def write_soon(
        self, work: Callable[[sa.Connection], T], *, order: str = ""
    ) -> asyncio.Future[T]:
        """Run `work` in a transaction, at once."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self.run(work))
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            done.set_exception(error)
        return done


class Records(Generic[R]):
    """The rows of one table.

    Args:
        store: Has the table.
        row: Its class.

    Attributes:
        row: The class of the rows.
        c: The columns, for conditions.
        store: The store, for what is written together with other rows.
    """

    def __init__(self, store: Store, row: type[R]) -> None:
        self.row = row
        self.c = row.table.c
        self.store = store
        self._table = row.table
        self._keys = tuple(row.table.primary_key)
        self._names = [f"key_{column.name}" for column in self._keys]
        wanted = [
            key == sa.bindparam(name) for key, name in zip(self._keys, self._names, strict=True)
        ]
        self._one = Prepared(sa.select(row.table).where(*wanted))

    @property
    def in_process(self) -> bool:
        """Whether they end with the process, and nobody else writes them."""
        return isinstance(self.store, MemoryStore)

    # -- reading -----------------------------------------------------------

    async def get(self, *key: Any) -> R | None:
        """Return the row of this key; None where there is none."""
        values = dict(zip(self._names, key, strict=True))
        found = await self.store.read(lambda connection: self._one.rows(connection, **values))
        return self.row.model_construct(**found[0]._asdict()) if found else None

    async def all(
        self, *where: sa.ColumnElement[bool], by: Sequence[sa.ColumnElement[Any]] = ()
    ) -> list[R]:
        """Return the rows that fit, in the order of `by`, and then of their keys.

        Raises:
            StoreError: They cannot be read.
        """
        return await self.store.read(lambda connection: self.read(connection, *where, by=by))

    def read(
        self, connection: sa.Connection, *where: sa.ColumnElement[bool], by: Sequence[Any] = ()
    ) -> list[R]:
        """Do what `all` does, in the transaction of `connection`."""
        query = sa.select(self._table).where(*where).order_by(*by, *self._keys)
        return self._made(query, connection)

    async def page(
        self,
        *where: sa.ColumnElement[bool],
        by: Sequence[sa.ColumnElement[Any]] = (),
        after: Sequence[Any] | None = None,
        newest: bool = True,
        limit: int = PAGE,
        principal: Principal | None = None,
    ) -> list[R]:
        """Return some of the rows that fit. A page costs the same wherever it lies.

        Args:
            where: What is to be true of a row.
            by: Columns that give each row a place of its own; the key where none are given.
            after: The place of the last row of the page before; None for the first page.
            newest: Whether the highest place comes first.
            limit: So many rows at most.
            principal: Only rows whose `session` this one may see; None for all.

        Raises:
            StoreError: They cannot be read.
        """
        place = tuple(by or self._keys)
        query = sa.select(self._table).where(*where).limit(limit)
        query = query.order_by(*(column.desc() if newest else column for column in place))
        if principal is not None:
            query = query.where(may_see(principal, self.c.session))
        found: list[R] = []
        while True:
            part = query
            if after is not None:
                here, there = sa.tuple_(*place), sa.tuple_(*after)
                part = query.where(here < there if newest else here > there)
            rows = await self.store.read(partial(self._made, part))
            # A database may not tell A from a, or know what a key is: the last word is here.
            found += [row for row in rows if principal is None or principal.sees(_session(row))]
            if len(rows) < limit or len(found) >= limit:
                return found[:limit]
            after = [getattr(rows[-1], str(column.key)) for column in place]

    async def each(
        self, *where: sa.ColumnElement[bool], size: int = PAGE
    ) -> AsyncIterator[list[R]]:
        """Yield all rows that fit, in the order of their keys, page by page."""
        after: list[Any] | None = None
        while rows := await self.page(*where, after=after, newest=False, limit=size):
            yield rows
            after = [getattr(rows[-1], column.key) for column in self._keys]

    async def export(self, *where: sa.ColumnElement[bool]) -> AsyncIterator[str]:
        """Yield the rows that fit as lines of JSON, in the order of their keys."""
        async for rows in self.each(*where):
            for row in rows:
                yield row.model_dump_json()

    # -- writing -----------------------------------------------------------

    async def add(self, rows: Sequence[R]) -> list[R]:
        """Keep those of `rows` whose key nobody has; return what is kept of all of them.

        Raises:
            StoreError: Nothing was written.
        """

        def work(connection: sa.Connection) -> list[R]:
            insert_new(connection, self._table, *map(dict, rows))
            keys = [tuple(getattr(row, key.key) for key in self._keys) for row in rows]
            return self.read(connection, sa.tuple_(*self._keys).in_(keys))

        return await self.store.write(work, order=self._table.name) if rows else []

    async def save(self, rows: Sequence[R]) -> None:
        """Keep `rows` in place of those of the same keys; return once they are committed.

        Raises:
            StoreError: Nothing was written.
        """
        if rows:
            values = [dict(row) for row in rows]
            await self.store.write(
                lambda connection: upsert(connection, self._table, values), order=self._table.name
            )

    async def change(self, *where: sa.ColumnElement[bool], **values: Any) -> int:
        """Give the rows that fit other values; return how many they were.

        Raises:
            StoreError: Nothing was written.
        """
        return await self._write(sa.update(self._table).where(*where).values(**values))

    async def remove(self, *where: sa.ColumnElement[bool]) -> int:
        """Forget the rows that fit; return how many they were.

        Raises:
            StoreError: Nothing was written.
        """
        return await self._write(sa.delete(self._table).where(*where))

    async def _write(self, statement: sa.Update | sa.Delete) -> int:
        def work(connection: sa.Connection) -> int:
            return connection.execute(statement).rowcount

        return await self.store.write(work, order=self._table.name)

    def adding(self, row: R) -> Callable[[sa.Connection | None], None]:
        """Return what keeps `row` in the transaction that another holds, and hands over.

        Where there is no store, there is none: None is handed over.
        """
        added = sa.insert(self._table).values(dict(row))

        def add(connection: sa.Connection | None) -> None:
            if isinstance(self.store, MemoryStore):
                self.store.run(lambda own: own.execute(added))
            else:
                assert connection is not None, "where there is a store, answers are kept in it"
                connection.execute(added)

        return add

    def _made(self, query: sa.Select[Any], connection: sa.Connection) -> list[R]:
        # They were checked when they were written.
        rows = connection.execute(query).mappings()
        return [self.row.model_construct(**row) for row in rows]


# -- who may see a row -------------------------------------------------------


def may_see(principal: Principal, session: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return a condition that every row meets whose session `principal` may see.

    Others may meet it, too, since SQLite does not tell A from a here.
    """
    if principal.sees_all:
        return sa.true()
    covered = [session.like(_sessions(claim), escape="\\") for claim in principal.bindings]
    return sa.or_(sa.false(), *covered)


def _session(row: Any) -> str:
    return str(row.session)


def _sessions(claim: Claim) -> str:
    """Return what the keys of the sessions are like that `claim` covers."""
    meant = (claim.channel, claim.account, claim.peer)
    key = str(SessionKey("", *meant)).split(":")[1:]
    told = (
        "%" if part == "*" else re.sub(r"([\\%_])", r"\\\1", text)
        for part, text in zip(meant, key, strict=True)
    )
    # No part of a key holds a colon, so each `%` stands for one part.
    return ":".join(("%", *told))
