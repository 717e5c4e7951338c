"""Core modules with the ABI of hookgate: bytes go in and out through their memory.

A guest exports ``memory``, ``alloc(length) -> pointer``, and functions ``(pointer, length) ->
pointer << 32 | length``. The functions of the host have the same shape; their answers lie where
the guest's ``alloc`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import c_uint64
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


class CoreGuest:
    """A core module in this process, linked and ready to be instantiated."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        from wasmtime import Linker

        self._machine = machine
        self._room = StoreRoom()
        self._native = native()
        self._module = deserialised(machine, artefact, wanted)
        engine = machine.engine(wanted.limits)
        self._engine = self._native.address(engine)
        self._names = [name for module, name, _ in artefact.said["imports"] if module == HOST]
        self._initialize = artefact.said["exports"].get("_initialize") == START
        self._linker = Linker(engine)
        # It must live as long as the linker does.
        self._callback = HOST_CALLBACK(self._host_call)
        for number, name in enumerate(self._names):
            define(self._linker, HOST, name, TYPES, self._callback, number)
        self._wasi = wanted.wasi
        if any(module == wasi.MODULE for module, _, _ in artefact.said["imports"]):
            self._linker.define_wasi()
        else:
            self._wasi = None
        self._linked = self._linker.instantiate_pre(self._module)
        self._pre = self._native.address(self._linked)

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
