"""What guests keep, in the store: values by key, and how many bytes a namespace holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, MetaData, delete, func, select, update

from hookgate import Store, Taint
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import insert_new, upsert

SCRIPTS = Path(__file__).parent / "migrations"

METADATA = MetaData(info={"complete": True})


class Namespace(Record):
    """How much a namespace holds."""

    __tablename__ = "wasm_namespace"
    metadata = METADATA

    plugin: str = Field(primary_key=True)
    namespace: str = Field(primary_key=True)
    bytes: int
    """Of all values together, of all owners: what the quota limits."""


class Value(Record):
    """A value."""

    __tablename__ = "wasm_value"
    metadata = METADATA

    plugin: str = Field(primary_key=True)
    namespace: str = Field(primary_key=True)
    owner: str = Field(primary_key=True)
    """Whose it is: a peer, as `key_text` of channel, account and peer, or "" for what belongs to a
    channel."""
    key: str = Field(primary_key=True)
    value: str
    taint: str
    """A JSON array: where untrusted text in the value came from."""
    bytes: int


NAMESPACES, VALUES = Namespace.table, Value.table
ROW_BYTES = 64
"""What a row is counted as beside its key and value, so that empty ones are not free."""

MOST_KEYS = 1_000
"""Keys that one listing returns."""

ORDER = "wasm"


class QuotaError(Exception):
    """A namespace has no room for a value."""


@dataclass(frozen=True, slots=True)
class KeptValue:
    """One value.

    Attributes:
        value: It.
        taint: Where untrusted text in it came from.
    """

    value: str
    taint: Taint


class Values:
    """What the guests of one gateway keep.

    Args:
        store: The store, whose tables are up to date.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, plugin: str, namespace: str, owner: str, key: str) -> KeptValue | None:
        """Return a value; None where there is none."""
        query = select(VALUES.c.value, VALUES.c.taint).where(_row(plugin, namespace, owner, key))

        def work(connection: Connection) -> KeptValue | None:
            found = connection.execute(query).one_or_none()
            return None if found is None else KeptValue(found.value, _taint(found.taint))

        return await self._store.read(work)

    async def set(
        self, plugin: str, namespace: str, owner: str, key: str, kept: KeptValue, *, quota: int
    ) -> None:
        """Keep a value in place of what was there; return once it is committed.

        Raises:
            QuotaError: The namespace would hold more than `quota` bytes; nothing was changed.
        """
        size = len(key.encode()) + len(kept.value.encode()) + ROW_BYTES
        row, space = _row(plugin, namespace, owner, key), _space(plugin, namespace)

        def work(connection: Connection) -> None:
            empty = {"plugin": plugin, "namespace": namespace, "bytes": 0}
            insert_new(connection, NAMESPACES, empty)
            # Holds the namespace's row from here on, so that two gateways count one after the
            # other.
            connection.execute(update(NAMESPACES).where(space).values(bytes=NAMESPACES.c.bytes))
            before = connection.execute(select(VALUES.c.bytes).where(row)).scalar_one_or_none()
            held = connection.execute(select(NAMESPACES.c.bytes).where(space)).scalar_one()
            total = held - (before or 0) + size
            if total > quota:
                raise QuotaError(f"{total:,} bytes, and {quota:,} are granted")
            made = Value(
                plugin=plugin,
                namespace=namespace,
                owner=owner,
                key=key,
                value=kept.value,
                taint=json.dumps(sorted(kept.taint)),
                bytes=size,
            )
            upsert(connection, VALUES, [dict(made)])
            connection.execute(update(NAMESPACES).where(space).values(bytes=total))

        await self._store.write(work, order=ORDER)

    async def delete(self, plugin: str, namespace: str, owner: str, key: str) -> bool:
        """Delete a value; return, once that is committed, whether it was there."""
        row, space = _row(plugin, namespace, owner, key), _space(plugin, namespace)

        def work(connection: Connection) -> bool:
            connection.execute(update(NAMESPACES).where(space).values(bytes=NAMESPACES.c.bytes))
            size = connection.execute(select(VALUES.c.bytes).where(row)).scalar_one_or_none()
            if size is None:
                return False
            connection.execute(delete(VALUES).where(row))
            less = NAMESPACES.c.bytes - size
            connection.execute(update(NAMESPACES).where(space).values(bytes=less))
            return True

        return await self._store.write(work, order=ORDER)

    async def forget(self, plugin: str) -> int:
        """Delete all that a plugin has kept; return how many values that was."""

        def work(connection: Connection) -> int:
            connection.execute(delete(NAMESPACES).where(NAMESPACES.c.plugin == plugin))
            return connection.execute(delete(VALUES).where(VALUES.c.plugin == plugin)).rowcount

        return await self._store.write(work, order=ORDER)

    async def keys(
        self, plugin: str, namespace: str, owner: str, prefix: str
    ) -> tuple[Sequence[str], Taint]:
        """Return the keys that begin with `prefix`, sorted, and what taints them together."""
        begins = func.substr(VALUES.c.key, 1, len(prefix)) == prefix
        query = (
            select(VALUES.c.key, VALUES.c.taint)
            .where(_owned(plugin, namespace, owner), begins)
            .order_by(VALUES.c.key)
            .limit(MOST_KEYS)
        )

        def work(connection: Connection) -> tuple[Sequence[str], Taint]:
            rows = connection.execute(query).all()
            taints = [_taint(row.taint) for row in rows]
            return [row.key for row in rows], frozenset().union(*taints)

        return await self._store.read(work)


def _space(plugin: str, namespace: str) -> ColumnElement[bool]:
    return (NAMESPACES.c.plugin == plugin) & (NAMESPACES.c.namespace == namespace)


def _owned(plugin: str, namespace: str, owner: str) -> ColumnElement[bool]:
    columns = VALUES.c
    return (columns.plugin == plugin) & (columns.namespace == namespace) & (columns.owner == owner)


def _row(plugin: str, namespace: str, owner: str, key: str) -> ColumnElement[bool]:
    return _owned(plugin, namespace, owner) & (VALUES.c.key == key)


def _taint(text: str) -> Taint:
    return frozenset(json.loads(text))
