"""The table of the audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text, select, tuple_

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from hookgate.builtin_plugins.audit.trail import Place

__all__ = ["ENTRIES", "METADATA", "SCRIPTS", "newest"]

SCRIPTS = Path(__file__).parent / "migrations"

METADATA = MetaData()

ENTRIES = Table(
    "audit_entry",
    METADATA,
    # One chain for each start of a process; `seq` counts from 1 within it, without a gap.
    Column("chain", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # ISO 8601 in UTC with microseconds: one form, which sorts as text.
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("turn", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("call", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("category", Text, nullable=False),
    # allow or deny for a decision, the result's status for an outcome.
    Column("outcome", Text, nullable=False),
    # Everything, as canonical JSON with secrets masked.
    Column("data", Text, nullable=False),
    Index("audit_entry_by_time", "at", "chain", "seq"),
    Index("audit_entry_by_turn", "turn"),
    Index("audit_entry_by_session", "session", "at"),
)


def newest(
    filters: Mapping[str, str], *, limit: int, before: Place | None = None
) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a reader of the newest rows.

    Args:
        filters: Column -> the value that it must have.
        limit: So many rows at most.
        before: Only rows that come before this place; None for all.
    """
    place = (ENTRIES.c.at, ENTRIES.c.chain, ENTRIES.c.seq)
    query = select(ENTRIES).order_by(*(column.desc() for column in place))
    for column, value in filters.items():
        query = query.where(ENTRIES.c[column] == value)
    if before is not None:
        query = query.where(tuple_(*place) < tuple_(*before))

    def read(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(query.limit(limit)).mappings()]

    return read
