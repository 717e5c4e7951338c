"""Waiting for something that must not be cut short."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["finish", "raise_if_cancelled"]

T = TypeVar("T")


def raise_if_cancelled() -> None:
    """Raise a cancellation of the current task that something it awaited has swallowed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile.

    A cancellation that arrives is raised once `work` is over. `work` needs a limit of its
    own, or the caller cannot be cancelled at all.
    """
    task = asyncio.create_task(work)
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
