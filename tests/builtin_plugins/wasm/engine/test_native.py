"""The bound C functions do what wasmtime's own interface does: guests run both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import wasmtime
from tests.builtin_plugins.wasm.guests import ECHO_GUEST, function, guest, host
from tests.support.examples import sampled

from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.compiled.child import configure
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, Limits, StoreRoom
from hookgate.builtin_plugins.wasm.engine.native import (
    EPOCH_CALLBACK,
    Bounds,
    Failure,
    StoreCell,
    native,
)
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

TOOL = "handle_tool_call"
LIMITS = Limits(fuel=10_000_000, memory_bytes=1 << 22, table_elements=100)
WORD = 0xFFFF_FFFF


def upper(request: bytes) -> bytes:
    return request.upper()


def publicly(data: bytes, request: bytes) -> bytes | str:
    """Run a guest through wasmtime's own interface; what ends it is named by its trap."""
    config = wasmtime.Config()
    configure(config)
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    store.set_limits(LIMITS.memory_bytes, LIMITS.table_elements, 1, 16, 8)
    store.set_fuel(LIMITS.fuel)
    store.set_epoch_deadline(1)
    linker = wasmtime.Linker(engine)

    def ask(caller: wasmtime.Caller, start: int, length: int) -> int:
        memory, alloc = caller["memory"], caller["alloc"]
        assert isinstance(memory, wasmtime.Memory)
        assert isinstance(alloc, wasmtime.Func)
        answer = upper(bytes(memory.read(caller, start, start + length)))
        pointer = alloc(caller, len(answer))
        memory.write(caller, answer, pointer)
        return int(pointer) << 32 | len(answer)

    i32, i64 = wasmtime.ValType.i32, wasmtime.ValType.i64
    kind = wasmtime.FuncType([i32(), i32()], [i64()])
    linker.define_func("hookgate", "log", kind, ask, access_caller=True)
    try:
        exports = linker.instantiate(store, wasmtime.Module(engine, data)).exports(store)
        memory, alloc, tool = exports["memory"], exports["alloc"], exports[TOOL]
        assert isinstance(memory, wasmtime.Memory)
        assert isinstance(alloc, wasmtime.Func)
        assert isinstance(tool, wasmtime.Func)
        pointer = alloc(store, len(request))
        memory.write(store, request, pointer)
        packed = tool(store, pointer, len(request)) & (1 << 64) - 1
        start, length = packed >> 32, packed & WORD
        return bytes(memory.read(store, start, start + length))
    except wasmtime.Trap as trap:
        return trap.trap_code.name if trap.trap_code else trap.message


KINDS = {
    "fuel": "OUT_OF_FUEL",
    "stack": "STACK_OVERFLOW",
}
MESSAGES = {
    "UNREACHABLE": "wasm `unreachable` instruction executed",
    "INTEGER_DIVISION_BY_ZERO": "integer divide by zero",
    "MEMORY_OUT_OF_BOUNDS": "out of bounds memory access",
    "TABLE_OUT_OF_BOUNDS": "undefined element: out of bounds table access",
}
GUESTS = {
    "echo": ECHO_GUEST,
    "asks": guest(function("(call $log (local.get $at) (local.get $length))"), imports=host("log")),
    "asks-twice": guest(
        function("""
          (drop (call $log (local.get $at) (local.get $length)))
          (call $log (local.get $at) (local.get $length))"""),
        imports=host("log"),
    ),
    "grows": guest(
        function("""
          (drop (memory.grow (i32.const 2)))
          (i64.store (i32.const 100000) (i64.const 0x6f6c6c6568))
          (i64.const 429496729600005)""")
    ),
    "keeps-to-its-limit": guest(
        function(
            "(i64.store8 (i32.const 9) (i64.extend_i32_s (memory.grow (i32.const 100))))"
            "(i64.const 0x900000001)"
        )
    ),
    "loops": guest(function("(loop (br 0)) (i64.const 0)")),
    "recurses": guest(
        function("(call $f)"), "(func $f (result i64) (i64.add (call $f) (call $f)))"
    ),
    "traps": guest(function("(unreachable)")),
    "divides": guest(function("(i64.div_s (i64.const 1) (i64.const 0))")),
    "reads-outside": guest(function("(i64.load (i32.const -8))")),
    "calls-outside": guest(
        function("(call_indirect (result i64) (i32.const 5))"), "(table 1 funcref)"
    ),
}


