"""The examples in the store."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import sqlalchemy as sa

from hookgate import Store
from hookgate.builtin_plugins.discovery.learn.view import Example, ExampleBounds
from hookgate.kit.records.statements import Prepared, Trim, insert_new, upsert

SCRIPTS = Path(__file__).parents[1] / "migrations"

METADATA = sa.MetaData(info={"complete": True})

EXAMPLES = sa.Table(
    "discovery_example",
    METADATA,
    # SHA-256 of scope, capability and folded text: these may be longer than a key of an index.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("capability", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("folded", sa.Text, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    # Microseconds since 1970 in UTC.
    sa.Column("learned", sa.BigInteger, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("foreign", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("discovery_example_by_capability", "scope", "capability", "used"),
    sa.Index("discovery_example_by_scope", "scope", "used"),
    sa.Index("discovery_example_by_use", "used"),
)


CURSORS = sa.Table(
    "discovery_cursor",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("cursor", sa.Text, nullable=False),
)
_HEARD = CURSORS.c.name == "heard"

_C = EXAMPLES.c
_NAMES = tuple(_C.keys())
_values = attrgetter(*_NAMES)
_TRIM = Trim((_C.used,), ())
_TRIM_SCOPE = Trim((_C.used,), (_C.scope,))
_TRIM_OWNER = Trim((_C.used,), (_C.scope, _C.capability))
_COUNT = Prepared(
    sa.update(EXAMPLES)
    .where(_C.id == sa.bindparam("known"))
    .values(count=_C.count + 1, used=sa.bindparam("again"), foreign=False)
)


_LOWER = Prepared(
    sa.update(EXAMPLES)
    .where(_C.id == sa.bindparam("known"))
    .values(count=sa.bindparam("left"), used=sa.bindparam("again"))
)


class StoreExamples:
    """Keeps examples in the store, within the bounds of `ExampleView` and by its rule.

    Args:
        store: The store; `METADATA` is migrated.
        bounds: How many are kept.
    """

    def __init__(self, store: Store, bounds: ExampleBounds) -> None:
        self._store = store
        self._bounds = bounds

    async def load(self) -> Sequence[Example]:
        """Return all examples, the least recently used first."""

        def work(connection: sa.Connection) -> list[Example]:
            rows = connection.execute(sa.select(EXAMPLES).order_by(EXAMPLES.c.used, EXAMPLES.c.id))
            return [Example(**row) for row in rows.mappings()]

        return await self._store.read(work)

    async def keep(self, examples: Sequence[Example]) -> None:
        """Add `examples`, or count them once more; what is too many goes in the same commit."""

        def work(connection: sa.Connection) -> None:
            for example in examples:
                _count(connection, example)
            self._trim(connection, examples)

        await self._store.write(work)

    async def lower(self, examples: Sequence[Example]) -> None:
        """Set how often `examples` count; one that does not count any more goes."""

        def work(connection: sa.Connection) -> None:
            for one in examples:
                _LOWER.count(connection, known=one.id, left=one.count, again=one.used)
            connection.execute(sa.delete(EXAMPLES).where(_C.count < 1))

        await self._store.write(work)

    async def take_in(self, examples: Sequence[Example]) -> None:
        """Add `examples`; those that are there already stay as they are."""

        def work(connection: sa.Connection) -> None:
            for example in examples:
                insert_new(connection, EXAMPLES, dict(zip(_NAMES, _values(example), strict=True)))
            self._trim(connection, examples)

        await self._store.write(work)

    async def heard(self) -> str | None:
        """Return the cursor behind the turns that nothing is to be learned from any more."""
        query = sa.select(CURSORS.c.cursor).where(_HEARD)
        return await self._store.read(lambda connection: connection.scalar(query))

    async def set_heard(self, cursor: str) -> None:
        """Keep that cursor."""

        def work(connection: sa.Connection) -> None:
            upsert(connection, CURSORS, [{"name": "heard", "cursor": cursor}])

        await self._store.write(work)

    async def drop(self, examples: Sequence[Example]) -> None:
        """Delete `examples`."""
        query = sa.delete(EXAMPLES).where(EXAMPLES.c.id == sa.bindparam("gone"))
        rows = [{"gone": example.id} for example in examples]

        def work(connection: sa.Connection) -> None:
            connection.execute(query, rows)

        await self._store.write(work)

    async def forget(self, *, scope: str | None, capability: str | None, folded: str | None) -> int:
        """Delete what fits everything that is not None; return how many rows that were."""
        wanted = {"scope": scope, "capability": capability, "folded": folded}
        fits = [EXAMPLES.c[name] == value for name, value in wanted.items() if value is not None]
        query = sa.delete(EXAMPLES).where(*fits)
        return await self._store.write(lambda connection: connection.execute(query).rowcount)

    def _trim(self, connection: sa.Connection, examples: Sequence[Example]) -> None:
        bounds = self._bounds
        for scope, capability in dict.fromkeys((one.scope, one.capability) for one in examples):
            _TRIM_OWNER(connection, bounds.per_capability, scope, capability)
        for scope in dict.fromkeys(one.scope for one in examples):
            _TRIM_SCOPE(connection, bounds.total, scope)
        _TRIM(connection, bounds.overall)


def _count(connection: sa.Connection, example: Example) -> None:
    """Insert `example`; where it is there, raise its count and say when it was used."""
    values = dict(zip(_NAMES, _values(example), strict=True))
    if not insert_new(connection, EXAMPLES, values):
        _COUNT.count(connection, known=example.id, again=example.used)
