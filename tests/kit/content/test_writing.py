from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hookgate.core.settings.whole_file import write_whole


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_whole_for_its_owner_alone(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_whole(path, b"first", durable=durable)
    write_whole(path, b"second", durable=durable)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["file"]


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "file").symlink_to(target)
    write_whole(tmp_path / "file", b"new", durable=False)
    assert target.read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, linked: bool) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="found no regular file") as raised:
        write_whole(link if linked else pipe, b"new", durable=False)
    assert raised.value.filename == str(link if linked else pipe)
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_path_without_a_name_is_refused_as_other_files_are() -> None:
    with pytest.raises(OSError, match="found no regular file"):
        write_whole(Path("/"), b"new", durable=False)


def test_what_was_there_stays_and_nothing_else_where_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"first", durable=False)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"second", durable=True)
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]
