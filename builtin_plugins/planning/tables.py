"""Windows of outcomes in the store: a row for each turn, as long as it is in its window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from sqlalchemy import Connection, Index, MetaData, delete, select

from hookgate import OutcomeEntry, Store
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import Trim, insert_new

SCRIPTS = Path(__file__).parent / "migrations"

_SINCE_FAULTS = {"server_default": ""}

METADATA = MetaData(info={"complete": True})


class OutcomeRow(Record):
    """An entry of a window."""

    __tablename__ = "planning_outcome"
    __table_args__ = (Index("planning_outcome_by_time", "scope", "at", "turn"),)
    metadata = METADATA

    scope: str = Field(primary_key=True)
    turn: str = Field(primary_key=True)
    at: int
    """Microseconds since 1970 in UTC."""
    status: str
    score: float
    steers: bool
    fault: str = Field(sa_column_kwargs=_SINCE_FAULTS)
    session: str = Field(sa_column_kwargs=_SINCE_FAULTS)
    reason: str = Field(sa_column_kwargs=_SINCE_FAULTS)


OUTCOMES = OutcomeRow.table
_C = OUTCOMES.c
_TRIM = Trim((_C.at, _C.turn), (_C.scope,))
ENTRY = tuple(field.name for field in fields(OutcomeEntry))
_values = attrgetter(*ENTRY)


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
            return {
                scope: [OutcomeEntry(**{key: row[key] for key in ENTRY}) for row in group][-size:]
                for scope, group in grouped
            }

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
                rows = [
                    dict(zip(ENTRY, _values(entry), strict=True), scope=scope_key)
                    for entry in fresh
                ]
                insert_new(connection, OUTCOMES, *rows)
            _TRIM(connection, self._size(), scope_key)

        await self._store.write(work, order="planning")
        if entries:
            self._known[scope_key] = frozenset([entry.turn for entry in entries])
        else:
            self._known.pop(scope_key, None)
