"""What a call of a WebAssembly guest costs, and what runaway guests cost everybody else.

Run: ``python -m benchmarks.wasm.guests [--extism PYTHON] [--component FILE] [--quick]``. A call
echoes 256 bytes in a store and an instance of its own, with all limits on, and is timed on one
thread, in CPU time, in turns with its peers:

- "plainly": wasmtime's own Python interface, module linked beforehand, the same limits.
- Extism, with a plugin for each call from one compiled plugin. PYTHON is an interpreter that has
  the package ``extism`` (or $HOOKGATE_EXTISM; this one is taken where it has it).

"from the event loop" is `Guest.call`, its way to a thread and back included. FILE (or
$HOOKGATE_WASM_COMPONENT) is a large component, such as the one that is built of
``examples/guests/table-python``: what it takes to instantiate it, and what a call takes that
reaches it and fails at once.

Then turns of a gateway are timed while eight guests loop for ever, in turns with the same without
them: the p99 of the one against that of the other.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import wasmtime

from benchmarks.report import Figure, interleaved, report, timed
from benchmarks.turn.growth import start
from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled.child import configure
from hookgate.builtin_plugins.wasm.engine.limits import GuestError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

HERE = Path(__file__).parent
EXTISM, COMPONENT = "HOOKGATE_EXTISM", "HOOKGATE_WASM_COMPONENT"
TOOL = "handle_tool_call"
REQUEST = b"x" * 256
LIMITS = Limits()
RUNAWAYS = 8

MODULE = """
(module
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 1024))
  (func $alloc (export "alloc") (param $length i32) (result i32)
    (global.get $next)
    (global.set $next (i32.add (global.get $next) (local.get $length))))
  (func (export "handle_tool_call") (param $at i32) (param $length i32) (result i64)
    (local $answer i32)
    (local.set $answer (call $alloc (local.get $length)))
    (memory.copy (local.get $answer) (local.get $at) (local.get $length))
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $answer)) (i64.const 32))
      (i64.extend_i32_u (local.get $length))))
  (func (export "spin") (param i32 i32) (result i64) (loop (br 0)) (i64.const 0)))
"""
FOR_EXTISM = """
(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory (export "memory") 1)
  (func (export "echo") (result i32)
    (local $length i64) (local $answer i64) (local $i i64)
    (local.set $length (call $input_length))
    (local.set $answer (call $alloc (local.get $length)))
    (block $end (loop $next
      (br_if $end (i64.ge_u (local.get $i) (local.get $length)))
      (call $store_u64
        (i64.add (local.get $answer) (local.get $i))
        (call $input_load_u64 (local.get $i)))
      (local.set $i (i64.add (local.get $i) (i64.const 8)))
      (br $next)))
    (call $output_set (local.get $answer) (local.get $length))
    (i32.const 0)))
"""


# -- one call --------------------------------------------------------------------


def on_this_thread(guest: Guest, export: str, request: bytes = REQUEST) -> Callable[[], bytes]:
    """Return a call of a guest as a worker thread makes it."""
    loop = asyncio.get_running_loop()
    loaded = guest._loaded
    assert loaded is not None

    def call() -> bytes:
        run = GuestRun(guest.name, LIMITS, {}, loop)
        run.begin()
        return loaded.call(run, export, request)

    return call


def plainly(data: bytes) -> Callable[[], bytes]:
    """Return the same call through wasmtime's own interface."""
    config = wasmtime.Config()
    configure(config)
    engine = wasmtime.Engine(config)
    linked = wasmtime.Linker(engine).instantiate_pre(wasmtime.Module(engine, data))

    def call() -> bytes:
        store = wasmtime.Store(engine)
        store.set_limits(LIMITS.memory_bytes, LIMITS.table_elements, 1, 1, 1)
        store.set_fuel(LIMITS.fuel)
        store.set_epoch_deadline(1000)
        exports: Any = linked.instantiate(store).exports(store)
        memory = exports["memory"]
        pointer = exports["alloc"](store, len(REQUEST))
        memory.write(store, REQUEST, pointer)
        packed = exports[TOOL](store, pointer, len(REQUEST)) & (1 << 64) - 1
        start = packed >> 32
        answer = bytes(memory.read(store, start, start + (packed & 0xFFFF_FFFF)))
        store.close()
        return answer

    return call


