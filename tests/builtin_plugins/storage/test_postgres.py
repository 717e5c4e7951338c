from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from tests.builtin_plugins.storage import earlier
from tests.support.postgres import Server

from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.engine.lock import AsyncLink
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.engine.postgres import postgres_engine, postgres_url
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.domain.errors import StaleFenceError, StartError, StoreUnavailableError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import Fence, SessionKey
from hookgate.core.host import SystemClock

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection
    from tests.builtin_plugins.storage.conftest import OpenStore

pytestmark = pytest.mark.slow

HERE = SessionKey("demo", "cli", "local", "main")
METADATA = sa.MetaData()
ROWS = sa.Table(
    "rows",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("data", sa.JSON, nullable=False),
)

STOPS = (
    "CREATE FUNCTION stops() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END'",
    "CREATE TRIGGER stops AFTER UPDATE ON storage_sessions FOR EACH ROW EXECUTE FUNCTION stops()",
)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


async def waiting(connection: AsyncConnection, count: int) -> None:
    """Return once so many of the server's connections wait for a lock."""
    while True:
        await connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
        if (await connection.exec_driver_sql(WAITING)).scalar_one() == count:
            return


@pytest.fixture
async def store(url: str, opened: OpenStore) -> AsyncIterator[SqlStore]:
    store = await opened(url=url)
    assert store.durable, store.problem
    await store.write(METADATA.create_all)
    yield store
    await store.close()


def said(text: str, turn: str) -> Message:
    return Message(role="user", parts=(Text(text),), turn=turn)


async def ids(store: SqlStore) -> list[int]:
    query = sa.select(ROWS.c.id).order_by(ROWS.c.id)
    return await store.read(lambda connection: list(connection.execute(query).scalars()))


async def test_reading_and_writing_is_the_same_as_on_sqlite(store: SqlStore) -> None:
    await store.insert(ROWS, [{"id": 1, "data": {"a": 1}}, {"id": 2, "data": [2]}])
    query = sa.select(ROWS.c.data).order_by(ROWS.c.id)
    assert await store.read(lambda c: list(c.execute(query).scalars())) == [{"a": 1}, [2]]

    def broken(connection: sa.Connection) -> None:
        connection.execute(ROWS.insert(), {"id": 50, "data": 0})
        raise LookupError

    results = await asyncio.gather(
        store.insert(ROWS, [{"id": 3, "data": 3}]),
        store.insert(ROWS, [{"id": 4, "data": 4}, {"id": 1, "data": "twice"}]),
        store.write(broken),
        store.write(lambda c: c.execute(ROWS.insert(), {"id": 5, "data": 5}) and None),
        return_exceptions=True,
    )
    assert (results[0], results[3]) == (None, None)
    assert isinstance(results[1], IntegrityError)
    assert isinstance(results[2], LookupError)
    assert await ids(store) == [1, 2, 3, 5]


async def test_gateways_that_change_the_same_counters_never_wait_in_a_circle(
    store: SqlStore, opened: OpenStore, url: str
) -> None:
    await store.insert(ROWS, [{"id": 1, "data": 0}, {"id": 2, "data": 0}])
    other = await opened(url=url)

    def counts(number: int) -> Callable[[sa.Connection], object]:
        query = sa.select(ROWS.c.data).where(ROWS.c.id == number).with_for_update()

        def work(connection: sa.Connection) -> None:
            data = connection.execute(query).scalar_one()
            change = sa.update(ROWS).where(ROWS.c.id == number)
            connection.execute(change.values(data=data + 1))

        return work

    async def one(store: SqlStore, *numbers: int) -> None:
        for _ in range(40):
            writes = (store.write(counts(each), order=f"plugin{each}") for each in numbers)
            await asyncio.gather(*writes)

    await asyncio.gather(one(store, 1, 2), one(other, 2, 1))
    assert await store.read(lambda c: list(c.execute(sa.select(ROWS.c.data)).scalars())) == [80, 80]


async def test_a_read_cannot_write(store: SqlStore) -> None:
    with pytest.raises(StoreUnavailableError, match="read-only transaction"):
        await store.read(lambda c: c.execute(ROWS.insert(), {"id": 9, "data": 9}))
    assert await ids(store) == []


async def test_what_another_gateway_is_committing_is_forgotten_too(
    store: SqlStore, opened: OpenStore, url: str
) -> None:
    one = SqlConversations(store, SystemClock())
    other = SqlConversations(await opened(url=url), SystemClock())
    fence = Fence()
    await other.append(HERE, [said("before", "t1")], fence=fence)
    # The other one's transaction stops behind its last statement until the lock is given back.
    await store.write(lambda connection: [connection.exec_driver_sql(line) for line in STOPS])
    engine = postgres_engine(postgres_url(url))
    async with engine.connect() as holder:
        await holder.exec_driver_sql("SELECT pg_advisory_lock(7)")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(other.append(HERE, [said("meanwhile", "t2")], fence=fence))
            await waiting(holder, 1)
            forgotten = tasks.create_task(one.forget(HERE))
            await waiting(holder, 2)
            await holder.exec_driver_sql("SELECT pg_advisory_unlock(7)")
    await engine.dispose()
    assert forgotten.result() == 2
    assert (await one.since()).said == ()
    await one.append(HERE, [said("after", "t3")], fence=Fence())
    assert [message.text for message in await one.history(HERE, turns=5)] == ["after"]


