from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import DATABASE_NAME, StorageSettings
from hookgate.core.domain.errors import StartError, StoreUnavailableError

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

    from hookgate.builtin_plugins.storage.store import SqlStore

NOTES = sa.Table("notes", sa.MetaData(), sa.Column("text", sa.Text))
BIG = "x" * 200_000


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def filled(opened: OpenStore, home: Path, rows: int = 200) -> Path:
    """Make a sound database with some pages in it, and close it."""
    store = await opened(home)
    await store.write(NOTES.create)
    await store.insert(NOTES, [{"text": "x" * 500} for _ in range(rows)])
    await store.close()
    return home / DATABASE_NAME


async def works(store: SqlStore) -> bool:
    await store.write(lambda connection: NOTES.create(connection, checkfirst=True))
    await store.insert(NOTES, [{"text": "hello"}])
    query = sa.select(sa.func.count()).select_from(NOTES)
    return bool(await store.read(lambda connection: connection.scalar(query)))


# -- a sound file ---------------------------------------------------------------------


async def test_a_new_database_and_its_folder_are_private(opened: OpenStore, tmp_path: Path) -> None:
    store = await opened(tmp_path / "new" / "home")
    await works(store)
    assert mode(tmp_path / "new" / "home") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "new" / "home").iterdir()} == {
        DATABASE_NAME: 0o600,
        f"{DATABASE_NAME}-wal": 0o600,
        f"{DATABASE_NAME}-shm": 0o600,
        f"{DATABASE_NAME}.lock": 0o600,
    }


async def test_a_file_that_others_could_read_is_made_private(
    opened: OpenStore, tmp_path: Path
) -> None:
    path = await filled(opened, tmp_path)
    path.chmod(0o644)
    await opened()
    assert mode(path) == 0o600


@pytest.mark.usefixtures("synced")
async def test_every_connection_waits_for_the_disk(opened: OpenStore) -> None:
    store = await opened()

    def pragmas(connection: sa.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.scalar(sa.text(f"PRAGMA {name}")) for name in names]

    assert await store.write(pragmas) == ["wal", 2, 1]
    assert await store.read(pragmas) == ["wal", 2, 1]


async def test_a_path_may_hold_any_character(opened: OpenStore, tmp_path: Path) -> None:
    home = tmp_path / "a b?mode=ro#c%41;ü"
    store = await opened(home, path="d ?e.db")
    assert store.durable
    assert await works(store)
    assert (home / "d ?e.db").stat().st_size > 0


async def test_rows_are_there_after_a_restart(opened: OpenStore, tmp_path: Path) -> None:
    await filled(opened, tmp_path, rows=3)
    store = await opened()
    query = sa.select(sa.func.count()).select_from(NOTES)
    assert await store.read(lambda connection: connection.scalar(query)) == 3


async def test_an_empty_file_is_a_new_database(opened: OpenStore, tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).touch()
    assert (await opened()).durable


# -- a damaged or foreign file is left alone -----------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, but somebody's letter\n" * 300)


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def flipped_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[3] ^= 0x10
    path.write_bytes(data)


def flipped_page_size(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[16:18] = b"\x12\x34"
    path.write_bytes(data)


def overwritten_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-4096:] = os.urandom(4096)
    path.write_bytes(data)


def cut_in_half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 4096 * 4096])


def wiped_schema(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:4096] = bytes(3996)
    path.write_bytes(data)


def schema_that_is_no_text(path: Path) -> None:
    data = path.read_bytes()
    assert b"CREATE TABLE storage_sessions" in data
    path.write_bytes(
        data.replace(b"CREATE TABLE storage_sessions", b"CREATE TABLE storage_se\xffsions")
    )


def type_that_is_no_text(path: Path) -> None:
    data = path.read_bytes()
    assert b"body TEXT NOT" in data
    path.write_bytes(data.replace(b"body TEXT NOT", b"body TEXT NO\xff"))


