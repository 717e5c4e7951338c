"""The sandbox of a gateway, and the guests that are loaded into it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Collection, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.wasm.engine import wasi as wasi_parts
from hookgate.builtin_plugins.wasm.engine.calls import GuestRun, HostFunction
from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import (
    Artefact,
    Artefacts,
    FolderError,
    compiled,
)
from hookgate.builtin_plugins.wasm.engine.components import ComponentForm
from hookgate.builtin_plugins.wasm.engine.forms import (
    GuestForm,
    GuestKind,
    LoadedGuest,
    Wanted,
    refuse,
)
from hookgate.builtin_plugins.wasm.engine.limits import (
    GuestError,
    GuestRefusedError,
    Limits,
    WasiGrants,
)
from hookgate.builtin_plugins.wasm.engine.machine import Machine
from hookgate.builtin_plugins.wasm.engine.modules import CoreForm, ExtismForm
from hookgate.builtin_plugins.wasm.engine.native import native

FORMS: tuple[GuestKind, ...] = (ExtismForm(), CoreForm(), ComponentForm())
"""The forms of guests: the first that fits is taken."""
CACHE_BYTES = 1024 * 1024 * 1024
MEMORY_BYTES = 1024 * 1024 * 1024

NO_WASMTIME = (
    "found no wasmtime, which guests run in: run `pip install 'hookgate[wasm]'`, and start again"
)


class Guest:
    """A loaded guest. Every call gets a store and an instance of its own.

    Attributes:
        name: The name that its errors carry.
        form: What kind of module it is.
        digest: The SHA-256 of its bytes, in hexadecimal.
        exports: The functions that it offers, in the names of the core ABI.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        form: GuestKind,
        digest: str,
        exports: frozenset[str],
        wanted: Wanted,
    ) -> None:
        self.name = wanted.name
        self.form: GuestForm = form.kind
        self.digest = digest
        self.exports = exports
        self._sandbox = sandbox
        self._form = form
        self._wanted = wanted
        self._machine: Machine | None = None
        self._loaded: LoadedGuest | None = None

    async def call(
        self,
        export: str,
        request: bytes,
        *,
        host: Mapping[str, HostFunction],
        limits: Limits | None = None,
    ) -> bytes:
        """Call an export off the event loop, and return its answer.

        Args:
            export: One of :attr:`exports`.
            request: What it is handed.
            host: The functions of the host by their names. One that was granted when the guest
                was loaded and is missing here answers that this call may not use it.
            limits: The limits of this call; None: those that the guest was loaded with. What
                concerns the stack and compiling is settled when a guest is loaded.

        Raises:
            GuestError: It trapped, met a limit or answered what cannot be read.
        """
        limits = limits or self._wanted.limits
        if export not in self.exports:
            offered = ", ".join(sorted(self.exports))
            text = f"found no export {export!r}, expected one of {offered}"
            raise GuestError(text, guest=self.name, kind="answer")
        try:
            machine = self._sandbox.machine()
        except RuntimeError as closed:
            raise GuestError(str(closed), guest=self.name, kind="busy") from None
        if machine is not self._machine or self._loaded is None:
            await self._load(machine)
        assert self._loaded is not None
        run = GuestRun(self.name, limits, host, asyncio.get_running_loop())
        return await machine.workers.run(run, partial(self._loaded.call, run, export, request))

    async def _load(self, machine: Machine) -> None:
        """Load it into this process: at first, and again after a fork."""
        artefact = await asyncio.to_thread(self._sandbox.artefacts.find, self.digest)
        if artefact is None:
            text = "what was compiled of it is gone or was changed: load it again"
            raise GuestError(text, guest=self.name, kind="answer")
        await self._use(machine, artefact)

    async def _use(self, machine: Machine, artefact: Artefact) -> None:
        loop = asyncio.get_running_loop()
        run = GuestRun(self.name, self._wanted.limits, {}, loop)
        loaded = await asyncio.to_thread(self._form.load, machine, artefact, self._wanted)
        await machine.workers.run(run, partial(loaded.trial, run))
        self._loaded, self._machine = loaded, machine


