from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.guests import ECHO_GUEST, function, guest, host
from tests.support.script import until

from hookgate.builtin_plugins.wasm.engine.calls import CallContext, GuestRun, HostFunction
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

TOOL = "handle_tool_call"
ASK = guest(function("(call $log (local.get $at) (local.get $length))"), imports=host("log"))
SPIN = guest(function("(loop (br 0)) (i64.const 0)"))
COUNT = guest(
    "(global $calls (mut i32) (i32.const 48))",
    function("""
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (i32.store8 (i32.const 0) (global.get $calls))
      (i64.const 1)"""),
)


async def test_a_guest_answers_what_it_was_asked(sandbox: Sandbox) -> None:
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=Limits(), imports=())

    assert echo.form == "core"
    assert echo.exports == {TOOL}
    assert await echo.call(TOOL, b"hello", host={}) == b"hello"
    assert await echo.call(TOOL, b"", host={}) == b""


async def test_every_call_begins_with_a_fresh_instance(sandbox: Sandbox) -> None:
    counting = await sandbox.load(COUNT, name="count", limits=Limits(), imports=())

    assert [await counting.call(TOOL, b"", host={}) for _ in range(3)] == [b"1"] * 3


async def test_an_export_that_it_does_not_have_is_named(sandbox: Sandbox) -> None:
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=Limits(), imports=())

    with pytest.raises(GuestError, match=r"guest 'echo': found no export 'poll', expected one of"):
        await echo.call("poll", b"", host={})


# -- functions of the host -----------------------------------------------------------


async def test_functions_of_the_host_answer_at_once_or_later(sandbox: Sandbox) -> None:
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})
    home = threading.get_ident()
    seen: list[bool] = []

    def at_once(request: bytes, context: CallContext) -> bytes:
        seen.append(threading.get_ident() == home)
        return b"at once: " + request

    async def later(request: bytes, context: CallContext) -> bytes:
        seen.append(threading.get_ident() == home)
        await asyncio.sleep(0)
        return b"later: " + request

    assert await asking.call(TOOL, b"x", host={"log": at_once}) == b"at once: x"
    assert await asking.call(TOOL, b"y", host={"log": later}) == b"later: y"
    assert seen == [False, True], "what is awaited runs on the event loop, the rest beside it"


async def test_a_function_of_the_host_knows_what_is_left_of_its_call(sandbox: Sandbox) -> None:
    limits = Limits(host_calls=5, host_bytes=100, seconds=7)
    asking = await sandbox.load(ASK, name="ask", limits=limits, imports={"log"})
    seen: list[CallContext] = []

    def log(request: bytes, context: CallContext) -> bytes:
        seen.append(context)
        assert context.host_calls_left == 4
        assert context.host_bytes_left == 97
        return b""

    await asking.call(TOOL, b"abc", host={"log": log})

    [context] = seen
    assert context.guest == "ask"
    assert time.monotonic() < context.deadline < time.monotonic() + 7


async def test_a_granted_function_that_a_call_does_not_get_says_so(sandbox: Sandbox) -> None:
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})

    answer = await asking.call(TOOL, b"x", host={})

    assert answer == b'{"error":{"code":"not_granted","message":"this call may not use log"}}'


async def test_what_a_function_of_the_host_raises_belongs_to_its_own_call(
    sandbox: Sandbox,
) -> None:
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})
    together = threading.Barrier(4)

    def raising(number: int) -> HostFunction:
        def log(request: bytes, context: CallContext) -> bytes:
            together.wait(10)
            raise LookupError(number)

        return log

    found = await asyncio.gather(
        *(asking.call(TOOL, b"x", host={"log": raising(one)}) for one in range(4)),
        return_exceptions=True,
    )

    assert [one.kind for one in found if isinstance(one, GuestError)] == ["host"] * 4
    causes = [one.__cause__ for one in found if isinstance(one, GuestError)]
    assert [str(one) for one in causes] == ["0", "1", "2", "3"]


async def test_functions_of_the_host_see_the_context_of_their_caller(sandbox: Sandbox) -> None:
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})
    turn: contextvars.ContextVar[str] = contextvars.ContextVar("turn", default="none")

    async def log(request: bytes, context: CallContext) -> bytes:
        return turn.get().encode()

    turn.set("turn-7")

    assert await asking.call(TOOL, b"x", host={"log": log}) == b"turn-7"


