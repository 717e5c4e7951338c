"""The process that compiles a guest, and what it and the gateway must agree on.

Compiling takes what the guest's author wants it to take, and cannot be interrupted: so it runs in
a process of its own that can be killed. This file is run there by its path, and imports nothing
of hookgate. The module comes on standard input; what it says of itself goes out on standard output
as one line of JSON, and the compiled artefact into the open file ``ARTEFACT``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wasmtime import Config

CORE = b"\0asm\x01\0\0\0"
COMPONENT = b"\0asm\x0d\0\x01\0"
ARTEFACT = 3
REFUSED = 3
ORPHANED = 4
PR_SET_PDEATHSIG = 1
"""Of ``<linux/prctl.h>``: the signal that a process gets when the thread that made it has ended."""
WATCH_SECONDS = 0.5
NAMES = 4096
"""How many imports and exports a guest may have: each of them is looked at."""


def configure(config: Config) -> None:
    """Set what compiled artefacts depend on. Who changes it changes `SETTINGS` of artefacts."""
    config.consume_fuel = True
    config.epoch_interruption = True
    config.wasm_component_model = True
    for name in UNSUPPORTED:
        setattr(config, f"wasm_{name}", False)


UNSUPPORTED = (
    "threads",
    "memory64",
    "multi_memory",
    "gc",
    "function_references",
    "exceptions",
    "relaxed_simd",
    "wide_arithmetic",
    "custom_page_sizes",
    "stack_switching",
)
"""What guests do without: each proposal is code that a stranger's module could reach."""


class _Refused(Exception):
    """The module cannot be used; its text says why."""


def main(parent: str, compile_seconds: str, memory_bytes: str, artefact_bytes: str) -> int:
    """Compile what comes on standard input, within the limits, while the process `parent` is."""
    _end_with(int(parent))
    _limit(float(compile_seconds), int(memory_bytes), int(artefact_bytes))
    data = sys.stdin.buffer.read()
    try:
        said, artefact = _compile(data)
    except _Refused as refused:
        sys.stderr.write(str(refused)[:2000])
        return REFUSED
    with open(ARTEFACT, "wb", buffering=0) as out:
        view = memoryview(artefact)
        while view:
            view = view[out.write(view) :]
        os.fsync(out.fileno())
    sys.stdout.write(json.dumps(said))
    return 0


def _end_with(parent: int) -> None:
    """End this process when its parent ends, however that one does: nobody else would kill it."""
    if sys.platform == "linux":
        number = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if number != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    # Before this it may have ended, and nobody would have been told.
    if os.getppid() != parent:
        os._exit(ORPHANED)


def _watch(parent: int) -> None:
    """Look whether the parent is still there, where the system does not tell."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(ORPHANED)


def _limit(compile_seconds: float, memory_bytes: int, artefact_bytes: int) -> None:
    if sys.platform == "win32":
        return  # no guest is compiled there
    import resource

    os.nice(10)
    # The parent kills at the wall clock; this is for when it cannot.
    seconds = int(compile_seconds * (os.cpu_count() or 1)) + 3
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: artefact_bytes,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform != "darwin":  # which does not hold anybody to it
        limits[resource.RLIMIT_AS] = memory_bytes
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # Linux kills at the hard limit of CPU time, and says why at a soft one that is below.
        soft = least - 1 if kind == resource.RLIMIT_CPU else least
        resource.setrlimit(kind, (soft, least))


def _compile(data: bytes) -> tuple[dict[str, Any], bytearray]:
    from wasmtime import Config, Engine, Module, WasmtimeError

    config = Config()
    configure(config)
    engine = Engine(config)
    try:
        if data[:8] == COMPONENT:
            from wasmtime.component import Component

            component = Component(engine, data)
            return _component(engine, component), component.serialize()
        module = Module(engine, data)
        return _module(module), module.serialize()
    except WasmtimeError as error:
        raise _Refused(str(error)) from error


def _module(module: Any) -> dict[str, Any]:
    """Say what a core module imports and exports: names, kinds and types."""
    imports = [[one.module, one.name, _type(one.type)] for one in _bounded(module.imports)]
    exports = {one.name: _type(one.type) for one in _bounded(module.exports)}
    return {"form": "core", "imports": imports, "exports": exports}


def _bounded(found: Any) -> Any:
    if len(found) > NAMES:
        raise _Refused(f"found {len(found):,} imports or exports, expected at most {NAMES:,}")
    return found


def _type(kind: Any) -> str:
    """Write a type as text: ``func(i32,i32)->i64``, ``memory 2``, ``table 10``, ``global``."""
    name = type(kind).__name__
    if name == "FuncType":
        parameters = ",".join(map(str, kind.params))
        return f"func({parameters})->{','.join(map(str, kind.results))}"
    if name in {"MemoryType", "TableType"}:
        return f"{name.removesuffix('Type').lower()} {kind.limits.min}"
    return str(name.removesuffix("Type").lower())


def _component(engine: Any, component: Any) -> dict[str, Any]:
    """Say what a component imports and exports, with the functions of its interfaces."""
    kind = component.type
    return {
        "form": "component",
        "imports": _items(engine, kind.imports(engine)),
        "exports": _items(engine, kind.exports(engine)),
    }


def _items(engine: Any, items: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in _bounded(items).items():
        inner = item.ty
        kind = type(inner).__name__
        if kind == "ComponentInstanceType":
            found[name] = _items(engine, inner.exports(engine))
        elif kind == "FuncType":
            parameters = ",".join(type(one).__name__ for _, one in inner.params)
            found[name] = f"func({parameters})->{type(inner.result).__name__}"
        else:
            found[name] = kind
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
