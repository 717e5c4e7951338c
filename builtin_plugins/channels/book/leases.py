"""Which gateway sees to what, where several share a store: leases with an end."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Select, delete, or_, select, update

from hookgate import Clock, Store
from hookgate.builtin_plugins.channels.book.tables import LEASES
from hookgate.kit.records import insert_new

LEASE_SECONDS = 30.0
"""A gateway that has not been heard of for so long has stopped."""


def milliseconds(clock: Clock) -> int:
    """Return the time as milliseconds since 1970."""
    return int(clock.now().timestamp() * 1000)


class Leases:
    """The leases of one gateway.

    A store that no other gateway may share needs none of them to be looked at: whoever held
    anything before it was opened has stopped.

    Args:
        store: The store, with the tables of channels.
        clock: Says when a lease is over.
        gateway: The id of this run of this gateway.
    """

    def __init__(self, store: Store, clock: Clock, gateway: str) -> None:
        self._store = store
        self.clock = clock
        self.gateway = gateway
        self.held: set[str] = set()
        """The names of what is held beside, and renewed with each beat."""

    async def beat(self) -> None:
        """Say that this gateway runs, and holds what it holds.

        Raises:
            StoreError: That cannot be written.
        """

        def work(connection: Connection) -> set[str]:
            names = (self._own, *sorted(self.held))
            return {name for name in names if not self._take(connection, name)}

        self.held -= await self._store.write(work)

    async def take(self, name: str) -> bool:
        """Take or renew a lease; return whether it is this gateway's now.

        Raises:
            StoreError: That cannot be written.
        """
        return await self._store.write(lambda connection: self._take(connection, name))

    async def release(self) -> None:
        """Give everything back.

        Raises:
            StoreError: That cannot be written.
        """

        def work(connection: Connection) -> None:
            connection.execute(delete(LEASES).where(LEASES.c.holder == self.gateway))

        await self._store.write(work)

    def holds(self, connection: Connection, name: str) -> bool:
        """Whether this gateway holds a lease, for a transaction that depends on it."""
        mine = select(LEASES.c.name).where(
            LEASES.c.name == name, LEASES.c.holder == self.gateway, LEASES.c.until > self._now
        )
        return connection.execute(mine.with_for_update()).first() is not None

    def running(self) -> Select[tuple[str]]:
        """Return the query of the ids of the gateways that run; of a store of its own: this one."""
        if not self._store.shared:
            return select(LEASES.c.holder).where(LEASES.c.holder == self.gateway)
        gateways: ColumnElement[bool] = LEASES.c.name.startswith("gateway:", autoescape=True)
        return select(LEASES.c.holder).where(gateways, LEASES.c.until > self._now)

    def _take(self, connection: Connection, name: str) -> bool:
        now = self._now
        row = {"name": name, "holder": self.gateway, "until": now + int(LEASE_SECONDS * 1000)}
        if insert_new(connection, LEASES, row):
            return True
        free = LEASES.c.until <= now if self._store.shared else LEASES.c.holder != self.gateway
        taken = connection.execute(
            update(LEASES)
            .where(LEASES.c.name == name, or_(LEASES.c.holder == self.gateway, free))
            .values(holder=row["holder"], until=row["until"])
        )
        return bool(taken.rowcount)

    @property
    def _own(self) -> str:
        return f"gateway:{self.gateway}"

    @property
    def _now(self) -> int:
        return milliseconds(self.clock)
