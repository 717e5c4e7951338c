from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlmodel import SQLModel
from tests.builtin_plugins.storage import earlier

from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.engine import sqlite
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import METADATA
from hookgate.core.domain.errors import StartError
from hookgate.core.host import SystemClock

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

NOTES = sa.MetaData()
NOTE = sa.Table("notes", NOTES, sa.Column("id", sa.Integer, primary_key=True))

FIRST = """
    import sqlalchemy as sa
    from alembic import op

    revision = "notes_0001"
    down_revision = None


    def upgrade() -> None:
        op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
"""
SECOND = """
    import sqlalchemy as sa
    from alembic import op

    revision = "notes_0002"
    down_revision = "notes_0001"


    def upgrade() -> None:
        with op.batch_alter_table("notes") as notes:
            notes.add_column(sa.Column("text", sa.Text, nullable=False, server_default=""))
"""


def write(folder: Path, **scripts: str) -> Path:
    versions = folder / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    for old in versions.glob("*.py"):
        old.unlink()
    for name, text in scripts.items():
        (versions / f"{name}.py").write_text(dedent(text))
    return folder


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    return write(tmp_path / "migrations", v1=FIRST)


def columns(connection: sa.Connection) -> list[str]:
    return [column["name"] for column in sa.inspect(connection).get_columns("notes")]


async def versions(store: SqlStore) -> dict[str, tuple[str, str]]:
    return {row.plugin: (row.version, row.head) for row in await store.status()}


async def test_the_stores_own_tables_are_what_its_models_say(store: SqlStore) -> None:
    def differences(connection: sa.Connection) -> list[object]:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "alembic_version_storage",
                "include_name": lambda name, kind, parents: name != "alembic_version_storage",
            },
        )
        return list(compare_metadata(context, METADATA))

    assert await store.read(differences) == []


def test_the_models_stay_out_of_the_metadata_that_sqlmodel_shares() -> None:
    assert set(METADATA.tables) & set(SQLModel.metadata.tables) == set()
    assert len(METADATA.tables) == 8


async def test_conversations_of_the_first_version_are_kept_and_numbered(
    opened: OpenStore, tmp_path: Path
) -> None:
    path = tmp_path / "hookgate.db"
    sqlite.prepare(path, busy_seconds=1, check_bytes=0)
    with sqlite.sqlite_engine(path, busy_seconds=1).connect() as connection:
        earlier.fill(connection, tmp_path)
    store = await opened()
    conversations = SqlConversations(store, SystemClock())
    await earlier.check(store, conversations)


@pytest.mark.parametrize(
    "second",
    [
        SECOND.replace('"', "'"),
        SECOND.replace('"notes_0002"', 'f"notes_{2:04}"').replace('"notes_0001"', '("notes_0001")'),
    ],
    ids=["in the quotes of Alembic's template", "said otherwise"],
)
async def test_new_tables_of_complete_metadata_are_at_the_newest_revision(
    store: SqlStore, tmp_path: Path, second: str
) -> None:
    whole = sa.MetaData(info={"complete": True})
    number = sa.Column("id", sa.Integer, primary_key=True)
    sa.Table("notes", whole, number, sa.Column("text", sa.Text, nullable=False))
    folder = write(tmp_path / "migrations", v1=FIRST, v2=second)

    await store.migrate("notes", whole, folder)

    assert (await versions(store))["notes"] == ("notes_0002", "notes_0002")


async def test_a_plugin_gets_its_tables_and_a_version_table_of_its_own(
    store: SqlStore, scripts: Path
) -> None:
    await store.migrate("notes", NOTES, scripts)
    await store.insert(NOTE, [{"id": 1}])
    names = await store.read(lambda connection: sa.inspect(connection).get_table_names())
    assert {"notes", "alembic_version_notes", "alembic_version_storage"} <= set(names)
    assert await versions(store) == {
        "storage": ("storage_0005", "storage_0005"),
        "notes": ("notes_0001", "notes_0001"),
    }


async def test_a_new_script_is_run_at_the_next_start_and_keeps_the_rows(
    opened: OpenStore, scripts: Path
) -> None:
    store = await opened()
    await store.migrate("notes", NOTES, scripts)
    await store.insert(NOTE, [{"id": 7}])
    await store.close()
    write(scripts, v1=FIRST, v2=SECOND)
    store = await opened()
    await store.migrate("notes", NOTES, scripts)
    rows = await store.read(lambda c: c.execute(sa.text("SELECT id, text FROM notes")).all())
    assert [tuple(row) for row in rows] == [(7, "")]


async def test_a_failing_script_changes_nothing_and_names_plugin_and_revision(
    store: SqlStore, scripts: Path
) -> None:
    await store.migrate("notes", NOTES, scripts)
    broken = SECOND + "    op.execute('SELECT * FROM nowhere')\n"
    broken = broken.replace("    op.execute", "        op.execute")
    write(scripts, v1=FIRST, v2=broken)
    with pytest.raises(StartError, match=r"plugin 'notes' failed at revision notes_0002.*nowhere"):
        await store.migrate("notes", NOTES, scripts)
    assert await store.read(columns) == ["id"]
    assert (await versions(store))["notes"] == ("notes_0001", "notes_0002")


