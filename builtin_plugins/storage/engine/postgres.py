"""Opening a PostgreSQL database by its URL."""

from __future__ import annotations

import importlib.util

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from hookgate import StartError

CONNECT_SECONDS = 10.0


def postgres_url(text: str) -> URL:
    """Return `text` as a URL with the driver that hookgate uses.

    Raises:
        StartError: The driver is not installed.
    """
    if importlib.util.find_spec("asyncpg") is None:
        raise StartError(
            "`[plugin.storage] url` names a PostgreSQL database, and its driver is not installed: "
            "run `pip install 'hookgate[postgres]'`"
        )
    return make_url(text).set(drivername="postgresql+asyncpg")


def postgres_engine(url: URL) -> AsyncEngine:
    """Return an engine; its connections belong to the thread that makes them."""
    return create_async_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"timeout": CONNECT_SECONDS},
    )


def read_only(connection: Connection) -> None:
    """Make a connection one that only reads."""
    connection.execution_options(postgresql_readonly=True)
