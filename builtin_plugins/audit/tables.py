"""The table of the audit, and how its rows are chained."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hookgate import Store
from hookgate.builtin_plugins.audit.operations import AuditColumns
from hookgate.builtin_plugins.audit.seals import Head, Sealer
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import Prepared

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = sa.MetaData(info={"complete": True})

_SINCE_SEALS = {"server_default": ""}


class AuditEntry(AuditColumns, Record):  # type: ignore[misc]  # as `Record` itself
    """One row of the audit."""

    __tablename__ = "audit_entry"
    __table_args__ = (
        sa.Index("audit_entry_by_time", "at", "chain", "seq"),
        sa.Index("audit_entry_by_turn", "turn"),
        sa.Index("audit_entry_by_session", "session", "at"),
        sa.Index("audit_entry_by_call", "call"),
        sa.Index("audit_entry_by_tool", "tool", "at", "chain", "seq"),
        sa.Index("audit_entry_by_outcome", "outcome", "at", "chain", "seq"),
    )
    metadata = METADATA

    chain: str = Field(primary_key=True)
    """One for each start of a process."""
    seq: int = Field(primary_key=True)
    """Counts from 1 within the chain, without a gap."""
    at: str
    """ISO 8601 in UTC with microseconds: one form, which sorts as text."""
    data: str
    """Everything, as canonical JSON with secrets masked."""
    previous: str = Field(sa_column_kwargs=_SINCE_SEALS)
    """Of a chain's first row: the last row of all that were there, as CHAIN/SEQ/SEAL."""
    key: str = Field(sa_column_kwargs=_SINCE_SEALS)
    """Names the key of the seal; see `sealing`. Rows from before there were seals have neither."""
    seal: str = Field(sa_column_kwargs=_SINCE_SEALS)


ENTRIES = AuditEntry.table
_C = ENTRIES.c
_HEAD = sa.select(_C.chain, _C.seq, _C.seal)
_OWN = Prepared(
    _HEAD.where(_C.chain == sa.bindparam("mine")).order_by(_C.seq.desc()).limit(1),
)
_ADD = Prepared(sa.insert(ENTRIES), ENTRIES.c.keys())
_LAST = ENTRIES.alias()
_BEHIND = Prepared(
    sa.insert(ENTRIES).from_select(
        ENTRIES.c.keys(),
        sa.select(*(sa.bindparam(f"new_{column.name}", type_=column.type) for column in _C)).where(
            sa.exists().where(
                _LAST.c.chain == sa.bindparam("mine"), _LAST.c.seq == sa.bindparam("last")
            )
        ),
    )
)
"""Adds a row where the one that it stands behind is there."""
_FORGET = Prepared(
    sa.delete(ENTRIES).where(_C.chain == sa.bindparam("mine"), _C.seq <= sa.bindparam("last"))
)


class AuditKeeper:
    """Chains rows and keeps them.

    Args:
        store: Has the table.
        sealer: Seals the rows.
        ring: So many rows stay where the store is that of the process.

    Attributes:
        rows: The rows that are kept.
        durable: Whether they outlive the process.
        whole: Whether the first rows of chains stay.
    """

    place = (_C.at, _C.chain, _C.seq)
    """What sorts rows by time."""

    def __init__(self, store: Store, sealer: Sealer, *, ring: int) -> None:
        self.rows = AuditEntry.records(store)
        self.durable = store.durable
        self.whole = not self.rows.in_process
        self._sealer = sealer
        self._ring = ring
        # Of the row that was written last, on the store's one thread; it may not be committed.
        self._end: Head | None = None

    async def keep(self, row: Mapping[str, Any]) -> Head:
        """Keep `row` at the end of its chain; return the head of the chain once it is committed."""
        return await self.rows.store.write(partial(self._keep, row))

    def keep_soon(self, row: Mapping[str, Any]) -> asyncio.Future[Head]:
        """Do what `keep` does, with the next write that anybody hands over to the store."""
        return self.rows.store.write_soon(partial(self._keep, row))

    def _keep(self, row: Mapping[str, Any], connection: sa.Connection) -> Head:
        sealed = self._added(connection, row)
        if not self.whole:
            _FORGET.count(connection, mine=sealed["chain"], last=sealed["seq"] - self._ring)
        self._end = Head(chain=sealed["chain"], seq=sealed["seq"], seal=sealed["seal"])
        return self._end

    def _added(self, connection: sa.Connection, row: Mapping[str, Any]) -> Mapping[str, Any]:
        if (end := self._end) is not None and end.chain == row["chain"]:
            sealed = self._sealer.chained(row, end)
            values = {f"new_{name}": value for name, value in sealed.items()}
            if _BEHIND.count(connection, mine=end.chain, last=end.seq, **values):
                return sealed
        # What stands at the end is read within the transaction: a row that could not be committed
        # leaves no gap.
        own = _OWN.rows(connection, mine=row["chain"])
        sealed = self._sealer.chained(row, _head(own[0]) if own else _newest(connection))
        _ADD.run(connection, [sealed])
        return sealed

    async def newest(self) -> Head | None:
        """Return the last row of all, as a head; None where there is no row."""
        return await self.rows.store.read(_newest)

    async def seal_of(self, head: Head) -> str | None:
        """Return the seal of the row that `head` names; None where it is gone."""
        row = await self.rows.get(head.chain, head.seq)
        return None if row is None else row.seal

    async def links(self) -> Sequence[str]:
        """Return what first rows of chains name as the row before them."""
        if not self.whole:
            return ()
        return [row.previous for row in await self.rows.all(_C.seq == 1, _C.previous != "")]

    def fitting(self, filters: Mapping[str, str]) -> Sequence[sa.ColumnElement[bool]]:
        """Return conditions that say so: column -> the value that it must have."""
        return [_C[column] == value for column, value in filters.items()]

    def between(self, since: str, until: str, kind: str) -> Sequence[sa.ColumnElement[bool]]:
        """Return conditions on when a row was written and of what kind it is; "" asks nothing."""
        wanted = ((since, _C.at >= since), (until, _C.at < until), (kind, _C.kind == kind))
        return [condition for value, condition in wanted if value]


def _newest(connection: sa.Connection) -> Head | None:
    by_time = _HEAD.order_by(*(column.desc() for column in AuditKeeper.place))
    return _head(connection.execute(by_time.limit(1)).first())


def _head(row: Any) -> Head | None:
    return Head(chain=row.chain, seq=row.seq, seal=row.seal) if row else None