@contextmanager
def peer(python: str | None, data: bytes, number: int) -> Iterator[Callable[[], float] | None]:
    """Run Extism beside, and give what times its calls; None where there is none."""
    if python is None:
        yield None
        return
    with tempfile.NamedTemporaryFile(suffix=".wasm") as file:
        file.write(data)
        file.flush()
        process = subprocess.Popen(
            [python, str(HERE / "_peer.py"), file.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        given, told = process.stdin, process.stdout

        def run() -> float:
            given.write(f"{number}\n")
            given.flush()
            return float(told.readline())

        try:
            yield run
        finally:
            given.close()
            process.wait()


async def calls(sandbox: Sandbox, python: str | None, *, quick: bool) -> list[Figure]:
    """Time a fresh call against its peers."""
    number, rounds = (100, 5) if quick else (500, 21)
    own, foreign = bytes(wasmtime.wat2wasm(MODULE)), bytes(wasmtime.wat2wasm(FOR_EXTISM))
    echo = await sandbox.load(own, name="echo", limits=LIMITS, imports=())
    made = await sandbox.load(foreign, name="made-for-extism", limits=LIMITS, imports=())
    ways = [on_this_thread(echo, TOOL), plainly(own), on_this_thread(made, "echo")]
    if any(call() != REQUEST for call in ways):
        raise SystemExit("a guest answered something else")
    with peer(python, foreign, number) as extism:
        runs = [lambda call=call: timed(call, number=number) for call in ways]
        times = interleaved([*runs, *([extism] if extism else [])], rounds=rounds)
    ours, plain, theirs = times[:3]
    figures = [
        Figure(name="fresh call, 256 bytes", value=ours * 1e6, unit="us"),
        Figure(name="fresh call", value=ours / plain, unit="ratio", against="wasmtime-py, plainly"),
        Figure(name="a module made for Extism", value=theirs * 1e6, unit="us"),
    ]
    if extism:
        name = "Extism"
        figures += [
            Figure(name="fresh call", value=ours / times[3], unit="ratio", against=name, goal=0.5),
            Figure(name="wasmtime-py, plainly", value=plain / times[3], unit="ratio", against=name),
            Figure(
                name="a module made for Extism", value=theirs / times[3], unit="ratio", against=name
            ),
            Figure(name="Extism, fresh call", value=times[3] * 1e6, unit="us"),
        ]
    figures.append(await from_the_loop(echo, number))
    return figures


async def from_the_loop(guest: Guest, number: int) -> Figure:
    """Time `Guest.call`, the way to a thread and back included."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(number):
            await guest.call(TOOL, REQUEST, host={})
        taken.append((time.perf_counter() - begun) / number)
    name = "fresh call from the event loop, wall time"
    return Figure(name=name, value=min(taken) * 1e3, unit="ms", goal=5.0)


async def large(sandbox: Sandbox, path: Path, *, quick: bool) -> list[Figure]:
    """Time a large component."""
    number = 20 if quick else 100
    limits = Limits(compile_seconds=600, memory_bytes=256 << 20)
    data = await asyncio.to_thread(path.read_bytes)
    begun = time.perf_counter()
    guest = await sandbox.load(data, name="large", limits=limits, imports=())
    compiling = time.perf_counter() - begun
    begun = time.perf_counter()
    await sandbox.load(data, name="large", limits=limits, imports=())
    again = time.perf_counter() - begun
    loaded, loop = guest._loaded, asyncio.get_running_loop()
    assert loaded is not None

    def trial() -> None:
        run = GuestRun("large", limits, {}, loop)
        run.begin()
        loaded.trial(run)

    call = on_this_thread(guest, TOOL, b'{"name": "nothing", "input": {}}')

    def failing() -> None:
        with suppress(GuestError):
            call()

    runs = [lambda: timed(trial, number=number), lambda: timed(failing, number=number)]
    instantiated, called = interleaved(runs, rounds=5)
    size = f"{len(data) / 1e6:.0f} MB"
    return [
        Figure(name=f"component of {size}: compiled, at first", value=compiling, unit="s"),
        Figure(name=f"component of {size}: loaded, compiled before", value=again, unit="s"),
        Figure(name="instantiated", value=instantiated * 1e3, unit="ms", against=size, goal=1.0),
        Figure(name="called", value=called * 1e3, unit="ms", against=size, goal=5.0),
    ]


# -- everybody else --------------------------------------------------------------


async def beside(sandbox: Sandbox, home: Path, *, quick: bool) -> list[Figure]:
    """Time turns of a gateway with runaway guests beside, and without."""
    rounds, turns = (1, 25) if quick else (8, 60)
    limits = Limits(fuel=1 << 60, seconds=3600.0)
    guest = await sandbox.load(
        bytes(wasmtime.wat2wasm(MODULE)), name="runaway", limits=limits, imports=()
    )
    alone: list[float] = []
    besides: list[float] = []
    async with AsyncExitStack() as stack:
        running = await start(stack, home)

        async def timed_turns(taken: list[float]) -> None:
            for number in range(turns):
                begun = time.perf_counter()
                await running.ask("how are you?", f"peer-{number % 10}")
                taken.append(time.perf_counter() - begun)

        await timed_turns([])
        for _ in range(rounds):
            await timed_turns(alone)
            wild = [asyncio.create_task(guest.call("spin", b"", host={})) for _ in range(RUNAWAYS)]
            await asyncio.sleep(0.1)
            await timed_turns(besides)
            for one in wild:
                one.cancel()
            await asyncio.gather(*wild, return_exceptions=True)
            await asyncio.sleep(0.1)
    against = "the same turns without them"
    quiet, busy = p99(alone), p99(besides)
    middle = statistics.median(besides) / statistics.median(alone)
    name = f"turns beside {RUNAWAYS} runaway guests"
    return [
        Figure(name=f"{name}, p99", value=busy / quiet, unit="ratio", against=against, goal=2.0),
        Figure(name=f"{name}, p50", value=middle, unit="ratio", against=against),
        Figure(name="turns without them, p99", value=quiet * 1e3, unit="ms"),
    ]


def p99(taken: Sequence[float]) -> float:
    """Return the time that one of a hundred exceeds."""
    return statistics.quantiles(taken, n=100)[-1]


async def measure(python: str | None, component: Path | None, *, quick: bool) -> list[Figure]:
    """Return all figures."""
    with tempfile.TemporaryDirectory() as home:
        sandbox = Sandbox(Path(home) / "guests", threads=2 * RUNAWAYS)
        figures = await calls(sandbox, python, quick=quick)
        if component is not None:
            figures += await large(sandbox, component, quick=quick)
        figures += await beside(sandbox, Path(home) / "gateway", quick=quick)
        await sandbox.close()
    return figures


def interpreter() -> str | None:
    """Return the interpreter that has Extism, if any."""
    if importlib.util.find_spec("extism") is not None:
        return sys.executable
    return os.environ.get(EXTISM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--extism", default=interpreter(), metavar="PYTHON")
    parser.add_argument("--component", default=os.environ.get(COMPONENT), metavar="FILE")
    chosen = parser.parse_args()
    component = Path(chosen.component) if chosen.component else None
    report("WASM", asyncio.run(measure(chosen.extism, component, quick=chosen.quick)))


if __name__ == "__main__":
    main()
