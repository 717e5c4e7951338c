"""Components run as modules do: granted imports alone, fresh instances, every limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import wasmtime
from tests.support.examples import sampled
from tests.support.heartbeat import waited

from hookgate.builtin_plugins.wasm.engine.calls import CallContext, HostFunction
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, GuestRefusedError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

from ..components import ECHO, ask, component

TOOL = "handle_tool_call"
ASK = component(ask("http"), imports=("http",))
SPIN = "(loop (br 0)) unreachable"


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = Sandbox(tmp_path / "guests", threads=4)
    yield made
    await made.close()


async def answered(
    sandbox: Sandbox,
    data: bytes,
    request: bytes = b"{}",
    *,
    limits: Limits | None = None,
    **host: HostFunction,
) -> bytes:
    guest = await sandbox.load(data, name="acme", limits=limits or Limits(), imports=set(host))
    return await guest.call(TOOL, request, host=host)


def upper(request: bytes, context: CallContext) -> bytes:
    return request.upper()


async def test_a_component_answers_under_the_names_of_the_core_abi(sandbox: Sandbox) -> None:
    guest = await sandbox.load(component(ECHO), name="acme", limits=Limits(), imports=())

    assert (guest.form, guest.exports) == ("component", {TOOL})
    assert await guest.call(TOOL, b"", host={}) == b""
    assert await guest.call(TOOL, '{"text":"é😀"}'.encode(), host={}) == '{"text":"é😀"}'.encode()
    assert await guest.call(TOOL, b"x" * 300_000, host={}) == b"x" * 300_000


async def test_every_call_begins_with_a_fresh_instance(sandbox: Sandbox) -> None:
    count = component(
        """(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (i32.store8 (i32.const 16) (global.get $calls))
        (call $answer (i32.const 16) (i32.const 1))""",
        "(global $calls (mut i32) (i32.const 48))",
    )
    guest = await sandbox.load(count, name="acme", limits=Limits(), imports=())

    assert [await guest.call(TOOL, b"", host={}) for _ in range(3)] == [b"1"] * 3


async def test_a_component_calls_the_host_at_once_or_on_the_event_loop(sandbox: Sandbox) -> None:
    async def later(request: bytes, context: CallContext) -> bytes:
        await asyncio.sleep(0)
        return b"later " + request

    assert await answered(sandbox, ASK, b"abc", http=upper) == b"ABC"
    assert await answered(sandbox, ASK, b"abc", http=later) == b"later abc"


async def test_what_was_granted_at_load_may_be_missing_in_a_call(sandbox: Sandbox) -> None:
    guest = await sandbox.load(ASK, name="acme", limits=Limits(), imports={"http"})

    assert b'"not_granted"' in await guest.call(TOOL, b"{}", host={})


# -- refused when loaded ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["log", "clock", "random", "store", "http", "env"])
async def test_each_function_of_the_host_needs_its_grant(sandbox: Sandbox, name: str) -> None:
    others = {"log", "clock", "random", "store", "http", "env"} - {name}

    with pytest.raises(GuestRefusedError, match=rf"imports hookgate:plugin/host\.{name}, which is"):
        await sandbox.load(
            component(ask(name), imports=(name,)), name="acme", limits=Limits(), imports=others
        )


@pytest.mark.parametrize(
    ("imported", "said"),
    [
        ('"wasi:cli/environment@0.2.9"', r"imports wasi:cli/environment@0.2.9, .* --stub-wasi"),
        ('"acme:other/thing"', r"imports acme:other/thing, which is not granted"),
    ],
)
async def test_no_other_interface_is_there(sandbox: Sandbox, imported: str, said: str) -> None:
    text = f'(component (import {imported} (instance (export "get" (func)))))'

    with pytest.raises(GuestRefusedError, match=said):
        await sandbox.load(
            bytes(wasmtime.wat2wasm(text)), name="acme", limits=Limits(), imports={"log"}
        )


async def test_a_component_needs_an_export_of_its_type(sandbox: Sandbox) -> None:
    other = component("(i32.const 1)", kind='(param "a" u32) (param "b" u32) (result u32)')

    with pytest.raises(GuestRefusedError, match=r"exports no function of the type func\(string\)"):
        await sandbox.load(other, name="acme", limits=Limits(), imports=())


async def test_an_import_of_another_type_is_named(sandbox: Sandbox) -> None:
    text = """(component (import "hookgate:plugin/host" (instance
      (export "log" (func (param "level" u32))))))"""

    with pytest.raises(GuestRefusedError, match=r"host\.log: found func\(U32\)->NoneType"):
        await sandbox.load(
            bytes(wasmtime.wat2wasm(text)), name="acme", limits=Limits(), imports={"log"}
        )


async def test_a_start_function_that_loops_is_ended(sandbox: Sandbox) -> None:
    endless = component(ECHO, "(func $start (loop (br 0)))", "(start $start)")

    with pytest.raises(GuestRefusedError, match=r"cannot be instantiated: .*seconds = 0\.1"):
        await sandbox.load(endless, name="acme", limits=Limits(seconds=0.1), imports=())


async def test_more_core_instances_than_allowed_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(GuestRefusedError, match="cannot be instantiated"):
        await sandbox.load(component(ECHO), name="acme", limits=Limits(instances=1), imports=())


# -- ended in a call --------------------------------------------------------------------

GROW = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable"
RECURSE = "(func $deep (param i32) (result i32) (call $deep (local.get 0)) (drop) (local.get 0))"
STORM = f"(loop {ask('log').split('(call $answer')[0]} (br 0)) unreachable"
HOSTILE = {
    "fuel": (component(SPIN), Limits(fuel=100_000), "fuel", "fuel = 100,000"),
    "time": (component(SPIN), Limits(seconds=0.1), "time", "seconds = 0.1"),
    "stack": (
        component("(call $deep (local.get $at))", RECURSE),
        Limits(stack_bytes=65_536),
        "stack",
        "stack_bytes = 65,536",
    ),
    "memory": (component(GROW), Limits(memory_bytes=1 << 20), "trap", "unreachable"),
    "output": (
        component("(call $answer (i32.const 5000) (i32.const 60000))"),
        Limits(output_bytes=50_000),
        "output",
        "answered 60,000 bytes, and its limit is output_bytes = 50,000",
    ),
    "answer past the end": (
        component("(call $answer (i32.const 65536) (i32.const 1))"),
        Limits(),
        "trap",
        "out of bounds",
    ),
    "answer at -8": (
        component("(call $answer (i32.const -8) (i32.const 16))"),
        Limits(),
        "trap",
        "out of bounds",
    ),
    "answer that is no text": (
        component(
            """(i32.store8 (i32.const 16) (i32.const 255))
            (call $answer (i32.const 16) (i32.const 1))"""
        ),
        Limits(),
        "trap",
        "utf-8",
    ),
    "host calls": (
        component(STORM, imports=("log",)),
        Limits(host_calls=50),
        "host-calls",
        "host_calls = 50",
    ),
    "host bytes": (
        component(
            "(call $log (i32.const 0) (i32.const 60000) (i32.const 8)) unreachable",
            imports=("log",),
        ),
        Limits(host_bytes=50_000),
        "host-calls",
        "host_bytes = 50,000",
    ),
    "a host call while the host asks for memory": (
        component(
            ECHO,
            "(func $again (call $log (i32.const 0) (i32.const 0) (i32.const 8)))",
            "(elem (i32.const 0) $again)",
            imports=("log",),
        ),
        Limits(),
        "trap",
        "cannot leave component instance",
    ),
    "request past the end": (
        component(
            "(call $log (i32.const 65530) (i32.const 100) (i32.const 8)) unreachable",
            imports=("log",),
        ),
        Limits(),
        "trap",
        "out of bounds",
    ),
}


@pytest.mark.parametrize("what", sampled(HOSTILE, every=6))
async def test_a_hostile_component_ends_with_a_named_error(sandbox: Sandbox, what: str) -> None:
    data, limits, kind, said = HOSTILE[what]
    guest = await sandbox.load(data, name="acme", limits=limits, imports={"log"})
    found = "busy"
    while found == "busy":  # the thread of guests, behind all others, had no processor in time
        started = time.monotonic() - waited()
        with pytest.raises(GuestError, match="guest 'acme': ") as ended:
            await guest.call(TOOL, b"{}", host={"log": upper})
        found = ended.value.kind

    assert (found, said in str(ended.value)) == (kind, True), str(ended.value)
    assert time.monotonic() - waited() - started < limits.seconds + 1


async def test_a_host_call_that_sleeps_ends_with_the_call(sandbox: Sandbox) -> None:
    async def sleeping(request: bytes, context: CallContext) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")

    with pytest.raises(GuestError, match=r"seconds = 0\.2"):
        await answered(sandbox, ASK, limits=Limits(seconds=0.2), http=sleeping)


@pytest.mark.parametrize("answer", [b"\xff\xfe", "no bytes"])
async def test_a_host_function_that_answers_no_text_ends_that_call(
    sandbox: Sandbox, answer: bytes
) -> None:
    def wrong(request: bytes, context: CallContext) -> bytes:
        return answer

    with pytest.raises(
        GuestError, match=r"function of the host failed|host function 'http' failed"
    ):
        await answered(sandbox, ASK, http=wrong)


async def test_what_fails_in_one_call_is_not_said_of_another(sandbox: Sandbox) -> None:
    guest = await sandbox.load(ASK, name="acme", limits=Limits(), imports={"http"})

    async def one(number: int) -> str:
        def fails(request: bytes, context: CallContext) -> bytes:
            if number % 2:
                raise ValueError(f"failure {number}")
            return request

        try:
            return (await guest.call(TOOL, str(number).encode(), host={"http": fails})).decode()
        except GuestError as error:
            return str(error)

    said = await asyncio.gather(*(one(number) for number in range(40)))

    for number, text in enumerate(said):
        assert f"failure {number}')" in text if number % 2 else text == str(number)