def column_of_another_name(path: Path) -> None:
    data = path.read_bytes()
    assert b"body TEXT NOT" in data
    path.write_bytes(data.replace(b"body TEXT NOT", b"bodi TEXT NOT"))


def gone_but_for_its_log(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"x" * 5000)
    path.unlink()


def emptied_but_for_its_log(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"x" * 5000)
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        garbage,
        short,
        flipped_header,
        flipped_page_size,
        overwritten_page,
        cut_in_half,
        wiped_schema,
        schema_that_is_no_text,
        type_that_is_no_text,
        column_of_another_name,
        gone_but_for_its_log,
        emptied_but_for_its_log,
    ],
    ids=lambda damage: damage.__name__,
)
async def test_a_damaged_database_is_kept_and_the_store_is_ephemeral(
    opened: OpenStore, tmp_path: Path, damage: object
) -> None:
    path = await filled(opened, tmp_path)
    assert callable(damage)
    damage(path)
    before = contents(tmp_path)
    store = await opened()
    assert not store.durable
    assert f"{path} is damaged" in store.problem
    assert f"mv {shlex.quote(str(path))} {path}.damaged" in store.problem
    assert "lost when the gateway stops" in store.problem
    assert await works(store)
    await store.close()
    assert contents(tmp_path) == before


async def test_damage_in_a_file_too_large_to_check_shows_when_it_is_read(
    opened: OpenStore, tmp_path: Path
) -> None:
    overwritten_page(await filled(opened, tmp_path))
    store = await opened(check_mb=0)
    assert store.durable
    with pytest.raises(StoreUnavailableError, match=r"cannot be read: .*malformed"):
        await store.read(lambda connection: connection.execute(sa.select(NOTES)).all())


async def test_a_damaged_database_with_a_log_that_was_not_finished_is_not_mended_either(
    opened: OpenStore, tmp_path: Path
) -> None:
    path = await filled(opened, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO notes VALUES ('in the log only')")
        connection.commit()
        left = contents(tmp_path)
    for name, data in left.items():
        (tmp_path / name).write_bytes(data)
    overwritten_page(path)
    before = contents(tmp_path)
    assert len(before[f"{DATABASE_NAME}-wal"]) > 0
    store = await opened()
    assert not store.durable
    await store.close()
    after = contents(tmp_path)
    assert after[DATABASE_NAME] == before[DATABASE_NAME]
    assert after[f"{DATABASE_NAME}-wal"] == before[f"{DATABASE_NAME}-wal"]


async def test_a_log_that_was_not_finished_is_taken_over(opened: OpenStore, tmp_path: Path) -> None:
    path = await filled(opened, tmp_path, rows=1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO notes VALUES ('in the log only')")
        connection.commit()
        left = contents(tmp_path)
    for name, data in left.items():
        (tmp_path / name).write_bytes(data)
    store = await opened()
    query = sa.select(NOTES.c.text)
    assert "in the log only" in await store.read(lambda c: c.execute(query).scalars().all())


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
@pytest.mark.slow
async def test_no_flipped_bytes_stop_a_start_or_change_a_file_that_is_found_damaged(
    tmp_path_factory: pytest.TempPathFactory, sound: bytes, data: st.DataObject
) -> None:
    flips = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(sound) - 1), st.integers(1, 255)), min_size=1, max_size=40
        )
    )
    changed = bytearray(sound)
    for place, bits in flips:
        changed[place] ^= bits
    home = tmp_path_factory.mktemp("flipped")
    path = home / DATABASE_NAME
    path.write_bytes(changed)
    try:
        store = await open_store(StorageSettings(), home)
    except StartError as error:
        # The version of a table was hit: that is not damage, and the text says what to do.
        assert "at revision" in str(error) or "migration" in str(error)
        return
    try:
        if store.durable:
            return
        assert await works(store)
    finally:
        await store.close()
    assert path.read_bytes() == changed


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """Return the bytes of a small sound database."""
    home = tmp_path_factory.mktemp("sound")
    run(
        f"""
        async def main():
            store = await open_store(StorageSettings(), Path({str(home)!r}))
            await store.close()
        """
    )
    yield (home / DATABASE_NAME).read_bytes()


