from __future__ import annotations

import io
import json
import stat
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.builtin_plugins.discovery.searching import row, vector

from hookgate.builtin_plugins.discovery.index.build import Material, Saved, SavedError
from hookgate.builtin_plugins.discovery.index.documents import FORMAT, LexicalIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = [
    row("send_mail", "Send a mail. Then wait for it; done at last."),
    row("!!"),
    row("天気", "погода"),
    row("web_page", "Read a page."),
]


def saved_of(*, vectors: bool = True) -> Saved:
    material = Material()
    draft = material.draft(1, ROWS)
    if vectors:
        texts = draft.missing
        material.take("fake:1", list(texts), np.stack([vector(one) for one in texts.values()]))
    saved = material.saved()
    assert saved is not None
    return saved


def read(path: Path) -> Saved:
    saved = Saved.read(path)
    assert saved is not None
    return saved


def same(one: Saved, other: Saved) -> bool:
    return one.table.words == other.table.words and one.table.digests == other.table.digests


@pytest.mark.parametrize("vectors", [True, False])
def test_what_was_written_is_read(tmp_path: Path, vectors: bool) -> None:
    path = tmp_path / "folder" / "index.npz"
    before = saved_of(vectors=vectors)
    before.write(path)
    after = read(path)
    assert same(before, after)
    words = ["mail", "погод", "page"]
    one, other = LexicalIndex(before.table), LexicalIndex(after.table)
    assert one.scores(words)[0].tolist() == other.scores(words)[0].tolist()
    assert (after.store is not None) == vectors
    if after.store is not None and before.store is not None:
        assert after.fingerprint == "fake:1"
        assert after.store.slots == before.store.slots


def test_nothing_is_read_where_there_is_nothing(tmp_path: Path) -> None:
    assert Saved.read(tmp_path / "index.npz") is None
    assert Saved.read(tmp_path / "no" / "folder" / "index.npz") is None


def test_only_the_owner_may_read_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "discovery" / "index.npz"
    saved_of().write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    saved_of().write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["index.npz"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    saved_of().write(path)
    before = path.read_bytes()
    broken = saved_of()
    object.__setattr__(broken, "fingerprint", object())
    with pytest.raises(TypeError):
        broken.write(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["index.npz"]


@pytest.mark.parametrize("made", ["file", "folder"])
def test_place_that_cannot_be_written_raises_what_the_system_says(
    tmp_path: Path, made: str
) -> None:
    path = tmp_path / "index.npz"
    if made == "file":
        path.write_text("in the way")
        path = path / "index.npz"
    else:
        path.mkdir()
    with pytest.raises(OSError):
        saved_of().write(path)
    with pytest.raises(SavedError, match="cannot be used"):
        Saved.read(path)


def test_writers_at_the_same_time_leave_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(5):
                saved_of().write(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert same(read(path), saved_of())
    assert [one.name for one in tmp_path.iterdir()] == ["index.npz"]


def test_any_damaged_byte_is_seen_or_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    saved_of().write(path)
    whole, before = path.read_bytes(), read(path)
    seen = 0
    random = np.random.default_rng(1)
    for at in [*range(0, len(whole), 23), *range(len(whole) - 120, len(whole))]:
        damaged = bytearray(whole)
        damaged[at] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        try:
            after = read(path)
        except SavedError:
            seen += 1
            continue
        assert same(before, after), at
        assert np.array_equal(before.table.weights, after.table.weights), at
        assert after.store is not None
        assert before.store is not None
        assert after.store.slots == before.store.slots, at
        every = np.arange(len(after.store))
        assert np.array_equal(before.store.vectors(every), after.store.vectors(every)), at
    assert seen > 50


def test_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    saved_of().write(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 211), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(SavedError, match=r"index\.npz cannot be used"):
            Saved.read(path)


def changed(**arrays: Any) -> Callable[[Path], None]:
    """Return what writes `arrays` over those of a file."""

    def change(path: Path) -> None:
        with np.load(path) as file:
            old = {name: file[name] for name in file.files}
        for name, value in arrays.items():
            old[name] = value(old[name])
        np.savez(path, **old)

    return change


def meta(**values: Any) -> Callable[[Any], Any]:
    def change(_: Any) -> Any:
        said = json.dumps({"format": FORMAT, "fingerprint": "fake:1", "arrays": []} | values)
        return np.frombuffer(said.encode(), np.uint8)

    return change


def packed(path: Path) -> None:
    with np.load(path) as file:
        old = {name: file[name] for name in file.files}
    np.savez_compressed(path, **old)


def fewer(path: Path) -> None:
    with np.load(path) as file:
        old = {name: file[name] for name in file.files if name != "vectors"}
    np.savez(path, **old)


def pickled(path: Path) -> None:
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.npy", out.getvalue())


def text(path: Path) -> None:
    path.write_text("PK this is no archive")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed(meta=meta(format=FORMAT + 1)), "found format"),
        (changed(meta=lambda _: np.frombuffer(b"[]", np.uint8)), "cannot be used"),
        (changed(meta=lambda _: np.frombuffer(b"{", np.uint8)), "cannot be used"),
        (changed(meta=lambda _: np.frombuffer(b"{}", np.uint8)), "cannot be used"),
        (changed(words=lambda old: old[:-5]), "do not belong together"),
        (changed(words=lambda _: np.frombuffer(b"a\na", np.uint8)), "do not belong together"),
        (changed(row_digests=lambda old: old[16:]), "do not belong together"),
        (changed(starts=lambda old: old + 1), "do not belong together"),
        (changed(starts=lambda old: old[::-1]), "do not belong together"),
        (changed(starts=lambda old: old[:0]), "do not belong together"),
        (changed(numbers=lambda old: old + 1000), "do not belong together"),
        (changed(numbers=lambda old: old - 1), "do not belong together"),
        (changed(weights=lambda old: old[1:]), "do not belong together"),
        (changed(vectors=lambda old: old[1:]), "do not belong together"),
        (packed, "compressed"),
        (pickled, "cannot be used"),
        (fewer, "an array is missing"),
        (text, "cannot be used"),
    ],
)
def test_file_of_another_kind_is_refused_and_says_why(
    tmp_path: Path, change: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "index.npz"
    saved_of().write(path)
    change(path)
    with pytest.raises(SavedError, match=why):
        Saved.read(path)
