"""What one commit carries: jobs, and how a group of them runs in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from hookgate.builtin_plugins.storage.faults import contain, fault
from hookgate.core.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, NestedTransaction, RootTransaction, Table

__all__ = ["Exclusive", "Group", "GroupLostError", "Guard", "Insert", "Job", "Work", "groups_of"]


@dataclass(slots=True, eq=False)
class Job:
    """Something to be done by the writer.

    Attributes:
        future: What the caller waits for; touched on the event loop alone.
        value: What came of it.
        error: What it failed with.

    """

    future: asyncio.Future[Any]
    value: Any = field(default=None, init=False)
    error: Exception | None = field(default=None, init=False)

    @property
    def weight(self) -> int:
        """How many rows this counts for in a group."""
        return 1


@dataclass(slots=True, eq=False)
class Insert(Job):
    """Rows for one table.

    Attributes:
        table: The table.
        rows: The rows, not none.
        columns: The keys of every row, in order; None where they differ from row to row.

    """

    table: Table
    rows: list[Mapping[str, Any]]
    columns: tuple[str, ...] | None

    @property
    def weight(self) -> int:
        """How many rows this counts for in a group."""
        return len(self.rows)


@dataclass(slots=True, eq=False)
class Work(Job):
    """A function that writes, within the transaction of its group."""

    work: Callable[[Connection], Any]


@dataclass(slots=True, eq=False)
class Exclusive(Job):
    """A function that gets the connection for itself, outside of any transaction."""

    work: Callable[[Connection], Any]


class GroupLostError(Exception):
    """The transaction of a group is gone; nothing of the group was written."""


class Guard:
    """Keeps a function that runs in a group from ending the group's transaction."""

    def __init__(self) -> None:
        self.closed = False

    def watch(self, connection: Connection) -> None:
        """Guard `connection`."""
        event.listen(connection, "commit", self._refuse)
        event.listen(connection, "rollback", self._refuse)

    def _refuse(self, _: Connection) -> None:
        if self.closed:
            raise StoreError(
                "a function that was handed to the store called commit() or rollback(): "
                "leave both to the store, and raise an exception to undo"
            )


def groups_of(jobs: Sequence[Job], rows: int) -> Iterator[list[Job]]:
    """Cut `jobs` into groups of about `rows` rows; an exclusive job is alone in its group."""
    group: list[Job] = []
    weight = 0
    for job in jobs:
        alone = isinstance(job, Exclusive) or (group and isinstance(group[0], Exclusive))
        if group and (alone or weight + job.weight > rows):
            yield group
            group, weight = [], 0
        group.append(job)
        weight += job.weight
    if group:
        yield group


class Group:
    """Jobs that one transaction carries.

    Args:
        jobs: Inserts and functions, in the order of arrival.
        guard: Guards the connection.

    """

    def __init__(self, jobs: Sequence[Job], guard: Guard) -> None:
        self._inserts = [job for job in jobs if isinstance(job, Insert)]
        self._works = [job for job in jobs if isinstance(job, Work)]
        self._guard = guard

    def commit(self, connection: Connection) -> None:
        """Run all jobs in one transaction and commit it; each outcome is left in its job.

        Inserts come first, those of one table and shape as one ``executemany``; then the
        functions, in their order.

        Raises:
            GroupLostError: The transaction is gone.
            SQLAlchemyError: It could not begin, or it could not commit.

        """
        root = connection.begin()
        batches: dict[tuple[Table, tuple[str, ...] | None], list[Insert]] = {}
        for insert in self._inserts:
            batches.setdefault((insert.table, insert.columns), []).append(insert)
        for (_, columns), inserts in batches.items():
            if columns is None or not self._insert_together(connection, root, inserts):
                for insert in inserts:
                    insert.error = None
                    self._attempt(connection, root, [insert], _row_by_row(insert))
        for work in self._works:
            self._attempt(connection, root, [work], work.work)
        root.commit()

    def _insert_together(
        self, connection: Connection, root: RootTransaction, inserts: Sequence[Insert]
    ) -> bool:
        """Insert all of one shape at once; return False where each has to be tried alone."""
        first = inserts[0]
        rows = first.rows if len(inserts) == 1 else [row for job in inserts for row in job.rows]

        def insert(connection: Connection) -> None:
            connection.execute(first.table.insert(), rows)

        done = self._attempt(connection, root, inserts, insert)
        # Where the store does not work, trying each alone would fail as many times.
        return done or len(inserts) == 1 or isinstance(first.error, StoreUnavailableError)

    def _attempt(
        self,
        connection: Connection,
        root: RootTransaction,
        jobs: Sequence[Job],
        work: Callable[[Connection], Any],
    ) -> bool:
        """Run `work` in a savepoint, and leave its value or its error in `jobs`."""
        savepoint = connection.begin_nested()
        self._guard.closed = True
        try:
            value = work(connection)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the job
            self._guard.closed = False
            reason = fault(error)
            for job in jobs:
                job.error = refused(reason, error) if reason else contain(error)
            _undo(connection, root, savepoint, reason or f"{type(error).__name__}: {error}")
            return False
        finally:
            self._guard.closed = False
        if not (root.is_active and savepoint.is_active):
            raise GroupLostError("a function that was handed to the store ended the transaction")
        savepoint.commit()
        for job in jobs:
            job.value = value
        return True


def refused(reason: str, cause: BaseException) -> StoreUnavailableError:
    """Return the error for a write that the store did not take."""
    error = StoreUnavailableError(
        f"the store did not take the write, and nothing of it was kept: {reason}"
    )
    error.__cause__ = cause
    return error


def _row_by_row(insert: Insert) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        statement = insert.table.insert()
        for row in insert.rows:
            connection.execute(statement, row)

    return run


def _undo(
    connection: Connection, root: RootTransaction, savepoint: NestedTransaction, reason: str
) -> None:
    # SQLite rolls a whole transaction back by itself when the disk is full or fails
    # (https://sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction").
    driver = connection.connection.dbapi_connection if root.is_active else None
    if not root.is_active or not getattr(driver, "in_transaction", True):
        raise GroupLostError(reason)
    try:
        savepoint.rollback()
    except SQLAlchemyError as error:
        raise GroupLostError(reason) from error
