"""Telling a store that does not work from a statement that is wrong."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from hookgate import StoreError

UNAVAILABLE = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOTADB,
    )
)
"""SQLite's primary result codes (https://sqlite.org/rescode.html) that speak of the file,
the disk or another program, and not of the statement."""

PRIMARY = 0xFF
"""The low byte of an extended result code is its primary one."""

POSTGRES_CLASSES = ("08", "25006", "28", "3D", "40", "53", "55", "57", "58", "XX")
"""SQLSTATE classes (PostgreSQL manual, appendix A) of the same sort: connection, read-only
transaction, authorization, no such database, rolled back, resources, not in a state,
operator, system, internal."""


def fault(error: BaseException | None) -> str:
    """Return what is wrong with the store itself, or "" where something else is.

    Args:
        error: What a statement raised, or work that holds statements.
    """
    if isinstance(error, DBAPIError):
        reason = fault(error.orig)
        return reason or (f"{error.orig}" if error.connection_invalidated else "")
    # Both asyncpg's own errors and the ones that SQLAlchemy makes of them carry the code.
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return f"{error} (SQLSTATE {state})" if state.startswith(POSTGRES_CLASSES) else ""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & PRIMARY in UNAVAILABLE:
            return f"{error} ({getattr(error, 'sqlite_errorname', code)})"
        return ""
    return ""


def broken(error: BaseException | None) -> str:
    """Return what is wrong with the store, where nothing but the store can have raised `error`.

    Args:
        error: What opening a connection, beginning or committing raised.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return fault(error)


def contain(error: BaseException) -> Exception:
    """Return `error` as something that a future can carry and that ends no event loop."""
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        contained = StoreError(
            f"the work that was handed to the store raised {type(error).__name__}: "
            "expected it to return, or to raise an ordinary exception"
        )
        contained.__cause__ = error
        return contained
    return error
