"""One thread's connection to the database, the same for SQLite and for PostgreSQL."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from hookgate import StoreHeldError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")


class DatabaseLink(Protocol):
    """A connection that belongs to one thread. It opens with its first use."""

    def on_open(self, prepare: Callable[[Connection], None]) -> None:
        """Call `prepare` with each connection that is opened, before anything else."""

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call `work` with the connection, outside of any transaction."""

    def reset(self) -> None:
        """Give the connection up, and with it an open transaction; the next use opens another."""

    def close(self) -> None:
        """Close for good. Any thread may do this once the link's own has ended."""


class EngineLink:
    """A link over a plain engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._prepare: list[Callable[[Connection], None]] = []

    def on_open(self, prepare: Callable[[Connection], None]) -> None:
        """Call `prepare` with each connection that is opened, before anything else."""
        self._prepare.append(prepare)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call `work` with the connection, outside of any transaction."""
        if self._connection is None:
            connection = self._engine.connect()
            for prepare in self._prepare:
                prepare(connection)
            self._connection = connection
        return work(self._connection)

    def reset(self) -> None:
        """Give the connection up, and with it an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close for good."""
        self.reset()


class AsyncLink:
    """A link over an asynchronous engine.

    Each link runs an event loop of its own on its thread, since a connection of asyncpg
    belongs to one loop; the engine therefore must not pool (``NullPool``).
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._runner = asyncio.Runner()
        self._connection: AsyncConnection | None = None
        self._prepare: list[Callable[[Connection], None]] = []

    def on_open(self, prepare: Callable[[Connection], None]) -> None:
        """Call `prepare` with each connection that is opened, before anything else."""
        self._prepare.append(prepare)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call `work` with the connection's synchronous face."""
        return self._runner.run(self._call(work))

    def reset(self) -> None:
        """Give the connection up, and with it an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._runner.run(connection.close())

    def close(self) -> None:
        """Close for good."""
        self.reset()
        self._runner.close()

    async def _call(self, work: Callable[[Connection], T]) -> T:
        if self._connection is None:
            connection = await self._engine.connect()
            for prepare in self._prepare:
                await connection.run_sync(prepare)
            self._connection = connection
        return await self._connection.run_sync(work)


# -- lock ------------------------------------------------------------------------

# One gateway per SQLite file: a lock file beside the database that names its holder.

PATIENCE = 0.5
"""Seconds to wait for a holder that is just ending, or for a look by `holder_pid`."""
PAUSE = 0.02


class DatabaseHeldError(StoreHeldError):
    """Another gateway holds the database."""

    def __init__(self, database: Path, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        if pid == os.getpid():
            who = f"another gateway in this process (pid {pid})"
        super().__init__(
            f"the database {database} is held by {who}: expected that no gateway uses it. "
            "Stop that one, or give this one a database of its own "
            '(`[plugin.storage] path = "..."`, or another `home`)',
            pid,
        )


def lock_path(database: Path) -> Path:
    """Return the lock file of a database."""
    return database.with_name(database.name + ".lock")


class FileLock:
    """The lock on a database, held until `release` or until the process ends, however it ends.

    The file stays when the lock is released: to remove it would let two processes hold
    two locks of one name.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: int | None = None
        self._given_up = False
        self._mutex = threading.Lock()

    def acquire(self) -> None:
        """Take the lock; one that `release` was called for meanwhile is given back at once.

        Raises:
            DatabaseHeldError: Another gateway holds it.
            OSError: The lock file cannot be written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(lock_path(self._database), flags, 0o600)
        try:
            if not _try_lock(descriptor, fcntl.LOCK_EX):
                raise DatabaseHeldError(self._database, _read_pid(descriptor))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        with self._mutex:
            self._file = descriptor
        if self._given_up:
            self.release()

    def release(self) -> None:
        """Give the lock back, for good. Any thread may do this, any number of times."""
        with self._mutex:
            self._given_up = True
            descriptor, self._file = self._file, None
        if descriptor is not None:
            os.close(descriptor)


def holder_pid(database: Path) -> int | None:
    """Return the process id of the gateway that holds `database`, or None where none does.

    Returns:
        The process id; 0 where somebody holds it who has not written its own yet.
    """
    try:
        descriptor = os.open(lock_path(database), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            # Shared, so that two that look at the same time do not see each other.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_pid(descriptor)
        return None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        else:
            return True


def _read_pid(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0
