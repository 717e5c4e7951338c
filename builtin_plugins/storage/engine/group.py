"""What one commit carries: jobs, and how a group of them runs in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, RootTransaction, Table, event
from sqlalchemy.exc import SQLAlchemyError

from hookgate import StoreError, StoreUnavailableError
from hookgate.builtin_plugins.storage.engine.faults import contain, fault
from hookgate.builtin_plugins.storage.engine.sqlite import Dialect, Written
from hookgate.kit.records.statements import ManyRows

T = TypeVar("T")

Handle: TypeAlias = "Callable[[Connection, Sequence[Any]], Sequence[Any]]"


class Job:
    """Something to be done by the writer.

    Attributes:
        future: What the caller waits for; touched on the event loop alone.
        value: What came of it.
        error: What it failed with.
        weight: How many rows it counts for in a group.
    """

    __slots__ = ("error", "future", "value", "weight")

    def __init__(self, future: asyncio.Future[Any], weight: int = 1) -> None:
        self.future = future
        self.weight = weight
        self.value: Any = None
        self.error: Exception | None = None

    def fail(self, error: BaseException, reason: str | None = None) -> None:
        """Keep `error` for the caller, in a form that says whether the store is to blame.

        Args:
            error: What the job failed with.
            reason: What is wrong with the store, "" where nothing is; found out where this
                is not given.
        """
        if reason is None:
            reason = fault(error)
        self.error = refused(reason, error) if reason else contain(error)


class Insert(Job):
    """Rows for one table.

    Attributes:
        table: The table.
        rows: The rows, not none.
        columns: The keys of every row, in order; None where they differ from row to row.
    """

    __slots__ = ("columns", "rows", "table")

    def __init__(
        self,
        future: asyncio.Future[Any],
        table: Table,
        rows: list[Mapping[str, Any]],
        columns: tuple[str, ...] | None,
    ) -> None:
        self.future = future
        self.weight = len(rows)
        self.value = None
        self.error = None
        self.table = table
        self.rows = rows
        self.columns = columns


class Work(Job):
    """A function that writes, within the transaction of its group.

    Attributes:
        work: The function.
        order: Its place among the functions of the group.
    """

    __slots__ = ("order", "work")

    def __init__(
        self, future: asyncio.Future[Any], work: Callable[[Connection], Any], order: str = ""
    ) -> None:
        super().__init__(future)
        self.work = work
        self.order = order


class Item(Job):
    """Something for a function that takes all such things of a group at once.

    Attributes:
        handle: The function: gets the items, returns for each a value, or an exception where
            it has written nothing for that item. If it raises, it is called for each alone.
        item: The thing.
    """

    __slots__ = ("handle", "item")

    def __init__(self, future: asyncio.Future[Any], handle: Handle, item: Any) -> None:
        super().__init__(future)
        self.handle = handle
        self.item = item


class Exclusive(Work):
    """A function that gets the connection for itself, outside of any transaction."""

    __slots__ = ()


class GroupLostError(Exception):
    """The transaction of a group is gone; nothing of the group was written."""


class WriteGuard:
    """Keeps a function that runs in a group from ending the group's transaction.

    Attributes:
        closed: Whether such a function runs now.
        refused: Whether one has tried to.
    """

    def __init__(self) -> None:
        self.closed = self.refused = False

    def watch(self, connection: Connection) -> None:
        """Guard `connection`."""
        if isinstance(connection.dialect, Dialect):
            connection.dialect.guard = self._refuse
            return
        event.listen(connection, "commit", self._refuse)
        event.listen(connection, "rollback", self._refuse)

    def _refuse(self, _: Connection | None = None) -> None:
        if self.closed:
            self.refused = True
            raise StoreError(
                "a function that was handed to the store called commit() or rollback(): "
                "leave both to the store, and raise an exception to undo"
            )


class Beside:
    """Tells when a program beside this one has written to a SQLite file.

    Attributes:
        seen: What was found last; None before, and on a server, which others share.
    """

    def __init__(self) -> None:
        self.seen: int | None = None
        self._opened = 0

    def watch(self, connection: Connection) -> None:
        """Take note of a new connection: what another one has counted compares to nothing."""
        if connection.dialect.name == "sqlite":
            self._opened += 1
            connection.info[BESIDE] = self

    def look(self, connection: Connection) -> int:
        """Look, within a transaction."""
        driver: Any = connection.connection.dbapi_connection
        ((version,),) = driver.execute("PRAGMA data_version")
        self.seen = self._opened << 32 | version
        return self.seen


BESIDE = "hookgate_beside"


def writes_beside(connection: Connection) -> int:
    """Return what changes when a program beside the gateway has written to its SQLite file."""
    beside: Beside | None = connection.info.get(BESIDE)
    return 0 if beside is None else beside.look(connection)  # a server's rows tell of all who write


def groups_of(jobs: Sequence[Job], rows: int) -> Iterator[Sequence[Job]]:
    """Cut `jobs` into groups of about `rows` rows; an exclusive job is alone in its group."""
    start, weight = 0, 0
    for place, job in enumerate(jobs):
        alone = type(job) is Exclusive
        if place > start and (alone or weight + job.weight > rows):
            yield jobs[start:place]
            start, weight = place, 0
        weight += job.weight
        if alone:
            yield jobs[place : place + 1]
            start, weight = place + 1, 0
    if start < len(jobs):
        yield jobs[start:]


class WriteGroup:
    """Jobs that one transaction carries.

    In SQLite, what runs before anything else was done needs no savepoint: the transaction is undone
    as a whole, and begun again for all that comes behind. PostgreSQL commits a transaction in which
    a statement failed as if it had not, and nothing of it: there, only the savepoint tells of an
    error that a function kept to itself.

    Args:
        jobs: The jobs, in the order of arrival.
        inserts: Inserts rows.
        guard: Guards the connection.
    """

    def __init__(self, jobs: Sequence[Job], inserts: Inserts, guard: WriteGuard) -> None:
        self._rows: list[Insert] = []
        self._items: dict[Handle, list[Item]] = {}
        self._works: list[Work] = []
        for job in jobs:
            if type(job) is Insert:
                self._rows.append(job)
            elif isinstance(job, Item):
                self._items.setdefault(job.handle, []).append(job)
            elif isinstance(job, Work):
                self._works.append(job)
        # Each row that a transaction locks is held until its end: two that lock the same ones
        # in different orders would wait for each other.
        self._works.sort(key=attrgetter("order"))
        self._inserts = inserts
        self._guard = guard
        self._begun = False

    def commit(self, connection: Connection) -> None:
        """Run all jobs in one transaction and commit it; each outcome is left in its job.

        Inserts come first, those of one table and shape as one ``executemany``; then items,
        all that one function takes at once; then the functions, in the order that they name and
        of those that name one order as they came. Whatever may fail by itself is undone by itself.
        Inserts and items are taken all together, and once more one by one where that fails.

        Raises:
            GroupLostError: The transaction is gone.
            SQLAlchemyError: It could not begin, or it could not commit.
            sqlite3.Error: The same, in SQLite.
        """
        self._guard.refused = False
        self._saves = connection.dialect.name != "sqlite"
        self._root = self._opened(connection)
        try:
            self._together(connection)
        except GroupLostError:
            raise
        except BaseException as error:
            if reason := fault(error):
                raise GroupLostError(reason) from error
            # Nothing else has run yet, so all of it can simply be taken once more.
            self._begin_anew(connection)
            for job in self._rows:
                self._one(connection, job, _inserter(job))
            for handle, items in self._items.items():
                self._handle(connection, handle, items)
        for work in self._works:
            self._one(connection, work, work.work)
        self._root.commit()

    def _opened(self, connection: Connection) -> RootTransaction | Written:
        return connection.begin() if self._saves else Written(connection)

    def _begin_anew(self, connection: Connection) -> None:
        if self._root.is_active:
            self._root.rollback()
        self._root = self._opened(connection)
        self._begun = False

    def _together(self, connection: Connection) -> None:
        if self._rows:
            self._insert(connection)
            self._begun = True
        found = [
            (items, self._attempt(connection, _all_of(handle, items), save=False))
            for handle, items in self._items.items()
        ]
        for items, outcomes in found:
            _answer(items, outcomes)

    def _insert(self, connection: Connection) -> None:
        batches: dict[tuple[Table, tuple[str, ...]], list[Mapping[str, Any]]] = {}
        last, batch = self._rows[0], None
        for job in self._rows:
            if job.columns is None:
                _inserter(job)(connection)
                continue
            if batch is None or job.table is not last.table or job.columns != last.columns:
                batch = batches.setdefault((job.table, job.columns), [])
                last = job
            batch += job.rows
        for (table, columns), rows in batches.items():
            self._inserts.insert(connection, table, columns, rows)

    def _handle(self, connection: Connection, handle: Handle, items: Sequence[Item]) -> None:
        """Have a function take items; each by itself where it fails with several."""
        try:
            outcomes = self._attempt(connection, _all_of(handle, items), save=self._begun)
        except GroupLostError:
            raise
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the jobs
            for job in items:
                if len(items) == 1 or fault(error):
                    job.fail(error)
                else:
                    self._handle(connection, handle, [job])
        else:
            _answer(items, outcomes)

    def _one(self, connection: Connection, job: Job, work: Callable[[Connection], Any]) -> None:
        try:
            job.value = self._attempt(connection, work, save=self._begun)
        except GroupLostError as error:
            if isinstance(error.__cause__, StoreError):
                job.fail(error.__cause__)
            raise
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the job
            job.fail(error)

    def _attempt(self, connection: Connection, work: Callable[[Connection], T], *, save: bool) -> T:
        """Run `work` and return its value; undo it if it raises.

        Args:
            connection: The connection.
            work: What is run.
            save: Whether it is undone by itself, and not all of the transaction.
        """
        # Plain SQL, the same in both databases; SQLAlchemy's own takes four times as long.
        if save := save or self._saves:
            _say(connection, "SAVEPOINT job")
        self._guard.closed = True
        try:
            value = work(connection)
            if save and self._root.is_active:
                _say(connection, "RELEASE SAVEPOINT job")
        except BaseException as error:
            self._guard.closed = False
            self._undo(connection, error, saved=save)
            raise
        finally:
            self._guard.closed = False
        if not self._stands():
            raise GroupLostError("a function that was handed to the store ended the transaction")
        self._begun = True
        return value

    def _stands(self) -> bool:
        """Whether the transaction is still there, and nobody has tried to end it."""
        return self._root.is_active and not self._guard.refused

    def _undo(self, connection: Connection, cause: BaseException, *, saved: bool) -> None:
        """Undo what was done since the savepoint, or the whole transaction where it had none.

        Raises:
            GroupLostError: The transaction was gone already.
        """
        reason = fault(cause) or f"{type(cause).__name__}: {cause}"
        if not self._stands():
            raise GroupLostError(reason) from cause
        try:
            if saved:
                connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
                connection.exec_driver_sql("RELEASE SAVEPOINT job")
            else:
                self._begin_anew(connection)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise GroupLostError(reason) from error


def _all_of(handle: Handle, items: Sequence[Item]) -> Callable[[Connection], Sequence[Any]]:
    return lambda connection: handle(connection, [job.item for job in items])


def _answer(items: Sequence[Item], outcomes: Sequence[Any]) -> None:
    for job, outcome in zip(items, outcomes, strict=True):
        if isinstance(outcome, Exception):
            job.fail(outcome)
        else:
            job.value = outcome


def _say(connection: Connection, statement: str) -> None:
    """Run a statement without values and without rows."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.execute(statement)
    else:
        connection.exec_driver_sql(statement)


