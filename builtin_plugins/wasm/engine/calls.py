"""One call of a guest: what it has left, and the functions of the host that it may call."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Never

from hookgate.builtin_plugins.wasm.engine.limits import (
    MEMORIES,
    TABLES,
    GuestError,
    GuestErrorKind,
    Limits,
    StoreRoom,
)


@dataclass(slots=True)
class CallContext:
    """What a host function may know of the call that it serves.

    Attributes:
        guest: The name of the guest that calls.
        limits: The limits of this call.
        deadline: When the call ends at the latest, by ``time.monotonic()``.
        host_calls_left: How many more host calls it may make.
        host_bytes_left: How many more bytes may go to and from host functions.
        host_seconds_left: How much longer host functions may take in this call.
        log: Lines that the guest has logged: a host function adds to them.
    """

    guest: str
    limits: Limits
    deadline: float
    host_calls_left: int
    host_bytes_left: int
    host_seconds_left: float
    log: list[str] = field(default_factory=list)


HostFunction = Callable[[bytes, CallContext], bytes | Awaitable[bytes]]
"""A function of the host: a request (JSON) comes in, an answer goes out. What it awaits runs on
the event loop of the gateway while the guest waits, and never past the call's deadline."""


class GuestRun:
    """One call, from the thread that runs it. Forms of guests keep to it.

    Attributes:
        context: What host functions are handed.
        limits: The limits of this call.
        stopped: Why the guest is to end, whatever it does next; None while it may go on.
        paused: Surrounds a wait of the guest's thread, in which others may run.
        room: The memories and tables that share its limits.
    """

    __slots__ = (
        *("_cancelled", "_host", "_loop", "_waits"),
        *("context", "limits", "paused", "room", "stopped"),
    )

    def __init__(
        self,
        guest: str,
        limits: Limits,
        host: Mapping[str, HostFunction],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.limits = limits
        self.room = StoreRoom()
        self.paused: Callable[[], AbstractContextManager[None]] = nullcontext
        self.stopped: GuestError | None = None
        self.context = CallContext(
            guest,
            limits,
            0.0,
            limits.host_calls,
            limits.host_bytes,
            limits.host_seconds,
        )
        self._host = host
        self._loop = loop
        self._cancelled = False
        self._waits: Future[bytes] | None = None

    def begin(self) -> None:
        """Start the clock of the call."""
        self.context.deadline = time.monotonic() + self.limits.seconds

    @property
    def seconds_left(self) -> float:
        """How long the call may still run; below 0 when it should have ended."""
        return self.context.deadline - time.monotonic()

    def cancel(self) -> None:
        """End the call soon: nobody waits for it. May be called from any thread."""
        self._cancelled = True
        if (waits := self._waits) is not None:
            waits.cancel()

    def fail(self, kind: GuestErrorKind, text: str, figure: float | None = None) -> GuestError:
        """Make the error of this call. The first one counts."""
        if self.stopped is None:
            self.stopped = GuestError(text, guest=self.context.guest, kind=kind, figure=figure)
        return self.stopped

    def trapped(self, code: str, message: str, memory: int | None = None) -> GuestError:
        """Make the error of a guest that wasmtime ended.

        Args:
            code: The name of the trap.
            message: What wasmtime says.
            memory: How large the guest's memory was then.
        """
        if self.stopped is not None:
            return self.stopped  # that is why it was ended
        limits = self.limits
        if code == "OUT_OF_FUEL":
            return self.fail("fuel", f"it used up its limit, fuel = {limits.fuel:,}", limits.fuel)
        if code == "STACK_OVERFLOW":
            figure = limits.stack_bytes
            return self.fail("stack", f"it went past its limit, stack_bytes = {figure:,}", figure)
        minima: tuple[tuple[GuestErrorKind, str, int, int, int], ...] = (
            ("memory", "memory_bytes", limits.memory_bytes, self.room.memories, MEMORIES),
            ("table", "table_elements", limits.table_elements, self.room.tables, TABLES),
        )
        for kind, name, figure, count, most in minima:
            if f"{kind} minimum size" in message:
                told = f"{message}: its limit is {name} = {figure:,}{_together(count)}"
                return self.fail(kind, told, figure)
            if f"{kind} count too high" in message:
                return self.fail(kind, f"{message}: a guest may have {most} at most", most)
        count, figure = self.room.memories, limits.memory_bytes
        if memory is not None and memory > figure / count * 0.9:
            text = f"it trapped ({message}) when its memory was full, memory_bytes = {figure:,}"
            return self.fail("memory", text + _together(count), figure)
        grown = "" if memory is None else f"; its memory had {memory:,} bytes"
        return self.fail("trap", f"it trapped: {message}{grown}")

    def late(self) -> GuestError | None:
        """Return the error of a call that must end now: it was cancelled, or its time is over."""
        if self._cancelled:
            return self.fail("time", "the call was cancelled: nobody waits for it")
        if time.monotonic() >= self.context.deadline:
            return self.fail(
                "time",
                f"it ran longer than its limit, seconds = {self.limits.seconds:g}",
                self.limits.seconds,
            )
        return None

    def check_output(self, length: int) -> None:
        """Look at how long an answer is before it is copied.

        Raises:
            GuestError: It is longer than its limit.
        """
        limit = self.limits.output_bytes
        if length > limit:
            text = f"it answered {length:,} bytes, and its limit is output_bytes = {limit:,}"
            raise self.fail("output", text, limit)

    def admit(self, count: int) -> None:
        """Count a host call with a request of `count` bytes, before they are copied.

        Raises:
            GuestError: The call has no more of them, or is to end.
        """
        context = self.context
        if (error := self.stopped or self.late()) is not None:
            raise error
        if context.host_calls_left <= 0:
            limit = self.limits.host_calls
            raise self.fail(
                "host-calls", f"it called the host more often than host_calls = {limit:,}", limit
            )
        context.host_calls_left -= 1
        self._spend(count)

    def answer(self, name: str, request: bytes) -> bytes:
        """Have the host function `name` answer a call that was admitted.

        Raises:
            GuestError: The call is to end: a limit was met, or the host function raised.
        """
        function = self._host.get(name)
        if function is None:
            return b'{"error":{"code":"not_granted","message":"this call may not use %s"}}' % (
                name.encode()
            )
        started = time.monotonic()
        try:
            found = function(request, self.context)
            answer = found if isinstance(found, bytes) else self._awaited(found)
            if not isinstance(answer, bytes):
                raise TypeError(f"found {type(answer).__name__}, expected bytes")
        except GuestError:
            raise
        except Exception as error:
            raise self.fail("host", f"the host function {name!r} failed: {error!r}") from error
        self.context.host_seconds_left -= time.monotonic() - started
        if (late := self.late()) is not None:
            raise late
        if self.context.host_seconds_left <= 0:
            self._slow()
        self._spend(len(answer))
        return answer

    def _awaited(self, awaitable: Awaitable[bytes]) -> bytes:
        """Wait, on the guest's thread, for what runs on the event loop."""
        if not inspect.isawaitable(awaitable):
            raise TypeError(f"found {type(awaitable).__name__}, expected bytes or an awaitable")
        left = min(self.context.deadline - time.monotonic(), self.context.host_seconds_left)

        async def bounded() -> bytes:
            return await awaitable

        waits = asyncio.run_coroutine_threadsafe(bounded(), self._loop)
        self._waits = waits
        if self._cancelled:  # perhaps between the last look and now
            waits.cancel()
        try:
            with self.paused():
                return waits.result(max(left, 0.0))
        except (TimeoutError, CancelledError) as error:
            if waits.done() and not waits.cancelled() and waits.exception() is error:
                raise  # it is the function's own
            waits.cancel()
            if (late := self.late()) is not None:
                raise late from None
            self._slow()
        finally:
            self._waits = None

    def _slow(self) -> Never:
        limit = self.limits.host_seconds
        raise self.fail(
            "host-calls", f"functions of the host took longer than host_seconds = {limit:g}", limit
        )

    def _spend(self, count: int) -> None:
        self.context.host_bytes_left -= count
        if self.context.host_bytes_left < 0:
            limit = self.limits.host_bytes
            raise self.fail(
                "host-calls", f"it exchanged more with the host than host_bytes = {limit:,}", limit
            )


def _together(count: int) -> str:
    return f", in equal parts for its {count}" if count > 1 else ""
