"""Work beside a turn: not cut short, whatever it raises, in its order, and ended in its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from hookgate.core.domain.ports import Clock

if TYPE_CHECKING:
    from contextvars import Context

    from hookgate.core.domain.turn import SessionKey

T = TypeVar("T")

EXPIRED = "the token has expired"

GRACE = 1.0
"""Seconds that something has for its clean-up once it was cancelled."""


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """What something of a plugin's came to.

    Attributes:
        value: What it returned; None where it did not.
        error: What it raised, of whatever class; None where it did not.
        late: Whether it was still under way when its time was over.
    """

    value: T | None = None
    error: BaseException | None = None
    late: bool = False


def raise_if_cancelled() -> None:
    """Raise a cancellation of the current task that something it awaited has swallowed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _ended(start: Callable[[], Awaitable[T]]) -> Ended[T]:
    # A task that raises SystemExit or KeyboardInterrupt stops its event loop: it must return.
    try:
        return Ended(value=await start())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return Ended(error=error)


async def apart(
    start: Callable[[], Awaitable[T]],
    *,
    limit: float | None = None,
    left: Callable[[], float] = lambda: 0.0,
) -> Ended[T]:
    """Run something of a plugin's in a task of its own, and return what it came to.

    Whatever it raises is its own: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit` and a
    `CancelledError` that nobody asked for do not reach the caller's task. A cancellation of
    the caller cancels it, and so does the end of its time; then it has `GRACE` seconds for
    its clean-up, and is left alone.

    Args:
        start: Called in that task; makes what is awaited there.
        limit: Seconds that it may take; None for no limit.
        left: Returns what it gets beyond that once the time is over, in seconds: what it has
            spent on something that has a limit of its own.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    task = asyncio.create_task(_ended(start))
    try:
        await until_over(task, limit=limit)
        while not task.done() and (more := left()) > 0:
            await until_over(task, limit=more)
    except asyncio.CancelledError:
        task.cancel()
        await until_over(task, limit=GRACE)
        raise
    if not task.done():
        task.cancel()
        await until_over(task, limit=GRACE)
        return Ended(late=True)
    # It can have cancelled its task, and ended before it heard of that.
    return Ended(error=asyncio.CancelledError()) if task.cancelled() else task.result()


def told(error: BaseException) -> str:
    """Return an exception's class and text, which is made by code of whoever raised it."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - it cannot even be printed
        return f"{type(error).__name__}: (its message cannot be read)"


def called(function: Callable[..., T], *args: Any, **kwargs: Any) -> Ended[T]:
    """Call `function` on a thread, whose future cannot carry every exception."""
    try:
        return Ended(value=function(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return Ended(error=error)


async def contained(work: Awaitable[T]) -> T:
    """Await `work`, and turn what would stop the event loop into an ordinary error.

    Raises:
        RuntimeError: It raised `SystemExit` or `KeyboardInterrupt`.
    """
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error


def contained_task(
    work: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
) -> asyncio.Task[T]:
    """Return a task of `work` that stops no event loop; see `contained`."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(contained(work), name=name, context=context)
    # Cancelled before it began, it would leave `work` behind, which nobody has awaited.
    task.add_done_callback(lambda _: work.close())
    return task


async def until_over(task: asyncio.Task[Any], *, limit: float | None = None) -> None:
    """Wait until a task is over, however it ends; it goes on where the waiting is cancelled.

    Args:
        task: The task.
        limit: Seconds to wait at most; None for no limit.
    """
    if task.done():
        return
    loop = task.get_loop()
    over = loop.create_future()
    wake = partial(_wake, over)
    task.add_done_callback(wake)
    timer = None if limit is None else loop.call_later(limit, wake)
    try:
        await over
    finally:
        task.remove_done_callback(wake)
        if timer is not None:
            timer.cancel()


def _wake(waiting: asyncio.Future[None], _: object = None) -> None:
    if not waiting.done():
        waiting.set_result(None)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile.

    A cancellation that arrives is raised once `work` is over. `work` needs a limit of its
    own, or the caller cannot be cancelled at all.
    """
    task = contained_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await until_over(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            cancelled.add_note(f"meanwhile: {failure!r}")
        raise cancelled
    return task.result()


async def stop(*tasks: asyncio.Future[Any] | None, grace: float = 0.0) -> None:
    """Cancel tasks, and wait until they are over, however they end.

    Args:
        tasks: Which ones; None is none.
        grace: Seconds in which they may end by themselves before.
    """
    there = [task for task in tasks if task is not None]
    if there and grace:
        await asyncio.wait(there, timeout=grace)
    for task in there:
        task.cancel()
    await asyncio.gather(*there, return_exceptions=True)


class InSessionOrder:
    """Runs work off the lanes, in the order in which it came in, session by session."""

    def __init__(self) -> None:
        self._last: dict[SessionKey, asyncio.Task[None]] = {}

    def run(self, session: SessionKey, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` once all earlier work of `session` is over."""
        before = self._last.get(session)

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await contained(work())

        task = asyncio.create_task(in_turn(), name=f"after {session}")
        self._last[session] = task
        task.add_done_callback(lambda done: self._forget(session, done))
        return task

    def _forget(self, session: SessionKey, task: asyncio.Task[None]) -> None:
        if self._last.get(session) is task:
            del self._last[session]

    async def drain(self) -> None:
        """Wait until all work is done."""
        while self._last:
            await asyncio.wait(tuple(self._last.values()))


class Expiring(Protocol):
    """What expires, such as a principal."""

    @property
    def expires(self) -> datetime | None:
        """When; None for never."""


class Expiry:
    """Calls a function when something expires; it may do so at once.

    Args:
        what: What may expire; nothing is done for what never does.
        clock: Says when that is. It is looked at again at least each `LOOK` seconds: it may be
            set, a machine that sleeps stops no wall clock, and what expires may last longer by
            then.
        end: Ends what it has under way; must not wait.
    """

    LOOK = 60.0

    def __init__(self, what: Expiring, clock: Clock, end: Callable[[], object]) -> None:
        self._what = what
        self._clock = clock
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        if what.expires is not None:
            self._look()

    def _look(self) -> None:
        expires = self._what.expires
        assert expires is not None, "only what expires is watched"
        left = (expires - self._clock.now()).total_seconds()
        if left <= 0:
            self._end()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(left, self.LOOK), self._look)

    def cancel(self) -> None:
        """Let it be; it is over."""
        if self._timer is not None:
            self._timer.cancel()
