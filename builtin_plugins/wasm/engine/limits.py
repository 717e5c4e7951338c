"""What a guest may use and see of the system, and what goes wrong with one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from hookgate import HookgateError

GuestErrorKind = Literal[
    "trap",
    "fuel",
    "time",
    "memory",
    "table",
    "stack",
    "host-calls",
    "output",
    "answer",
    "busy",
    "host",
]
"""Why a call failed: the guest trapped, met a limit, answered what cannot be read (``answer``),
found no free thread (``busy``), or a function of the host raised (``host``, with its cause)."""


class GuestRefusedError(HookgateError):
    """A guest cannot be loaded: the text names the import, the export or the limit.

    Attributes:
        guest: The name under which it was loaded.
        lasting: Whether it is refused again for as long as module, limits and engine are the
            same; False where that lies in what is around it.
    """

    def __init__(self, message: str, *, guest: str, lasting: bool = True) -> None:
        super().__init__(f"guest {guest!r}: {message}")
        self.guest = guest
        self.lasting = lasting


class GuestError(HookgateError):
    """A call of a guest failed. The text names the guest, the limit and its figure.

    Attributes:
        guest: The name under which the guest was loaded.
        kind: Why.
        reason: The text without the guest's name.
        figure: The limit that was met, in its own unit; None where none was.
    """

    def __init__(
        self, message: str, *, guest: str, kind: GuestErrorKind, figure: float | None = None
    ) -> None:
        super().__init__(f"guest {guest!r}: {message}")
        self.guest = guest
        self.reason = message
        self.kind: GuestErrorKind = kind
        self.figure = figure


# -- What a guest may use, and what it is let see of the system ------------------

MB = 1024 * 1024
MOST = {"memory_bytes": 4096 * MB, "table_elements": 10_000_000, "stack_bytes": 2 * MB}
"""What the engine has room for."""
MEMORIES = 8
TABLES = 16
"""How many of each one guest may have."""
ELEMENT_BYTES = 8
COUNT = re.compile(r"(memory|table) count too high at (\d+)")
"""What wasmtime says of an instance with more memories or tables than its store may hold."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one guest may use. Each of them is on, and none can be switched off.

    Attributes:
        fuel: Instructions of one call, about one each.
        seconds: Wall time of one call, its host calls included.
        memory_bytes: All linear memories of one call together.
        table_elements: All its tables together.
        stack_bytes: The guest's own stack.
        instances: Core instances that a component is made of; a module is one.
        host_calls: Calls of host functions in one call.
        host_bytes: Bytes to and from host functions in one call.
        host_seconds: Wall time in host functions in one call.
        output_bytes: The answer of one call.
        compile_seconds: Time of compiling, CPU and wall.
        compile_memory_bytes: Memory of the process that compiles.
        module_bytes: The module or component itself.
    """

    fuel: int = 2_000_000_000
    seconds: float = 10.0
    memory_bytes: int = 64 * MB
    table_elements: int = 20_000
    stack_bytes: int = 512 * 1024
    instances: int = 64
    host_calls: int = 1_000
    host_bytes: int = 16 * MB
    host_seconds: float = 10.0
    output_bytes: int = 1 * MB
    compile_seconds: float = 120.0
    compile_memory_bytes: int = 2048 * MB
    module_bytes: int = 32 * MB

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < 2**63:
                raise ValueError(f"{one.name}: found {value!r}, expected a number above 0")
        if self.stack_bytes > 2 * MB:
            raise ValueError(
                f"stack_bytes: found {self.stack_bytes:,}, expected at most {2 * MB:,}"
            )

    @property
    def store_bytes(self) -> int:
        """What the memories and tables of one call may take."""
        return self.memory_bytes + self.table_elements * ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class StoreRoom:
    """The memories and tables of a guest, among which its limits are divided.

    wasmtime knows a limit for each of them and none for all. How many a guest has is fixed in it,
    so that each gets an equal part.

    Attributes:
        memories: How many memories.
        tables: How many tables.
    """

    memories: int = 1
    tables: int = 1

    def of(self, limits: Limits) -> tuple[int, int, int, int, int]:
        """Return what a store takes: bytes, elements, instances, tables, memories."""
        return (
            limits.memory_bytes // self.memories,
            limits.table_elements // self.tables,
            limits.instances,
            self.tables,
            self.memories,
        )

    def wider(self, message: str) -> StoreRoom | None:
        """Return the room of a guest that did not fit, by what wasmtime says; None for too many."""
        found = COUNT.search(message)
        if found is None:
            return None
        count = int(found[2])
        if found[1] == "memory":
            return replace(self, memories=count) if count <= MEMORIES else None
        return replace(self, tables=count) if count <= TABLES else None


@dataclass(frozen=True, slots=True)
class WasiGrants:
    """The parts of WASI that a guest may import, one by one. Nothing else of it is there.

    Attributes:
        clock: The clocks.
        random: Random bytes.
        env: Values of the environment that it sees; the process's own are never seen.
        read_only: Folders that it may read: the guest's name of each, and where it is, without
            links.
        why_not: Judges each of them once more whenever it is opened for a call, by its descriptor
            and where that leads: returns why it must not be read, or "".
    """

    clock: bool = False
    random: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    read_only: Mapping[str, Path] = field(default_factory=dict)
    why_not: Callable[[int, Path], str] = field(default=lambda _, __: "", compare=False)
