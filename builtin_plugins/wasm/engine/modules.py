"""Core modules, with the ABI of hookgate and those made for Extism.

Bytes go in and out through their memory. With the ABI of hookgate a guest exports ``memory``,
``alloc(length) -> pointer``, and functions ``(pointer, length) -> pointer << 32 | length``. The
functions of the host have the same shape; their answers lie where the guest's ``alloc`` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from ctypes import c_uint64
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.wasm.engine import wasi
from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefact
from hookgate.builtin_plugins.wasm.engine.forms import GuestForm, Wanted, fitted, refuse
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, GuestRefusedError, StoreRoom
from hookgate.builtin_plugins.wasm.engine.machine import Machine
from hookgate.builtin_plugins.wasm.engine.native import (
    HOST_CALLBACK,
    Bounds,
    Failure,
    StoreCell,
    failure,
    native,
)

if TYPE_CHECKING:
    from wasmtime import Linker, Module

HOST = "hookgate"
FUNCTION = "func(i32,i32)->i64"
ALLOC = "func(i32)->i32"
START = "func()->"
PAGE = 65536
TYPES = (("i32", "i32"), ("i64",))
WORD = 0xFFFF_FFFF
OUTSIDE = "it named bytes outside its memory: {}"
STOP = b"the call is over"


class CoreForm:
    """Tells core modules of this ABI, and loads them."""

    kind: GuestForm = "core"

    def fits(self, said: dict[str, Any]) -> bool:
        """Whether it is a core module."""
        return bool(said["form"] == "core")

    def check(self, said: dict[str, Any], wanted: Wanted) -> frozenset[str]:
        """Return its functions; what it imports and exports is as it must be."""
        problems = import_problems(said["imports"], wanted)
        exports: dict[str, str] = said["exports"]
        for name, kind in (("memory", "memory"), ("alloc", ALLOC)):
            found = exports.get(name, "no such export")
            if not found.startswith(kind):
                problems.append(f"its export {name!r}: found {found}, expected {kind}")
        problems += memory_problems(exports, wanted)
        functions = frozenset(name for name, kind in exports.items() if kind == FUNCTION)
        if not functions:
            problems.append(f"it exports no function of the type {FUNCTION}")
        refuse(problems, wanted.name)
        return functions

    def load(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> CoreGuest:
        """Load it into this process."""
        return CoreGuest(machine, artefact, wanted)


def import_problems(imports: Iterable[list[str]], wanted: Wanted) -> list[str]:
    """Name every import that is not granted, or that is not what it is granted as."""
    parts = wasi.names(wanted.wasi)
    problems = []
    for module, name, kind in imports:
        if module == wasi.MODULE and name in parts:
            continue
        if module != HOST or name not in wanted.imports:
            problems.append(f"it imports {module}.{name}, which is not granted")
        elif kind != FUNCTION:
            problems.append(f"its import {module}.{name}: found {kind}, expected {FUNCTION}")
    return problems


def memory_problems(exports: dict[str, str], wanted: Wanted) -> list[str]:
    """Name every exported memory that is larger than its limit from the beginning."""
    limit = wanted.limits.memory_bytes
    return [
        f"its {kind.partition(' ')[0]} {name!r} begins with {size:,} bytes, and its limit is "
        f"memory_bytes = {limit:,}"
        for name, kind in exports.items()
        if kind.startswith("memory ") and (size := int(kind.partition(" ")[2]) * PAGE) > limit
    ]


def deserialised(machine: Machine, artefact: Artefact, wanted: Wanted) -> Module:
    """Load what was compiled.

    Raises:
        GuestRefusedError: The engine does not take it.
    """
    from wasmtime import Module, WasmtimeError

    try:
        return Module.deserialize_file(machine.engine(wanted.limits), str(artefact.path))
    except (ValueError, WasmtimeError) as error:
        # What was compiled is kept, so that it costs little to try again.
        raise GuestRefusedError(
            f"it cannot be loaded: {error}", guest=wanted.name, lasting=False
        ) from error


class ModuleGuest(ABC):
    """A core module in this process, whatever its functions look like."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        from wasmtime import Linker

        self._machine = machine
        self._room = StoreRoom()
        self._native = native()
        self._module = deserialised(machine, artefact, wanted)
        engine = machine.engine(wanted.limits)
        self._engine = self._native.address(engine)
        self._linker = Linker(engine)
        self._wasi = wanted.wasi

    def trial(self, run: GuestRun) -> None:
        """Instantiate it once."""

        def instantiate() -> None:
            with self._machine.store(run, self._engine) as cell:
                self._instantiate(cell)

        self._room = fitted(run, instantiate)

    @abstractmethod
    def _instantiate(self, cell: StoreCell) -> object:
        """Make an instance in `cell`."""


