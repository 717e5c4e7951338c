"""Small components as text, made binary when the tests run."""

from __future__ import annotations

import wasmtime

LIBRARY = """
  (core module $library
    (memory (export "memory") 1)
    (table $table (export "table") 1 funcref)
    (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32)
      (result i32) (local $at i32)
      (if (i32.eqz (ref.is_null (table.get $table (i32.const 0))))
        (then (call_indirect $table (i32.const 0))))
      (local.set $at (global.get $next))
      (global.set $next (i32.add (global.get $next) (local.get $size)))
      (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
        (then (if (i32.eq (i32.const -1) (memory.grow
            (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))
          (then unreachable))))
      (local.get $at)))
  (core instance $library (instantiate $library))
"""
STRING = '(func (param "request" string) (result string))'
LIFT = '(memory (core memory $library "memory")) (realloc (core func $library "realloc"))'
ANSWER = """
  (func $answer (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (i32.const 0))
"""
ECHO = "(call $answer (local.get $at) (local.get $length))"


def component(
    body: str,
    *more: str,
    imports: tuple[str, ...] = (),
    export: str = "handle-tool-call",
    kind: str = '(param "request" string) (result string)',
) -> bytes:
    """Return a component whose export does `body`, with these functions of the host.

    Args:
        body: Core instructions that return where pointer and length of the answer stand.
        more: What else stands in its core module. A function in its table is called whenever
            the host asks for memory.
        imports: Functions of the host; each is there as ``$NAME (at length answer)``.
        export: The name of its export.
        kind: The type of its export.
    """
    host = "".join(f'(export "{name}" {STRING})' for name in imports)
    imported = f'(import "hookgate:plugin/host" (instance $host {host}))' if imports else ""
    lowered = "".join(
        f'(core func ${name} (canon lower (func $host "{name}") {LIFT}))' for name in imports
    )
    given = "".join(f'(export "{name}" (func ${name}))' for name in imports)
    wanted = "".join(
        f'(import "host" "{name}" (func ${name} (param i32 i32 i32)))' for name in imports
    )
    return bytes(
        wasmtime.wat2wasm(f"""(component
          {imported} {LIBRARY} {lowered}
          (core instance $given {given})
          (core module $main
            (import "library" "memory" (memory 1))
            (import "library" "table" (table 1 funcref))
            {wanted} {ANSWER}
            (func (export "run") (param $at i32) (param $length i32) (result i32) {body})
            {" ".join(more)})
          (core instance $main (instantiate $main
            (with "library" (instance $library)) (with "host" (instance $given))))
          (func (export "{export}") {kind} (canon lift (core func $main "run") {LIFT})))""")
    )


def ask(name: str) -> str:
    """Return a body that hands its request to the host, and answers what the host answers."""
    return f"""
      (call ${name} (local.get $at) (local.get $length) (i32.const 8))
      (call $answer (i32.load (i32.const 8)) (i32.load (i32.const 12)))"""
