"""How one implementation of a hook is called, and how it fails.

Package-private: `core.hooks.caller` is the face of this, `core.hooks.limits` drives what suspends.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal

from hookgate.core.domain.errors import HookError, HookResultError, HookTimeoutError
from hookgate.core.hooks.limits import GRACE

if TYPE_CHECKING:
    from hookgate.core.hooks.limits import Watch
    from hookgate.core.hooks.pool import Pool
    from hookgate.core.hooks.results import Expected

MESSAGE_CHARS = 300

FailureKind = Literal["raised", "timeout", "result", "cancelled", "exit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailure:
    """One implementation of a hook failed.

    Attributes:
        hook: The hook's name.
        plugin: The plugin's name.
        kind: ``raised`` an exception, ``timeout``: suspended for longer than the limit,
            ``result``: a result of a wrong type, ``cancelled``: a `CancelledError` of its
            own, ``exit``: a `SystemExit` or `KeyboardInterrupt`.
        message: What happened, in one line.
        required: Whether the hook's contract makes this an error of the caller.
        error: The exception, where there is one.
    """

    hook: str
    plugin: str
    kind: FailureKind
    message: str
    required: bool
    error: BaseException | None = None

    def to_error(self) -> HookError:
        """Return the exception that this failure raises where the hook is required."""
        kinds: dict[str, type[HookError]] = {"timeout": HookTimeoutError, "result": HookResultError}
        error = kinds.get(self.kind, HookError)(self.hook, self.plugin, self.message)
        error.__cause__ = self.error
        return error


class Failed:
    """Stands in place of a result; never leaves the core."""

    __slots__ = ("failure",)

    def __init__(self, failure: HookFailure) -> None:
        self.failure = failure


class Implementation:
    """One plugin's implementation of one hook, ready to be called.

    Attributes:
        hook: The hook's name.
        plugin: The name that the plugin runs under.
        function: The plugin's own function, bound.
        limit: Seconds for which it may be suspended.
        required: Whether its failure raises.
        pool: Returns the threads that it runs on; None where it runs on the event loop.
        blocking: Whether it runs on a thread.
        expected: What it may return.
        target: What is really called: `function`, or its way onto a thread.
        positions: The places of its arguments among the hook's; None: it takes them all.
    """

    __slots__ = (
        "blocking",
        "expected",
        "function",
        "hook",
        "limit",
        "plugin",
        "pool",
        "positions",
        "required",
        "target",
    )

    def __init__(
        self,
        hook: str,
        plugin: str,
        function: Callable[..., Any],
        *,
        positions: tuple[int, ...] | None,
        limit: float,
        required: bool,
        expected: Expected,
        pool: Callable[[], Pool] | None = None,
    ) -> None:
        self.hook = hook
        self.plugin = plugin
        self.function = function
        self.positions = positions
        self.limit = limit
        self.required = required
        self.expected = expected
        self.pool = pool
        self.blocking = pool is not None
        self.target = function if pool is None else _on_thread(function, pool)

    def __repr__(self) -> str:
        return f"<{self.hook} of {self.plugin!r}>"

    async def call(self, watch: Watch, args: tuple[Any, ...]) -> Any:
        """Call it with all of the hook's arguments, inside a dispatch that is watched.

        Returns:
            A right result, None, or `Failed`.
        """
        positions = self.positions
        try:
            value = (
                self.target(*args)
                if positions is None
                else self.target(*[args[position] for position in positions])
            )
            if value.__class__ is CoroutineType:
                watch.implementation = self
                watch.coroutine = value
                value = await value
            if value is None or isinstance(value, self.expected.classes):
                return value
        except BaseException as error:  # noqa: BLE001 - any failure is the implementation's
            value = watch.failed(self, error)
        return await self.settle(watch, value)

    async def settle(self, watch: Watch, value: Any) -> Any:
        """Look closer at a result that is of none of the expected classes. Returns as `call`."""
        if value is None or type(value) is Failed:
            return value
        unfit = self._unfit(value)
        if unfit is not None and hasattr(type(value), "__await__"):
            value = await self.wait(watch, value)
            if value is None or type(value) is Failed:
                return value
            unfit = self._unfit(value)
        return value if unfit is None else unfit

    def _unfit(self, value: Any) -> Failed | None:
        """Return what is wrong with a result, if anything is."""
        try:
            if self.expected.fits(value):
                return None
            return self.fail("result", self.expected.complaint(value))
        except BaseException as error:  # noqa: BLE001 - looking at it runs code of its own
            told = f"returned a {type(value).__name__} that cannot be read: {describe(error)}"
            return self.fail("result", told, error)

    async def wait(self, watch: Watch, awaitable: Awaitable[Any]) -> Any:
        """Await something that the implementation made; return its result or `Failed`."""
        coroutine = _result(awaitable)
        watch.implementation = self
        watch.coroutine = coroutine
        try:
            return await coroutine
        except BaseException as error:  # noqa: BLE001
            return watch.failed(self, error)

    def failed(self, error: BaseException) -> Failed:
        """Turn what the implementation raised, of whatever class, into a failure."""
        if isinstance(error, CancelledError):
            return self.fail("cancelled", "raised CancelledError, though nobody cancelled", error)
        exits = isinstance(error, SystemExit | KeyboardInterrupt)
        kind: FailureKind = "exit" if exits else "raised"
        return self.fail(kind, describe(error), error)

    def overdue(self, *, abandoned: bool, error: BaseException | None) -> Failed:
        """Return the failure of having been suspended for too long."""
        message = f"suspended for longer than its limit of {self.limit:g} s"
        if self.blocking:
            message += "; its thread cannot be stopped: it goes on, or waits for a free one"
        elif abandoned:
            message += f", went on for {GRACE:g} s after it was cancelled, and was abandoned"
        return self.fail("timeout", message, error)

    def fail(self, kind: FailureKind, message: str, error: BaseException | None = None) -> Failed:
        """Return a failure of this implementation."""
        failure = HookFailure(
            hook=self.hook,
            plugin=self.plugin,
            kind=kind,
            message=message,
            required=self.required,
            error=error,
        )
        return Failed(failure)


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _caught(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, BaseException | None]:
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001 - a future cannot carry every exception
        return None, error


def _on_thread(
    function: Callable[..., Any], pool: Callable[[], Pool]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an ``async`` function that runs `function` on a thread of the pool."""

    async def run(*args: Any) -> Any:
        loop, threads = asyncio.get_running_loop(), pool()
        call = copy_context().run
        value, error = await loop.run_in_executor(
            threads, threads.counted, call, _caught, function, args
        )
        if error is not None:
            raise error
        return value

    return run


def describe(error: BaseException) -> str:
    """Return an exception's type and first line."""
    try:
        text = str(error).strip().partition("\n")[0]
    except BaseException:  # noqa: BLE001 - some exceptions cannot even be printed
        text = "(its message cannot be read)"
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= MESSAGE_CHARS else f"{line[: MESSAGE_CHARS - 1]}…"


def bind(
    hook: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Put arguments into the order of the hook's specification.

    Raises:
        TypeError: One is missing, or there is one too many.
    """
    rest = names[len(args) :]
    if len(args) > len(names) or set(rest) != set(kwargs):
        raise TypeError(
            f"hook {hook} takes ({', '.join(names)}); found {len(args)} positional arguments "
            f"and the names ({', '.join(kwargs)})"
        )
    return (*args, *(kwargs[name] for name in rest))
