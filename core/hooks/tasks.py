"""Waiting for something that must not be cut short, or that may raise whatever it likes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

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


async def apart(start: Callable[[], Awaitable[T]], *, limit: float | None = None) -> Ended[T]:
    """Run something of a plugin's in a task of its own, and return what it came to.

    Whatever it raises is its own: `SystemExit`, `KeyboardInterrupt`, `GeneratorExit` and a
    `CancelledError` that nobody asked for do not reach the caller's task. A cancellation of
    the caller cancels it, and so does the end of its time; then it has `GRACE` seconds for
    its clean-up, and is left alone.

    Args:
        start: Called in that task; makes what is awaited there.
        limit: Seconds that it may take; None for no limit.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    task = asyncio.create_task(_ended(start))
    try:
        await asyncio.wait({task}, timeout=limit)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
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


def contained_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Return a task of `work` that stops no event loop; see `contained`."""
    task = asyncio.create_task(contained(work), name=name)
    # Cancelled before it began, it would leave `work` behind, which nobody has awaited.
    task.add_done_callback(lambda _: work.close())
    return task


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile.

    A cancellation that arrives is raised once `work` is over. `work` needs a limit of its
    own, or the caller cannot be cancelled at all.
    """
    task = contained_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                break
            cancelled = error
        except Exception:  # noqa: BLE001 - it is raised below, by `result`
            break
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            cancelled.add_note(f"meanwhile: {failure!r}")
        raise cancelled
    return task.result()
