"""Threads and memory are shared out: no guest, and no two, hold all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import wasmtime
from tests.builtin_plugins.wasm.guests import ECHO_GUEST, function, guest, host
from tests.support.examples import sampled
from tests.support.script import until

from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, GuestRefusedError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

TOOL = "handle_tool_call"
MB = 1024 * 1024
LONG = Limits(fuel=10**15, seconds=60, memory_bytes=MB)
ASK = guest(function("(call $log (local.get $at) (local.get $length))"), imports=host("log"))
TOLD_SPIN = guest(
    function("(drop (call $log (local.get $at) (local.get $length))) (loop (br 0)) (i64.const 0)"),
    imports=host("log"),
)


class Calls:
    """Calls that run until the test is over, and how many of them have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._tasks: list[asyncio.Task[bytes]] = []

    def start(self, guest: Guest, count: int, limits: Limits = LONG) -> None:
        """Begin so many calls of a guest that tells when it begins, and never ends."""

        def log(request: bytes, context: CallContext) -> bytes:
            self.begun.append(guest.name)
            return b""

        self._tasks += [
            asyncio.create_task(guest.call(TOOL, b"", host={"log": log}, limits=limits))
            for _ in range(count)
        ]

    async def run(self, **counts: int) -> None:
        """Wait until so many calls of each guest have begun."""
        await until(lambda: all(self.begun.count(one) >= counts[one] for one in counts))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def opened(tmp_path: Path, **more: int) -> AsyncIterator[tuple[Sandbox, Calls]]:
    sandbox, calls = Sandbox(tmp_path / "guests", **more), Calls()
    try:
        yield sandbox, calls
    finally:
        await calls.end()
        await sandbox.close()


async def spinning(sandbox: Sandbox, name: str, limits: Limits = LONG) -> Guest:
    return await sandbox.load(TOLD_SPIN, name=name, limits=limits, imports={"log"})


async def answers(sandbox: Sandbox, name: str, limits: Limits = LONG) -> bytes:
    echo = await sandbox.load(ECHO_GUEST, name=name, limits=limits, imports=())
    return await echo.call(TOOL, b"meanwhile", host={})


# -- threads ---------------------------------------------------------------------------


async def test_runaway_calls_of_two_guests_leave_threads_for_others(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=8) as (sandbox, calls):
        wild = [await spinning(sandbox, name) for name in ("one", "two")]
        # One after the other: of those that come at once, each would leave as much to the other.
        for each, most in zip(wild, (4, 2), strict=True):
            calls.start(each, 12)
            await calls.run(**{each.name: most})

        for name in ("three", "four"):
            assert await answers(sandbox, name) == b"meanwhile"
        assert (calls.begun.count("one"), calls.begun.count("two")) == (4, 2)


async def test_a_guest_that_comes_last_is_not_behind_all_calls_of_the_others(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, threads=1) as (sandbox, calls):
        many = await sandbox.load(ASK, name="many", limits=LONG, imports={"log"})
        wild = await spinning(sandbox, "wild")
        echo = await sandbox.load(ECHO_GUEST, name="echo", limits=LONG, imports=())
        calls.start(wild, 1)
        await calls.run(wild=1)
        order: list[str] = []

        async def told(name: str, call: Awaitable[bytes]) -> None:
            await call
            order.append(name)

        def log(request: bytes, context: CallContext) -> bytes:
            return b""

        waiting = [
            asyncio.create_task(told("many", many.call(TOOL, b"", host={"log": log})))
            for _ in range(10)
        ]
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(told("echo", echo.call(TOOL, b"", host={}))))
        await asyncio.sleep(0)
        await calls.end()
        await asyncio.gather(*waiting)

        assert "echo" in order[:2]