def _inserter(job: Insert) -> Callable[[Connection], None]:
    def insert(connection: Connection) -> None:
        statement = job.table.insert()
        for row in job.rows if job.columns is None else job.rows[:1]:
            check_columns(job.table, row)
        if job.columns is not None:
            connection.execute(statement, job.rows)
            return
        for row in job.rows:
            connection.execute(statement, row)

    return insert


def refused(reason: str, cause: BaseException) -> StoreUnavailableError:
    """Return the error for a write that the store did not take."""
    error = StoreUnavailableError(
        f"the store did not take the write, and nothing of it was kept: {reason}"
    )
    error.__cause__ = cause
    return error


# -- many rows at once -------------------------------------------------------------


class Inserts:
    """Inserts rows, with a plan for each table and shape of rows.

    SQLAlchemy's own ``executemany`` spends 7 µs on each row to find out what it found out for
    the row before.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[Table, tuple[str, ...]], ManyRows | sa.Insert] = {}

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


def _plan(connection: Connection, table: Table, columns: tuple[str, ...]) -> ManyRows | sa.Insert:
    """Return a plan, or the statement itself where only SQLAlchemy can fill it in."""
    check_columns(table, columns)
    statement = table.insert().inline()
    if connection.dialect.paramstyle != "qmark":
        return statement
    # None for columns with a default that Python computes.
    return ManyRows.of(statement, columns) or statement
