"""A process that is forked from one with warm guests has threads and engines of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.components import ECHO as ECHO_OF_A_COMPONENT
from tests.builtin_plugins.wasm.components import component
from tests.builtin_plugins.wasm.guests import ECHO_GUEST, function, guest

from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

TOOL = "handle_tool_call"


def in_a_fork(work: Callable[[], bytes]) -> bytes:
    """Run `work` in a fork of this process, and return what it says."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        child = os.fork()
    if child == 0:
        try:
            said = work()
        except BaseException:
            said = traceback.format_exc().encode()
        os.write(write, said)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


async def warm(tmp_path: Path, data: bytes = ECHO_GUEST) -> tuple[Sandbox, Guest]:
    sandbox = Sandbox(tmp_path / "guests")
    echo = await sandbox.load(data, name="echo", limits=Limits(seconds=30), imports=())
    return sandbox, echo


@pytest.mark.parametrize(
    "data", [ECHO_GUEST, component(ECHO_OF_A_COMPONENT)], ids=["core", "component"]
)
async def test_guests_go_on_in_a_fork_and_in_its_parent(tmp_path: Path, data: bytes) -> None:
    sandbox, echo = await warm(tmp_path, data)
    assert await echo.call(TOOL, b"before", host={}) == b"before"

    def forked() -> bytes:
        return asyncio.run(echo.call(TOOL, b"in the fork", host={}))

    assert await asyncio.to_thread(in_a_fork, forked) == b"in the fork"
    assert await echo.call(TOOL, b"after", host={}) == b"after"
    await sandbox.close()


@pytest.mark.slow
async def test_a_fork_in_the_middle_of_calls_does_not_wait_for_them(tmp_path: Path) -> None:
    spin = function("(loop (br 0)) (i64.const 0)", "spin")
    sandbox, spinning = await warm(tmp_path, guest(spin, function("(i64.const 0)")))
    limits = Limits(fuel=10**15, seconds=3)
    calls = [
        asyncio.create_task(spinning.call("spin", b"", host={}, limits=limits)) for _ in range(8)
    ]
    await asyncio.sleep(0.1)

    def forked() -> bytes:
        answer = asyncio.run(spinning.call(TOOL, b"", host={}))
        return b"%d threads" % threading.active_count() if answer == b"" else answer

    said = await asyncio.to_thread(in_a_fork, forked)

    assert said.endswith(b"threads"), said
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await sandbox.close()


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_anew")
async def test_a_fork_can_load_guests(tmp_path: Path) -> None:
    sandbox, _ = await warm(tmp_path)

    def forked() -> bytes:
        async def work() -> bytes:
            new = await sandbox.load(
                guest(function("(i64.const 0)")), name="new", limits=Limits(), imports=()
            )
            return await new.call(TOOL, b"", host={}) + b"loaded"

        return asyncio.run(work())

    assert await asyncio.to_thread(in_a_fork, forked) == b"loaded"
    await sandbox.close()