@pytest.mark.parametrize("request_bytes", [b"", b"hello", b"x" * 12_000])
@pytest.mark.parametrize("name", sampled(GUESTS, every=3))
async def test_a_guest_does_the_same_both_ways(
    name: str, request_bytes: bytes, sandbox: Sandbox
) -> None:
    def log(request: bytes, context: CallContext) -> bytes:
        return upper(request)

    loaded = await sandbox.load(GUESTS[name], name=name, limits=LIMITS, imports={"log"})
    try:
        ours: bytes | str = await loaded.call(TOOL, request_bytes, host={"log": log})
    except GuestError as error:
        ours = KINDS.get(error.kind, error.reason)

    theirs = publicly(GUESTS[name], request_bytes)

    if isinstance(theirs, str) and theirs in MESSAGES:
        assert MESSAGES[theirs] in str(ours)
    else:
        assert ours == theirs


# -- memory --------------------------------------------------------------------------

SIZE = 65536


@pytest.fixture
def instance() -> Iterator[tuple[StoreCell, int]]:
    """An instance whose memory has one page, with its store."""
    config = wasmtime.Config()
    configure(config)
    engine = wasmtime.Engine(config)
    module = wasmtime.Module(engine, ECHO_GUEST)
    cell = StoreCell()
    epoch = EPOCH_CALLBACK(lambda *_: 0)
    cell.open(native().address(engine), LIMITS, StoreRoom(), epoch)
    yield cell, cell.instantiate_with(native().address(module), ())
    cell.close()


@pytest.fixture
def memory(instance: tuple[StoreCell, int]) -> tuple[StoreCell, int]:
    cell, at = instance
    return cell, cell.memory(at)


@pytest.mark.parametrize(
    ("start", "count"),
    [
        *((-1, 1), (-8, 8), (-8, 16), (SIZE, 1), (SIZE - 4, 8), (SIZE + 1, 0), (0, SIZE + 1)),
        *((WORD - 7, 8), (WORD, 1), (WORD, WORD), (0, WORD), (1 << 63, 1), (0, -1), (8, -8)),
    ],
)
def test_no_byte_outside_a_memory_is_read_or_written(
    memory: tuple[StoreCell, int], start: int, count: int
) -> None:
    cell, at = memory

    with pytest.raises(Bounds, match="in a memory of 65,536 bytes"):
        cell.read(at, start, count)
    if 0 <= count <= SIZE + 1:
        with pytest.raises(Bounds):
            cell.write(at, start, bytes(count))


@pytest.mark.parametrize("start", [0, 1, 1000, SIZE - 5])
def test_bytes_inside_a_memory_are_read_as_they_were_written(
    memory: tuple[StoreCell, int], start: int
) -> None:
    cell, at = memory

    cell.write(at, start, b"hello")

    assert cell.read(at, start, 5) == b"hello"
    assert cell.read(at, SIZE, 0) == b""


def test_a_function_of_other_types_is_not_called(instance: tuple[StoreCell, int]) -> None:
    cell, at = instance
    alloc = cell.function(at, b"alloc")

    with pytest.raises(Failure, match="expected 1 arguments, got 2"):
        cell.call(alloc, 1, 2)
    with pytest.raises(Failure, match="type mismatch: expected i32, found i64"):
        cell.call(alloc, 1, wide=True)
    with pytest.raises(Failure, match="its export 'alloc' is of another kind"):
        cell.memory(at, b"alloc")
    with pytest.raises(Failure, match="it has no export 'poll'"):
        cell.function(at, b"poll")
