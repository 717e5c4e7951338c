"""Opening the store, and what stands in for it where it cannot be opened."""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from hookgate import StartError, StoreUnavailableError
from hookgate.builtin_plugins.storage.engine import sqlite
from hookgate.builtin_plugins.storage.engine.faults import broken
from hookgate.builtin_plugins.storage.engine.lock import (
    AsyncLink,
    DatabaseLink,
    EngineLink,
    FileLock,
)
from hookgate.builtin_plugins.storage.engine.readers import Readers
from hookgate.builtin_plugins.storage.engine.writer import StoreWriter
from hookgate.builtin_plugins.storage.migrate import TablesError
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import METADATA, SCRIPTS

LOSS = "Until then everything is kept in memory only, and is lost when the gateway stops."
MEGABYTE = 1024 * 1024


class _NotOpenedError(Exception):
    """The database cannot be used; the text says why and what to do."""


async def open_store(
    settings: StorageSettings, home: Path, *, tell: Callable[[str], None] = lambda _: None
) -> SqlStore:
    """Open the store, with its own tables up to date.

    Args:
        settings: Where it is, and how it behaves.
        home: The folder that a relative path starts at.
        tell: Called on the event loop with what is wrong when the store stops working, and
            with "" when it works again.

    Raises:
        StartError: Another gateway holds the database; or its tables are newer than the
            code, or outdated while `auto_upgrade` is off; or the database cannot be used
            and `fallback` is ``refuse``.
        ConfigError: `url_file` cannot be used.
    """
    try:
        if (address := await asyncio.to_thread(settings.address)) is not None:
            return await _open_postgres(settings, address, tell)
        return await _open_sqlite(settings, settings.database(home), tell)
    except _NotOpenedError as error:
        if settings.fallback == "refuse":
            raise StartError(str(error)) from error
        return await _open_memory(settings, f"{error} {LOSS}")


async def _open_sqlite(
    settings: StorageSettings, path: Path, tell: Callable[[str], None]
) -> SqlStore:
    lock = FileLock(path)
    try:
        identity = await asyncio.to_thread(_prepare, settings, path, lock)
    except sqlite.DamagedError as error:
        lock.release()
        raise _NotOpenedError(_damaged(path, str(error))) from error
    except (OSError, sqlite3.Error) as error:
        lock.release()
        raise _NotOpenedError(_unusable(path, broken(error) or str(error))) from error
    except BaseException:
        lock.release()
        raise
    busy = settings.busy_seconds
    engine = sqlite.sqlite_engine(path, busy_seconds=busy)
    reading = sqlite.sqlite_engine(path, busy_seconds=busy, begin="BEGIN")
    store = SqlStore(
        _writer(settings, EngineLink(engine), tell=tell, check=identity.check, ended=lock.release),
        Readers(lambda: _reading(EngineLink(reading), sqlite.read_only), settings.readers),
        place=str(path),
        auto_upgrade=settings.auto_upgrade,
    )
    return await _with_own_tables(store, partial(_unusable, path), partial(_damaged, path))


def _prepare(settings: StorageSettings, path: Path, lock: FileLock) -> sqlite.FileIdentity:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock.acquire()
    sqlite.prepare(
        path, busy_seconds=settings.busy_seconds, check_bytes=settings.check_mb * MEGABYTE
    )
    return sqlite.FileIdentity(path)


async def _open_postgres(
    settings: StorageSettings, text: str, tell: Callable[[str], None]
) -> SqlStore:
    # Who uses SQLite loads nothing of PostgreSQL's.
    from hookgate.builtin_plugins.storage.engine import postgres

    url = postgres.postgres_url(text)
    place = url.render_as_string(hide_password=True)
    engine = postgres.postgres_engine(url)
    store = SqlStore(
        _writer(settings, AsyncLink(engine), tell=tell),
        Readers(lambda: _reading(AsyncLink(engine), postgres.read_only), settings.readers),
        place=place,
        auto_upgrade=settings.auto_upgrade,
        shared=True,
    )
    return await _with_own_tables(
        store,
        lambda why: (
            f"the database {place} cannot be used: {why}. Expected a PostgreSQL server that "
            "answers and lets this user create tables. Mend that, then restart."
        ),
    )


async def _open_memory(settings: StorageSettings, problem: str) -> SqlStore:
    link = EngineLink(sqlite.memory_engine())
    store = SqlStore(_writer(settings, link), None, place="memory", problem=problem)
    return await _with_own_tables(store, str)


async def _with_own_tables(
    store: SqlStore, explain: Callable[[str], str], damaged: Callable[[str], str] | None = None
) -> SqlStore:
    try:
        await store.migrate("storage", METADATA, SCRIPTS)
        await store.write(sqlite.mark)
    except BaseException as error:
        await store.close()
        if isinstance(error, StoreUnavailableError):
            why = broken(error.__cause__) or str(error)
            raise _NotOpenedError(explain(why)) from error
        if isinstance(error, TablesError | DBAPIError) and damaged is not None:
            raise _NotOpenedError(damaged(str(error).partition("\n")[0])) from error
        raise
    return store


def _writer(
    settings: StorageSettings,
    link: DatabaseLink,
    *,
    tell: Callable[[str], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
) -> StoreWriter:
    return StoreWriter(
        link,
        queue_jobs=settings.queue,
        group_rows=settings.group_rows,
        tell=tell,
        check=check,
        ended=ended,
    )


def _reading(link: DatabaseLink, prepare: Callable[..., None]) -> DatabaseLink:
    link.on_open(prepare)
    return link


def _damaged(path: Path, why: str) -> str:
    moved = f"{path}.damaged"
    return (
        f"the database {path} is damaged ({why}), and is left as it is. Put a backup in its "
        f"place, or move it away with `mv {shlex.quote(str(path))} {shlex.quote(moved)}` "
        "(its -wal and -shm files too, where they are there), then restart."
    )


def _unusable(path: Path, why: str) -> str:
    return (
        f"the database {path} cannot be used: {why}. Expected a folder on a local disk that can "
        "be written and has room. Mend that, then restart."
    )
