"""Guests that mean harm, each with the error that it must end in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.builtin_plugins.wasm.guests import ALLOC, function, guest, host

from hookgate.builtin_plugins.wasm.engine.calls import CallContext, HostFunction
from hookgate.builtin_plugins.wasm.engine.limits import Limits, WasiGrants

MB = 1024 * 1024
# What a count ends comes to that count however slow the machine is: no clock is before it.
COUNTED = Limits(fuel=50_000_000, seconds=600.0, memory_bytes=4 * MB, table_elements=1000)
ENDLESS = Limits(fuel=10**15, seconds=0.2, memory_bytes=4 * MB)
COMPILE = Limits(compile_seconds=1.0)


@dataclass(frozen=True)
class Hostile:
    """One guest.

    Attributes:
        make: Makes it.
        says: What its error says, a part of it.
        kind: The kind of the error of its call; empty when it is refused.
        limits: What it is given.
        imports: The functions of the host that it may import.
        host: Those that it is given.
        wasi: The parts of WASI that it may import.
        within: Seconds in which a clock must have ended it; None where a count does, or a look.
    """

    make: Callable[[], bytes]
    says: str
    kind: str = ""
    limits: Limits = COUNTED
    imports: frozenset[str] = frozenset()
    host: Mapping[str, HostFunction] = field(default_factory=dict)
    wasi: WasiGrants | None = None
    within: float | None = None


async def sleeping(request: bytes, context: CallContext) -> bytes:
    await asyncio.sleep(60)
    return b""


def short(request: bytes, context: CallContext) -> bytes:
    return b"{}"


def long(request: bytes, context: CallContext) -> bytes:
    return b"x" * 100_000


def body(text: str, *parts: str, imports: str = "", base: str = ALLOC) -> Callable[[], bytes]:
    """Return what makes a guest whose tool has this body."""
    return lambda: guest(function(text), *parts, imports=imports, base=base)


def start(text: str) -> Callable[[], bytes]:
    """Return what makes a guest that does this when it is instantiated."""
    return lambda: guest(f"(func $begin {text}) (start $begin)", function("(i64.const 0)"))


def alloc(text: str) -> Callable[[], bytes]:
    """Return what makes a guest whose `alloc` does this."""
    base = f'(memory (export "memory") 1) (func (export "alloc") (param i32) (result i32) {text})'
    return lambda: guest(function("(i64.const 0)"), base=base)


def importing(module: str, name: str, what: str = "(func (param i32))") -> Hostile:
    """Return a guest that imports what nobody gave it."""
    return Hostile(
        body("(i64.const 0)", imports=f'(import "{module}" "{name}" {what})'),
        f"it imports {module}.{name}, which is not granted",
    )


def packed(pointer: int, length: int) -> str:
    return f"(i64.const {(pointer << 32 | length) & (1 << 64) - 1})"


LOG = frozenset({"log"})
PAGE = 65536

CALLS = {
    # -- it never ends
    "loop": Hostile(body("(loop (br 0)) (i64.const 0)"), "fuel = 50,000,000", "fuel"),
    "loop-with-endless-fuel": Hostile(
        body("(loop (br 0)) (i64.const 0)"), "seconds = 0.2", "time", ENDLESS, within=0.2
    ),
    "fills-memory-for-ever": Hostile(
        body("""
          (drop (memory.grow (i32.const 60)))
          (loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 3900000)) (br 0))
          (i64.const 0)"""),
        "seconds = 0.2",
        "time",
        ENDLESS,
        within=0.2,
    ),
    "recursion": Hostile(
        body(
            "(call $deep (i64.const 0))",
            """
          (func $deep (param i64) (result i64)
            (i64.add (i64.const 1) (call $deep (local.get 0))))""",
        ),
        "stack_bytes = 524,288",
        "stack",
    ),
    "recursion-through-a-table": Hostile(
        body(
            "(call $deep (i64.const 0))",
            """
          (type $t (func (param i64) (result i64)))
          (table 1 funcref) (elem (i32.const 0) $deep)
          (func $deep (type $t)
            (i64.add (i64.const 1) (call_indirect (type $t) (local.get 0) (i32.const 0))))""",
        ),
        "stack_bytes = 524,288",
        "stack",
    ),
    "large-frames": Hostile(
        body(
            "(call $deep (i64.const 0))",
            f"""
          (func $deep (param i64) (result i64) (local {"v128 " * 400})
            (drop (call $deep (i64.const 1))) (local.get 0))""",
        ),
        "stack_bytes = 524,288",
        "stack",
    ),
    "alloc-loops": Hostile(alloc("(loop (br 0)) (i32.const 0)"), "fuel = 50,000,000", "fuel"),
    # -- it takes all there is
    "grows-until-it-is-full": Hostile(
        body("""
          (loop (br_if 0 (i32.ne (i32.const -1) (memory.grow (i32.const 1)))))
          (unreachable)"""),
        "memory_bytes = 4,194,304",
        "memory",
    ),
    "grows-at-once": Hostile(
        body("""
          (drop (memory.grow (i32.const 65000)))
          (i64.load (i32.const 0x7fffffff))"""),
        "out of bounds memory access",
        "trap",
    ),
    "grows-a-table": Hostile(
        body(
            """
          (loop (br_if 0 (i32.ne (i32.const -1) (table.grow (ref.null func) (i32.const 100)))))
          (table.set (i32.const 2000) (ref.null func))
          (i64.const 0)""",
            "(table 1 funcref)",
        ),
        "out of bounds",
        "trap",
    ),
    # -- pointers
    "answers-at-minus-eight": Hostile(
        body(packed(-8, 8)), "8 bytes at 4,294,967,288, in a memory of 65,536 bytes", "answer"
    ),
    "answers-at-size-minus-four": Hostile(
        body(packed(PAGE - 4, 8)), "8 bytes at 65,532, in a memory of 65,536 bytes", "answer"
    ),
    "answers-past-its-end": Hostile(body(packed(PAGE, 1)), "1 bytes at 65,536", "answer"),
    "answers-with-a-length-of-minus-one": Hostile(
        body(packed(0, 0xFFFF_FFFF)), "output_bytes = 1,048,576", "output"
    ),
    "answers-too-much": Hostile(
        body(f"(drop (memory.grow (i32.const 32))) {packed(0, 2 * MB)}"),
        "2,097,152 bytes, and its limit is output_bytes = 1,048,576",
        "output",
    ),
    "alloc-at-minus-eight": Hostile(
        alloc("(i32.const -8)"), "at 4,294,967,288, in a memory of 65,536 bytes", "answer"
    ),
    "alloc-at-size-minus-four": Hostile(
        alloc(f"(i32.const {PAGE - 4})"), "at 65,532, in a memory of 65,536 bytes", "answer"
    ),
    "alloc-traps": Hostile(alloc("(unreachable)"), "unreachable", "trap"),
    "memory-of-no-bytes": Hostile(
        lambda: guest(
            function(packed(0, 4)),
            base='(memory (export "memory") 0)'
            '(func (export "alloc") (param i32) (result i32) (i32.const 0))',
        ),
        "in a memory of 0 bytes",
        "answer",
    ),
    # -- functions of the host
    "storm-of-host-calls": Hostile(
        body(
            "(loop (drop (call $log (i32.const 0) (i32.const 1))) (br 0)) (i64.const 0)",
            imports=host("log"),
        ),
        "host_calls = 1,000",
        "host-calls",
        imports=LOG,
        host={"log": short},
    ),
    "storm-of-host-bytes": Hostile(
        body(
            "(loop (drop (call $log (i32.const 0) (i32.const 60000))) (br 0)) (i64.const 0)",
            imports=host("log"),
        ),
        "host_bytes = 16,777,216",
        "host-calls",
        imports=LOG,
        host={"log": short},
    ),
    "storm-of-answers": Hostile(
        body(
            "(loop (drop (call $log (i32.const 0) (i32.const 1))) (global.set $next (i32.const 8))"
            " (br 0)) (i64.const 0)",
            imports=host("log"),
            base=ALLOC.replace('"memory") 1', '"memory") 4'),
        ),
        "host_bytes = 16,777,216",
        "host-calls",
        imports=LOG,
        host={"log": long},
    ),
    "sleeping-host-call": Hostile(
        body("(call $log (i32.const 0) (i32.const 1))", imports=host("log")),
        "seconds = 0.2",
        "time",
        ENDLESS,
        LOG,
        {"log": sleeping},
        within=0.2,
    ),
    "host-calls-that-take-long": Hostile(
        body("(call $log (i32.const 0) (i32.const 1))", imports=host("log")),
        "host_seconds = 0.1",
        "host-calls",
        Limits(host_seconds=0.1, seconds=600.0),
        LOG,
        {"log": sleeping},
    ),
    "asks-at-minus-eight": Hostile(
        body("(call $log (i32.const -8) (i32.const 8))", imports=host("log")),
        "8 bytes at 4,294,967,288",
        "answer",
        imports=LOG,
        host={"log": short},
    ),
    "asks-at-size-minus-four": Hostile(
        body(f"(call $log (i32.const {PAGE - 4}) (i32.const 8))", imports=host("log")),
        "8 bytes at 65,532",
        "answer",
        imports=LOG,
        host={"log": short},
    ),
    "asks-with-a-length-of-minus-one": Hostile(
        body("(call $log (i32.const 0) (i32.const -1))", imports=host("log")),
        "host_bytes = 16,777,216",
        "host-calls",
        imports=LOG,
        host={"log": short},
    ),
    "goes-on-after-it-was-ended": Hostile(
        body(
            """
            (drop (call $log (i32.const -8) (i32.const 8)))
            (loop (br 0)) (i64.const 0)""",
            imports=host("log"),
        ),
        "8 bytes at 4,294,967,288",
        "answer",
        Limits(fuel=10**15, seconds=600.0, memory_bytes=4 * MB),
        LOG,
        {"log": short},
    ),
    "alloc-that-calls-the-host": Hostile(
        lambda: guest(
            function("(call $log (i32.const 0) (i32.const 1))"),
            imports=host("log"),
            base="""
              (memory (export "memory") 1) (global $first (mut i32) (i32.const 1))
              (func (export "alloc") (param i32) (result i32)
                (if (global.get $first)
                  (then (global.set $first (i32.const 0)))
                  (else (drop (call $log (i32.const 0) (i32.const 1)))))
                (i32.const 0))""",
        ),
        "its alloc called the host",
        "trap",
        imports=LOG,
        host={"log": short},
    ),
    # -- traps
    "unreachable": Hostile(body("(unreachable)"), "unreachable", "trap"),
    "divides-by-zero": Hostile(
        body("(i64.div_u (i64.const 1) (i64.const 0))"), "divide by zero", "trap"
    ),
    "calls-nothing": Hostile(
        body("(call_indirect (result i64) (i32.const 0))", "(table 1 funcref)"),
        "uninitialized element",
        "trap",
    ),
    "leaves-the-process": Hostile(
        body(
            "(call $exit (i32.const 7)) (i64.const 0)",
            imports='(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))',
        ),
        "it left with status 7",
        "trap",
        wasi=WasiGrants(),
    ),
}


LONG = "(drop) (i64.add (i64.const 1) (i64.load (i32.const 8)))"


def functions(count: int) -> bytes:
    """Make a module of so many functions."""
    one = "(func (result i32) (i32.add (i32.const 1) (i32.const 2)))"
    return guest(one * count, function("(i64.const 0)"))


REFUSED = {
    # -- it is no module
    "nothing": Hostile(lambda: b"", "it begins with b''"),
    "text": Hostile(lambda: b'(module (memory (export "memory") 1))', "text is to be made one"),
    "text-after-blanks": Hostile(lambda: b"\n  (module)", "text is to be made one first"),
    "program": Hostile(lambda: b"\x7fELF" + bytes(100), "expected a binary WebAssembly module"),
    "old-version": Hostile(lambda: b"\0asm\x02\0\0\0", "expected a binary WebAssembly module"),
    "malformed": Hostile(lambda: b"\0asm\x01\0\0\0\x63\x01\x02", "malformed section id"),
    "cut-off": Hostile(lambda: guest(function("(i64.const 0)"))[:-5], "it is no module"),
    "does-not-validate": Hostile(
        lambda: guest(function("(i64.const 0)")).replace(b"\x42\x00\x0b", b"\x41\x00\x0b"),
        "type mismatch",
    ),
    "too-large": Hostile(
        lambda: guest(f'(data "{"x" * 2000}")', function("(i64.const 0)")),
        "its limit is module_bytes = 1,000",
        limits=Limits(module_bytes=1000),
    ),
    # -- compiling it
    "300,000-functions": Hostile(
        lambda: functions(300_000), "compile_seconds = 1", limits=COMPILE, within=1.0
    ),
    "memory-of-compiling": Hostile(
        lambda: guest(function("(i64.const 0)" + LONG * 150_000)),
        "compile_memory_bytes = 209,715,200",
        limits=Limits(compile_memory_bytes=200 * MB),
    ),
    "thousands-of-exports": Hostile(
        lambda: guest(*(function("(i64.const 0)", f"f{one}") for one in range(4100))),
        "found 4,102 imports or exports, expected at most 4,096",
    ),
    # -- when it is instantiated
    "start-loops": Hostile(start("(loop (br 0))"), "fuel = 50,000,000"),
    "start-loops-with-endless-fuel": Hostile(
        start("(loop (br 0))"), "seconds = 0.2", limits=ENDLESS, within=0.2
    ),
    "start-recurses": Hostile(start("(call $begin)"), "stack_bytes = 524,288"),
    "start-traps": Hostile(start("(unreachable)"), "unreachable"),
    "data-past-the-end": Hostile(
        lambda: guest('(data (i32.const 65535) "xx")', function("(i64.const 0)")),
        "out of bounds memory access",
    ),
    "begins-with-too-much-memory": Hostile(
        body("(i64.const 0)", base=ALLOC.replace('"memory") 1', '"memory") 1000')),
        "its memory 'memory' begins with 65,536,000 bytes, and its limit is memory_bytes",
    ),
    "begins-with-too-large-a-table": Hostile(
        body("(i64.const 0)", "(table 5000 funcref)"), "its limit is table_elements = 1,000"
    ),
    # -- what it lacks
    "no-memory": Hostile(
        lambda: guest(
            base='(memory 1) (func (export "alloc") (param i32) (result i32) (i32.const 0))'
        ),
        "its export 'memory': found no such export, expected memory",
    ),
    "no-alloc": Hostile(
        body("(i64.const 0)", base='(memory (export "memory") 1)'),
        "its export 'alloc': found no such export, expected func(i32)->i32",
    ),
    "another-alloc": Hostile(
        body(
            "(i64.const 0)",
            base='(memory (export "memory") 1)'
            '(func (export "alloc") (param i64) (result i32) (i32.const 0))',
        ),
        "its export 'alloc': found func(i64)->i32",
    ),
    "no-function": Hostile(guest, "it exports no function of the type func(i32,i32)->i64"),
    # -- what engines can do and guests may not
    "shared-memory": Hostile(
        lambda: b"\0asm\x01\0\0\0\x05\x04\x01\x03\x01\x01", "threads must be enabled"
    ),
    "64-bit-memory": Hostile(
        lambda: b"\0asm\x01\0\0\0\x05\x03\x01\x04\x01", "memory64 must be enabled"
    ),
    "two-memories": Hostile(
        lambda: b"\0asm\x01\0\0\0\x05\x05\x02\x00\x01\x00\x01", "multiple memories"
    ),
}

ANSWER = "(func (param i32 i32) (result i64))"
UNGRANTED = {
    f"{module}.{name}": importing(module, name, what)
    for module, name, what in (
        *(("hookgate", one, ANSWER) for one in ("log", "clock", "random", "store", "http", "env")),
        ("hookgate", "secret", ANSWER),
        ("hookgate", "table", "(table 1 funcref)"),
        ("hookgate", "global", "(global i32)"),
        ("env", "abort", "(func (param i32 i32 i32 i32))"),
        *(
            ("wasi_snapshot_preview1", one, "(func (param i32) (result i32))")
            for one in (
                *("poll_oneoff", "fd_write", "fd_read", "path_open", "random_get", "environ_get"),
                *("clock_time_get", "sock_accept", "sock_send", "proc_exit", "path_unlink_file"),
            )
        ),
    )
} | {
    "hookgate.memory": Hostile(
        lambda: guest(
            function("(i64.const 0)"),
            imports='(import "hookgate" "memory" (memory 1))',
            base='(export "memory" (memory 0))'
            '(func (export "alloc") (param i32) (result i32) (i32.const 0))',
        ),
        "it imports hookgate.memory, which is not granted",
    ),
    "poll_oneoff-with-all-of-wasi": Hostile(
        body(
            "(i64.const 0)",
            imports='(import "wasi_snapshot_preview1" "poll_oneoff"'
            "(func (param i32 i32 i32 i32) (result i32)))",
        ),
        "it imports wasi_snapshot_preview1.poll_oneoff, which is not granted",
        wasi=WasiGrants(clock=True, random=True, env={"A": "b"}),
    ),
}
