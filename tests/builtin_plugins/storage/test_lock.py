from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from hookgate.builtin_plugins.storage.engine.lock import (
    DatabaseHeldError,
    FileLock,
    holder_pid,
    lock_path,
)
from hookgate.builtin_plugins.storage.settings import DATABASE_NAME

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

HOLD = """
    import sys
    from pathlib import Path
    from hookgate.builtin_plugins.storage.engine.lock import FileLock

    lock = FileLock(Path(sys.argv[1]))
    lock.acquire()
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_holds(database: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", dedent(HOLD), str(database)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate()


async def test_a_second_gateway_on_one_file_is_refused_and_told_who_holds_it(
    opened: OpenStore, tmp_path: Path
) -> None:
    database = tmp_path / DATABASE_NAME
    with another_process_holds(database) as holder:
        with pytest.raises(DatabaseHeldError, match=f"held by process {holder.pid}.*Stop that"):
            await opened()
        assert holder_pid(database) == holder.pid
    assert holder_pid(database) is None
    assert (await opened()).durable


async def test_the_same_holds_for_two_gateways_in_one_process(
    opened: OpenStore, tmp_path: Path
) -> None:
    first = await opened()
    assert holder_pid(tmp_path / DATABASE_NAME) == os.getpid()
    with pytest.raises(DatabaseHeldError, match="another gateway in this process") as failure:
        await opened()
    assert failure.value.pid == os.getpid()
    assert (await opened(tmp_path / "elsewhere")).durable
    await first.close()
    assert holder_pid(tmp_path / DATABASE_NAME) is None
    assert (await opened()).durable


def test_a_holder_that_is_killed_holds_no_longer(tmp_path: Path) -> None:
    database = tmp_path / DATABASE_NAME
    with another_process_holds(database) as holder:
        holder.kill()
        holder.wait()
        assert holder_pid(database) is None
        lock = FileLock(database)
        lock.acquire()
        assert holder_pid(database) == os.getpid()
        lock.release()


def test_looking_needs_no_lock_file_and_makes_none(tmp_path: Path) -> None:
    assert holder_pid(tmp_path / DATABASE_NAME) is None
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_has_not_said_who_it_is_yet_is_nobody_known(tmp_path: Path) -> None:
    database = tmp_path / DATABASE_NAME
    lock = FileLock(database)
    lock.acquire()
    lock_path(database).write_bytes(b"")
    assert holder_pid(database) == 0
    with pytest.raises(DatabaseHeldError, match="held by another process"):
        FileLock(database).acquire()
    lock.release()


def test_a_lock_that_was_given_up_before_it_was_taken_is_not_kept(tmp_path: Path) -> None:
    database = tmp_path / DATABASE_NAME
    lock = FileLock(database)
    lock.release()
    lock.acquire()
    assert holder_pid(database) is None
    lock.release()


def test_a_start_waits_for_a_look_that_is_going_on(tmp_path: Path) -> None:
    looks = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from hookgate.builtin_plugins.storage.engine.lock import FileLock, holder_pid\n"
            "import threading\n"
            "path, stop = Path(sys.argv[1]), threading.Event()\n"
            "def look():\n"
            "    while not stop.is_set(): holder_pid(path)\n"
            "looking = threading.Thread(target=look); looking.start()\n"
            "for _ in range(200):\n"
            "    lock = FileLock(path); lock.acquire(); lock.release()\n"
            "stop.set(); looking.join(); print('done')\n",
            str(tmp_path / DATABASE_NAME),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert looks.stdout == "done\n"
