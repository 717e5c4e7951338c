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

AUDIT_COLUMNS: Mapping[str, str] = {
    "chain": f"'{WRITER}'",
    # No row is the first of its chain: such a one names the row before it.
    "seq": "place + 1",
    "call": "printf('call_%s', lower(hex(randomblob(12))))",
    **{name: COLUMNS[name] for name in ("at", "turn", "session")},
}


def fill(database: Path, rows: int = ROWS, *, until: str = "2026-03-01") -> None:
    """Copy a row of the ledger so often, spread over the year that ends on a day.

    Args:
        database: A store in which a call of a model is recorded, and which no gateway uses.
        rows: How many there are to be.
        until: The last day.
    """
    with closing(sqlite3.connect(database)) as store, store:
        _copy(store, "metering_call", COLUMNS, rows, until)
        # They are in the sums already: nobody is to add them up at the next start.
        store.execute("INSERT INTO metering_mark VALUES (?, ?)", (WRITER, rows))


def fill_audit(database: Path, rows: int, *, until: str = "2026-03-01") -> None:
    """Copy a row of the audit so often; see `fill`. Nobody has sealed them."""
    with closing(sqlite3.connect(database)) as store, store:
        _copy(store, "audit_entry", AUDIT_COLUMNS, rows, until)


def _copy(
    store: sqlite3.Connection, table: str, differs: Mapping[str, str], rows: int, until: str
) -> None:
    store.execute("PRAGMA synchronous=OFF")
    names = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
    columns = [f'"{name}"' for name in names]
    values = [differs.get(name, f'"{name}"') for name in names]
    store.execute(
        f"""
        WITH RECURSIVE
          places(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM places WHERE place < ?),
          one AS (SELECT * FROM {table} LIMIT 1),
          dated AS (
            SELECT place, julianday(?) - 365.0 + 365.0 * place / ? AS began FROM places
          )
        INSERT INTO {table} ({", ".join(columns)})
        SELECT {", ".join(values)} FROM dated, one
        """,
        (rows, until, rows),
    )
