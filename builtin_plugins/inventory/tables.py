"""What the inventory keeps in the store: the last good records, toggles, and installed skills."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, MetaData, bindparam, delete, select

from hookgate import Store
from hookgate.builtin_plugins.inventory.record import CapabilityRecord, from_json
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import upsert
from hookgate.wire import dumps

SCRIPTS = Path(__file__).parent / "migrations"

METADATA = MetaData(info={"complete": True})


class KeptRecord(Record):
    """The last good record of a capability."""

    __tablename__ = "inventory_capability"
    metadata = METADATA

    id: str = Field(primary_key=True)
    source: str = Field(index=True)
    data: str
    """It as JSON, without what is derived each time: `writable` and `synced_at`."""


class ReadSource(Record):
    """A source that was read."""

    __tablename__ = "inventory_source"
    metadata = METADATA

    source: str = Field(primary_key=True)
    synced: str
    """When, ISO 8601 in UTC."""


class Toggle(Record):
    """Whether one capability is switched off."""

    __tablename__ = "inventory_toggle"
    metadata = METADATA

    id: str = Field(primary_key=True)
    """The id of its record."""
    disabled: bool
    """Whether it is switched off; where it was once, and is not now, this says so."""
    changed: str
    """When, ISO 8601 in UTC."""
    changed_by: str
    """The principal."""


class Skill(Record):
    """A skill that was installed."""

    __tablename__ = "inventory_skill"
    metadata = METADATA

    id: str = Field(primary_key=True)
    """The id of its record."""
    name: str
    """What it is called."""
    agent: str | None
    """For which agent; None for everybody."""
    runtime: str
    """The runtime of that agent."""
    description: str
    content: str
    changed: str
    """When it was installed last, ISO 8601 in UTC."""
    changed_by: str
    """The principal."""


CAPABILITIES, SOURCES = KeptRecord.table, ReadSource.table
DERIVED = ("writable", "synced_at")


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
                upsert(connection, CAPABILITIES, changed)
            upsert(connection, SOURCES, [{"source": source, "synced": synced}])

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
