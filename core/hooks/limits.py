"""Drives an implementation that suspends: its limit, and whose cancellation it is.

Package-private. A dispatch (the coroutine that walks over a hook's implementations)
awaits each implementation natively, which is fast and arms no timer. `watched` drives
the dispatch one step. Only if something suspends does a timer come in: from then on the
implementation itself is driven, to its end, and its outcome is handed to the dispatch.

What holds about time: after its limit an implementation is cancelled. If it goes on
waiting it has `GRACE` seconds for its clean-up, and then it is closed and left alone.
So whatever suspends comes to an end, also one that swallows cancellation, or waits for a
task that does. One that ignores even being closed (``except BaseException`` in a loop)
ends its whole dispatch with `HookTimeoutError`. One that never suspends, such as a busy
loop, cannot be interrupted by anything that runs on the same thread. One that runs on
threads of its own has its limit in time of the processor: while those threads get on and
have not had as much, it goes on for up to `LATE` times as long, since on a machine with too
much to do even short work takes long. Where they do nothing it hangs, and ends at its limit.

What holds about cancellation: a request that reaches the task from outside goes through
as `CancelledError`, even if the implementation has swallowed it or has raised something
else. Requests are told apart by counting them, as `asyncio.timeout` does, and those of
the timer are taken back. A `CancelledError` without a request is the implementation's.
"""

from __future__ import annotations

import asyncio
import types
from asyncio import CancelledError
from collections.abc import Coroutine, Generator
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.core.hooks.dispatch import Failed, Implementation

GRACE = 1.0
"""Seconds that an implementation has for its clean-up once its limit has cancelled it."""

CLOSE_ATTEMPTS = 3

LATE = 6
"""Limits that work on threads may take by the clock on the wall."""

WORKING = 0.005
"""The part of a processor that threads get at least while they work: with two processors, four
hundred other programs would have to be busy before it is less."""

LOOKS = 20
"""Times at most within one more limit that is looked whether the threads get on."""

_PENDING: Any = object()


class Watch:
    """What a dispatch and its driver know of each other.

    Attributes:
        implementation: Whose coroutine is being awaited.
        coroutine: That coroutine.
        apart: Whether the dispatch is `parked` before it awaits anything, since that is to have
            a task of its own.
    """

    implementation: Implementation
    coroutine: Coroutine[Any, Any, Any]
    apart = False
    _outcome: Any = _PENDING
    _ended = False

    def failed(self, implementation: Implementation, error: BaseException) -> Any:
        """Say what an implementation came to whose call or ``await`` raised `error`.

        Returns:
            `Failed`, or the result of one that has been driven to its end.
        """
        outcome, self._outcome = self._outcome, _PENDING
        if outcome is not _PENDING:
            return outcome
        if self._ended:
            raise error
        # It never suspended, so nothing can have cancelled the task meanwhile: whatever
        # was raised is the implementation's own, `CancelledError` included.
        return implementation.failed(error)

    def resume(self, dispatch: Coroutine[Any, Any, Any], outcome: Any) -> Any:
        """Hand the outcome of the implementation to the dispatch that awaits it."""
        self._outcome = outcome
        # Its coroutine is over, so this cannot enter it and surfaces at the ``await``.
        return dispatch.throw(_Driven())

    def end(self, dispatch: Coroutine[Any, Any, Any]) -> None:
        """Close a dispatch that is not to go on."""
        self._ended = True
        with suppress(RuntimeError):  # the implementation cannot be closed; see `_close`
            dispatch.close()


class _Driven(Exception):
    """Tells a dispatch that the implementation it awaits is over."""


@types.coroutine
def parked() -> Generator[None, None, None]:
    """Hand a dispatch back to its driver, who goes on with it in another task."""
    yield


async def driven(watch: Watch, dispatch: Coroutine[Any, Any, Any]) -> Any:
    """Drive a dispatch to its end, and return its result."""
    try:
        yielded = dispatch.send(None)
    except StopIteration as stop:
        return stop.value
    return await rest(watch, dispatch, yielded)


@types.coroutine
def rest(
    watch: Watch, dispatch: Coroutine[Any, Any, Any], yielded: Any
) -> Generator[Any, Any, Any]:
    """Drive a dispatch on that has suspended, and return its result.

    Args:
        watch: The dispatch keeps it up to date.
        dispatch: A coroutine that awaits one implementation after the other.
        yielded: What it yielded.
    """
    while True:
        implementation = watch.implementation
        # What was yielded may be a future that expects to reach the task before anything
        # else is awaited: nothing may suspend between there and here.
        try:
            outcome = yield from _finished(implementation, watch.coroutine, yielded)
        except BaseException:
            watch.end(dispatch)
            raise
        try:
            yielded = watch.resume(dispatch, outcome)
        except StopIteration as stop:
            return stop.value


