"""Switches in the store: small named values that all gateways on one database share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic
from typing import Any

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.exc import SQLAlchemyError

from hookgate import StoreError, Switch
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import SWITCH_ROWS
from hookgate.kit.records.statements import insert_new
from hookgate.sessions import FileSwitches, Watchers

POLL_SECONDS = 0.5
"""How often a gateway looks for what others on its database have changed."""

_COLUMNS = (SWITCH_ROWS.c.name, SWITCH_ROWS.c.value, SWITCH_ROWS.c.version)
_ALL = select(*_COLUMNS)
_ONE = _ALL.where(SWITCH_ROWS.c.name == bindparam("switch"))
_CHANGE = (
    update(SWITCH_ROWS)
    .where(SWITCH_ROWS.c.name == bindparam("switch"), SWITCH_ROWS.c.version == bindparam("seen"))
    .values(value=bindparam("new_value"), version=SWITCH_ROWS.c.version + 1)
)


class SqlSwitches:
    """Switches in the store; see `hookgate.core.domain.ports.Switches`.

    Args:
        store: The store, with the tables of `storage.tables`.
        home: The switches in the home folder. They are kept as the store has them, so that
            what was switched off stays off when the store cannot be opened.
        tell: Called on the event loop with why the switches cannot be followed or kept, and
            with "" when they can again.
    """

    def __init__(
        self, store: SqlStore, home: FileSwitches, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._store = store
        self._home = home
        self._tell = tell
        self._watchers = Watchers()
        self._known: dict[str, Switch] = {}
        self._looked = monotonic()
        self._kept = True
        self._looking = asyncio.Lock()

    async def get(self, name: str) -> Switch:
        """Return a switch as it is now.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """

        def work(connection: Connection) -> Switch:
            row = connection.execute(_ONE, {"switch": name}).one_or_none()
            return Switch(name) if row is None else _switch(row)

        return await self._store.read(work)

    async def put(self, name: str, value: Any, *, version: int) -> Switch | None:
        """Set a switch, if nobody has done so since `version`; None where somebody has.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """
        text = json.dumps(value)

        def work(connection: Connection) -> bool:
            if version:
                seen = {"switch": name, "seen": version, "new_value": text}
                return bool(connection.execute(_CHANGE, seen).rowcount)
            row = {"name": name, "value": text, "version": 1}
            return insert_new(connection, SWITCH_ROWS, row)

        if not await self._store.write(work):
            return None
        await self.look()
        return Switch(name, value, version + 1)

    def watch(self, name: str, watcher: Callable[[Switch], None]) -> Callable[[], None]:
        """Call `watcher` with each change of a switch; return what undoes it."""
        return self._watchers.add(name, watcher)

    def behind(self) -> float:
        """Return the seconds since the last look that succeeded; 0 on a database of its own."""
        return monotonic() - self._looked if self._store.shared else 0.0

    async def look(self) -> None:
        """See what has changed, tell who watches, and keep it in the home folder."""
        async with self._looking:
            began = monotonic()
            try:
                rows = await self._store.read(lambda connection: connection.execute(_ALL).all())
                found = {row.name: _switch(row) for row in rows}
            except (StoreError, SQLAlchemyError, ValueError) as error:
                self._tell(f"what other gateways switch is not heard of: {error}")
                return
            self._looked = began
            changed = [one for one in found.values() if self._known.get(one.name) != one]
            self._known = found
            self._kept = self._kept and not changed
            for one in changed:
                self._watchers.tell(one)
            try:
                if not self._kept:
                    await self._home.keep(found.values())
                    self._kept = True
            except StoreError as error:
                self._tell(f"switches are lost where the database cannot be opened: {error}")
            else:
                self._tell("")

    async def follow(self) -> None:
        """Look every now and then, for as long as it runs."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.look()


def _switch(row: Any) -> Switch:
    return Switch(row.name, json.loads(row.value), row.version)
