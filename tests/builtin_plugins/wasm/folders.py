"""Plugin folders and small guests, made when the tests run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.builtin_plugins.wasm.guests import ALLOC, ECHO, binary, guest

ECHO_GUEST = guest(ECHO)
"""Answers with its request, which is no answer to a tool's call."""

FREE = 1024
"""Where the memory of these guests begins to be given out; data lie below."""

_RELAY = """
(module
  (import "hookgate" "{function}" (func $ask (param i32 i32) (result i64)))
  {alloc}
  (data (i32.const 0) "{{\\"content\\":\\"")
  (func (export "handle_tool_call") (param $at i32) (param $length i32) (result i64)
    (local $answer i64) (local $from i32) (local $end i32) (local $out i32) (local $to i32)
    (local $sign i32)
    ;; what stands behind `"input":`, without the last brace
    (local.set $answer (call $ask
      (i32.add (local.get $at) (i32.const {prefix}))
      (i32.sub (local.get $length) (i32.const {around}))))
    (local.set $from (i32.wrap_i64 (i64.shr_u (local.get $answer) (i64.const 32))))
    (local.set $end (i32.add (local.get $from) (i32.wrap_i64 (local.get $answer))))
    (local.set $out (call $alloc (i32.add (i32.const 64) (i32.mul (i32.const 2)
      (i32.wrap_i64 (local.get $answer))))))
    (memory.copy (local.get $out) (i32.const 0) (i32.const 12))
    (local.set $to (i32.add (local.get $out) (i32.const 12)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
      (local.set $sign (i32.load8_u (local.get $from)))
      (if (i32.or (i32.eq (local.get $sign) (i32.const 34))
                  (i32.eq (local.get $sign) (i32.const 92)))
        (then
          (i32.store8 (local.get $to) (i32.const 92))
          (local.set $to (i32.add (local.get $to) (i32.const 1)))))
      (i32.store8 (local.get $to) (local.get $sign))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (br $next)))
    (i32.store8 (local.get $to) (i32.const 34))
    (i32.store8 offset=1 (local.get $to) (i32.const 125))
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $out)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (i32.add (local.get $to) (i32.const 2)) (local.get $out))))))
"""


def relay(function: str, name: str = "ask") -> bytes:
    """Return a guest whose tool hands its arguments to a host function, and says the answer.

    Args:
        function: The host function.
        name: The tool's name.
    """
    prefix = len(f'{{"name":"{name}","input":')
    text = _RELAY.format(function=function, alloc=ALLOC, prefix=prefix, around=prefix + 1)
    return binary(text)


def constant(**answers: Any) -> bytes:
    """Return a guest whose exports each answer with one JSON, whatever they are asked."""
    parts, at = [], 0
    for export, answer in answers.items():
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        assert at + len(data) < FREE, "the answers must lie below what is given out"
        quoted = "".join(f"\\{byte:02x}" for byte in data)
        parts.append(f'(data (i32.const {at}) "{quoted}")')
        parts.append(
            f'(func (export "{export}") (param i32 i32) (result i64) '
            f"(i64.const {at << 32 | len(data)}))"
        )
        at += len(data)
    return guest(*parts)


def module(body: str, imports: str = "") -> bytes:
    """Return a guest whose `handle_tool_call` has this body."""
    return guest(
        f'(func (export "handle_tool_call") (param $at i32) (param $length i32) (result i64) '
        f"{body})",
        imports=imports,
    )


def tool(name: str = "ask", **more: Any) -> dict[str, Any]:
    """Return a ``[[tools]]`` that takes any arguments."""
    return {"name": name, "description": f"Do {name}.", "schema": {"type": "object"}, **more}


def write_plugin(
    folder: Path,
    data: bytes,
    *,
    name: str = "",
    grants: Sequence[str] = (),
    tools: Sequence[Mapping[str, Any]] | None = None,
    **more: Any,
) -> Path:
    """Write a plugin's folder, and return it.

    Args:
        folder: The folder.
        data: The module.
        name: The plugin's name; the folder's where it is not given.
        grants: Its grants.
        tools: Its tools; one called ``ask`` where they are not given.
        more: More keys of the manifest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "name": name or folder.name,
        "version": "1.0",
        "kind": "tool",
        "module": "guest.wasm",
        "grants": list(grants),
        **more,
    }
    if values["kind"] == "tool":
        values["tools"] = [tool()] if tools is None else list(tools)
    lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
    (folder / "hookgate-plugin.toml").write_text("\n".join(lines) + "\n")
    (folder / "guest.wasm").write_bytes(data)
    return folder


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
