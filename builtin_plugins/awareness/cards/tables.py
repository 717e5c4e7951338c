"""The digests of cards in the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, Table, Text, delete, insert, select

from hookgate.builtin_plugins.awareness.cards.pins import Pin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.core.domain.ports import Store

SCRIPTS = Path(__file__).parents[1] / "migrations"

METADATA = MetaData()

PINS = Table(
    "awareness_pin",
    METADATA,
    Column("id", Text, primary_key=True),
    # SHA-256 in hex; "" for a card that nobody has approved yet.
    Column("approved", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("source", Text, nullable=False),
    # ISO 8601 in UTC.
    Column("changed", Text, nullable=False),
)


class StorePins:
    """Keeps pins in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Mapping[str, Pin]:
        """Return all pins by the card's id."""

        def work(connection: Connection) -> dict[str, Pin]:
            rows = connection.execute(select(PINS)).mappings()
            return {row["id"]: Pin(**row) for row in rows}

        return await self._store.read(work)

    async def save(self, pins: Sequence[Pin]) -> None:
        """Keep `pins` in place of those of the same ids; return once they are committed."""

        def work(connection: Connection) -> None:
            connection.execute(delete(PINS).where(PINS.c.id.in_([pin.id for pin in pins])))
            connection.execute(insert(PINS), [pin.to_row() for pin in pins])

        if pins:
            await self._store.write(work)
