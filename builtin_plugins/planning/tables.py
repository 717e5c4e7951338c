"""Windows of outcomes in the store: a row for each turn, as long as it is in its window."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    MetaData,
    Table,
    Text,
    and_,
    delete,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from hookgate.core.domain.ports import OutcomeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.core.domain.ports import Store

SCRIPTS = Path(__file__).parent / "migrations"

METADATA = MetaData()

OUTCOMES = Table(
    "planning_outcome",
    METADATA,
    Column("scope", Text, primary_key=True),
    Column("turn", Text, primary_key=True),
    # Microseconds since 1970 in UTC.
    Column("at", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("steers", Boolean, nullable=False),
    Index("planning_outcome_by_time", "scope", "at", "turn"),
)
_C = OUTCOMES.c


class StoreWindows:
    """Keeps windows in the store. What several gateways write stands side by side.

    Args:
        store: The store; `METADATA` is migrated.
        size: Returns how many entries a window has; older ones go.
    """

    def __init__(self, store: Store, size: Callable[[], int]) -> None:
        self._store = store
        self._size = size
        self._known: dict[str, frozenset[str]] = {}

    async def load_windows(self) -> Mapping[str, Sequence[OutcomeEntry]]:
        """Return all windows; see `OutcomeWindows`."""
        size = self._size()

        def work(connection: Connection) -> dict[str, list[OutcomeEntry]]:
            rows = connection.execute(select(OUTCOMES).order_by(_C.scope, _C.at, _C.turn))
            grouped = groupby(rows.mappings(), key=lambda row: row["scope"])
            return {scope: [_entry(row) for row in group][-size:] for scope, group in grouped}

        windows = await self._store.read(work)
        self._known = {
            scope: frozenset(entry.turn for entry in entries) for scope, entries in windows.items()
        }
        return windows

    async def save_window(self, scope_key: str, entries: Sequence[OutcomeEntry]) -> None:
        """Keep a window; see `OutcomeWindows`."""
        known = self._known.get(scope_key, frozenset())
        fresh = [entry for entry in entries if entry.turn not in known]

        def work(connection: Connection) -> None:
            if not entries:
                connection.execute(delete(OUTCOMES).where(_C.scope == scope_key))
                return
            if fresh:
                # Both databases know the clause; SQLAlchemy has it in their dialects alone.
                dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
                insert = dialect.insert(OUTCOMES).on_conflict_do_nothing()
                connection.execute(insert, [_row(scope_key, entry) for entry in fresh])
            self._trim(connection, scope_key)

        await self._store.write(work, order="planning")
        if entries:
            self._known[scope_key] = frozenset(entry.turn for entry in entries)
        else:
            self._known.pop(scope_key, None)

    def _trim(self, connection: Connection, scope: str) -> None:
        """Delete what is older than the newest entries of a window."""
        newest = select(_C.at, _C.turn).where(_C.scope == scope)
        first_gone = newest.order_by(_C.at.desc(), _C.turn.desc()).offset(self._size()).limit(1)
        gone = connection.execute(first_gone).one_or_none()
        if gone is not None:
            older = or_(_C.at < gone.at, and_(_C.at == gone.at, _C.turn <= gone.turn))
            connection.execute(delete(OUTCOMES).where(_C.scope == scope, older))


def _row(scope: str, entry: OutcomeEntry) -> dict[str, Any]:
    return {
        "scope": scope,
        "turn": entry.turn,
        "at": entry.at,
        "status": entry.status,
        "score": entry.score,
        "steers": entry.steers,
    }


def _entry(row: Mapping[Any, Any]) -> OutcomeEntry:
    return OutcomeEntry(
        turn=row["turn"],
        at=row["at"],
        status=row["status"],
        score=row["score"],
        steers=row["steers"],
    )
