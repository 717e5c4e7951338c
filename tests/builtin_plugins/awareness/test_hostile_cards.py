from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builtin_plugins.awareness.card_files import card_text, write_card
from tests.builtin_plugins.awareness.hostile_files import GOOD, OUTSIDE, special, texts

from hookgate.builtin_plugins.awareness.cards import folders
from hookgate.builtin_plugins.awareness.cards.folders import CARD_BYTES, CardFolder, CardScan, scan

WORST_SECONDS = 0.2
"""CPU time that any one file may take; a busy machine gets several tries."""

SCANS = 300
"""So often a folder is read while a file in it is swapped."""


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of this thread that `work` takes, of a few tries if need be."""
    least = WORST_SECONDS * 2
    for _ in range(4):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least <= WORST_SECONDS / 2:
            break
    return least


@pytest.mark.slow
def test_hostile_files_are_named_and_cost_nobody_anything(tmp_path: Path) -> None:
    place = tmp_path / "cards"
    place.mkdir()
    for card_id, raw in GOOD.items():
        (place / f"{card_id}.md").write_bytes(raw)
    bad = dict(texts())
    for name, raw in bad.items():
        (place / f"{name}.md").write_bytes(raw)
    made = special(tmp_path / "outside")
    for name, make in made.items():
        make(place / f"{name}.md")
    locked = place / "locked.md"
    locked.write_text(card_text("locked"))
    locked.chmod(0)
    names = [*bad, *made, *(["locked"] if os.geteuid() else [])]
    good = set(GOOD) | (set() if os.geteuid() else {"locked"})
    assert len(names) >= 300

    folder = CardFolder(path=place, origin="workspace")
    found = scan([folder])

    assert {card.id for card in found.cards} == good
    told = {one.file for one in found.problems if one.severity == "error"}
    missing = [name for name in names if shown(place / f"{name}.md") not in told]
    assert missing == []
    assert len(told) == len(names)
    assert all(str(one).isprintable() for one in found.problems)
    assert OUTSIDE not in repr(found)

    slow = {
        name: took
        for name in [*names, *good]
        if (took := cpu_seconds(lambda name=name: scan([folder], only=f"{name}.md")))
        > WORST_SECONDS
    }
    assert slow == {}


def shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else ascii(str(path))[1:-1]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return write_card(tmp_path / "outside" / "secret.md", OUTSIDE, body=OUTSIDE * 20)


@pytest.fixture
def folder(tmp_path: Path) -> CardFolder:
    write_card(tmp_path / "cards" / "a.md")
    write_card(tmp_path / "cards" / "b.md")
    return CardFolder(path=tmp_path / "cards", origin="workspace")


def before_opening(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], object]) -> None:
    """Do `swap` right before a file is opened, behind all that was asked of it by name."""
    real = os.open

    def opened(path: str, flags: int, *args: int, **more: int) -> int:
        if path == name:
            swap()
        return real(path, flags, *args, **more)

    monkeypatch.setattr(folders.os, "open", opened)


def assert_only_the_other(found: CardScan, told: str) -> None:
    assert [card.id for card in found.cards] == ["b"]
    assert OUTSIDE not in repr(found)
    (problem,) = found.problems
    assert problem.file.endswith("a.md")
    assert told in problem.found


@pytest.mark.parametrize(
    ("swap", "told"),
    [
        (lambda path, secret: path.symlink_to(secret), "symbolic links"),
        (lambda path, secret: path.hardlink_to(secret), "a file with 2 hard links"),
        (lambda path, secret: os.mkfifo(path), "a named pipe"),
        (lambda path, secret: path.mkdir(), "a folder"),
        (lambda path, secret: path.write_bytes(b"x" * 60_000), "60000 bytes"),
        (lambda path, secret: None, "no such file"),
    ],
    ids=["link", "hard-link", "pipe", "folder", "large", "gone"],
)
def test_a_file_that_is_swapped_before_it_is_opened_is_refused(
    folder: CardFolder,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path, Path], object],
    told: str,
) -> None:
    path = folder.path / "a.md"

    def swapped() -> None:
        path.unlink()
        swap(path, outside)

    before_opening(monkeypatch, "a.md", swapped)
    assert_only_the_other(scan([folder]), told)


def test_a_file_that_is_swapped_after_it_was_opened_is_read_as_it_was(
    folder: CardFolder, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.path / "a.md"
    real = os.read

    def read(descriptor: int, size: int) -> bytes:
        if not path.is_symlink():
            path.unlink()
            path.symlink_to(outside)
        return real(descriptor, size)

    monkeypatch.setattr(folders.os, "read", read)
    found = scan([folder])
    assert [card.id for card in found.cards] == ["a", "b"]
    assert path.is_symlink()
    assert OUTSIDE not in repr(found)


def test_a_file_that_grows_while_it_is_read_is_refused(
    folder: CardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.path / "a.md"
    text = card_text("a")
    path.write_text(text + "x" * (CARD_BYTES - len(text)))
    assert len(scan([folder]).cards) == 2
    real = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if status.st_size == CARD_BYTES:
            with path.open("a") as opened:
                opened.write("x")
        return status

    monkeypatch.setattr(folders.os, "fstat", fstat)
    assert_only_the_other(scan([folder]), f"more than {CARD_BYTES} bytes")


def test_a_folder_that_is_swapped_after_it_was_opened_is_read_as_it_was(
    folder: CardFolder, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_card(outside.parent / "a.md", OUTSIDE)
    real = os.scandir

    def scandir(path: int) -> object:
        folder.path.rename(folder.path.parent / "away")
        folder.path.symlink_to(outside.parent)
        return real(path)

    monkeypatch.setattr(folders.os, "scandir", scandir)
    found = scan([folder])
    assert [card.id for card in found.cards] == ["a", "b"]
    assert OUTSIDE not in repr(found)


def test_whoever_swaps_a_file_for_a_link_over_and_over_never_wins(
    folder: CardFolder, outside: Path
) -> None:
    path, ended = folder.path / "a.md", threading.Event()
    text, spare = card_text("a"), folder.path.parent / "spare"

    def swap() -> None:
        while not ended.is_set():
            spare.symlink_to(outside)
            spare.replace(path)
            spare.write_text(text)
            spare.replace(path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        found = [scan([folder]) for _ in range(SCANS)]
    finally:
        ended.set()
        swapping.join()
    for one in found:
        assert {card.id for card in one.cards} <= {"a", "b"}
        assert "b" in {card.id for card in one.cards}
        assert ("a" in {card.id for card in one.cards}) == (not one.problems)
        assert OUTSIDE not in repr(one)
