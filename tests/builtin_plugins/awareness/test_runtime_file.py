from __future__ import annotations

import os
import stat
from pathlib import Path

from hookgate.builtin_plugins.awareness.selection.runtime_file import FILE, place_of, prune, write


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
