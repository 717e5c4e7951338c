from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa
from tests.support.postgres import Server
from tests.support.script import until

from hookgate import Gateway
from hookgate.builtin_plugins.storage import store as store_module
from hookgate.builtin_plugins.storage.settings import DATABASE_NAME
from hookgate.core.domain.errors import PluginError, StoreHeldError, StoreUnavailableError
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Empty, Invocation
from hookgate.core.gateway.serve import listen
from hookgate.core.host import Host
from hookgate.core.settings.schema import Settings
from hookgate.hookspecs import hookimpl
from hookgate.ports import STORE

BUILTIN = ("control", "storage", "providers")


def settings(home: Path, **storage: Any) -> Settings:
    return Settings(home=home, plugin={"storage": storage})


async def call(gateway: Gateway, name: str) -> dict[str, Any]:
    invocation = Invocation(host=gateway.host, principal=Principal.owner())
    result = await gateway.host.operations[name].handler(invocation, Empty())
    data: dict[str, Any] = result.model_dump(mode="json")
    return data


async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        first = await gateway.chat("my name is Ada")
        assert first.ending == "done"
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        second = await gateway.chat("what is my name?")
        assert [message.text for message in second.history] == ["my name is Ada", first.answer]
        (session,) = await gateway.host[CONVERSATIONS].sessions()
        assert (session["session"], session["messages"]) == (str(first.session), 4)
        assert gateway.host.status()["durable"]
        assert gateway.host.status()["degraded"] == {}


async def test_a_damaged_database_is_said_and_the_gateway_answers(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"not a database" * 1000)
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        status = gateway.host.status()
        assert status["durable"] is False
        assert "is damaged" in status["degraded"]["storage"]
        assert (await gateway.chat("hello")).ending == "done"
        shown = await call(gateway, "db.status")
        assert (shown["place"], shown["durable"]) == ("memory", False)
        assert shown["problem"] == status["degraded"]["storage"]
    assert (tmp_path / DATABASE_NAME).read_bytes() == b"not a database" * 1000


async def test_a_store_that_stops_working_is_shown_and_taken_back_when_it_works(
    tmp_path: Path,
) -> None:
    path = tmp_path / DATABASE_NAME
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        store = gateway.host[STORE]
        path.rename(tmp_path / "moved")
        with pytest.raises(StoreUnavailableError):
            await store.write(lambda _: None)
        assert "No such file" in gateway.host.status()["degraded"]["storage"]
        (tmp_path / "moved").rename(path)
        await store.write(lambda _: None)
        assert gateway.host.status()["degraded"] == {}


async def test_a_gateway_is_not_ready_while_its_store_takes_no_writes_and_finds_out_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.01)
    path = tmp_path / DATABASE_NAME
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        standing = gateway.host.standing
        path.rename(tmp_path / "moved")
        with pytest.raises(StoreUnavailableError):
            await gateway.host[STORE].write(lambda _: None)
        assert "No such file" in standing.unready["storage"]
        (tmp_path / "moved").rename(path)
        await until(lambda: not standing.unready)
        assert gateway.host.status()["degraded"] == {}


async def test_a_write_that_does_not_come_back_takes_the_gateway_out_of_balancers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(store_module, "SLOW_SECONDS", 0.05)
    go = threading.Event()
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        store: Any = gateway.host[STORE]
        store.shared = True  # such as a server that is not reached any more
        standing = gateway.host.standing("storage")
        following = asyncio.ensure_future(store_module.Readiness(standing).follow(store))
        stuck = asyncio.ensure_future(store.write(lambda _: go.wait(30)))
        await until(lambda: "storage" in gateway.host.standing.unready)
        go.set()
        await until(lambda: not gateway.host.standing.unready)
        await stuck
        following.cancel()
        await asyncio.wait([following])


