from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from tests.builtin_plugins.turns import make_host
from tests.support.script import until

from hookgate.builtin_plugins.awareness import service
from hookgate.builtin_plugins.awareness.service import (
    FILE,
    PART,
    ShownFiles,
    place_of,
    prune,
    write,
)


def test_each_session_has_a_folder_of_its_own_that_tells_nothing_of_its_key(tmp_path: Path) -> None:
    one, other = place_of(tmp_path, "main:web:a:../../x"), place_of(tmp_path, "main:web:a:y")
    assert one.parent != other.parent
    assert one.parent.parent == other.parent.parent == tmp_path / "runtime"
    assert "x" not in one.parent.name
    assert one == place_of(tmp_path, "main:web:a:../../x")


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = place_of(tmp_path, "s")
    write(path, "cards \ud800")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text(encoding="utf-8") == "cards ?"


def test_old_files_go_and_new_ones_and_everything_else_stay(tmp_path: Path) -> None:
    old, new = place_of(tmp_path, "old"), place_of(tmp_path, "new")
    for path in (old, new):
        write(path, "text")
    kept = place_of(tmp_path, "with something else")
    write(kept, "text")
    (kept.parent / "mine").write_text("mine")
    other = tmp_path / "runtime" / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    now = new.stat().st_mtime
    for path in (old, kept):
        os.utime(path, (now - 8 * 86_400, now - 8 * 86_400))
    prune(tmp_path, 7, now)
    assert not old.parent.exists()
    assert new.exists()
    assert (kept.parent / "mine").exists()
    assert (other / "file").exists()
    assert prune(tmp_path / "missing", 7, now) == 0


def test_a_link_to_somewhere_else_is_not_followed_when_old_files_go(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / FILE).write_text("mine")
    os.utime(elsewhere / FILE, (0, 0))
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "link").symlink_to(elsewhere)
    assert prune(tmp_path, 7) == 0
    assert (elsewhere / FILE).exists()


async def test_a_hanging_disk_holds_one_thread_and_the_newest_text_stands_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, begun = threading.Event(), []

    def slow(path: Path, text: str) -> None:
        begun.append(text)
        free.wait(30)
        write(path, text)

    monkeypatch.setattr(service, "write", slow)
    monkeypatch.setattr(service, "SECONDS", 0.05)
    host = make_host(tmp_path)
    files, one, other = ShownFiles(host), place_of(tmp_path, "one"), place_of(tmp_path, "other")
    files.put(one, "first")
    await until(lambda: PART in host.degraded)
    for text in ("second", "third"):
        files.put(one, text)
    files.put(other, "also")
    assert begun == ["first"]
    assert host.degraded[PART] == f"{one} cannot be written: it takes too long"
    free.set()
    await until(lambda: other.exists() and PART not in host.degraded)
    assert begun == ["first", "third", "also"]
    assert (one.read_text(), other.read_text()) == ("third", "also")
    await files.close()


async def test_what_waits_at_the_end_is_written_and_a_failure_is_told(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    files, path = ShownFiles(host), place_of(tmp_path, "one")
    files.put(path, "last words")
    await files.close()
    assert path.read_text() == "last words"
    blocked = place_of(tmp_path, "blocked")
    blocked.parent.write_text("a file where the folder should be")
    files.put(blocked, "nowhere")
    await files.close()
    assert str(blocked) in host.degraded[PART]
    files.put(path, "again")
    await files.close()
    assert PART not in host.degraded


async def test_of_too_many_files_the_oldest_is_told_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAITING", 1)
    host = make_host(tmp_path)
    files, old, new = ShownFiles(host), place_of(tmp_path, "old"), place_of(tmp_path, "new")
    files.put(old, "old")
    files.put(new, "new")
    assert host.degraded[PART] == f"{old} cannot be written: too many others wait"
    await files.close()
    assert (old.exists(), new.read_text()) == (False, "new")
