"""What of a sandbox lives in one process: engines, threads and the clock.

A fork copies the memory of a process but none of its threads, and locks as they stood. So a
process that finds itself forked leaves all of it alone and makes its own.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_uint8, c_uint64
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.limits import MEMORIES, TABLES, Limits
from hookgate.builtin_plugins.wasm.engine.native import EPOCH_CALLBACK, StoreCell, native
from hookgate.builtin_plugins.wasm.engine.workers import THREADS_A_TURN, TICK, Ticker, Workers

if TYPE_CHECKING:
    from wasmtime import Engine, Store

COMPILERS = 2
ENGINES = 16
"""How many sizes of stack there may be: each has an engine of its own."""
LOOK_TICKS = 50
"""How many ticks a guest runs at most until it is looked whether anybody waits for it."""
SLOTS_A_THREAD = MEMORIES
SLOT_BYTES = 6 << 30
"""What a place takes of the addresses, with its guards; none of it is memory until it is used."""
MOST_ELEMENTS = 10_000_000


class Machine:
    """Engines by the stack of their guests, threads, and the clock that ends guests.

    Attributes:
        pid: The process that it was made in.
        workers: The threads.
        ticker: The clock.
        compilers: How many guests are compiled at the same time.
    """

    def __init__(self, threads: int, memory_bytes: int) -> None:
        self.pid = os.getpid()
        self.ticker = Ticker(self._tick)
        self.workers = Workers(threads, memory_bytes, self.ticker)
        self.compilers = asyncio.Semaphore(COMPILERS)
        self._threads = threads * THREADS_A_TURN
        self._engines: dict[int, Engine] = {}
        self._making = threading.Lock()
        self._here = threading.local()
        self._native = native()
        self._epoch = EPOCH_CALLBACK(self._look)

    def engine(self, limits: Limits) -> Engine:
        """Return the engine for guests of these limits.

        Raises:
            ValueError: There are too many sizes of stack.
        """
        # Guests load on threads, and what is compiled for one engine fits no other.
        with self._making:
            found = self._engines.get(limits.stack_bytes)
            if found is None:
                if len(self._engines) >= ENGINES:
                    sizes = ", ".join(f"{size:,}" for size in sorted(self._engines))
                    raise ValueError(f"found more than {ENGINES} sizes of stack_bytes: {sizes}")
                found = _engine(limits.stack_bytes, self._threads)
                # Another one, since the clock walks over it meanwhile.
                self._engines = {**self._engines, limits.stack_bytes: found}
        return found

    def store(self, run: GuestRun, engine: int) -> _Opened:
        """Return what opens the store of a call, on its thread: limits, fuel and clock are set."""
        return _Opened(self._here, run, engine, self._epoch)

    @contextmanager
    def public_store(self, run: GuestRun) -> Iterator[Store]:
        """Give the store of a call as wasmtime-py knows it: limits, fuel and clock are set."""
        from wasmtime import Store as Opened

        limits = run.limits
        self._here.run = run
        store = Opened(self.engine(limits))
        try:
            store.set_limits(*run.room.of(limits))
            store.set_fuel(limits.fuel)
            address = self._native.address(store)
            self._native.store_epoch_deadline_callback(address, self._epoch, None, None)
            store.set_epoch_deadline(1)
            yield store
        finally:
            store.close()
            self._here.run = None

    @property
    def running(self) -> GuestRun:
        """The call that the thread of the caller runs."""
        run: GuestRun = self._here.run
        return run

    @property
    def cell(self) -> StoreCell:
        """The store of that call."""
        cell: StoreCell = self._here.cell
        return cell

    def close(self) -> None:
        """Take no more calls. Those that run end at their deadline."""
        self.workers.close()
        self.ticker.close()

    def _tick(self) -> None:
        for engine in self._engines.values():
            engine.increment_epoch()

    def _look(self, context: Any, env: Any, ticks: int, kind: int) -> int:
        """Decide, on the thread of a guest, whether it may go on."""
        run = self.running
        if run.stopped is not None or run.late() is not None:
            stop: int = self._native.error_new(b"the call is over")
            return stop
        left = int(run.seconds_left / TICK) + 1
        c_uint64.from_address(ticks).value = min(left, LOOK_TICKS)
        c_uint8.from_address(kind).value = 0  # it goes on at once
        return 0


class _Opened:
    """The store of one call of a module. Written out, since it is on the way of every call."""

    __slots__ = ("_cell", "_engine", "_epoch", "_here", "_run")

    def __init__(self, here: threading.local, run: GuestRun, engine: int, epoch: Any) -> None:
        self._here = here
        self._run = run
        self._engine = engine
        self._epoch = epoch
        cell: StoreCell | None = getattr(here, "cell", None)
        if cell is None:
            cell = here.cell = StoreCell()
        self._cell = cell

    def __enter__(self) -> StoreCell:
        self._here.run = self._run
        self._cell.open(self._engine, self._run.limits, self._run.room, self._epoch)
        return self._cell

    def __exit__(self, *error: object) -> None:
        self._cell.close()
        self._here.run = None


def _engine(stack_bytes: int, threads: int) -> Engine:
    from wasmtime import Config, Engine

    config = Config()
    child.configure(config)
    config.max_wasm_stack = stack_bytes
    config.parallel_compilation = False
    slots = threads * SLOTS_A_THREAD
    if _has_room(slots):
        _pool(config, slots)
    return Engine(config)


def _has_room(slots: int) -> bool:
    """Whether the addresses of a pool are free. wasmtime ends the process where they are not."""
    if sys.platform == "win32":
        return False
    try:
        mmap.mmap(-1, slots * SLOT_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError:
        return False
    return True


def _pool(config: Any, slots: int) -> None:
    """Keep places for instances ready. wasmtime-py has no setter for it, wasmtime has.

    What a guest may use of its place is the store's business; here the places are made as large
    as any guest may need. They are addresses, not memory.
    """
    ffi = native().ffi
    pool = ffi.wasmtime_pooling_allocation_config_new()
    for name, value in {
        "total_memories": slots,
        "total_tables": slots,
        "total_stacks": 1,
        "total_core_instances": slots * 16,
        "total_component_instances": slots,
        "max_core_instance_size": 16 << 20,
        "max_component_instance_size": 16 << 20,
        "max_core_instances_per_component": 64,
        "max_memories_per_component": MEMORIES,
        "max_tables_per_component": TABLES,
        "max_tables_per_module": TABLES,
        "max_memory_size": 1 << 32,
        # What a short call has touched is wiped, which takes less than to give it back.
        "linear_memory_keep_resident": 128 << 10,
        "table_keep_resident": 256 << 10,
        "table_elements": MOST_ELEMENTS,
    }.items():
        getattr(ffi, f"wasmtime_pooling_allocation_config_{name}_set")(pool, value)
    ffi.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
    ffi.wasmtime_pooling_allocation_config_delete(pool)
