"""What the forms of guests have in common: core modules, components, Extism's modules.

A form is told apart by what its artefact says of itself. It refuses what may not be imported
before anything is loaded, is loaded once for each process, and is called on a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hookgate.builtin_plugins.wasm.engine.calls import GuestRun
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefact
from hookgate.builtin_plugins.wasm.engine.limits import (
    GuestRefusedError,
    Limits,
    StoreRoom,
    WasiGrants,
)
from hookgate.builtin_plugins.wasm.engine.machine import Machine
from hookgate.builtin_plugins.wasm.engine.native import Failure

GuestForm = Literal["core", "component", "extism"]
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a guest is to be loaded.

    Attributes:
        name: The name that its errors carry.
        limits: Its limits.
        imports: The host functions that it may import.
        wasi: The parts of WASI that it may import.
    """

    name: str
    limits: Limits
    imports: Collection[str]
    wasi: WasiGrants | None


class LoadedGuest(Protocol):
    """A guest in this process. Every call makes a store and an instance of its own."""

    def trial(self, run: GuestRun) -> None:
        """Instantiate it once, on a worker thread, and call nothing.

        Raises:
            GuestError: It cannot be instantiated.
        """
        ...

    def call(self, run: GuestRun, export: str, request: bytes) -> bytes:
        """Call one of its exports, on a worker thread.

        Raises:
            GuestError: It failed.
        """
        ...


class GuestKind(Protocol):
    """One kind of guest.

    Attributes:
        kind: Its name.
    """

    kind: GuestForm

    def fits(self, said: dict[str, Any]) -> bool:
        """Whether a module that says this of itself is of this form."""
        ...

    def check(self, said: dict[str, Any], wanted: Wanted) -> frozenset[str]:
        """Return the functions that it offers, in the names of the core ABI.

        Raises:
            GuestRefusedError: It imports what is not granted, or lacks an export.
        """
        ...

    def load(self, machine: Machine, artefact: Artefact, wanted: Wanted) -> LoadedGuest:
        """Load it into this process, on a worker thread.

        Raises:
            GuestRefusedError: The engine cannot use it.
        """
        ...


def fitted(run: GuestRun, instantiate: Callable[[], None]) -> StoreRoom:
    """Instantiate a guest, and return how many memories and tables it turned out to have.

    Raises:
        GuestError: It cannot be instantiated, or has more of them than it may.
    """
    while True:
        try:
            instantiate()
            return run.room
        except Failure as found:
            if (wider := run.room.wider(found.message)) is None:
                raise run.trapped(found.code, found.message) from None
            run.room = wider


def refuse(problems: list[str], guest: str, *, lasting: bool = True) -> None:
    """Raise all that is wrong with a guest at once, if anything is.

    Raises:
        GuestRefusedError: There are problems.
    """
    if problems:
        more = len(problems) - SHOWN
        shown = problems[:SHOWN] + ([f"and {more:,} more"] if more > 0 else [])
        raise GuestRefusedError("; ".join(shown), guest=guest, lasting=lasting)