async def test_who_waits_for_the_host_does_not_run(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=1) as (sandbox, _):
        asking = await sandbox.load(ASK, name="ask", limits=LONG, imports={"log"})
        begun, free = asyncio.Event(), asyncio.Event()

        async def log(request: bytes, context: CallContext) -> bytes:
            begun.set()
            await free.wait()
            return b"at last"

        waiting = asyncio.create_task(asking.call(TOOL, b"", host={"log": log}))
        await begun.wait()

        assert await answers(sandbox, "other") == b"meanwhile"
        assert not waiting.done()
        free.set()
        assert await waiting == b"at last"


async def test_a_guest_that_waits_for_the_host_leaves_threads_for_others(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=1) as (sandbox, _):
        asking = await sandbox.load(ASK, name="ask", limits=LONG, imports={"log"})
        begun, free = [], asyncio.Event()

        async def log(request: bytes, context: CallContext) -> bytes:
            begun.append(request)
            await free.wait()
            return b""

        waiting = [asyncio.create_task(asking.call(TOOL, b"", host={"log": log})) for _ in range(6)]
        await until(lambda: len(begun) == 2)

        assert await answers(sandbox, "other") == b"meanwhile"
        assert len(begun) == 2
        free.set()
        assert await asyncio.gather(*waiting) == [b""] * 6


async def test_who_comes_back_from_the_host_waits_for_a_thread_like_all(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=1) as (sandbox, calls):
        asking = await sandbox.load(ASK, name="ask", limits=LONG, imports={"log"})
        wild = await spinning(sandbox, "wild")
        begun, free = asyncio.Event(), asyncio.Event()

        async def log(request: bytes, context: CallContext) -> bytes:
            begun.set()
            await free.wait()
            return b""

        short = Limits(fuel=10**15, seconds=0.5)
        waiting = asyncio.create_task(asking.call(TOOL, b"", host={"log": log}, limits=short))
        await begun.wait()
        calls.start(wild, 1)
        await calls.run(wild=1)
        free.set()

        with pytest.raises(GuestError, match=r"seconds = 0\.5"):
            await waiting
        await calls.end()
        assert await answers(sandbox, "other") == b"meanwhile"


async def test_a_call_that_is_given_up_leaves_the_line(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=1) as (sandbox, calls):
        wild = await spinning(sandbox, "wild")
        calls.start(wild, 1)
        await calls.run(wild=1)
        for _ in range(3):
            waiting = [asyncio.create_task(wild.call(TOOL, b"", host={})) for _ in range(64)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(one) for one in found} == {asyncio.CancelledError}


# -- the memory of all calls -----------------------------------------------------------

WIDE = Limits(fuel=10**15, seconds=60, memory_bytes=16 * MB, table_elements=1)


async def test_calls_begin_as_far_as_their_memory_is_there(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=16, memory_bytes=65 * MB) as (sandbox, calls):
        one, two = [await spinning(sandbox, name, WIDE) for name in ("one", "two")]
        calls.start(one, 6, WIDE)
        await calls.run(one=2)
        calls.start(two, 6, WIDE)
        await calls.run(two=1)

        assert await answers(sandbox, "three", WIDE) == b"meanwhile"
        assert await answers(sandbox, "small") == b"meanwhile"
        assert (calls.begun.count("one"), calls.begun.count("two")) == (2, 1)


async def test_a_call_that_finds_no_memory_in_time_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, threads=8, memory_bytes=17 * MB) as (sandbox, calls):
        wild = await spinning(sandbox, "wild", WIDE)
        echo = await sandbox.load(ECHO_GUEST, name="echo", limits=WIDE, imports=())
        calls.start(wild, 1, WIDE)
        await calls.run(wild=1)

        with pytest.raises(GuestError, match="no memory for it, of 17,825,792 bytes") as busy:
            await echo.call(TOOL, b"", host={}, limits=Limits(seconds=0.1, memory_bytes=16 * MB))

        assert busy.value.kind == "busy"
        await calls.end()
        assert await echo.call(TOOL, b"again", host={}) == b"again"


