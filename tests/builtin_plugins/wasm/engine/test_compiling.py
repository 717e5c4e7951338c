"""The process that compiles has limits of its own, and ends with the gateway."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import wasmtime
from tests.builtin_plugins.wasm.guests import ALLOC, function, guest

from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.limits import GuestRefusedError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("compiled_anew")

GATEWAY = """
import asyncio, sys
from pathlib import Path
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

async def main():
    limits = Limits(compile_seconds=600, compile_memory_bytes=8 << 30)
    data = Path(sys.argv[1]).read_bytes()
    await Sandbox(Path(sys.argv[2])).load(data, name="long", limits=limits, imports=())

asyncio.run(main())
"""
# It looks like an orphan from the beginning: its parent is not the one that it is told.
CHILD = Path(child.__file__)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module that takes long to compile."""
    one = "(func (result i32) (i32.add (i32.const 1) (i32.const 2)))"
    path = tmp_path_factory.mktemp("modules") / "long.wasm"
    path.write_bytes(guest(one * 300_000, function("(i64.const 0)")))
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_a_compiler_ends_with_the_gateway_that_was_killed(long: Path, tmp_path: Path) -> None:
    gateway = subprocess.Popen([sys.executable, "-c", GATEWAY, str(long), str(tmp_path / "guests")])
    compiler = wait_for(lambda: compiling(gateway.pid))

    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()

    # Long before it has compiled, behind which it ends in any case.
    wait_for(lambda: not is_alive(compiler), seconds=5)


@pytest.mark.slow
def test_a_compiler_whose_gateway_had_ended_before_does_not_begin(long: Path) -> None:
    somebody_else = os.getppid()

    ended = start_child(str(somebody_else), "600").communicate(long.read_bytes())

    assert ended == (b"", b"")


@pytest.mark.slow
def test_without_a_signal_of_the_system_a_compiler_looks_for_itself() -> None:
    """As on macOS: a process between the test and the compiler ends, and so does the compiler."""
    watching = f"""
import os, runpy, sys, time
child = runpy.run_path({str(CHILD)!r})
if os.fork() == 0:
    sys.platform = "darwin"
    child["_end_with"](os.getppid())
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""
    between = subprocess.Popen([sys.executable, "-c", watching], stdout=subprocess.PIPE, text=True)
    assert between.stdout is not None
    compiler = int(between.stdout.readline())

    between.kill()
    between.wait()

    wait_for(lambda: not is_alive(compiler))
    between.stdout.close()


@pytest.mark.slow
def test_a_compiler_that_nobody_kills_ends_at_its_time_of_the_processor(long: Path) -> None:
    compiler = start_child(str(os.getpid()), "0.01")

    compiler.communicate(long.read_bytes())

    assert compiler.returncode == -signal.SIGXCPU


# -- what its errors say -----------------------------------------------------------------


async def test_without_wasmtime_a_guest_says_what_to_install(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = wasmtime.wat2wasm(f"(module {ALLOC})")
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(GuestRefusedError, match=r"guest 'plain': .*'hookgate\[wasm\]'") as found:
        await sandbox.load(data, name="plain", limits=Limits(), imports=())
    assert not found.value.lasting


@pytest.mark.parametrize(
    "text",
    [
        f'(module {ALLOC} (func (export "wide") (param v128)))',
        f'(module {ALLOC} (func (export "wide") (result v128) (v128.const i64x2 0 0)))',
        f'(module (import "hookgate" "log" (func (param v128))) {ALLOC})',
    ],
)
async def test_vectors_in_imports_and_exports_are_refused_as_what_they_are(
    text: str, sandbox: Sandbox
) -> None:
    with pytest.raises(GuestRefusedError, match="v128") as found:
        await sandbox.load(wasmtime.wat2wasm(text), name="wide", limits=Limits(), imports=())

    assert "memory" not in str(found.value)


async def test_vectors_within_a_module_are_compiled(sandbox: Sandbox) -> None:
    inside = """(i64.extend_i32_s (i8x16.extract_lane_s 0
      (i8x16.add (v128.const i64x2 0 0) (v128.const i64x2 0 0))))"""

    made = await sandbox.load(guest(function(inside)), name="simd", limits=Limits(), imports=())

    assert await made.call("handle_tool_call", b"", host={}) == b""


def start_child(parent: str, seconds: str) -> subprocess.Popen[bytes]:
    """Start the process that compiles as the gateway does, with nobody who watches its time."""
    return subprocess.Popen(
        [sys.executable, str(CHILD), parent, seconds, str(8 << 30), str(1 << 30)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def compiling(pid: int) -> int:
    """Return the child of a process that has got its module; 0 while there is none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in map(int, children):
        # Compiling takes memory; before that it is the size of an interpreter.
        pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > 100 << 20:
            return one
    return 0


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended and that nobody has asked about does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for(found: Callable[[], int], *, seconds: float = 60) -> int:
    """Wait until `found` returns something, and return it."""
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)
    return value