def run(body: str, *arguments: str) -> str:
    """Run ``async def main()`` of `body` in a process of its own; return what it prints."""
    head = """
        import asyncio, os, resource, sys
        from pathlib import Path
        import sqlalchemy as sa
        from hookgate.builtin_plugins.storage.engine.opening import open_store
        from hookgate.builtin_plugins.storage.settings import StorageSettings
        from hookgate.core.domain.errors import StoreUnavailableError
        NOTES = sa.Table("notes", sa.MetaData(), sa.Column("text", sa.Text))
    """
    code = dedent(head) + dedent(body) + "\nasyncio.run(main())\n"
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- a place that cannot be used -----------------------------------------------------


async def test_a_folder_in_the_databases_place_is_named(opened: OpenStore, tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).mkdir()
    store = await opened()
    assert not store.durable
    assert "Is a directory" in store.problem
    assert "Mend that, then restart" in store.problem
    assert await works(store)


async def test_a_home_below_a_file_is_named(opened: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = await opened(tmp_path / "file" / "home")
    assert not store.durable
    assert "Not a directory" in store.problem
    assert await works(store)


async def test_a_folder_that_cannot_be_made_is_named(opened: OpenStore) -> None:
    store = await opened(Path("/proc/no/such/home"))
    assert not store.durable
    assert "/proc/no/such/home/hookgate.db cannot be used" in store.problem
    assert await works(store)


async def test_a_lock_file_that_cannot_be_written_is_named(
    opened: OpenStore, tmp_path: Path
) -> None:
    (tmp_path / f"{DATABASE_NAME}.lock").mkdir()
    store = await opened()
    assert not store.durable
    assert "Is a directory" in store.problem


async def test_the_operator_can_have_the_start_refused_instead(
    opened: OpenStore, tmp_path: Path
) -> None:
    path = await filled(opened, tmp_path)
    garbage(path)
    with pytest.raises(StartError, match=r"is damaged .*Put a backup in its place"):
        await opened(fallback="refuse")
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="Not a directory"):
        await opened(tmp_path / "file" / "home", fallback="refuse")


