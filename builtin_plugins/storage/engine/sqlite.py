"""Opening a SQLite file so that what is committed stays, and what is damaged is left alone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import NullPool, StaticPool

HEADER = b"SQLite format 3\x00"
"""The first 16 bytes of every database (https://sqlite.org/fileformat2.html, 1.2)."""
HEADER_SIZE = 100
APPLICATION_ID = 0x686B6774
"""``hkgt``; ``file`` and SQLite's own tools show it."""
SYNCHRONOUS = "FULL"
"""A commit is on the disk before it is acknowledged."""
WAL_LIMIT = 64 * 1024 * 1024
"""Bytes that the write-ahead log is cut back to after a checkpoint."""


class DamagedError(Exception):
    """A file is no sound SQLite database; it was not touched."""


class FileIdentity:
    """Which file a database was when it was opened.

    SQLite goes on writing to a file that was deleted or replaced; nobody would ever find
    those rows again.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)  # a path is made text anew each time
        self._identity = self._look()

    def check(self) -> None:
        """Raise OSError where the path no longer leads to the same file."""
        if self._look() != self._identity:
            raise OSError(
                f"{self._path} was replaced while the gateway was using it: "
                "put the former file back, or restart the gateway"
            )

    def _look(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino


class Dialect(SQLiteDialect_pysqlite):
    """SQLAlchemy's, which begins transactions itself, and asks before one ends.

    By events of SQLAlchemy's a transaction takes a third more calls.

    Attributes:
        begin: The statement that begins a transaction. The driver's own are off
            (``isolation_level=None``): it would commit before some statements and begin only at
            the first write. ``IMMEDIATE`` takes the write lock at once, so that a transaction that
            has read cannot fail when it comes to write.
        guard: Called before a transaction ends; raises where it must not.
    """

    supports_statement_cache = True
    begin = "BEGIN IMMEDIATE"
    guard: Callable[[], None] = staticmethod(lambda: None)

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a transaction, unless `Written` has."""
        driver = dbapi_connection.dbapi_connection
        if not driver.in_transaction:
            driver.execute(self.begin)

    def do_commit(self, dbapi_connection: Any) -> None:
        """Commit a transaction."""
        self.guard()
        dbapi_connection.dbapi_connection.commit()

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Roll a transaction back."""
        self.guard()
        dbapi_connection.dbapi_connection.rollback()


class Written:
    """A transaction of the driver's: SQLAlchemy's takes fifteen calls more to begin and to commit.

    Its own begins within, at the first statement that it runs itself, and ends with this one.
    """

    __slots__ = ("_connection", "_driver")

    def __init__(self, connection: Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        dialect: Any = connection.dialect
        driver.execute(dialect.begin)
        self._connection, self._driver = connection, driver

    @property
    def is_active(self) -> bool:
        """Whether it is there; SQLite ends one by itself where a disk is full or fails."""
        # https://sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction"
        return bool(self._driver.in_transaction)

    def commit(self) -> None:
        """Commit it."""
        (self._connection if self._connection.in_transaction() else self._driver).commit()

    def rollback(self) -> None:
        """Roll it back."""
        (self._connection if self._connection.in_transaction() else self._driver).rollback()


registry.register("sqlite.hookgate", __name__, "Dialect")
URL = "sqlite+hookgate://"


def sqlite_engine(path: Path, *, busy_seconds: float, begin: str = Dialect.begin) -> Engine:
    """Return an engine for the file at `path`, which must be there.

    Args:
        path: The file.
        busy_seconds: How long to wait for another program.
        begin: What begins a transaction.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            _uri(path, "rw"),
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        return connection

    # Parameters would show what people wrote in errors and logs.
    engine = create_engine(URL, creator=connect, poolclass=NullPool, hide_parameters=True)
    engine.dialect.begin = begin  # type: ignore[attr-defined]
    return engine


def memory_engine() -> Engine:
    """Return an engine for one database in memory, which lasts as long as the engine."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    return create_engine(URL, creator=connect, poolclass=StaticPool, hide_parameters=True)


def read_only(connection: Connection) -> None:
    """Make a connection one that only reads."""
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.execute("PRAGMA query_only=ON")


def prepare(path: Path, *, busy_seconds: float, check_bytes: int) -> None:
    """Make the file at `path` ready: there, sound, private and in WAL mode.

    Args:
        path: The database; its folder is there.
        busy_seconds: How long to wait for another program.
        check_bytes: Files up to this size are checked page by page.

    Raises:
        DamagedError: It is no sound database.
        OSError: It cannot be opened.
        sqlite3.Error: SQLite cannot open, read or write it.
    """
    size, logged = _examine(path)
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if each.exists():
            os.chmod(each, 0o600)
    if size:
        _check(path, logged=logged > 0, deep=size <= check_bytes)
    with closing(
        sqlite3.connect(_uri(path, "rw"), uri=True, timeout=busy_seconds, isolation_level=None)
    ) as connection:
        connection.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        connection.execute("PRAGMA journal_mode=WAL")


def mark(connection: Connection) -> None:
    """Say in the file whose it is. This writes, always: a full or read-only disk shows now."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")


def _examine(path: Path) -> tuple[int, int]:
    """Return the bytes of the file and of its log, and look at its header.

    This is done without SQLite, which would mend, create or delete what it finds.
    """
    log = path.with_name(path.name + "-wal")
    logged = log.stat().st_size if log.exists() else 0
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if logged:
            raise DamagedError(f"the file is gone, but its log {log} is there") from None
        # Created here, since SQLite would follow the umask; its -wal and -shm follow this mode.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, HEADER_SIZE, 0)
    finally:
        os.close(descriptor)
    if size == 0 and logged:
        raise DamagedError(f"the file is empty, but its log {log} is not")
    if size and not head.startswith(HEADER):
        raise DamagedError(f"it begins with {head[:16]!r}, expected {HEADER!r}")
    if 0 < size < HEADER_SIZE:
        raise DamagedError(f"it is {size} bytes long, expected at least {HEADER_SIZE}")
    return size, logged


def _check(path: Path, *, logged: bool, deep: bool) -> None:
    """Raise DamagedError where SQLite finds damage; nothing is written."""
    # Without a log, `immutable` keeps SQLite from making one. With a log it must not be set:
    # SQLite would not read what stands there.
    uri = _uri(path, "ro") + ("" if logged else "&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            found = connection.execute("PRAGMA quick_check(3)").fetchall() if deep else [("ok",)]
    except sqlite3.DatabaseError as error:
        # An error without a code is Python's own: text that is no text.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamagedError(str(error)) from error
        raise
    except UnicodeDecodeError as error:
        # Python's module cannot even pass SQLite's complaint on.
        text = bytes(error.object).decode(errors="replace")
        raise DamagedError(text) from error
    if found != [("ok",)]:
        raise DamagedError("; ".join(str(row[0]).replace("\n", " ") for row in found))


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?mode={mode}"
