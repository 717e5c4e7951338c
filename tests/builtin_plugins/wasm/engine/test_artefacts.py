"""What was compiled is kept where only this user can write, and is run only unchanged."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.guests import ECHO_GUEST, function, guest
from tests.support.examples import sampled

from hookgate.builtin_plugins.wasm.engine.compiled import artefacts
from hookgate.builtin_plugins.wasm.engine.limits import GuestRefusedError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

TOOL = "handle_tool_call"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "guests"


async def load(folder: Path, data: bytes = ECHO_GUEST, *, most: int = 1 << 30) -> Guest:
    sandbox = Sandbox(folder, threads=1, cache_bytes=most)
    return await sandbox.load(data, name="echo", limits=Limits(), imports=())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def label_of(folder: Path) -> Path:
    [label] = folder.glob("*.json")
    return label


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.cwasm"))


async def test_a_guest_is_compiled_once(folder: Path) -> None:
    await load(folder)
    [artefact] = kept(folder)
    first = artefact.stat()

    again = await load(folder)

    assert kept(folder) == [artefact]
    assert artefact.stat().st_ino == first.st_ino
    assert await again.call(TOOL, b"x", host={}) == b"x"


async def test_the_folder_and_all_in_it_belong_to_this_user_alone(folder: Path) -> None:
    await load(folder)

    assert mode_of(folder) == 0o700
    assert {mode_of(path) for path in (*kept(folder), label_of(folder))} == {0o600}
    assert mode_of(folder.with_name("guests.key")) == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o701])
async def test_a_folder_that_others_can_enter_is_refused(folder: Path, mode: int) -> None:
    os.mkdir(folder)
    os.chmod(folder, mode)

    with pytest.raises(GuestRefusedError, match=rf"with mode {mode:04o}, expected user .* 0700"):
        await load(folder)


async def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", folder)

    with pytest.raises(GuestRefusedError, match="is a link or a file, expected a folder"):
        await load(folder)


async def test_a_changed_artefact_is_not_run_but_compiled_anew(folder: Path) -> None:
    await load(folder)
    [artefact] = kept(folder)
    good = artefact.read_bytes()
    for at in (len(good) // 3, len(good) // 2, len(good) - 1):
        changed = bytearray(good)
        changed[at] ^= 1
        artefact.write_bytes(changed)

        again = await load(folder)

        assert artefact.read_bytes() != changed
        assert await again.call(TOOL, b"x", host={}) == b"x"


async def test_an_artefact_that_says_something_else_of_itself_is_compiled_anew(
    folder: Path,
) -> None:
    await load(folder)
    label = label_of(folder)
    said, code = json.loads(label.read_bytes())
    said["imports"] = []
    said["exports"]["free"] = "func(i32,i32)->i64"
    label.write_text(json.dumps([said, code]))

    assert (await load(folder)).exports == {TOOL}


async def test_an_artefact_of_another_folder_does_not_count(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "others"
    await load(other, guest(function("(unreachable)")))
    await load(folder)
    [good], [theirs] = kept(folder), kept(other)
    label = good.with_suffix(".json")
    shutil.copy(theirs, good)
    shutil.copy(theirs.with_suffix(".json"), label)

    again = await load(folder)

    assert await again.call(TOOL, b"x", host={}) == b"x"


async def test_an_artefact_under_the_name_of_another_module_does_not_count(folder: Path) -> None:
    await load(folder)
    [good] = kept(folder)
    await load(folder, guest(function("(unreachable)")))
    [other] = set(kept(folder)) - {good}
    for suffix in (".cwasm", ".json"):
        shutil.copy(other.with_suffix(suffix), good.with_suffix(suffix))

    again = await load(folder)

    assert await again.call(TOOL, b"x", host={}) == b"x"
    assert good.read_bytes() != other.read_bytes()


async def test_an_artefact_of_another_engine_under_the_name_of_this_one_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(folder)
    [good] = kept(folder)
    with monkeypatch.context() as older:
        older.setattr(artefacts, "version", lambda name: "1.0.0")
        await load(folder)
    [other] = set(kept(folder)) - {good}
    for suffix in (".cwasm", ".json"):
        other.with_suffix(suffix).replace(good.with_suffix(suffix))
    theirs = good.stat().st_mtime_ns

    await load(folder)

    assert good.stat().st_mtime_ns != theirs


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file belong to another user; who is not root pretends that it does."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        return
    given, look = path.stat().st_ino, os.fstat

    def looked(descriptor: int) -> os.stat_result:
        found = look(descriptor)
        if found.st_ino != given:
            return found
        return os.stat_result((*found[:4], 12345, *found[5:]))

    monkeypatch.setattr(os, "fstat", looked)


@pytest.mark.parametrize("suffix", [".cwasm", ".json"])
async def test_what_another_user_has_put_there_does_not_count(
    folder: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(folder)
    [artefact] = kept(folder)
    before = artefact.stat().st_mtime_ns
    give_away(artefact.with_suffix(suffix), monkeypatch)

    again = await load(folder)

    assert artefact.stat().st_mtime_ns != before
    assert await again.call(TOOL, b"x", host={}) == b"x"


@pytest.mark.parametrize("suffix", [".cwasm", ".json"])
@pytest.mark.parametrize("mode", sampled([0o602, 0o620]))
async def test_what_others_may_write_does_not_count(folder: Path, suffix: str, mode: int) -> None:
    await load(folder)
    [artefact] = kept(folder)
    before = artefact.stat().st_mtime_ns
    artefact.with_suffix(suffix).chmod(mode)

    await load(folder)

    assert artefact.stat().st_mtime_ns != before


@pytest.mark.parametrize("mode", [0o602, 0o620])
async def test_a_key_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    await load(folder)
    folder.with_name("guests.key").chmod(mode)

    with pytest.raises(GuestRefusedError, match="not a file of this user that nobody else may"):
        await load(folder)


async def test_a_key_of_another_length_is_refused(folder: Path) -> None:
    await load(folder)
    folder.with_name("guests.key").write_bytes(b"")

    with pytest.raises(GuestRefusedError, match="has 0 bytes, expected 32: remove it"):
        await load(folder)


async def test_a_folder_of_another_user_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(folder)
    me = os.geteuid()
    if me == 0:
        os.chown(folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)

    with pytest.raises(GuestRefusedError, match=r"belongs to user .* expected user"):
        await load(folder)


@pytest.mark.parametrize("text", sampled(["", "{", "[]", "[1, 2]", '[{}, "x"]', "[" * 100_000]))
async def test_a_label_that_cannot_be_read_costs_a_compilation(folder: Path, text: str) -> None:
    await load(folder)
    label = label_of(folder)
    label.write_text(text)

    assert (await load(folder)).exports == {TOOL}


async def test_an_artefact_that_is_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    await load(folder)
    [artefact] = kept(folder)
    moved = tmp_path / "moved"
    artefact.rename(moved)
    artefact.symlink_to(moved)

    await load(folder)

    assert not artefact.is_symlink()


async def test_the_cache_has_a_bound_and_what_was_used_least_goes(folder: Path) -> None:
    await load(folder)
    [first] = kept(folder)
    os.utime(first.with_suffix(".json"), (1, 1))

    await load(folder, guest(function("(i64.const 1)")), most=first.stat().st_size * 3 // 2)

    assert first not in kept(folder)
    assert not first.with_suffix(".json").exists()
    assert len(kept(folder)) == 1


async def test_what_a_killed_compilation_left_is_removed(folder: Path) -> None:
    await load(folder)
    left = folder / ".new-1-abc"
    left.write_bytes(b"x")
    os.utime(left, (1, 1))
    begun = folder / ".new-2-abc"
    begun.write_bytes(b"x")

    await load(folder, guest(function("(i64.const 1)")))

    assert not left.exists()
    assert begun.exists()