@pytest.mark.slow
async def test_a_server_that_only_reads_or_is_gone_makes_the_gateway_unready_and_not_unhealthy(
    tmp_path: Path, url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.05)
    apart = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'hookgate'"
    config = settings(tmp_path, url=url, fallback="refuse")
    config = config.model_copy(update={"gateway": config.gateway.model_copy(update={"port": 0})})

    async def asks(path: str) -> int:
        async with http.get(listener.url + path) as answer:
            return answer.status

    async with (
        Gateway(config, builtin=BUILTIN) as gateway,
        listen(gateway) as listener,
        aiohttp.ClientSession() as http,
    ):
        unready = gateway.host.standing.unready
        assert await asks("/ready") == 200
        server.ask("ALTER DATABASE hookgate SET default_transaction_read_only = on")
        server.ask(apart)
        await until(lambda: "25006" in unready.get("storage", ""))
        assert (await asks("/ready"), await asks("/health")) == (503, 200)
        server.ask("ALTER DATABASE hookgate RESET default_transaction_read_only")
        server.ask(apart)
        await until(lambda: not unready)
        server.ask("ALTER DATABASE hookgate ALLOW_CONNECTIONS false")
        server.ask(apart)
        await until(lambda: "not currently accepting" in unready.get("storage", ""))
        assert (await asks("/ready"), await asks("/health")) == (503, 200)
        server.ask("ALTER DATABASE hookgate ALLOW_CONNECTIONS true")
        await until(lambda: not unready)


async def test_two_gateways_run_side_by_side_with_a_store_each(tmp_path: Path) -> None:
    async with (
        Gateway(settings(tmp_path / "a"), builtin=BUILTIN) as one,
        Gateway(settings(tmp_path / "b"), builtin=BUILTIN) as other,
    ):
        await one.chat("only here")
        assert len(await one.host[CONVERSATIONS].sessions()) == 1
        assert await other.host[CONVERSATIONS].sessions() == []
        with pytest.raises(StoreHeldError, match=r"held by another gateway.*or another `home`\)$"):
            async with Gateway(settings(tmp_path / "a"), builtin=BUILTIN):
                pytest.fail("it started")


class Notes:
    """A third party's plugin with tables of its own."""

    requires = (STORE,)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.metadata = sa.MetaData()
        sa.Table("notes", self.metadata, sa.Column("id", sa.Integer, primary_key=True))

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        await host[STORE].migrate("notes", self.metadata, self._folder)
        yield


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    script = """
        import sqlalchemy as sa
        from alembic import op

        revision = "notes_0001"
        down_revision = None


        def upgrade():
            op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
    """
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    (folder / "versions" / "v0001.py").write_text(dedent(script))
    return Notes(folder)


async def test_the_operations_show_and_upgrade_the_tables_of_every_plugin(
    tmp_path: Path, notes: Notes
) -> None:
    head = {"version": "storage_0005", "head": "storage_0005", "current": True}
    tables = [
        {"plugin": "storage", **head},
        {"plugin": "notes", "version": "notes_0001", "head": "notes_0001", "current": True},
    ]
    async with Gateway(settings(tmp_path), builtin=BUILTIN, plugins=[notes]) as gateway:
        assert await call(gateway, "db.upgrade") == await call(gateway, "db.status")
        shown = await call(gateway, "db.status")
        assert shown["tables"] == tables
        assert shown["place"] == str(tmp_path / DATABASE_NAME)
        operations = gateway.host.operations
        assert operations["db.upgrade"].scope == "operate"
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        shown = await call(gateway, "db.status")
        assert shown["tables"][1] == {
            "plugin": "notes",
            "version": "notes_0001",
            "head": "",
            "current": True,
        }


async def test_outdated_tables_stop_a_start_that_may_not_upgrade_them(
    tmp_path: Path, notes: Notes
) -> None:
    async with Gateway(settings(tmp_path), builtin=BUILTIN):
        pass
    careful = settings(tmp_path, auto_upgrade=False)
    with pytest.raises(PluginError, match=r"'notes' are at revision \(none\).*hookgate db upgrade"):
        async with Gateway(careful, builtin=BUILTIN, plugins=[notes]):
            pytest.fail("it started")
    async with Gateway(settings(tmp_path), builtin=BUILTIN, plugins=[notes]):
        pass
    async with Gateway(careful, builtin=BUILTIN, plugins=[notes]) as gateway:
        assert gateway.host.ready


async def test_an_operation_of_a_gateway_that_has_stopped_says_so(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        pass
    with pytest.raises(StoreUnavailableError, match="closed"):
        await call(gateway, "db.status")


async def test_without_its_driver_a_postgresql_url_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(PluginError, match=r"pip install 'hookgate\[postgres\]'"):
        async with Gateway(settings(tmp_path, url="postgresql://me:hush@host/db"), builtin=BUILTIN):
            pytest.fail("it started")


@pytest.mark.slow
def test_the_plugin_is_imported_without_the_database_library() -> None:
    code = (
        "import sys, hookgate.builtin_plugins.storage.plugin, "
        "hookgate.builtin_plugins.storage.engine.lock\n"
        "print([name for name in ('sqlalchemy', 'sqlmodel', 'alembic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