async def test_a_guest_that_may_take_more_than_there_is_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, memory_bytes=MB) as (sandbox, _):
        with pytest.raises(GuestRefusedError, match="all calls together have 1,048,576"):
            await sandbox.load(ECHO_GUEST, name="echo", limits=replace(WIDE, seconds=1), imports=())


# -- the memory of one call ------------------------------------------------------------


def component(memories: int, tables: int = 1, *, grow: str = "") -> bytes:
    """Return a component with so many memories and tables, which answers with 4 bytes."""
    more = " ".join("(core instance (instantiate $more))" for _ in range(memories - 1))
    extra = "(table 1 funcref) " * (tables - 1)
    return bytes(
        wasmtime.wat2wasm(f"""(component
          (core module $more (memory 1) {_grown(grow)})
          (core module $main
            (memory (export "memory") 1) (table 1 funcref) {extra}
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
            (func (export "run") (param i32 i32) (result i32)
              (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 4))
              (i32.const 0)))
          {more}
          (core instance $main (instantiate $main))
          (func (export "handle-tool-call") (param "request" string) (result string)
            (canon lift (core func $main "run") (memory (core memory $main "memory"))
              (realloc (core func $main "realloc")))))""")
    )


def _grown(pages: str) -> str:
    return pages and (
        f"(func $start (if (i32.eq (i32.const -1) (memory.grow (i32.const {pages})))"
        " (then unreachable))) (start $start)"
    )


async def loaded(sandbox: Sandbox, data: bytes, limits: Limits) -> Guest:
    return await sandbox.load(data, name="acme", limits=limits, imports=())


@pytest.mark.parametrize("memories", sampled([8, 1, 2, 7]))
async def test_all_memories_of_a_guest_share_one_limit(sandbox: Sandbox, memories: int) -> None:
    limits = Limits(memory_bytes=8 * MB)
    fits = 8 * MB // memories // 65_536 - 1

    guest = await loaded(sandbox, component(memories, grow=str(fits)), limits)

    assert await guest.call(TOOL, b"{}", host={}) == b"\0" * 4
    if memories > 1:
        with pytest.raises(GuestRefusedError, match="it trapped: wasm `unreachable`"):
            await loaded(sandbox, component(memories, grow=str(fits + 1)), limits)


async def test_memories_that_begin_with_more_than_their_limit_are_refused(
    sandbox: Sandbox,
) -> None:
    limits = Limits(memory_bytes=4 * 65_536)

    with pytest.raises(GuestRefusedError, match="memory_bytes = 262,144, in equal parts for its 5"):
        await loaded(sandbox, component(5), limits)


async def test_all_tables_of_a_guest_share_one_limit(sandbox: Sandbox) -> None:
    tables = "(table 300 funcref)" * 3
    three = guest(tables, function("(i64.const 0)"))

    await loaded(sandbox, three, Limits(table_elements=900))
    with pytest.raises(GuestRefusedError, match="table_elements = 899, in equal parts for its 3"):
        await loaded(sandbox, three, Limits(table_elements=899))


@pytest.mark.parametrize("pooled", [True, False])
async def test_a_guest_has_a_bounded_number_of_memories(
    sandbox: Sandbox, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pool that instances come from, and by the store where there is no room for one."""
    if not pooled:
        monkeypatch.setattr(
            "hookgate.builtin_plugins.wasm.engine.machine._has_room", lambda slots: False
        )

    with pytest.raises(
        GuestRefusedError, match=r"9 Wasm linear memories|memory count .* 8 at most"
    ):
        await loaded(sandbox, component(9), Limits())


@pytest.mark.parametrize("pooled", [True, False])
async def test_a_guest_has_a_bounded_number_of_tables(
    sandbox: Sandbox, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pooled:
        monkeypatch.setattr(
            "hookgate.builtin_plugins.wasm.engine.machine._has_room", lambda slots: False
        )

    with pytest.raises(GuestRefusedError, match=r"per-instance limit of 16|table count .* 16 at"):
        await loaded(sandbox, guest("(table 1 funcref)" * 17, function("(i64.const 0)")), Limits())
