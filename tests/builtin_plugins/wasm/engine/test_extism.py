"""Modules made for Extism run as far as they need nothing of a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.guests import binary
from tests.support.examples import sampled

from hookgate.builtin_plugins.wasm.engine.limits import (
    GuestError,
    GuestRefusedError,
    Limits,
    WasiGrants,
)
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

DEFAULT = Limits()
ENV = "extism:host/env"
MEMORY = '(memory (export "memory") 1)'
COPY = """
  (local $length i64) (local $block i64) (local $i i64)
  (local.set $length (call $input_length))
  (local.set $block (call $alloc (local.get $length)))
  (block $end (loop $next
    (br_if $end (i64.ge_u (local.get $i) (local.get $length)))
    (call $store_u8
      (i64.add (local.get $block) (local.get $i))
      (call $input_load_u8 (local.get $i)))
    (local.set $i (i64.add (local.get $i) (i64.const 1)))
    (br $next)))"""
TYPES = {
    "input_length": "(result i64)",
    "input_load_u8": "(param i64) (result i32)",
    "input_load_u64": "(param i64) (result i64)",
    "alloc": "(param i64) (result i64)",
    "length": "(param i64) (result i64)",
    "load_u8": "(param i64) (result i32)",
    "store_u8": "(param i64 i32)",
    "output_set": "(param i64 i64)",
    "error_set": "(param i64)",
    "config_get": "(param i64) (result i64)",
    "var_get": "(param i64) (result i64)",
    "var_set": "(param i64 i64)",
    "log_info": "(param i64)",
    "http_request": "(param i64 i64) (result i64)",
}


def extism(body: str, *used: str, more: str = "") -> bytes:
    """Return a module whose function `run` has this body."""
    imports = " ".join(f'(import "{ENV}" "{name}" (func ${name} {TYPES[name]}))' for name in used)
    return binary(f'(module {imports} {more} {MEMORY} (func (export "run") (result i32) {body}))')


COPIES = ("input_length", "input_load_u8", "alloc", "store_u8", "output_set", "error_set")
ECHO = extism(
    COPY + "(call $output_set (local.get $block) (local.get $length)) (i32.const 0)", *COPIES
)


async def call(
    sandbox: Sandbox, data: bytes, request: bytes = b"", limits: Limits = DEFAULT
) -> bytes:
    loaded = await sandbox.load(data, name="made-for-extism", limits=limits, imports=())
    return await loaded.call("run", request, host={})


@pytest.mark.parametrize("size", [0, 1, 7, 8, 255, 65_528, 65_529, 300_000])
async def test_bytes_go_in_and_out(sandbox: Sandbox, size: int) -> None:
    request = bytes(one % 251 for one in range(size))

    assert await call(sandbox, ECHO, request) == request


async def test_its_form_and_its_functions_are_told(sandbox: Sandbox) -> None:
    loaded = await sandbox.load(ECHO, name="echo", limits=Limits(), imports=())

    assert loaded.form == "extism"
    assert loaded.exports == {"run"}


async def test_an_error_says_what_the_guest_says(sandbox: Sandbox) -> None:
    failing = extism(COPY + "(call $error_set (local.get $block)) (i32.const 3)", *COPIES)

    with pytest.raises(GuestError, match="it failed with status 3: no such city"):
        await call(sandbox, failing, b"no such city")
    with pytest.raises(GuestError, match="it failed with status 3: it said nothing"):
        await call(sandbox, failing)


async def test_there_is_no_configuration_and_nothing_of_an_earlier_call(sandbox: Sandbox) -> None:
    asking = extism(
        """
        (call $var_set (i64.const 16) (i64.const 16))
        (call $log_info (i64.const 16))
        (i32.wrap_i64 (i64.or (call $config_get (i64.const 16)) (call $var_get (i64.const 16))))
        """,
        *("var_set", "var_get", "config_get", "log_info"),
    )

    assert await call(sandbox, asking) == b""


async def test_what_lies_outside_the_input_reads_as_nothing(sandbox: Sandbox) -> None:
    peeking = extism(
        """
        (i32.or
          (call $input_load_u8 (i64.const 3))
          (i32.or
            (call $input_load_u8 (i64.const -1))
            (i32.wrap_i64 (call $input_load_u64 (i64.const -1)))))
        """,
        *("input_load_u8", "input_load_u64"),
    )

    assert await call(sandbox, peeking, b"abc") == b""


@pytest.mark.parametrize(
    ("body", "says"),
    sampled(
        [
            ("(drop (call $alloc (i64.const -1))) (i32.const 0)", "unreachable"),
            ("(loop (drop (call $alloc (i64.const 60000))) (br 0)) (i32.const 0)", "unreachable"),
            ("(call $load_u8 (i64.const -8))", "unreachable"),
            ("(call $load_u8 (i64.const 65536))", "out of bounds memory access"),
            ("(call $output_set (i64.const -8) (i64.const 8)) (i32.const 0)", "outside its memory"),
            (
                "(call $output_set (i64.const 65532) (i64.const 8)) (i32.const 0)",
                "outside its memory",
            ),
            ("(call $output_set (i64.const 0) (i64.const -1)) (i32.const 0)", "output_bytes"),
            ("(call $error_set (i64.const -8)) (i32.const 1)", "it said nothing"),
            ("(loop (br 0)) (i32.const 0)", "fuel = 50,000,000"),
            ("(unreachable)", "unreachable"),
        ],
        every=5,
    ),
)
async def test_a_hostile_one_ends_in_an_error(sandbox: Sandbox, body: str, says: str) -> None:
    hostile = extism(body, "alloc", "load_u8", "output_set", "error_set")

    with pytest.raises(GuestError, match=says):
        await call(sandbox, hostile, limits=Limits(fuel=50_000_000, memory_bytes=1 << 22))


async def test_functions_of_a_host_are_refused_each_by_its_name(sandbox: Sandbox) -> None:
    user = '(import "extism:host/user" "kv_read" (func (param i64) (result i64)))'
    wasi = '(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))'
    wanting = extism("(i32.const 0)", "http_request", more=user + wasi)

    with pytest.raises(GuestRefusedError) as found:
        await call(sandbox, wanting)

    for name in ("http_request", "extism:host/user.kv_read"):
        assert f"{name}, which Extism's modules do not get here" in str(found.value)
    assert "it imports wasi_snapshot_preview1.random_get, which is not granted" in str(found.value)


async def test_granted_parts_of_wasi_are_there(sandbox: Sandbox) -> None:
    wasi = """
      (import "wasi_snapshot_preview1" "random_get"
        (func $random (param i32 i32) (result i32)))"""
    asking = extism("(call $random (i32.const 0) (i32.const 8))", "alloc", more=wasi)

    loaded = await sandbox.load(
        asking, name="asking", limits=Limits(), imports=(), wasi=WasiGrants(random=True)
    )

    assert await loaded.call("run", b"", host={}) == b""


async def test_a_module_that_exports_nothing_to_call_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(GuestRefusedError, match="it exports no function of the type"):
        await call(sandbox, binary(f'(module (import "{ENV}" "reset" (func)))'))


# -- modules of Extism's own tests ---------------------------------------------------

PUBLISHED = Path(__file__).parent.parent / "extism"
PRINTS = WasiGrants()
"""What a C library imports of WASI and that reaches nowhere."""


@pytest.mark.parametrize(
    ("name", "export", "answer"),
    [
        ("echo", "echo", b"this is a test"),
        ("consume", "consume", b""),
        ("allocations", "allocations", b""),
        ("globals", "globals", b'{"count": 0}'),
    ],
)
async def test_published_modules_run(
    sandbox: Sandbox, name: str, export: str, answer: bytes
) -> None:
    data = (PUBLISHED / f"{name}.wasm").read_bytes()
    # Half of it is for the memory in which Extism's modules exchange bytes.
    limits = replace(DEFAULT, memory_bytes=96 << 20)
    loaded = await sandbox.load(data, name=name, limits=limits, imports=(), wasi=PRINTS)

    for _ in range(2):  # a fresh instance each time: what it counts begins at 0 again
        assert await loaded.call(export, b"this is a test", host={}) == answer


async def test_a_published_module_with_functions_of_a_host_is_refused(sandbox: Sandbox) -> None:
    data = (PUBLISHED / "code-functions.wasm").read_bytes()

    with pytest.raises(GuestRefusedError, match=r"it imports extism:host/user\.hello_world"):
        await sandbox.load(data, name="code", limits=DEFAULT, imports=(), wasi=PRINTS)


async def test_a_module_without_imports_runs_and_answers_nothing(sandbox: Sandbox) -> None:
    functions = '(func (export "run") (result i32) (i32.const 0)) (func (export "silent"))'
    alone = binary(f"(module {functions})")
    loaded = await sandbox.load(alone, name="alone", limits=DEFAULT, imports=())

    assert loaded.form == "extism"
    assert await loaded.call("run", b"x", host={}) == b""
    assert await loaded.call("silent", b"x", host={}) == b""