async def test_a_database_that_another_program_keeps_locked_is_said(
    opened: OpenStore, tmp_path: Path
) -> None:
    path = await filled(opened, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store = await opened(busy_seconds=0.05)
        assert not store.durable
        assert "database is locked" in store.problem
        other.execute("ROLLBACK")


# -- a disk that fills up ------------------------------------------------------------


@pytest.mark.slow
def test_a_disk_that_is_full_at_start_leaves_an_ephemeral_store(tmp_path: Path) -> None:
    # The limit on file sizes makes the system refuse to write, as a full disk does.
    body = """
        async def main():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
            store = await open_store(StorageSettings(), Path(sys.argv[1]))
            print(store.durable, store.problem)
            await store.write(NOTES.create)
            await store.insert(NOTES, [{"text": "hello"}])
            await store.close()
    """
    printed = run(body, str(tmp_path))
    assert printed.startswith("False ")
    assert "cannot be used: disk I/O error" in printed


@pytest.mark.slow
def test_a_disk_that_fills_up_refuses_writes_and_keeps_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    body = """
        async def main():
            told = []
            store = await open_store(StorageSettings(), Path(sys.argv[1]), tell=told.append)
            await store.write(NOTES.create)
            await store.insert(NOTES, [{"text": "before"}])
            size = max(each.stat().st_size for each in Path(sys.argv[1]).iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 9000, resource.RLIM_INFINITY))
            kept = 0
            try:
                while True:
                    await store.insert(NOTES, [{"text": "x" * 1000}])
                    kept += 1
            except StoreUnavailableError as error:
                print("refused:", error)
            for _ in range(3):
                try:
                    await store.write(lambda c: c.execute(NOTES.insert(), {"text": "y" * 200000}))
                except StoreUnavailableError:
                    print("again")
            count = sa.select(sa.func.count()).select_from(NOTES)
            assert await store.read(lambda c: c.scalar(count)) == kept + 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            await store.insert(NOTES, [{"text": "after"}])
            assert await store.read(lambda c: c.scalar(count)) == kept + 2
            await store.close()
            print(len(told), [bool(each) for each in told], store.durable)
            store = await open_store(StorageSettings(), Path(sys.argv[1]))
            assert await store.read(lambda c: c.scalar(count)) == kept + 2
            await store.close()
    """
    lines = run(body, str(tmp_path)).splitlines()
    assert lines[0].startswith("refused: the store did not take the write")
    assert "disk I/O error" in lines[0]
    assert lines[1:] == ["again"] * 3 + ["2 [True, False] True"]


async def test_a_database_that_may_not_grow_refuses_writes_until_it_may(
    opened: OpenStore,
) -> None:
    told: list[str] = []
    store = await opened(tell=told.append)
    await store.write(NOTES.create)

    def limit(pages: int) -> object:
        return lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar()

    await store.write(limit(20))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailableError, match=r"full \(SQLITE_FULL\)"):
        await store.insert(NOTES, [{"text": BIG}])
    assert "full" in told[0]
    await store.write(limit(10_000))  # type: ignore[arg-type]
    await store.insert(NOTES, [{"text": BIG}])
    assert told[-1] == ""
    query = sa.select(sa.func.count()).select_from(NOTES)
    assert await store.read(lambda connection: connection.scalar(query)) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; needs the right to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a file system takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


async def test_a_file_system_that_is_full_and_then_read_only_loses_nothing(
    opened: OpenStore, small_disk: Path
) -> None:
    told: list[str] = []
    store = await opened(small_disk, tell=told.append)
    await store.write(NOTES.create)
    await store.insert(NOTES, [{"text": "before"}])
    filler = small_disk / "filler"
    filler.write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096 - 8192))
    with pytest.raises(StoreUnavailableError, match="SQLITE_FULL"):
        await store.insert(NOTES, [{"text": BIG}])
    filler.unlink()
    await store.insert(NOTES, [{"text": "after"}])
    assert [bool(each) for each in told] == [True, False]
    await store.close()
    remount(small_disk, "ro")
    store = await opened(small_disk)
    assert not store.durable
    assert "Read-only file system" in store.problem
    await store.close()
    remount(small_disk, "rw")
    store = await opened(small_disk)
    query = sa.select(NOTES.c.text)
    assert await store.read(lambda c: c.execute(query).scalars().all()) == ["before", "after"]


# -- a file that changes under a running gateway -------------------------------------


async def test_a_database_that_is_removed_while_it_runs_takes_no_more_writes(
    opened: OpenStore, tmp_path: Path
) -> None:
    told: list[str] = []
    store = await opened(tell=told.append)
    await works(store)
    path = tmp_path / DATABASE_NAME
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailableError, match="No such file"):
        await store.insert(NOTES, [{"text": "lost"}])
    path.touch()
    with pytest.raises(StoreUnavailableError, match="was replaced while the gateway"):
        await store.insert(NOTES, [{"text": "lost"}])
    (tmp_path / "elsewhere").rename(path)
    assert await works(store)
    assert [bool(each) for each in told] == [True, True, False]


async def test_a_read_of_a_database_that_was_cut_says_so(opened: OpenStore, tmp_path: Path) -> None:
    path = await filled(opened, tmp_path, rows=2000)
    store = await opened()
    os.truncate(path, 8192)
    with pytest.raises(StoreUnavailableError, match="cannot be read"):
        await store.read(lambda connection: connection.execute(sa.select(NOTES)).all())
