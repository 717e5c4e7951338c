"""One call of a guest, as its host functions see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hookgate.builtin_plugins.wasm.engine.limits import Limits

__all__ = ["CallContext", "HostFunction"]


@dataclass(slots=True)
class CallContext:
    """What a host function may know of the call that it serves.

    Attributes:
        guest: The name of the guest that calls.
        limits: The limits of this call.
        deadline: When the call ends at the latest, by ``time.monotonic()``.
        host_calls_left: How many more host calls it may make.
        host_bytes_left: How many more bytes may go to and from host functions.
        log: Lines that the guest has logged: a host function adds to them.
    """

    guest: str
    limits: Limits
    deadline: float
    host_calls_left: int
    host_bytes_left: int
    log: list[str] = field(default_factory=list)


HostFunction = Callable[[bytes, CallContext], bytes | Awaitable[bytes]]
"""A function of the host: a request (JSON) comes in, an answer goes out. What it awaits runs on
the event loop of the gateway while the guest waits, and never past the call's deadline."""
