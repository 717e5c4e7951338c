"""Small guests as text, made binary when the tests run."""

from __future__ import annotations

import wasmtime

# Room for requests and answers is given out upwards, and never taken back.
ALLOC = """
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 1024))
  (func $alloc (export "alloc") (param $length i32) (result i32)
    (global.get $next)
    (global.set $next (i32.add (global.get $next) (local.get $length))))
"""
ECHO = """
  (func (export "handle_tool_call") (param $at i32) (param $length i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
      (i64.extend_i32_u (local.get $length))))
"""


def binary(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def guest(*parts: str, imports: str = "", base: str = ALLOC) -> bytes:
    """Return a module with the parts that every guest has, and these."""
    return binary(f"(module {imports} {base} {' '.join(parts)})")


def function(body: str, name: str = "handle_tool_call") -> str:
    """Return an export of a guest with this body."""
    return f'(func (export "{name}") (param $at i32) (param $length i32) (result i64) {body})'


def host(*names: str) -> str:
    """Return the imports of these functions of the host."""
    return " ".join(
        f'(import "hookgate" "{name}" (func ${name} (param i32 i32) (result i64)))'
        for name in names
    )


ECHO_GUEST = guest(ECHO)
