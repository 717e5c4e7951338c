"""The builtin plugin `storage`: provides the store, and what the core keeps in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgate import (
    CONVERSATIONS,
    LANES,
    QUESTIONS,
    STORE,
    SWITCHES,
    ConfigError,
    Host,
    Operation,
    Problem,
    StoreUnavailableError,
    operations_of,
)
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.hookspecs import blocking, hookimpl
from hookgate.sessions import FileSwitches
from hookgate.tasks import stop

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.lanes import SqlLanes
    from hookgate.builtin_plugins.storage.questions import SqlQuestions
    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.builtin_plugins.storage.switches import SqlSwitches

PART = "storage"
SWITCHES_PART = "storage switches"
QUESTIONS_PART = "storage questions"
LANES_PART = "storage lanes"


class Plugin:
    """Opens the store for the life of the gateway."""

    Settings = StorageSettings
    provides = (STORE, CONVERSATIONS, SWITCHES, QUESTIONS, LANES)

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
        from hookgate.builtin_plugins.storage.engine.opening import open_store
        from hookgate.builtin_plugins.storage.store import Readiness

        if (address := await asyncio.to_thread(self._settings.address)) is not None:
            _hide_password(host, address)
        readiness = Readiness(host.standing(PART))
        store = await open_store(self._settings, host.settings.home, tell=readiness.tell)
        work: list[asyncio.Task[None]] = []
        lanes: SqlLanes | None = None
        try:
            host.standing(PART).bad(store.problem)
            work.append(host.spawn(readiness.follow(store), name="storage.readiness"))
            host.provide(STORE, store)
            host.provide(CONVERSATIONS, SqlConversations(store, host.clock))
            if store.durable:
                # One that stands in for it knows nothing: then the file has the last word.
                switches = await _switches(host, store)
                if store.shared:
                    work.append(host.spawn(switches.follow(), name="storage.switches"))
            questions = await _questions(host, store)
            if store.shared:
                work.append(host.spawn(questions.look_after(), name="storage.questions"))
                lanes = self._lanes(host, store)
                work.append(host.spawn(lanes.keep(), name="storage.lanes"))
            self._store = store
            yield
            if lanes is not None:
                await lanes.close()
            await questions.close()
        finally:
            self._store = None
            await stop(*work)
            await store.close()

    @hookimpl
    @blocking
    def check_settings(self) -> Sequence[Problem]:
        """Say that the file with the database's URL cannot be used."""
        try:
            self._settings.address()
        except ConfigError as error:
            return error.problems
        return []

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``db.status`` and ``db.upgrade``."""
        from hookgate.builtin_plugins.storage.operations import StoreOperations

        return operations_of(StoreOperations(self._opened))

    def _lanes(self, host: Host, store: SqlStore) -> SqlLanes:
        """Offer lanes that all gateways on the database know; of one alone, the core's do."""
        from hookgate.builtin_plugins.storage.lanes import SqlLanes

        lanes = SqlLanes(
            store,
            lambda: host[CONVERSATIONS],
            queue=host.settings.turn.lane_queue,
            wait=self._settings.lane_seconds,
            spawn=host.spawn,
            tell=host.standing(LANES_PART).bad,
        )
        host.provide(LANES, lanes)
        return lanes

    def _opened(self) -> SqlStore:
        if self._store is None:
            raise StoreUnavailableError("the store is closed: the gateway is stopping")
        return self._store


async def _questions(host: Host, store: SqlStore) -> SqlQuestions:
    from hookgate.builtin_plugins.storage.questions import SqlQuestions

    questions = SqlQuestions(
        store, host.clock, spawn=host.spawn, tell=host.standing(QUESTIONS_PART).bad, log=host.log
    )
    await questions.expire()
    host.provide(QUESTIONS, questions)
    return questions


async def _switches(host: Host, store: SqlStore) -> SqlSwitches:
    from hookgate.builtin_plugins.storage.switches import SqlSwitches

    switches = SqlSwitches(
        store, FileSwitches(host.settings.home), tell=host.standing(SWITCHES_PART).bad
    )
    await switches.look()
    host.provide(SWITCHES, switches)
    return switches


def _import_store() -> None:
    modules = ("conversations", "operations", "questions", "switches")
    for name in ("engine.opening", *modules):
        import_module(f"hookgate.builtin_plugins.storage.{name}")


def _hide_password(host: Host, url: str) -> None:
    from sqlalchemy import make_url

    password = make_url(url).password
    if password:
        host.secrets.register(password)