async def test_two_gateways_share_conversations_and_the_newer_holder_wins(
    store: SqlStore, opened: OpenStore, url: str
) -> None:
    one = SqlConversations(store, SystemClock())
    other = SqlConversations(await opened(url=url), SystemClock())
    await asyncio.gather(
        *(
            conversations.append(
                SessionKey("a", "c", "l", f"{place % 5}"), [message], fence=Fence()
            )
            for place in range(20)
            for conversations, message in ((one, said("a", "t1")), (other, said("b", "t1")))
        )
    )
    rows = await one.sessions()
    assert {row["messages"] for row in rows} == {8}
    first, second = Fence(), Fence()
    await one.append(HERE, [said("\x00 \ud800", "t1")], fence=first)
    await other.load(HERE, turns=5, fence=second)
    await other.append(HERE, [said("second", "t2")], fence=second)
    with pytest.raises(StaleFenceError):
        await one.append(HERE, [said("late", "t1")], fence=first)
    found = await one.history(HERE, turns=5)
    assert [message.text for message in found] == ["\x00 \ud800", "second"]


async def test_conversations_of_the_first_version_are_kept_and_numbered(
    url: str, opened: OpenStore, tmp_path: Path
) -> None:
    link = AsyncLink(postgres_engine(postgres_url(url)))

    def prepare() -> None:
        link.run(lambda connection: earlier.fill(connection, tmp_path))
        link.close()

    await asyncio.to_thread(prepare)
    store = await opened(url=url)
    assert store.durable, store.problem
    await earlier.check(store, SqlConversations(store, SystemClock()))


async def test_migrations_of_a_plugin_run_in_one_transaction(
    store: SqlStore, tmp_path: Path, url: str
) -> None:
    script = """
        import sqlalchemy as sa
        from alembic import op

        revision = "notes_0001"
        down_revision = None


        def upgrade():
            op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
            {more}
    """
    versions = tmp_path / "migrations" / "versions"
    versions.mkdir(parents=True)
    notes = sa.MetaData()
    sa.Table("notes", notes, sa.Column("id", sa.Integer, primary_key=True))
    (versions / "v1.py").write_text(dedent(script).format(more="op.execute('SELECT nonsense')"))
    with pytest.raises(StartError, match="failed at revision notes_0001"):
        await store.migrate("notes", notes, versions.parent)
    (versions / "v1.py").write_text(dedent(script).format(more=""))
    await store.migrate("notes", notes, versions.parent)
    await store.close()
    store = await open_store(StorageSettings(url=url), tmp_path)  # type: ignore[arg-type]
    shown = await store.status()
    await store.close()
    assert [(row.plugin, row.version) for row in shown] == [
        ("storage", "storage_0005"),
        ("notes", "notes_0001"),
    ]


async def test_two_gateways_that_start_together_make_the_tables_once(url: str) -> None:
    settings = StorageSettings(url=url)  # type: ignore[arg-type]
    stores = await asyncio.gather(*(open_store(settings, Path()) for _ in range(4)))
    assert all(store.durable for store in stores)
    for store in stores:
        await store.close()


async def test_a_server_that_drops_connections_is_said_and_used_again(
    url: str, opened: OpenStore, server: Server
) -> None:
    told: list[str] = []
    store = await opened(url=url, tell=told.append)
    await store.write(METADATA.create_all)
    await store.insert(ROWS, [{"id": 1, "data": 1}])
    assert await ids(store) == [1]
    drop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'hookgate'"
    await asyncio.to_thread(server.ask, drop)
    with pytest.raises(StoreUnavailableError):
        await store.insert(ROWS, [{"id": 2, "data": 2}])
    with pytest.raises(StoreUnavailableError):
        await ids(store)
    await store.insert(ROWS, [{"id": 3, "data": 3}])
    assert await ids(store) == [1, 3]
    assert [bool(each) for each in told] == [True, False]


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:hush@127.0.0.1:1/nowhere", "postgresql+asyncpg://me:hush@127.0.0.1:1/x"],
)
async def test_a_server_that_is_not_there_leaves_an_ephemeral_store(
    opened: OpenStore, url: str
) -> None:
    store = await opened(url=url)
    assert not store.durable
    assert "127.0.0.1:1" in store.problem
    assert "hush" not in store.problem
    with pytest.raises(StartError, match="Expected a PostgreSQL server that answers"):
        await opened(url=url, fallback="refuse")


async def test_a_database_that_is_not_there_is_said(opened: OpenStore, server: Server) -> None:
    url = server.database("no_such_database")
    store = await opened(url=url)
    assert not store.durable
    assert 'database "no_such_database" does not exist' in store.problem