class CoreGuest(ModuleGuest):
    """A module with the ABI of hookgate, linked and ready to be instantiated."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        super().__init__(machine, artefact, wanted)
        self._names = [name for module, name, _ in artefact.said["imports"] if module == HOST]
        self._initialize = artefact.said["exports"].get("_initialize") == START
        # It must live as long as the linker does.
        self._callback = HOST_CALLBACK(self._host_call)
        for number, name in enumerate(self._names):
            define(self._linker, HOST, name, TYPES, self._callback, number)
        if any(module == wasi.MODULE for module, _, _ in artefact.said["imports"]):
            self._linker.define_wasi()
        else:
            self._wasi = None
        self._linked = self._linker.instantiate_pre(self._module)
        self._pre = self._native.address(self._linked)

    def call(self, run: GuestRun, export: str, request: bytes) -> bytes:
        """Call one of its exports."""
        run.room = self._room
        memory = 0
        with self._machine.store(run, self._engine) as cell:
            try:
                instance = self._instantiate(cell)
                memory = cell.memory(instance)
                function = cell.function(instance, export.encode())
                pointer = cell.call(cell.function(instance, b"alloc"), len(request)) & WORD
                cell.write(memory, pointer, request)
                packed = cell.call(function, pointer, len(request))
                run.check_output(packed & WORD)
                return cell.read(memory, packed >> 32, packed & WORD)
            except Failure as found:
                error = run.trapped(
                    found.code, found.message, cell.size(memory) if memory else None
                )
                raise error from error.__cause__
            except Bounds as found:
                raise run.fail("answer", OUTSIDE.format(found)) from None

    def _instantiate(self, cell: StoreCell) -> int:
        if self._wasi is not None:
            wasi.give(self._wasi, cell.context)
        instance = cell.instantiate(self._pre)
        if self._initialize:
            cell.call(cell.function(instance, b"_initialize"), results=0)
        return instance

    def _host_call(self, number: int | None, caller: int, values: int, count: int) -> int:
        """Answer a call of the guest. Whatever goes wrong ends this call, and no other."""
        run = self._machine.running
        try:
            self._serve(run, self._names[number or 0], caller, values)
            return 0
        except GuestError as error:
            ended = error
        except Bounds as found:
            ended = run.fail("answer", OUTSIDE.format(found))
        except Failure as found:
            ended = run.trapped(found.code, found.message)
        except BaseException as error:  # noqa: BLE001 - nothing can be raised through a guest
            ended = run.fail("host", f"a function of the host failed: {error!r}")
        run.stopped = ended
        trap: int = self._native.trap_new(STOP, len(STOP))
        return trap

    def _serve(self, run: GuestRun, name: str, caller: int, values: int) -> None:
        cell = self._machine.cell
        start = c_uint64.from_address(values).value & WORD
        length = c_uint64.from_address(values + self._native.raw_size).value & WORD
        if cell.answering:
            raise run.fail("trap", "its alloc called the host, which was waiting for it")
        run.admit(length)
        memory = cell.memory_of(caller)
        answer = run.answer(name, cell.read(memory, start, length))
        cell.answering = True
        try:
            pointer = cell.call(cell.function_of(caller, b"alloc"), len(answer)) & WORD
        finally:
            cell.answering = False
        cell.write(memory, pointer, answer)
        c_uint64.from_address(values).value = pointer << 32 | len(answer)


def define(
    linker: Linker,
    module: str,
    name: str,
    types: tuple[Sequence[str], Sequence[str]],
    callback: Any,
    number: int,
) -> None:
    """Link a function of the host; it is called with `number`."""
    from wasmtime import FuncType, ValType

    values = {"i32": ValType.i32, "i64": ValType.i64}
    kind = FuncType(*([values[one]() for one in side] for side in types))
    n = native()
    owner, own = module.encode(), name.encode()
    error = n.linker_define_func_unchecked(
        *(n.address(linker), owner, len(owner), own, len(own), n.address(kind)),
        *(callback, number, None),
    )
    if error is not None:
        raise failure(error, None)


# -- Modules made for Extism, as far as they need no functions of a host ---------

# They exchange bytes through a memory of Extism's kernel. The kernel here is `extism_kernel.wat`:
# its functions are the ones that guests import, and it is instantiated anew for every call.

KERNEL = Path(__file__).with_name("extism_kernel.wat")
ENV = "extism:host/env"
USER = "extism:host/user"
STATUS = "func()->i32"
SILENT = "func()->"
OF_THE_LANGUAGE = {"_initialize", "_start", "__wasm_call_ctors", "__wasm_call_dtors"}
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
            problems.append(f"it exports no function of the type {STATUS}")
        refuse(problems, wanted.name)
        return functions

    def load(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> ExtismGuest:
        """Load it into this process."""
        return ExtismGuest(machine, artefact, wanted)


def _functions(said: dict[str, Any]) -> frozenset[str]:
    """Return what may be called: functions without parameters that give a status or nothing."""
    exports: dict[str, str] = said["exports"]
    found = {name for name, kind in exports.items() if kind in {STATUS, SILENT}}
    return frozenset(found - OF_THE_LANGUAGE)


@cache
def kernel_bytes() -> bytes:
    """Return the kernel as a binary module."""
    from wasmtime import wat2wasm

    return bytes(wat2wasm(KERNEL.read_text(encoding="utf-8")))


class ExtismGuest(ModuleGuest):
    """A module made for Extism, in this process."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        from wasmtime import Module

        super().__init__(machine, artefact, wanted)
        self._kernel = Module(machine.engine(wanted.limits), kernel_bytes())
        self._imports = [(one[0].encode(), one[1].encode()) for one in artefact.said["imports"]]
        self._silent = {name for name, kind in artefact.said["exports"].items() if kind == SILENT}
        self._initialize = artefact.said["exports"].get("_initialize") == SILENT
        if self._wasi is not None:
            self._linker.define_wasi()

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
