"""The grants, and the digests of the accepted tools, in the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Column, Index, MetaData, Table, Text, delete, insert, select

from hookgate.builtin_plugins.policy.desk.grants import Grant
from hookgate.builtin_plugins.policy.desk.pins import ToolPin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Select

    from hookgate.core.domain.ports import Store

SCRIPTS = Path(__file__).parents[1] / "migrations"

METADATA = MetaData()

GRANTS = Table(
    "policy_grant",
    METADATA,
    Column("id", Text, primary_key=True),
    # `arguments` for these very arguments, `tool` for any.
    Column("scope", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("plugin", Text, nullable=False),
    # SHA-256 in hex; of the arguments "" where the scope is `tool`.
    Column("tool_digest", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    # The arguments for people, secrets masked.
    Column("shown", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("tainted", Boolean, nullable=False),
    Column("policy", Text, nullable=False),
    Column("allowed_by", Text, nullable=False),
    # ISO 8601 in UTC.
    Column("allowed_at", Text, nullable=False),
    Column("expires", Text, nullable=False),
    Index("policy_grant_by_session", "session", "tool"),
)

PINS = Table(
    "policy_tool_pin",
    METADATA,
    Column("tool", Text, primary_key=True),
    # SHA-256 in hex of what was accepted, and of what was seen last.
    Column("accepted", Text, nullable=False),
    Column("seen", Text, nullable=False),
    # What was accepted, as canonical JSON: it says later what has changed.
    Column("identity", Text, nullable=False),
    # A principal's id; "" where it was accepted because it was the first of its name.
    Column("accepted_by", Text, nullable=False),
    # ISO 8601 in UTC.
    Column("changed", Text, nullable=False),
)


class StoreGrants:
    """Keeps grants in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of_session(self, session: str, tool: str) -> Sequence[Grant]:
        """Return the grants of one tool in one session, the newest first."""
        fitting = select(GRANTS).where(GRANTS.c.session == session, GRANTS.c.tool == tool)
        return await self._read(fitting)

    async def all(self) -> Sequence[Grant]:
        """Return every grant, the newest first."""
        return await self._read(select(GRANTS))

    async def _read(self, query: Select[Any]) -> Sequence[Grant]:
        newest_first = query.order_by(GRANTS.c.allowed_at.desc(), GRANTS.c.id)

        def work(connection: Connection) -> list[Grant]:
            return [Grant(**row) for row in connection.execute(newest_first).mappings()]

        return await self._store.read(work)

    def adding(self, grant: Grant) -> Callable[[Connection | None], None]:
        """Return what keeps `grant` by the transaction that it is handed."""

        def add(connection: Connection | None) -> None:
            assert connection is not None, "where there is a store, answers are kept in it"
            connection.execute(insert(GRANTS).values(grant.to_row()))

        return add

    async def remove(self, grant_id: str) -> bool:
        """Forget a grant; return whether it was there."""

        def work(connection: Connection) -> bool:
            done = connection.execute(delete(GRANTS).where(GRANTS.c.id == grant_id))
            return bool(done.rowcount)

        return await self._store.write(work)

    async def prune(self, before: str) -> None:
        """Forget the grants that ended before this time, ISO 8601 in UTC."""

        def work(connection: Connection) -> None:
            connection.execute(delete(GRANTS).where(GRANTS.c.expires < before))

        await self._store.write(work)


class StorePins:
    """Keeps the pins of tools in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Mapping[str, ToolPin]:
        """Return all pins by the tool's name."""

        def work(connection: Connection) -> dict[str, ToolPin]:
            rows = connection.execute(select(PINS)).mappings()
            return {row["tool"]: ToolPin(**row) for row in rows}

        return await self._store.read(work)

    async def add(self, pins: Sequence[ToolPin]) -> Sequence[ToolPin]:
        """Keep those of `pins` whose tools have none; return what is kept of all of them."""
        names = [pin.tool for pin in pins]

        def work(connection: Connection) -> list[ToolPin]:
            query = select(PINS).where(PINS.c.tool.in_(names))
            there = {row["tool"]: ToolPin(**row) for row in connection.execute(query).mappings()}
            fresh = [pin for pin in pins if pin.tool not in there]
            if fresh:
                connection.execute(insert(PINS), [pin.to_row() for pin in fresh])
            return [*there.values(), *fresh]

        return await self._store.write(work) if pins else ()

    async def save(self, pins: Sequence[ToolPin]) -> None:
        """Keep `pins` in place of those of the same tools."""

        def work(connection: Connection) -> None:
            connection.execute(delete(PINS).where(PINS.c.tool.in_([pin.tool for pin in pins])))
            connection.execute(insert(PINS), [pin.to_row() for pin in pins])

        if pins:
            await self._store.write(work)
