"""The functions of wasmtime's C API that every call of a module passes, bound once.

The same is to be had from wasmtime's own Python interface. That one asks for the type of a
function at each call and wraps every export in objects, which takes most of the time of a short
call; it keeps the exception of a host function in a variable that all threads share; and its
reads and writes of memory take offsets that lie outside. What is bound here is that path and
nothing else. A test runs guests both ways and compares what comes out.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from ctypes import c_bool, c_char_p, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from functools import cache
from typing import Any, Final

from hookgate.builtin_plugins.wasm.engine.limits import Limits, StoreRoom

EPOCH_CALLBACK = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p, c_void_p)
"""``(context, env, ticks to go on for, kind)``: an error that ends the guest, or 0."""
HOST_CALLBACK = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p, c_size_t)
"""``(env, caller, arguments and results, their count)``: a trap that ends the guest, or 0."""

SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "store_new": (c_void_p, c_void_p, c_void_p, c_void_p),
    "store_context": (c_void_p, c_void_p),
    "store_delete": (None, c_void_p),
    "store_limiter": (None, c_void_p, c_int64, c_int64, c_int64, c_int64, c_int64),
    "store_epoch_deadline_callback": (None, c_void_p, EPOCH_CALLBACK, c_void_p, c_void_p),
    "context_set_fuel": (c_void_p, c_void_p, c_uint64),
    "context_set_epoch_deadline": (None, c_void_p, c_uint64),
    "instance_pre_instantiate": (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
    "instance_new": (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "instance_export_get": (c_bool, c_void_p, c_void_p, c_char_p, c_size_t, c_void_p),
    "context_set_wasi": (c_void_p, c_void_p, c_void_p),
    "func_call": (
        *(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t),
        *(c_void_p, c_size_t, c_void_p),
    ),
    "memory_data": (c_void_p, c_void_p, c_void_p),
    "memory_data_size": (c_size_t, c_void_p, c_void_p),
    "linker_get": (
        *(c_bool, c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t),
        c_void_p,
    ),
    "caller_export_get": (c_bool, c_void_p, c_char_p, c_size_t, c_void_p),
    "trap_new": (c_size_t, c_char_p, c_size_t),
    "error_new": (c_size_t, c_char_p),
    "linker_define_func_unchecked": (
        *(c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t),
        *(c_void_p, HOST_CALLBACK, c_void_p, c_void_p),
    ),
}
NUMBER = re.compile(r"^\d+: ")
ARGUMENTS = 2


class Native:
    """The functions by their names without ``wasmtime_``, and the shapes of values."""

    def __init__(self) -> None:
        from wasmtime import _ffi

        # A handle of its own: argument types that are set here must not be set for wasmtime-py.
        library = ctypes.CDLL(_ffi.dll._name)
        for name, (result, *arguments) in SIGNATURES.items():
            function = getattr(library, f"wasmtime_{name}")
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        self.ffi: Any = _ffi
        self.extern_size = ctypes.sizeof(_ffi.wasmtime_extern_t)
        self.extern_value: int = _ffi.wasmtime_extern_t.of.offset
        self.value_size = ctypes.sizeof(_ffi.wasmtime_val_t)
        self.value_offset: int = _ffi.wasmtime_val_t.of.offset
        self.raw_size = ctypes.sizeof(_ffi.wasmtime_val_raw)
        self.instance_size = ctypes.sizeof(_ffi.wasmtime_instance_t)
        self.function_kind: int = _ffi.WASMTIME_EXTERN_FUNC.value
        self.memory_kind: int = _ffi.WASMTIME_EXTERN_MEMORY.value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)  # so that a type checker takes every name of SIGNATURES

    @staticmethod
    def address(managed: Any) -> int:
        """Return where an object of wasmtime-py lies."""
        return ctypes.cast(managed.ptr(), c_void_p).value or 0


@cache
def native() -> Native:
    """Return the bound functions; wasmtime is loaded here and not before."""
    return Native()


class Failure(Exception):
    """wasmtime ended a guest: with a trap of this code, or with an error.

    Attributes:
        code: The name of the trap, such as ``OUT_OF_FUEL``; empty for an error.
        message: What wasmtime says.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Bounds(Exception):
    """A guest named bytes that lie outside its memory."""


