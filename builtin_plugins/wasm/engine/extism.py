"""Modules made for Extism, as far as they need no functions of a host.

They exchange bytes through a memory of Extism's kernel. The kernel here is `extism_kernel.wat`:
its functions are the ones that guests import, and it is instantiated anew for every call.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.wasm.engine import wasi
from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefact
from hookgate.builtin_plugins.wasm.engine.forms import GuestForm, Wanted, fitted, refuse
from hookgate.builtin_plugins.wasm.engine.limits import StoreRoom
from hookgate.builtin_plugins.wasm.engine.machine import Machine
from hookgate.builtin_plugins.wasm.engine.modules import OUTSIDE, deserialised, memory_problems
from hookgate.builtin_plugins.wasm.engine.native import Bounds, Failure, StoreCell, native

if TYPE_CHECKING:
    from wasmtime import Module

KERNEL = Path(__file__).with_name("extism_kernel.wat")
ENV = "extism:host/env"
USER = "extism:host/user"
FUNCTION = "func()->i32"
SILENT = "func()->"
OF_THE_LANGUAGE = {"_initialize", "_start", "__wasm_call_ctors", "__wasm_call_dtors"}
WORD = 0xFFFF_FFFF
FUNCTIONS = frozenset(
    {
        *("alloc", "free", "length", "length_unsafe", "load_u8", "load_u64", "store_u8"),
        *("store_u64", "input_length", "input_offset", "input_load_u8", "input_load_u64"),
        *("output_set", "error_set", "config_get", "var_get", "var_set", "http_status_code"),
        *("http_headers", "get_log_level", "log_trace", "log_debug", "log_info", "log_warn"),
        *("log_error", "reset", "error_get", "output_offset", "output_length"),
    }
)


class ExtismForm:
    """Tells modules made for Extism, and loads them."""

    kind: GuestForm = "extism"

    def fits(self, said: dict[str, Any]) -> bool:
        """Whether it imports anything of Extism, or has functions as Extism calls them alone."""
        if said["form"] != "core":
            return False
        if any(one[0] in {ENV, USER} for one in said["imports"]):
            return True
        return "alloc" not in said["exports"] and bool(_functions(said))

    def check(self, said: dict[str, Any], wanted: Wanted) -> frozenset[str]:
        """Return its functions. What it imports of a host, as HTTP, is refused by its name."""
        parts = wasi.names(wanted.wasi)
        problems = [
            f"it imports {module}.{name}, which "
            + ("is not granted" if module == wasi.MODULE else "Extism's modules do not get here")
            for module, name, _ in said["imports"]
            if not (module == ENV and name in FUNCTIONS)
            and not (module == wasi.MODULE and name in parts)
        ]
        exports: dict[str, str] = said["exports"]
        problems += memory_problems(exports, wanted)
        functions = _functions(said)
        if not functions:
            problems.append(f"it exports no function of the type {FUNCTION}")
        refuse(problems, wanted.name)
        return functions

    def load(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> ExtismGuest:
        """Load it into this process."""
        return ExtismGuest(machine, artefact, wanted)


def _functions(said: dict[str, Any]) -> frozenset[str]:
    """Return what may be called: functions without parameters that give a status or nothing."""
    exports: dict[str, str] = said["exports"]
    found = {name for name, kind in exports.items() if kind in {FUNCTION, SILENT}}
    return frozenset(found - OF_THE_LANGUAGE)


@cache
def kernel_bytes() -> bytes:
    """Return the kernel as a binary module."""
    from wasmtime import wat2wasm

    return bytes(wat2wasm(KERNEL.read_text(encoding="utf-8")))


class ExtismGuest:
    """A module made for Extism, in this process."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        from wasmtime import Linker, Module

        self._machine = machine
        self._room = StoreRoom()
        n = self._native = native()
        engine = machine.engine(wanted.limits)
        self._engine = n.address(engine)
        self._module: Module = deserialised(machine, artefact, wanted)
        self._kernel = Module(engine, kernel_bytes())
        self._imports = [(one[0].encode(), one[1].encode()) for one in artefact.said["imports"]]
        self._silent = {name for name, kind in artefact.said["exports"].items() if kind == SILENT}
        self._initialize = artefact.said["exports"].get("_initialize") == SILENT
        self._linker = Linker(engine)
        self._wasi = wanted.wasi
        if self._wasi is not None:
            self._linker.define_wasi()

    def trial(self, run: GuestRun) -> None:
        """Instantiate it once."""

        def instantiate() -> None:
            with self._machine.store(run, self._engine) as cell:
                self._instantiate(cell)

        self._room = fitted(run, instantiate)

    def call(self, run: GuestRun, export: str, request: bytes) -> bytes:
        """Call one of its exports."""
        run.room = self._room
        memory = 0
        with self._machine.store(run, self._engine) as cell:
            try:
                kernel, instance = self._instantiate(cell)
                memory = cell.memory(kernel)
                block = _ask(cell, kernel, b"alloc", len(request))
                cell.write(memory, block, request)
                given = cell.function(kernel, b"input_set")
                cell.call(given, block, len(request), results=0, wide=True)
                results = 0 if export in self._silent else 1
                status = cell.call(cell.function(instance, export.encode()), results=results)
                if results and (status := status & WORD) != 0:
                    raise run.fail("trap", _error(cell, kernel, memory, status))
                return _output(cell, run, kernel, memory)
            except Failure as found:
                size = cell.size(memory) if memory else None
                raise run.trapped(found.code, found.message, size) from None
            except Bounds as found:
                raise run.fail("answer", OUTSIDE.format(found)) from None

    def _instantiate(self, cell: StoreCell) -> tuple[int, int]:
        if self._wasi is not None:
            wasi.give(self._wasi, cell.context)
        kernel = cell.instantiate_with(self._native.address(self._kernel), ())
        found = [
            cell.export(kernel, name)
            if module == ENV.encode()
            else cell.linked(self._linker, module, name)
            for module, name in self._imports
        ]
        instance = cell.instantiate_with(self._native.address(self._module), found)
        if self._initialize:
            cell.call(cell.function(instance, b"_initialize"), results=0)
        return kernel, instance


def _ask(cell: StoreCell, kernel: int, name: bytes, *arguments: int) -> int:
    return cell.call(cell.function(kernel, name), *arguments, wide=True)


def _output(cell: StoreCell, run: GuestRun, kernel: int, memory: int) -> bytes:
    length = _ask(cell, kernel, b"output_length")
    run.check_output(length)
    return cell.read(memory, _ask(cell, kernel, b"output_offset"), length)


def _error(cell: StoreCell, kernel: int, memory: int, status: int) -> str:
    """Say what the guest says of its failure, as far as it can be read."""
    block = _ask(cell, kernel, b"error_get")
    length = min(_ask(cell, kernel, b"length", block), 500)
    said = cell.read(memory, block, length).decode("utf-8", "replace") if length else ""
    return f"it failed with status {status}: {said or 'it said nothing'}"