async def test_a_database_that_is_newer_than_the_code_says_what_to_do(
    opened: OpenStore, scripts: Path
) -> None:
    store = await opened()
    await store.migrate("notes", NOTES, write(scripts, v1=FIRST, v2=SECOND))
    await store.close()
    store = await opened()
    with pytest.raises(StartError, match=r"at revision notes_0002.*newer version.*Install"):
        await store.migrate("notes", NOTES, write(scripts, v1=FIRST))


async def test_a_plugin_that_is_gone_leaves_nothing_that_breaks(
    opened: OpenStore, scripts: Path
) -> None:
    store = await opened()
    await store.migrate("notes", NOTES, scripts)
    await store.close()
    store = await opened()
    assert await versions(store) == {
        "storage": ("storage_0005", "storage_0005"),
        "notes": ("notes_0001", ""),
    }
    await store.migrate("notes", NOTES, scripts)


async def test_without_auto_upgrade_outdated_tables_stop_the_start_and_name_the_command(
    opened: OpenStore, scripts: Path
) -> None:
    with pytest.raises(StartError, match=r"revision \(none\), expected storage_0005.*db upgrade"):
        await opened(auto_upgrade=False)
    await (await opened()).close()
    store = await opened(auto_upgrade=False)
    with pytest.raises(StartError, match=r"hookgate db upgrade"):
        await store.migrate("notes", NOTES, scripts)
    await store.close()
    upgraded = await opened()
    await upgraded.migrate("notes", NOTES, scripts)
    await upgraded.close()
    store = await opened(auto_upgrade=False)
    await store.migrate("notes", NOTES, scripts)
    assert (await versions(store))["notes"] == ("notes_0001", "notes_0001")


async def test_a_table_made_anew_keeps_the_rows_that_refer_to_it(
    store: SqlStore, scripts: Path
) -> None:
    def add_children(connection: sa.Connection) -> None:
        connection.execute(
            sa.text("CREATE TABLE child (note INTEGER REFERENCES notes(id) ON DELETE CASCADE)")
        )
        connection.execute(sa.text("INSERT INTO child VALUES (1)"))

    await store.migrate("notes", NOTES, scripts)
    await store.insert(NOTE, [{"id": 1}])
    await store.write(add_children)
    rebuild = SECOND.replace(
        'batch_alter_table("notes")', 'batch_alter_table("notes", recreate="always")'
    )
    await store.migrate("notes", NOTES, write(scripts, v1=FIRST, v2=rebuild))
    count = sa.text("SELECT count(*) FROM child")
    assert await store.read(lambda connection: connection.scalar(count)) == 1
    switch = sa.text("PRAGMA foreign_keys")
    assert await store.write(lambda connection: connection.scalar(switch)) == 1


async def test_two_revisions_without_an_order_are_refused(store: SqlStore, scripts: Path) -> None:
    other = FIRST.replace("notes_0001", "notes_other")
    with pytest.raises(StartError, match=r"end in 2 revisions.*down_revision"):
        await store.migrate("notes", NOTES, write(scripts, v1=FIRST, v2=other))


async def test_a_missing_folder_and_an_unfit_name_are_refused(
    store: SqlStore, tmp_path: Path, scripts: Path
) -> None:
    with pytest.raises(StartError, match=r"no folder .*versions.*installed package"):
        await store.migrate("notes", NOTES, tmp_path)
    with pytest.raises(StartError, match="1 to 40 letters"):
        await store.migrate("no such; name", NOTES, scripts)


async def test_two_stores_migrate_side_by_side_in_one_process(
    opened: OpenStore, tmp_path: Path, scripts: Path
) -> None:
    stores = [await opened(tmp_path / name) for name in ("a", "b", "c")]
    await asyncio.gather(*(store.migrate("notes", NOTES, scripts) for store in stores))
    assert [await store.read(columns) for store in stores] == [["id"]] * 3


@pytest.mark.slow
def test_a_new_store_and_one_with_nothing_to_do_need_no_alembic(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from pathlib import Path
        from hookgate.builtin_plugins.storage.engine.opening import open_store
        from hookgate.builtin_plugins.storage.settings import StorageSettings

        async def main():
            store = await open_store(StorageSettings(), Path(sys.argv[1]))
            await store.close()
            print("alembic" in sys.modules)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", dedent(code), str(tmp_path)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in "12"]
    assert [run.stdout.strip() for run in runs] == ["False", "False"]


async def test_the_example_on_the_plugins_page_works(store: SqlStore, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "plugins" / "storage.md").read_text()
    tables, script = (
        next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if word in block)
        for word in ("class Note(", 'revision = "notes_0001"')
    )
    module = ModuleType("acme_notes_tables")
    exec(compile(tables, "tables.py", "exec"), module.__dict__)
    folder = write(tmp_path / "migrations", v0001_notes=script)
    await store.migrate("notes", module.METADATA, folder)
    notes = module.Note.records(store)
    await notes.save([module.Note(id="1", text="hello")])
    assert [note.text for note in await notes.all()] == ["hello"]


async def test_a_table_that_no_script_makes_stops_the_start(store: SqlStore, scripts: Path) -> None:
    metadata = sa.MetaData()
    sa.Table("notes", metadata, sa.Column("id", sa.Integer), sa.Column("forgotten", sa.Text))
    with pytest.raises(StartError, match=r"table 'notes' of plugin 'notes'.*notes\.forgotten"):
        await store.migrate("notes", metadata, scripts)
    assert (await versions(store))["notes"][0] == ""
