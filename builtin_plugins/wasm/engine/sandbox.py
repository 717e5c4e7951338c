"""The sandbox of a gateway, and the guests that are loaded into it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from hookgate.builtin_plugins.wasm.engine.calls import HostFunction
from hookgate.builtin_plugins.wasm.engine.errors import GuestRefusedError
from hookgate.builtin_plugins.wasm.engine.limits import Limits, WasiGrants

__all__ = ["Guest", "Sandbox"]

GuestForm = Literal["core", "component", "extism"]


class Guest:
    """A loaded guest. Every call gets a store and an instance of its own.

    Attributes:
        name: The name that its errors carry.
        form: What kind of module it is.
        digest: The SHA-256 of its bytes, in hexadecimal.
        exports: The functions that it offers, in the names of the core ABI.
    """

    name: str
    form: GuestForm
    digest: str
    exports: frozenset[str]

    async def call(
        self,
        export: str,
        request: bytes,
        *,
        host: Mapping[str, HostFunction],
        limits: Limits | None = None,
    ) -> bytes:
        """Call an export off the event loop, and return its answer.

        Raises:
            GuestError: It trapped, met a limit or answered what cannot be read.
        """
        raise GuestRefusedError(f"it has no export {export!r}", guest=self.name)


class Sandbox:
    """Where guests run: engine, worker threads and the cache of what was compiled.

    Args:
        cache: A folder of this sandbox alone; made with mode 0700, refused when others can write.
        threads: How many guests run at the same time.
    """

    def __init__(self, cache: Path, *, threads: int = 8) -> None:
        self.cache = cache
        self.threads = threads

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
        raise GuestRefusedError("no form of guest fits it", guest=name)

    async def close(self) -> None:
        """End the threads. Calls that still run end at their deadline."""
