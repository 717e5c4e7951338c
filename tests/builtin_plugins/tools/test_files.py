from __future__ import annotations

import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.tools.texts import FileRefusedError, read_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("hällo")
    (folder / "sub" / "b.txt").write_text("deep")
    return folder


def read(path: str | Path, *roots: Path, max_bytes: int = 1000) -> tuple[str, bool]:
    return read_text(str(path), roots, max_bytes=max_bytes)


def test_files_below_a_root_are_read_by_relative_and_absolute_path(root: Path) -> None:
    assert read("a.txt", root) == ("hällo", False)
    assert read("sub/./b.txt", root) == ("deep", False)
    assert read(root / "sub" / "b.txt", root) == ("deep", False)


def test_first_root_that_has_the_file_counts(root: Path) -> None:
    other = root / "sub"
    (other / "a.txt").write_text("second")
    assert read("a.txt", other, root) == ("second", False)
    assert read("b.txt", root, other) == ("deep", False)


def test_long_files_are_cut_between_characters(root: Path) -> None:
    assert read("a.txt", root, max_bytes=2) == ("h", True)
    assert read("a.txt", root, max_bytes=3) == ("hä", True)
    assert read("a.txt", root, max_bytes=6) == ("hällo", False)


def test_bytes_that_are_no_utf8_are_replaced(root: Path) -> None:
    (root / "bad").write_bytes(b"a\xffb\xc3")
    assert read("bad", root) == ("a\ufffdb\ufffd", False)


def test_links_are_not_followed(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "secret.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "loop").symlink_to("loop")
    (root / "within").symlink_to("a.txt")
    for path in ("out", "folder/secret.txt", "loop", "within"):
        with pytest.raises(FileRefusedError, match="link"):
            read(path, root)


def test_root_may_itself_be_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert read("a.txt", link) == ("hällo", False)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../secret.txt", r"found `\.\.`"),
        ("sub/../../secret.txt", r"found `\.\.`"),
        ("", "empty path"),
        ("a\0b", "NUL"),
        ("sub", "is a folder"),
        (".", "is a folder"),
        ("a.txt/b", "leads through a file"),
        ("none.txt", "found no file"),
        ("/etc/passwd", "found no file"),
        ("a" * 5000, "cannot be read"),
    ],
)
def test_other_paths_are_refused_with_a_reason(root: Path, path: str, says: str) -> None:
    with pytest.raises(FileRefusedError, match=says):
        read(path, root)


def test_absolute_path_beside_the_root_is_refused(root: Path) -> None:
    beside = root.with_name("root2")
    beside.mkdir()
    (beside / "c.txt").write_text("x")
    with pytest.raises(FileRefusedError, match="found no file"):
        read(beside / "c.txt", root)


def test_pipes_sockets_and_devices_are_refused_without_waiting(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(FileRefusedError, match="expected a regular file"):
        read("pipe", root)
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(root)
        listener.bind("sock")
        with pytest.raises(FileRefusedError, match="expected a regular file"):
            read("sock", root)


@given(st.lists(st.sampled_from(["..", ".", "sub", "link", "secret.txt", "", "/"]), max_size=6))
def test_no_path_reaches_the_file_beside_the_root(parts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "root" / "sub").mkdir(parents=True)
        (base / "secret.txt").write_text("secret")
        (base / "root" / "link").symlink_to(base)
        (base / "root" / "sub" / "link").symlink_to("../..")
        for path in ("/".join(parts), f"{base}/root/" + "/".join(parts)):
            with pytest.raises(FileRefusedError):
                read(path, base / "root")