class _Work:
    """What the threads of an implementation have had of the processor since it was called."""

    __slots__ = ("_before", "_begun", "_limit", "_looked", "_pool", "_spent")

    def __init__(self, implementation: Implementation) -> None:
        assert implementation.pool is not None, "it runs on threads"
        self._limit = implementation.limit
        self._pool = implementation.pool()
        self._begun = self._looked = monotonic()
        self._before = self._spent = self._pool.spent()

    def more(self) -> float:
        """Return for how many seconds it goes on now that its limit is over; 0 for none."""
        now, spent = monotonic(), self._pool.spent()
        works = spent - self._spent >= WORKING * (now - self._looked)
        left = self._limit - (spent - self._before)
        self._looked, self._spent = now, spent
        if not works or left <= 0 or now - self._begun >= LATE * self._limit:
            return 0.0
        return max(left, self._limit / LOOKS)


class _Limit:
    """Cancels a task when time is up, and once more when the grace is over."""

    __slots__ = ("_before", "_graced", "_loop", "_task", "_timer", "_work", "fired")

    def __init__(self, task: asyncio.Task[Any], implementation: Implementation) -> None:
        self._work = _Work(implementation) if implementation.pool is not None else None
        self._task = task
        self._loop = task.get_loop()
        # A request that was made and is not delivered yet will arrive: it counts as new.
        self._before = task.cancelling() - bool(getattr(task, "_must_cancel", False))
        self._timer = self._loop.call_later(implementation.chain.contract.limit, self._expire)
        self._graced = False
        self.fired = 0

    def _expire(self) -> None:
        if self._work is not None and not self.fired and (more := self._work.more()):
            self._timer = self._loop.call_later(more, self._expire)
            return
        self.fired += 1
        self._task.cancel()

    def grace(self) -> None:
        """Note that the implementation goes on waiting, although it may have been told."""
        if self.fired and not self._graced:
            self._graced = True
            self._timer = self._loop.call_later(GRACE, self._expire)

    def stop(self) -> bool:
        """Take back what the timer requested; return whether anybody else did request."""
        self._timer.cancel()
        for _ in range(self.fired):
            self._task.uncancel()
        return self._task.cancelling() > self._before


def _finished(
    implementation: Implementation, coroutine: Coroutine[Any, Any, Any], yielded: Any
) -> Generator[Any, Any, Any]:
    """Drive an implementation that has suspended to its end.

    Returns:
        Its result, unchecked, or `Failed`.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside.
        HookTimeoutError: It cannot be brought to an end.
    """
    task = asyncio.current_task()
    if task is None:
        coroutine.close()
        raise RuntimeError(f"{implementation!r} has to wait, which takes an asyncio task")
    limit = _Limit(task, implementation)
    value, error = None, None
    closed = False
    try:
        while True:
            told = None
            try:
                yield from _awaited(yielded, task, limit)
            except GeneratorExit:  # `rest` closes the dispatch, and this with it
                raise
            except BaseException as thrown:  # noqa: BLE001 - handed on just below
                told = thrown
            if limit.fired > 1:
                closed = True
                break
            try:
                yielded = coroutine.send(None) if told is None else coroutine.throw(told)
            except StopIteration as stop:
                value = stop.value
                break
            except BaseException as raised:  # noqa: BLE001 - any failure is its own
                error = raised
                break
            limit.grace()
    finally:
        cancelled = limit.stop()
    if closed:
        _close(implementation, coroutine)
    if cancelled:
        raise error if isinstance(error, CancelledError) else CancelledError from error
    if limit.fired:
        return implementation.overdue(abandoned=closed, error=error)
    return value if error is None else implementation.failed(error)


def _awaited(yielded: Any, task: asyncio.Task[Any], limit: _Limit) -> Generator[Any, Any, None]:
    """Wait for what an implementation yielded, as its task would.

    A future whose cancellation may be refused (a task, a `gather`) would pass the task's
    cancellation on and keep the task waiting for as long as it likes. Such a one is
    watched by a future of our own, which the end of the grace can break.
    """
    if (
        yielded.__class__ is asyncio.Future
        or not asyncio.isfuture(yielded)
        or yielded is task
        or yielded.get_loop() is not task.get_loop()
    ):
        yield yielded
        return
    yielded._asyncio_future_blocking = False  # as a task does that starts to wait
    waiter = task.get_loop().create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    yielded.add_done_callback(wake)
    try:
        while not yielded.done():
            try:
                yield from waiter.__await__()
            except CancelledError:
                if limit.fired > 1 or not yielded.cancel():
                    raise
                limit.grace()
                waiter = task.get_loop().create_future()
    finally:
        yielded.remove_done_callback(wake)


def _close(implementation: Implementation, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close the coroutine of an implementation that does not end by itself."""
    for _ in range(CLOSE_ATTEMPTS):
        try:
            coroutine.close()
        except RuntimeError:  # it caught GeneratorExit, and may have suspended again
            continue
        except BaseException:  # noqa: BLE001 - its clean-up failed, and it is over
            return
        return
    failed: Failed = implementation.overdue(abandoned=True, error=None)
    raise failed.failure.to_error()
