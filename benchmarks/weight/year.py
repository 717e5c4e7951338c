"""A store as a year leaves it: rows of the usage ledger, made by one statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

ROWS = 300_000
"""Calls of a model in a year: some 800 a day."""
SESSIONS = 5_000
WRITER = "year"

COLUMNS: Mapping[str, str] = {
    "id": "printf('call_%s', lower(hex(randomblob(12))))",
    "writer": f"'{WRITER}'",
    "seq": "place",
    "at": "strftime('%Y-%m-%dT%H:%M:%S.000000+00:00', began)",
    "day": "date(began)",
    "turn": "printf('turn_%s', lower(hex(randomblob(12))))",
    "session": f"printf('main:cli:local:peer%d', place % {SESSIONS})",
}
"""What differs from row to row; the rest is as in the row that is copied."""


def fill(database: Path, rows: int = ROWS, *, until: str = "2026-03-01") -> None:
    """Copy a row of the ledger so often, spread over the year that ends on a day.

    Args:
        database: A store in which a call of a model is recorded, and which no gateway uses.
        rows: How many there are to be.
        until: The last day.
    """
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("PRAGMA synchronous=OFF")
        names = [row[1] for row in store.execute("PRAGMA table_info(metering_call)")]
        columns = [f'"{name}"' for name in names]
        values = [COLUMNS.get(name, f'"{name}"') for name in names]
        store.execute(
            f"""
            WITH RECURSIVE
              places(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM places WHERE place < ?),
              one AS (SELECT * FROM metering_call LIMIT 1),
              dated AS (
                SELECT place, julianday(?) - 365.0 + 365.0 * place / ? AS began FROM places
              )
            INSERT INTO metering_call ({", ".join(columns)})
            SELECT {", ".join(values)} FROM dated, one
            """,
            (rows, until, rows),
        )
        # They are in the sums already: nobody is to add them up at the next start.
        store.execute("INSERT INTO metering_mark VALUES (?, ?)", (WRITER, rows))
