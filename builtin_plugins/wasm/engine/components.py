"""Components: guests of the component model, whose strings wasmtime itself carries over.

A component exports functions ``(string) -> string`` under the names of the core ABI in kebab case,
and imports at most the interface ``hookgate:plugin/host``. Nothing of WASI is there for it: the
tools that build components put stubs in its place.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import TYPE_CHECKING, Any, Final

from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefact
from hookgate.builtin_plugins.wasm.engine.forms import GuestForm, Wanted, fitted, refuse
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, GuestRefusedError, StoreRoom
from hookgate.builtin_plugins.wasm.engine.machine import Machine
from hookgate.builtin_plugins.wasm.engine.native import Failure, described, failure, native

if TYPE_CHECKING:
    from wasmtime import Store
    from wasmtime.component import Component, Func

HOST: Final = "hookgate:plugin/host"
FUNCTION: Final = "func(String)->String"
STOP: Final = b"the call is over"
CODES: Final = {
    "all fuel consumed by WebAssembly": "OUT_OF_FUEL",
    "call stack exhausted": "STACK_OVERFLOW",
}
"""Traps by what wasmtime says of them: of a component it gives no code."""


class ComponentForm:
    """Tells components, and loads them."""

    kind: GuestForm = "component"

    def fits(self, said: dict[str, Any]) -> bool:
        """Whether it is a component."""
        return bool(said["form"] == "component")

    def check(self, said: dict[str, Any], wanted: Wanted) -> frozenset[str]:
        """Return its functions, in snake case; what it imports is granted."""
        problems = []
        for name, items in said["imports"].items():
            problems += _import_problems(name, items, wanted)
        functions = frozenset(
            name.replace("-", "_") for name, kind in said["exports"].items() if kind == FUNCTION
        )
        if not functions:
            problems.append("it exports no function of the type func(string) -> string")
        refuse(problems, wanted.name)
        return functions

    def load(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> ComponentGuest:
        """Load it into this process."""
        return ComponentGuest(machine, artefact, wanted)


def _import_problems(name: str, items: Any, wanted: Wanted) -> list[str]:
    """Name every import of the interface `name` that is not granted, or not what it should be."""
    if name.startswith("wasi:"):
        return [
            f"it imports {name}, and there is no WASI for components: build it with stubs in its "
            "place, such as by `componentize-py componentize --stub-wasi`, and ask the host for "
            "time and random bytes"
        ]
    if name != HOST or not isinstance(items, dict):
        return [f"it imports {name}, which is not granted"]
    problems = []
    for function, kind in items.items():
        if function not in wanted.imports:
            problems.append(f"it imports {name}.{function}, which is not granted")
        elif kind != FUNCTION:
            problems.append(
                f"its import {name}.{function}: found {kind}, expected func(string) -> string"
            )
    return problems


class ComponentGuest:
    """A component in this process, linked and ready to be instantiated."""

    def __init__(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> None:
        from wasmtime.component import Linker

        self._machine = machine
        self._room = StoreRoom()
        self._ffi = native().ffi
        self._component = _deserialised(machine, artefact, wanted)
        self._names = tuple(artefact.said["imports"].get(HOST, ()))
        # It must live as long as the linker does.
        self._callback = self._ffi.wasmtime_component_func_callback_t(self._host_call)
        self._linker = Linker(machine.engine(wanted.limits))
        with self._linker.root() as root, root.add_instance(HOST) as host:
            for number, name in enumerate(self._names):
                self._define(host.ptr(), name.encode(), number)

    def trial(self, run: GuestRun) -> None:
        """Instantiate it once."""

        def instantiate() -> None:
            with self._machine.public_store(run) as store:
                self._instantiate(store)

        self._room = fitted(run, instantiate)

    def call(self, run: GuestRun, export: str, request: bytes) -> bytes:
        """Call one of its exports."""
        run.room = self._room
        with self._machine.public_store(run) as store:
            try:
                instance = self._instantiate(store)
            except Failure as found:
                raise run.trapped(found.code, found.message) from None
            function = instance.get_func(store, export.replace("_", "-"))
            if function is None:
                raise run.fail("answer", f"it has no export {export!r}")
            return self._ask(store, function, run, request)

    def _instantiate(self, store: Store) -> Any:
        from wasmtime import Trap, WasmtimeError

        try:
            return self._linker.instantiate(store, self._component)
        except (Trap, WasmtimeError) as error:
            found = described(error)
            raise Failure(found.code or CODES.get(found.message, ""), found.message) from None

    def _ask(self, store: Store, function: Func, run: GuestRun, request: bytes) -> bytes:
        """Call a function `(string) -> string`.

        wasmtime-py would copy an answer before anybody has seen how long it is, and it keeps what
        a function of the host raises in a variable that all threads share.
        """
        ffi = self._ffi
        asked, answered = ffi.wasmtime_component_val_t(), ffi.wasmtime_component_val_t()
        _put(ffi, asked, request)
        try:
            error = ffi.wasmtime_component_func_call(
                byref(function._func), store._context(), byref(asked), 1, byref(answered), 1
            )
        finally:
            ffi.wasmtime_component_val_delete(byref(asked))
        if error:
            raise _trapped(run, failure(ctypes.cast(error, ctypes.c_void_p).value, None))
        try:
            text = answered.of.string
            limit = run.limits.output_bytes
            if text.size > limit:
                told = f"it answered {text.size:,} bytes, and its limit is output_bytes = {limit:,}"
                raise run.fail("output", told, limit)
            return ctypes.string_at(text.data, text.size)
        finally:
            ffi.wasmtime_component_val_delete(byref(answered))

    def _define(self, host: Any, name: bytes, number: int) -> None:
        """Link a function of the host; it is called with `number`."""
        nobody = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()
        error = self._ffi.wasmtime_component_linker_instance_add_func(
            host, ctypes.create_string_buffer(name), len(name), self._callback, number, nobody
        )
        if error:
            raise failure(ctypes.cast(error, ctypes.c_void_p).value, None)

    def _host_call(
        self,
        number: int | None,
        context: Any,
        kind: Any,
        asked: Any,
        count: int,
        answered: Any,
        answers: int,
    ) -> int:
        """Answer a call of the guest. Whatever goes wrong ends this call, and no other."""
        run = self._machine.running
        try:
            given = asked[0].of.string
            run.admit(given.size)
            answer = run.answer(self._names[number or 0], ctypes.string_at(given.data, given.size))
            answer.decode()  # of what is no text wasmtime would make an abort
            _put(self._ffi, answered[0], answer)
            return 0
        except GuestError as error:
            ended = error
        except BaseException as error:  # noqa: BLE001 - nothing can be raised through the guest
            ended = run.fail("host", f"a function of the host failed: {error!r}")
        run.stopped = ended
        stop: int = native().error_new(STOP)
        return stop


def _deserialised(machine: Machine, artefact: Artefact, wanted: Wanted) -> Component:
    from wasmtime import WasmtimeError
    from wasmtime.component import Component

    try:
        return Component.deserialize_file(machine.engine(wanted.limits), str(artefact.path))
    except (ValueError, WasmtimeError) as error:
        raise GuestRefusedError(
            f"it cannot be loaded: {error}", guest=wanted.name, lasting=False
        ) from error


def _put(ffi: Any, value: Any, text: bytes) -> None:
    """Make `value` the string `text`, in memory of wasmtime's own."""
    held = ctypes.create_string_buffer(text, len(text))
    value.kind = ffi.WASMTIME_COMPONENT_STRING.value
    ffi.wasm_byte_vec_new(
        byref(value.of.string), len(text), ctypes.cast(held, ctypes.POINTER(ctypes.c_uint8))
    )


def _trapped(run: GuestRun, found: Failure) -> GuestError:
    return run.trapped(found.code or CODES.get(found.message, ""), found.message)