# -- nobody waits --------------------------------------------------------------------


async def test_a_cancelled_call_ends_its_guest(sandbox: Sandbox) -> None:
    limits = Limits(fuel=10**12, seconds=30)
    spinning = await sandbox.load(SPIN, name="spin", limits=limits, imports=())
    clock = sandbox.machine().ticker
    task = asyncio.create_task(spinning.call(TOOL, b"", host={}))
    await until(lambda: not clock.resting)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: clock.resting)  # once no guest runs


async def test_a_cancelled_call_cancels_what_the_host_awaits(sandbox: Sandbox) -> None:
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})
    begun, ended = asyncio.Event(), asyncio.Event()

    async def log(request: bytes, context: CallContext) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    task = asyncio.create_task(asking.call(TOOL, b"", host={"log": log}))
    await begun.wait()
    task.cancel()

    await ended.wait()
    assert task.cancelled() or task.cancelling()


async def test_a_guest_that_finds_no_thread_says_so(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=1)
    spinning = await sandbox.load(
        SPIN, name="spin", limits=Limits(fuel=10**12, seconds=30), imports=()
    )
    first = asyncio.create_task(spinning.call(TOOL, b"", host={}))
    await asyncio.sleep(0)

    with pytest.raises(GuestError, match=r"no thread was free for it within 0\.1 seconds") as busy:
        await spinning.call(TOOL, b"", host={}, limits=Limits(seconds=0.1))

    assert busy.value.kind == "busy"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await sandbox.close()


async def test_runaway_calls_of_one_guest_leave_threads_for_others(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=4)
    limits = Limits(fuel=10**12, seconds=30)
    wild = await sandbox.load(SPIN, name="wild", limits=limits, imports=())
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=Limits(), imports=())
    calls = [asyncio.create_task(wild.call(TOOL, b"", host={})) for _ in range(8)]
    await asyncio.sleep(0)

    assert await echo.call(TOOL, b"meanwhile", host={}) == b"meanwhile"

    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await sandbox.close()


async def test_calls_that_wait_are_taken_in_their_order(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=1)
    asking = await sandbox.load(ASK, name="ask", limits=Limits(), imports={"log"})
    order: list[bytes] = []

    async def log(request: bytes, context: CallContext) -> bytes:
        order.append(request)
        return b""

    requests = [b"%d" % number for number in range(10)]
    await asyncio.gather(*(asking.call(TOOL, one, host={"log": log}) for one in requests))

    assert order == requests
    await sandbox.close()


async def test_too_many_calls_of_a_guest_are_told_so_at_once(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=1)
    limits = Limits(fuel=10**12, seconds=30)
    wild = await sandbox.load(SPIN, name="wild", limits=limits, imports=())
    calls = [asyncio.create_task(wild.call(TOOL, b"", host={})) for _ in range(65)]
    await asyncio.sleep(0)

    with pytest.raises(GuestError, match="64 of its calls wait: try again later") as busy:
        await wild.call(TOOL, b"", host={})

    assert busy.value.kind == "busy"
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await sandbox.close()


async def test_whoever_is_answered_finds_the_place_of_the_call_free(tmp_path: Path) -> None:
    limits = Limits()
    sandbox = Sandbox(tmp_path / "guests", threads=1, memory_bytes=limits.store_bytes)
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=limits, imports=())
    workers = sandbox.machine().workers
    run = GuestRun("echo", limits, {}, asyncio.get_running_loop())
    for _ in range(200):
        await echo.call(TOOL, b"", host={})
        assert workers.lacking(run) == "no thread was free for it"  # and memory was
    await sandbox.close()


async def test_nothing_wakes_while_no_guest_runs(sandbox: Sandbox) -> None:
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=Limits(), imports=())
    await echo.call(TOOL, b"", host={})
    clock = sandbox.machine().ticker

    await until(lambda: clock.resting)
    assert await echo.call(TOOL, b"again", host={}) == b"again"
    assert not clock.resting


async def test_a_closed_sandbox_takes_no_more_calls(sandbox: Sandbox) -> None:
    echo = await sandbox.load(ECHO_GUEST, name="echo", limits=Limits(), imports=())
    await sandbox.close()

    with pytest.raises(GuestError, match="the sandbox was closed"):
        await echo.call(TOOL, b"", host={})
