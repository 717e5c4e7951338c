"""The builtin plugin `storage`: provides the store and the conversations in it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.core.domain.ports import CONVERSATIONS, STORE
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.core.domain.operations import Operation
    from hookgate.core.host import Host

__all__ = ["Plugin"]

PART = "storage"


class Plugin:
    """Opens the store for the life of the gateway."""

    Settings = StorageSettings
    provides = (STORE, CONVERSATIONS)

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._store: SqlStore | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the store and offer it; close it when everything that uses it is closed."""
        # SQLAlchemy takes a third of a second to import: not on the event loop.
        await asyncio.to_thread(_import_store)
        from hookgate.builtin_plugins.storage.conversations import SqlConversations
        from hookgate.builtin_plugins.storage.opening import open_store

        def tell(problem: str) -> None:
            if problem:
                host.degrade(PART, problem)
            else:
                host.recover(PART)

        if self._settings.url is not None:
            _hide_password(host, self._settings.url.get_secret_value())
        store = await open_store(self._settings, host.settings.home, tell=tell)
        try:
            if store.problem:
                host.degrade(PART, store.problem)
            host.provide(STORE, store)
            host.provide(CONVERSATIONS, SqlConversations(store, host.clock))
            self._store = store
            yield
        finally:
            self._store = None
            await store.close()

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``db.status`` and ``db.upgrade``."""
        from hookgate.builtin_plugins.storage.operations import store_operations

        return store_operations(self._opened)

    def _opened(self) -> SqlStore:
        if self._store is None:
            raise StoreUnavailableError("the store is closed: the gateway is stopping")
        return self._store


def _import_store() -> None:
    for name in ("opening", "conversations", "operations"):
        import_module(f"hookgate.builtin_plugins.storage.{name}")


def _hide_password(host: Host, url: str) -> None:
    from sqlalchemy import make_url

    password = make_url(url).password
    if password:
        host.secrets.register(password)
