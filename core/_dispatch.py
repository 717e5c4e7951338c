"""How one implementation of a hook is called: its arguments, its limit, its failures.

Package-private: `core.hooks` is the face of this. An implementation is started by a plain
call (`Implementation.start`), which for an ``async`` method drives the coroutine one step.
Most implementations are done by then, and cost neither a task nor a timer. One that
suspends is handed on as `Suspended`, which arms a timer and drives it to its end.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal

from hookgate.core.errors import HookError, HookResultError, HookTimeoutError

if TYPE_CHECKING:
    from hookgate.core._results import Expected

__all__ = ["GRACE", "Failed", "FailureKind", "HookFailure", "Implementation", "Suspended"]

GRACE = 1.0
"""Seconds that an implementation has for its clean-up once its limit has cancelled it."""

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
            own, ``exit``: a `SystemExit`.
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
    """What `Implementation.start` returns in place of a result; never leaves the core."""

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
        blocking: Whether it runs on a thread.

    """

    __slots__ = (
        "_call",
        "_positions",
        "blocking",
        "expected",
        "function",
        "hook",
        "limit",
        "plugin",
        "required",
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
        executor: Callable[[], Executor] | None = None,
    ) -> None:
        self.hook = hook
        self.plugin = plugin
        self.function = function
        self.limit = limit
        self.required = required
        self.expected = expected
        self.blocking = executor is not None
        self._positions = positions
        self._call = function if executor is None else _on_thread(function, executor)

    def __repr__(self) -> str:
        return f"<{self.hook} of {self.plugin!r}>"

    def start(self, args: tuple[Any, ...]) -> Any:
        """Call the implementation with all of the hook's arguments.

        Returns:
            Its result, unchecked; or `Failed`; or `Suspended` where it has to wait.

        """
        try:
            if self._positions is None:
                value = self._call(*args)
            else:
                value = self._call(*[args[position] for position in self._positions])
        except BaseException as error:  # noqa: BLE001 - any failure is the implementation's
            return self.failed(error)
        if value.__class__ is CoroutineType:
            return self.step(value)
        return value

    def step(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Drive `coroutine` to its first suspension, or to its end. Returns as `start`."""
        try:
            return Suspended(self, coroutine, coroutine.send(None))
        except StopIteration as stop:
            return stop.value
        except BaseException as error:  # noqa: BLE001
            # Nothing can have cancelled the task while it ran, so a `CancelledError`
            # from here is the implementation's own.
            return self.failed(error)

    async def settle(self, value: Any) -> Any:
        """Turn what `start` returned into a right result, None or `Failed`."""
        if value.__class__ is Suspended:
            value = await value
        if value is None or value.__class__ is Failed or self.expected.fits(value):
            return value
        if hasattr(type(value), "__await__"):
            value = self.step(_awaited(value))
            if value.__class__ is Suspended:
                value = await value
            if value is None or value.__class__ is Failed or self.expected.fits(value):
                return value
        return self.fail("result", self.expected.complaint(value))

    def failed(self, error: BaseException) -> Failed:
        """Turn what the implementation raised into a failure; `KeyboardInterrupt` goes on."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, CancelledError):
            return self.fail("cancelled", "raised CancelledError, though nobody cancelled", error)
        kind: FailureKind = "exit" if isinstance(error, SystemExit) else "raised"
        return self.fail(kind, describe(error), error)

    def fail(self, kind: FailureKind, message: str, error: BaseException | None = None) -> Failed:
        """Return a failure of this implementation."""
        return Failed(
            HookFailure(
                hook=self.hook,
                plugin=self.plugin,
                kind=kind,
                message=message,
                required=self.required,
                error=error,
            )
        )

    def overdue(self, *, closed: bool, error: BaseException | None) -> Failed:
        """Return the failure of having been suspended for too long."""
        message = f"suspended for longer than its limit of {self.limit:g} s"
        if self.blocking:
            message += "; its thread cannot be stopped and goes on by itself"
        elif closed:
            message += f", ignored being cancelled for {GRACE:g} s, and was abandoned"
        return self.fail("timeout", message, error)


class Suspended:
    """An implementation that waits. Awaiting this drives it to its end, under its limit.

    It runs in the caller's own task, as a plain ``await`` would: context variables, the
    current task, and cancellation are the caller's. The result is the implementation's
    (unchecked) or `Failed`; what is raised is never the implementation's own doing.

    What holds about time: after ``limit`` seconds the implementation is cancelled; if it
    suspends again instead of ending it has `GRACE` seconds more, and then it is closed
    and left alone. So whatever suspends comes to an end. One that never suspends, such
    as a busy loop, cannot be interrupted by anything on the same thread.

    What holds about cancellation: a cancel request that reaches the task from outside
    goes through as `CancelledError`, even if the implementation has swallowed it or has
    turned it into something else. Requests are told apart by counting them, as
    `asyncio.timeout` does: its own timer's requests are taken back by ``uncancel``.
    """

    __slots__ = ("_coroutine", "_fired", "_implementation", "_task", "_yielded")

    def __init__(
        self, implementation: Implementation, coroutine: Coroutine[Any, Any, Any], yielded: Any
    ) -> None:
        self._implementation = implementation
        self._coroutine = coroutine
        # A future that was yielded expects to reach the task before anything else is
        # awaited on it, so nothing may suspend between here and `__await__`.
        self._yielded = yielded
        self._fired = 0

    def _expire(self) -> None:
        self._fired += 1
        self._task.cancel()

    def __await__(self) -> Generator[Any, Any, Any]:
        implementation = self._implementation
        task = asyncio.current_task()
        if task is None:
            self._coroutine.close()
            raise RuntimeError(f"{implementation!r} has to wait, which needs an asyncio task")
        self._task = task
        # A request that was made but not delivered yet will reach us: it must count as new.
        before = task.cancelling() - bool(getattr(task, "_must_cancel", False))
        value, error = None, None
        closed = False
        loop = task.get_loop()
        timer = loop.call_later(implementation.limit, self._expire)
        try:
            while True:
                told = None
                try:
                    yield self._yielded
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - handed on just below
                    told = thrown
                if self._fired > 1:
                    closed, error = True, self._close()
                    break
                try:
                    if told is None:
                        self._yielded = self._coroutine.send(None)
                    else:
                        self._yielded = self._coroutine.throw(told)
                except StopIteration as stop:
                    value = stop.value
                    break
                except BaseException as raised:  # noqa: BLE001 - any failure is its own
                    error = raised
                    break
                if self._fired == 1 and told is not None:
                    timer = loop.call_later(GRACE, self._expire)
        finally:
            timer.cancel()
            for _ in range(self._fired):
                task.uncancel()
        if task.cancelling() > before:
            raise error if isinstance(error, CancelledError) else CancelledError from error
        if self._fired:
            return implementation.overdue(closed=closed, error=error)
        return value if error is None else implementation.failed(error)

    def _close(self) -> BaseException | None:
        try:
            self._coroutine.close()
        except BaseException as error:  # noqa: BLE001 - reported as the failure's cause
            return error
        return None


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _caught(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, BaseException | None]:
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001 - a future cannot carry every exception
        return None, error


def _on_thread(
    function: Callable[..., Any], executor: Callable[[], Executor]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an ``async`` function that runs `function` on a thread of the executor."""

    async def run(*args: Any) -> Any:
        loop = asyncio.get_running_loop()
        call = copy_context().run
        value, error = await loop.run_in_executor(executor(), call, _caught, function, args)
        if error is not None:
            raise error
        return value

    return run


def describe(error: BaseException) -> str:
    """Return an exception's type and first line."""
    text = str(error).strip().partition("\n")[0]
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