class Sandbox:
    """Where guests run: engine, worker threads and the cache of what was compiled.

    Args:
        cache: A folder of this sandbox alone; made with mode 0700, refused when others can write.
        threads: How many calls run at the same time. One guest has as many at most as it leaves
            to others; one that waits for the host does not run.
        memory_bytes: What memories and tables of all calls that have begun may take together.
        cache_bytes: How large the cache may grow.
    """

    def __init__(
        self,
        cache: Path,
        *,
        threads: int = 8,
        memory_bytes: int = MEMORY_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.artefacts = Artefacts(cache, most_bytes=cache_bytes)
        self._threads = threads
        self._memory_bytes = memory_bytes
        self._machine: Machine | None = None
        self._left: list[Machine | None] = []
        self._closed = False

    async def load(
        self,
        data: bytes,
        *,
        name: str,
        limits: Limits,
        imports: Collection[str],
        wasi: WasiGrants | None = None,
    ) -> Guest:
        """Compile `data`, or take it from the cache, and instantiate it once to see that it works.

        Args:
            data: The module or component.
            name: The name that errors carry.
            limits: The limits of compiling, and of calls that bring none of their own.
            imports: The host functions that it may import, such as ``log`` and ``http``.
            wasi: The parts of WASI that it may import; None: nothing of it.

        Raises:
            GuestRefusedError: It cannot be used; the text names the import, export or limit.
        """
        wanted = Wanted(name, limits, frozenset(imports), wasi)
        _look_at(data, wanted)
        refuse(await asyncio.to_thread(wasi_parts.problems, wasi), name, lasting=False)
        digest = await asyncio.to_thread(_digest, data)
        if find_spec("wasmtime") is None:
            raise GuestRefusedError(NO_WASMTIME, guest=name, lasting=False)
        await asyncio.to_thread(native)  # loads wasmtime, which takes a while
        try:
            machine = self.machine()
            artefact = await asyncio.to_thread(self.artefacts.find, digest)
            if artefact is None:
                async with machine.compilers:
                    artefact = await compiled(
                        data, digest, self.artefacts, name=name, limits=limits
                    )
        except (FolderError, OSError, RuntimeError) as error:
            raise GuestRefusedError(str(error), guest=name, lasting=False) from error
        form = _form(artefact.said, name)
        guest = Guest(self, form, digest, form.check(artefact.said, wanted), wanted)
        try:
            await guest._use(machine, artefact)
        except GuestError as error:
            raise GuestRefusedError(
                f"it cannot be instantiated: {error.reason}",
                guest=name,
                lasting=error.kind not in ("time", "busy", "memory"),
            ) from error
        return guest

    def machine(self) -> Machine:
        """Return what of this sandbox lives in this process.

        Raises:
            RuntimeError: The sandbox was closed.
        """
        if self._closed:
            raise RuntimeError("the sandbox was closed")
        machine = self._machine
        if machine is None or machine.pid != os.getpid():
            # What was there belongs to the process that this one was forked from. To free it
            # would take its locks, which nobody here may ever open.
            self._left.append(machine)
            machine = self._machine = Machine(self._threads, self._memory_bytes)
        return machine

    async def close(self) -> None:
        """End the threads. Calls that still run end at their deadline."""
        self._closed = True
        if self._machine is not None and self._machine.pid == os.getpid():
            self._machine.close()


def _look_at(data: bytes, wanted: Wanted) -> None:
    """Refuse what can be seen to be no module, before anything is done with it."""
    limit = wanted.limits.module_bytes
    if len(data) > limit:
        text = f"it has {len(data):,} bytes, and its limit is module_bytes = {limit:,}"
        raise GuestRefusedError(text, guest=wanted.name)
    if data[:8] not in (child.CORE, child.COMPONENT):
        text = f"it begins with {data[:8]!r}, expected a binary WebAssembly module or component"
        if data.lstrip()[:1] == b"(":
            text += ": text is to be made one first, as with wasm-tools parse"
        raise GuestRefusedError(text, guest=wanted.name)


def _form(said: dict[str, Any], name: str) -> GuestKind:
    for form in FORMS:
        if form.fits(said):
            return form
    raise GuestRefusedError(f"it is a {said['form']}, for which there is no host", guest=name)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