class StoreCell:
    """A store on one thread. Its buffers serve one call after another."""

    def __init__(self) -> None:
        n = self._native = native()
        self._trap = c_void_p()
        self._trap_at = ctypes.addressof(self._trap)
        self._arguments = ctypes.create_string_buffer(n.value_size * ARGUMENTS)
        self._arguments_at = ctypes.addressof(self._arguments)
        self._results = ctypes.create_string_buffer(n.value_size)
        self._results_at = ctypes.addressof(self._results)
        self._kinds = [c_uint8.from_buffer(self._arguments, n.value_size * i) for i in (0, 1)]
        offsets = [n.value_size * i + n.value_offset for i in (0, 1)]
        self._words = [c_uint64.from_buffer(self._arguments, offset) for offset in offsets]
        self._result = c_uint64.from_buffer(self._results, n.value_offset)
        self._store: int | None = None
        self._room = max(n.extern_size, n.instance_size)
        self._buffers: list[Any] = []
        self._places: list[int] = []
        self._used = 0
        self.context = 0
        """Where the context of the store lies."""
        self.answering = False
        """Whether a function of the host waits for the guest to make room for its answer."""

    def open(self, engine: int, limits: Limits, room: StoreRoom, epoch: Any) -> None:
        """Make a store under these limits; `epoch` is asked at the first tick."""
        n = self._native
        self._store = n.store_new(engine, None, None)
        self.context = n.store_context(self._store)
        n.store_limiter(self._store, *room.of(limits))
        n.context_set_fuel(self.context, limits.fuel)
        n.store_epoch_deadline_callback(self._store, epoch, None, None)
        n.context_set_epoch_deadline(self.context, 1)

    def close(self) -> None:
        """Free the store, and everything in it."""
        if self._store is not None:
            self._native.store_delete(self._store)
            self._store = None
            self._used = 0

    def instantiate(self, pre: int) -> int:
        """Make an instance of what was linked, and return where it lies."""
        instance = self._place()
        self._check(
            self._native.instance_pre_instantiate(pre, self.context, instance, self._trap_at)
        )
        return instance

    def instantiate_with(self, module: int, externs: Sequence[int]) -> int:
        """Make an instance of a module with these imports, and return where it lies."""
        n = self._native
        instance = self._place()
        imports = b"".join(ctypes.string_at(extern, n.extern_size) for extern in externs)
        self._check(
            n.instance_new(self.context, module, imports, len(externs), instance, self._trap_at)
        )
        return instance

    def export(self, instance: int, name: bytes) -> int:
        """Return where an export lies, as an import of another module takes it."""
        return self._found(self._native.instance_export_get, self.context, instance, name)

    def linked(self, linker: Any, module: bytes, name: bytes) -> int:
        """Return where something lies that a linker knows by this name."""
        extern = self._place()
        at = self._native.address(linker)
        if not self._native.linker_get(
            at, self.context, module, len(module), name, len(name), extern
        ):
            raise Failure("", f"nothing is linked as {module.decode()}.{name.decode()}")
        return extern

    def function(self, instance: int, name: bytes) -> int:
        """Return where an exported function lies."""
        return self._value(self.export(instance, name), self._native.function_kind, name)

    def memory(self, instance: int, name: bytes = b"memory") -> int:
        """Return where an exported memory lies."""
        return self._value(self.export(instance, name), self._native.memory_kind, name)

    def function_of(self, caller: int, name: bytes) -> int:
        """Return where a function lies that the caller of a host function exports."""
        found = self._found(self._native.caller_export_get, caller, name)
        return self._value(found, self._native.function_kind, name)

    def memory_of(self, caller: int, name: bytes = b"memory") -> int:
        """Return where a memory lies that the caller of a host function exports."""
        found = self._found(self._native.caller_export_get, caller, name)
        return self._value(found, self._native.memory_kind, name)

    def call(self, function: int, *arguments: int, results: int = 1, wide: bool = False) -> int:
        """Call a function with arguments of 32 bits, or of 64. Its types are checked.

        Returns:
            The bits of its result, unsigned; who expects 32 of them takes the lower ones.
        """
        for kind, word, argument in zip(self._kinds, self._words, arguments, strict=False):
            kind.value = wide  # the kinds i32 and i64 are 0 and 1
            word.value = argument
        self._check(
            self._native.func_call(
                self.context,
                function,
                self._arguments_at,
                len(arguments),
                self._results_at,
                results,
                self._trap_at,
            )
        )
        return self._result.value

    def size(self, memory: int) -> int:
        """Return how many bytes a memory has now."""
        return int(self._native.memory_data_size(self.context, memory))

    def read(self, memory: int, start: int, count: int) -> bytes:
        """Copy bytes of a guest. This and :meth:`write` are the only ways into its memory.

        Raises:
            Bounds: They do not lie in its memory.
        """
        at = self._checked(memory, start, count)
        return ctypes.string_at(at, count) if count else b""

    def write(self, memory: int, start: int, data: bytes) -> None:
        """Copy bytes into a guest.

        Raises:
            Bounds: They do not fit there.
        """
        at = self._checked(memory, start, len(data))
        if data:
            ctypes.memmove(at, data, len(data))

    def _checked(self, memory: int, start: int, count: int) -> int:
        size = self._native.memory_data_size(self.context, memory)
        if start < 0 or count < 0 or start + count > size:
            raise Bounds(f"{count:,} bytes at {start:,}, in a memory of {size:,} bytes")
        # The memory may have grown and moved since the last look: it is asked for each time.
        return int(self._native.memory_data(self.context, memory) or 0) + start

    def _found(self, get: Callable[..., bool], *where: int | bytes) -> int:
        """Look an export up with `get`, whose arguments end with the name."""
        extern = self._place()
        name = where[-1]
        assert isinstance(name, bytes)
        if not get(*where, len(name), extern):
            raise Failure("", f"it has no export {name.decode()!r}")
        return extern

    def _value(self, extern: int, kind: int, name: bytes) -> int:
        if c_uint8.from_address(extern).value != kind:
            raise Failure("", f"its export {name.decode()!r} is of another kind")
        return extern + self._native.extern_value

    def _place(self) -> int:
        """Return where there is room for an instance or an export, until the store is closed."""
        if self._used == len(self._places):
            self._buffers.append(ctypes.create_string_buffer(self._room))
            self._places.append(ctypes.addressof(self._buffers[-1]))
        self._used += 1
        return self._places[self._used - 1]

    def _check(self, error: int | None) -> None:
        trap = self._trap.value
        if error is None and trap is None:
            return
        self._trap.value = None
        raise failure(error, trap)


def failure(error: int | None, trap: int | None) -> Failure:
    """Take an error or a trap of wasmtime over, and free it."""
    from wasmtime import Trap, WasmtimeError

    ffi = native().ffi
    if trap is not None:
        return described(Trap._from_ptr(ctypes.cast(trap, ctypes.POINTER(ffi.wasm_trap_t))))
    pointer = ctypes.cast(c_void_p(error), ctypes.POINTER(ffi.wasmtime_error_t))
    return described(WasmtimeError._from_ptr(pointer))


def described(error: Exception) -> Failure:
    """Say what an exception of wasmtime-py says, as everything here says it."""
    from wasmtime import ExitTrap, Trap

    if isinstance(error, Trap):
        code = error.trap_code
        return Failure(code.name if code is not None else "", _last(error.message))
    if isinstance(error, ExitTrap):
        return Failure("EXIT", f"it left with status {error.code}")
    return Failure("", _last(str(error)))


def _last(message: str) -> str:
    """Return the last cause of a message, without the trace of addresses before it."""
    _, _, causes = message.rpartition("Caused by:")
    lines = [line.strip() for line in causes.splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    return NUMBER.sub("", last).removeprefix("wasm trap: ")[:300]
