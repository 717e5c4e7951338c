"""WASI is there part by part, and none of it that was not granted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.guests import function, guest

from hookgate.builtin_plugins.wasm.engine.limits import (
    GuestError,
    GuestRefusedError,
    Limits,
    WasiGrants,
)
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

TOOL = "handle_tool_call"
WASI = "wasi_snapshot_preview1"


def wasi(name: str, types: str) -> str:
    return f'(import "{WASI}" "{name}" (func ${name} {types}))'


def answers(length: int) -> str:
    """Answer the bytes from 0 on."""
    return f"(i64.const {length})"


RANDOM = guest(
    function(f"(drop (call $random_get (i32.const 0) (i32.const 16))) {answers(16)}"),
    imports=wasi("random_get", "(param i32 i32) (result i32)"),
)
CLOCK = guest(
    function(
        "(drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 0)))" + answers(8)
    ),
    imports=wasi("clock_time_get", "(param i32 i64 i32) (result i32)"),
)
# The values go to 64 on, with their addresses before them; the first begins there.
ENV = guest(
    function("""
      (drop (call $environ_sizes_get (i32.const 0) (i32.const 4)))
      (drop (call $environ_get (i32.const 8) (i32.const 64)))
      (i64.or (i64.shl (i64.const 64) (i64.const 32)) (i64.extend_i32_u (i32.load (i32.const 4))))
    """),
    imports=wasi("environ_sizes_get", "(param i32 i32) (result i32)")
    + wasi("environ_get", "(param i32 i32) (result i32)"),
)


def opening(path: str, flags: int = 0, rights: int = 2) -> bytes:
    """Make a guest that opens a file in its first folder, and answers the status and 5 bytes."""
    return guest(
        f'(data (i32.const 100) "{path}")',
        function(f"""
          (i32.store8 (i32.const 0) (call $path_open (i32.const 3) (i32.const 1)
            (i32.const 100) (i32.const {len(path)}) (i32.const {flags})
            (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 16)))
          (i32.store (i32.const 24) (i32.const 1)) (i32.store (i32.const 28) (i32.const 5))
          (drop (call $fd_read (i32.load (i32.const 16)) (i32.const 24) (i32.const 1)
            (i32.const 32)))
          {answers(6)}"""),
        imports=wasi("path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)")
        + wasi("fd_read", "(param i32 i32 i32 i32) (result i32)"),
    )


async def call(sandbox: Sandbox, data: bytes, grants: WasiGrants | None) -> bytes:
    loaded = await sandbox.load(data, name="wasi", limits=Limits(), imports=(), wasi=grants)
    return await loaded.call(TOOL, b"", host={})


@pytest.mark.parametrize(
    ("data", "names", "grants"),
    [
        (RANDOM, ["random_get"], WasiGrants(clock=True, env={"A": "b"})),
        (CLOCK, ["clock_time_get"], WasiGrants(random=True)),
        (ENV, ["environ_sizes_get", "environ_get"], None),
        (opening("a"), ["path_open", "fd_read"], WasiGrants(clock=True, random=True)),
    ],
)
async def test_a_part_that_was_not_granted_is_refused_by_its_names(
    sandbox: Sandbox, data: bytes, names: list[str], grants: WasiGrants | None
) -> None:
    with pytest.raises(GuestRefusedError) as found:
        await call(sandbox, data, grants)

    for name in names:
        assert f"it imports {WASI}.{name}, which is not granted" in str(found.value)


async def test_random_bytes_and_the_clock_when_granted(sandbox: Sandbox) -> None:
    first = await call(sandbox, RANDOM, WasiGrants(random=True))
    time = int.from_bytes(await call(sandbox, CLOCK, WasiGrants(clock=True)), "little")

    assert len(first) == 16
    assert first != bytes(16)
    assert time > 1_700_000_000 * 10**9


async def test_only_granted_values_of_the_environment_are_seen(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGATE_PRIVATE", "hidden")

    assert await call(sandbox, ENV, WasiGrants(env={"PLACE": "Oslo"})) == b"PLACE=Oslo\0"
    assert await call(sandbox, ENV, WasiGrants()) == b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "granted"
    made.mkdir()
    (made / "note").write_text("hello")
    (tmp_path / "secret").write_text("never")
    (made / "link").symlink_to(tmp_path / "secret")
    return made


async def test_a_granted_folder_is_read(sandbox: Sandbox, folder: Path) -> None:
    grants = WasiGrants(read_only={"/notes": folder})

    assert await call(sandbox, opening("note"), grants) == b"\0hello"


@pytest.mark.parametrize("path", ["../secret", "link", "/etc/passwd", "note/../../secret"])
async def test_nothing_outside_a_granted_folder_is_read(
    sandbox: Sandbox, folder: Path, path: str
) -> None:
    answer = await call(sandbox, opening(path), WasiGrants(read_only={"/notes": folder}))

    assert answer[0] != 0
    assert answer[1:] == bytes(5)


@pytest.mark.parametrize(("path", "flags"), [("new", 1), ("note", 8)])
async def test_nothing_is_written_to_a_granted_folder(
    sandbox: Sandbox, folder: Path, path: str, flags: int
) -> None:
    answer = await call(
        sandbox, opening(path, flags, rights=64), WasiGrants(read_only={"/notes": folder})
    )

    assert answer[0] != 0
    assert set(os.listdir(folder)) == {"note", "link"}
    assert (folder / "note").read_text() == "hello"


async def test_what_would_take_a_thread_in_a_granted_folder_is_refused(
    sandbox: Sandbox, folder: Path
) -> None:
    os.mkdir(folder / "below")
    os.mkfifo(folder / "below" / "pipe")

    with pytest.raises(GuestRefusedError, match=r"below/pipe', which it may read, is no plain"):
        await call(sandbox, opening("note"), WasiGrants(read_only={"/notes": folder}))


async def test_a_granted_folder_is_judged_again_each_time_it_is_opened(
    sandbox: Sandbox, folder: Path
) -> None:
    asked: list[tuple[Path, bool]] = []
    why = ""

    def judge(descriptor: int, place: Path) -> str:
        asked.append((place, os.path.samestat(os.fstat(descriptor), folder.stat())))
        return why

    grants = WasiGrants(read_only={"/notes": folder}, why_not=judge)
    loaded = await sandbox.load(
        opening("note"), name="wasi", limits=Limits(), imports=(), wasi=grants
    )
    assert await loaded.call(TOOL, b"", host={}) == b"\0hello"
    assert set(asked) == {(folder, True)}
    why = "has become the wrong one"
    with pytest.raises(GuestError, match="has become the wrong one"):
        await loaded.call(TOOL, b"", host={})


@pytest.mark.parametrize("swapped", ["itself", "above"])
async def test_a_granted_folder_that_has_become_a_link_is_not_followed(
    sandbox: Sandbox, tmp_path: Path, swapped: str
) -> None:
    folder, other = tmp_path / "above" / "granted", tmp_path / "other" / "granted"
    for place in (folder, other):
        place.mkdir(parents=True)
        (place / "note").write_text("hello" if place == folder else "never")
    grants = WasiGrants(read_only={"/notes": folder})
    loaded = await sandbox.load(
        opening("note"), name="wasi", limits=Limits(), imports=(), wasi=grants
    )
    gone, link = (folder, other) if swapped == "itself" else (folder.parent, other.parent)
    gone.rename(tmp_path / "moved")
    gone.symlink_to(link)
    with pytest.raises(GuestError, match=r"cannot be opened|is another one by now"):
        await loaded.call(TOOL, b"", host={})


async def test_a_granted_folder_that_is_not_there_is_named(sandbox: Sandbox, folder: Path) -> None:
    grants = WasiGrants(read_only={"/notes": folder})
    with pytest.raises(GuestRefusedError, match="elsewhere' that it may read is not there"):
        elsewhere = folder / "elsewhere"
        await call(sandbox, opening("note"), WasiGrants(read_only={"/notes": elsewhere}))

    loaded = await sandbox.load(
        opening("note"), name="wasi", limits=Limits(), imports=(), wasi=grants
    )
    os.rename(folder, folder.with_name("moved"))
    with pytest.raises(GuestError, match="granted' that it may read cannot be opened"):
        await loaded.call(TOOL, b"", host={})
