"""What the inventory keeps in the store: the last good records, toggles, and installed skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Column, MetaData, Table, Text, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from hookgate.builtin_plugins.inventory.kept.keeping import Skill, Toggle
from hookgate.builtin_plugins.inventory.record import from_json
from hookgate.core.domain.strict_json import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.builtin_plugins.inventory.record import CapabilityRecord
    from hookgate.core.domain.ports import Store

SCRIPTS = Path(__file__).parents[1] / "migrations"

METADATA = MetaData()

CAPABILITIES = Table(
    "inventory_capability",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("source", Text, nullable=False, index=True),
    # The record as JSON, without what is derived each time: `writable` and `synced_at`.
    Column("data", Text, nullable=False),
)

SOURCES = Table(
    "inventory_source",
    METADATA,
    Column("source", Text, primary_key=True),
    # ISO 8601 in UTC.
    Column("synced", Text, nullable=False),
)

TOGGLES = Table(
    "inventory_toggle",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("disabled", Boolean, nullable=False),
    Column("changed", Text, nullable=False),
    Column("changed_by", Text, nullable=False),
)

SKILLS = Table(
    "inventory_skill",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("agent", Text, nullable=True),
    Column("runtime", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("changed", Text, nullable=False),
    Column("changed_by", Text, nullable=False),
)

DERIVED = ("writable", "synced_at")


def _upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    # Both databases know the clause; SQLAlchemy has it in their dialects alone.
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    made = dialect.insert(table)
    changed = {
        column.name: made.excluded[column.name]
        for column in table.columns
        if not column.primary_key
    }
    key = [column.name for column in table.primary_key]
    connection.execute(
        made.on_conflict_do_update(index_elements=key, set_=changed),
        # In one order, so that two gateways never wait for each other.
        sorted(rows, key=lambda row: str(row[key[0]])),
    )


def _data(record: CapabilityRecord) -> str:
    data = record.to_json()
    for name in DERIVED:
        del data[name]
    return dumps(data).decode()


class StoreProjection:
    """The last good records of each source. Whatever is lost of it comes back with a read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def reconcile(
        self, source: str, records: Sequence[CapabilityRecord], synced: str
    ) -> None:
        """Make `records` all that is kept of `source`, in one transaction, and nobody else's.

        Raises:
            StoreError: It cannot be kept, and nothing was changed.
        """

        def work(connection: Connection) -> None:
            columns = CAPABILITIES.c
            rows = connection.execute(
                select(columns.id, columns.data).where(columns.source == source)
            )
            known: dict[str, str] = {row.id: row.data for row in rows}
            new = {record.id: _data(record) for record in records}
            gone = sorted(known.keys() - new.keys())
            if gone:
                connection.execute(
                    delete(CAPABILITIES).where(columns.id == bindparam("gone")),
                    [{"gone": one} for one in gone],
                )
            changed = [
                {"id": one, "source": source, "data": data}
                for one, data in new.items()
                if known.get(one) != data
            ]
            if changed:
                _upsert(connection, CAPABILITIES, changed)
            _upsert(connection, SOURCES, [{"source": source, "synced": synced}])

        # Behind what names nothing: two gateways may reconcile the same rows at once.
        await self._store.write(work, order="inventory")

    async def load(self, source: str) -> tuple[tuple[CapabilityRecord, ...], str]:
        """Return the last good records of `source`, and when they were read; "" for never.

        Raises:
            StoreError: They cannot be read.
        """

        def work(connection: Connection) -> tuple[tuple[CapabilityRecord, ...], str]:
            columns = CAPABILITIES.c
            texts = connection.execute(
                select(columns.data).where(columns.source == source).order_by(columns.id)
            ).scalars()
            synced = connection.execute(
                select(SOURCES.c.synced).where(SOURCES.c.source == source)
            ).scalar_one_or_none()
            return tuple(_read(texts.all(), source)), synced or ""

        return await self._store.read(work)


def _read(texts: Sequence[str], source: str) -> list[CapabilityRecord]:
    records = []
    for text in texts:
        try:
            records.append(from_json(json.loads(text), source))
        except (ValueError, TypeError):
            # Of another version of this plugin. The next good read writes it anew.
            continue
    return records


class StoreKeeper:
    """Keeps toggles and installed skills in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> tuple[Sequence[Toggle], Sequence[Skill]]:
        """Return all that is kept.

        Raises:
            StoreError: It cannot be read.
        """

        def work(connection: Connection) -> tuple[Sequence[Toggle], Sequence[Skill]]:
            toggles = connection.execute(select(TOGGLES).order_by(TOGGLES.c.id)).mappings()
            skills = connection.execute(select(SKILLS).order_by(SKILLS.c.id)).mappings()
            return [Toggle(**row) for row in toggles], [Skill(**row) for row in skills]

        return await self._store.read(work)

    async def put(self, thing: Toggle | Skill) -> None:
        """Keep a toggle or a skill in place of that of the same id; return once it is committed.

        Raises:
            StoreError: It cannot be kept.
        """
        table = TOGGLES if isinstance(thing, Toggle) else SKILLS

        def work(connection: Connection) -> None:
            _upsert(connection, table, [thing.to_row()])

        await self._store.write(work)
