"""One thread's connection to the database, the same for SQLite and for PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

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
