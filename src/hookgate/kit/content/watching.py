"""Noticing when something below a folder changes, even where the folder itself comes and goes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from watchfiles import awatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

__all__ = ["changes"]

LOOK_MS = 1000
"""So often, in milliseconds, it is looked whether the folders are still the ones watched."""

POLL_SECONDS = 5.0
"""So often the folders are read again where the system cannot watch them."""

STEP_MS = 250
"""A burst of changes is over when nothing more came for so long."""

Identity = tuple[tuple[str, int, int], ...]


async def changes(
    places: Callable[[], Sequence[Path]],
    *,
    debounce_ms: int,
    stop: asyncio.Event,
) -> AsyncIterator[None]:
    """Yield whenever something below one of `places` may have changed, until `stop` is set.

    A place that is missing is found when it appears; one that was replaced, too.

    Args:
        places: Returns the folders and files to watch; asked again and again, on a thread.
        debounce_ms: The longest time for which a burst of changes is gathered.
        stop: Ends it.
    """
    there = await asyncio.to_thread(_identity, places)
    while not stop.is_set():
        if there:
            try:
                async for _ in _watched(places, there, debounce_ms, stop):
                    yield
            except OSError:
                # The system watches no more folders, or something went while it began to: then
                # looking must do.
                await _while_there(places, there, stop)
                yield
        else:
            await _until(stop, LOOK_MS / 1000)
        # Looked at once: what went between two looks would be missed by both.
        before, there = there, await asyncio.to_thread(_identity, places)
        if there != before and not stop.is_set():
            yield


async def _watched(
    places: Callable[[], Sequence[Path]], there: Identity, debounce_ms: int, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Yield changes for as long as the places are `there`."""
    found = awatch(
        *(path for path, _, _ in there),
        debounce=debounce_ms,
        step=min(STEP_MS, debounce_ms),
        stop_event=stop,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    fresh = True
    try:
        async for changed in found:
            # What changed before the watch began has been seen by nobody.
            if changed or fresh:
                fresh = False
                yield
            if await asyncio.to_thread(_identity, places) != there:
                return
    except FileNotFoundError:
        # It went between the look and the watch; the next look will see it.
        return
    finally:
        await found.aclose()


async def _while_there(
    places: Callable[[], Sequence[Path]], there: Identity, stop: asyncio.Event
) -> None:
    """Wait `POLL_SECONDS`, or less where a place goes or another one comes."""
    waited = 0.0
    while waited < POLL_SECONDS and not stop.is_set():
        await _until(stop, LOOK_MS / 1000)
        waited += LOOK_MS / 1000
        if await asyncio.to_thread(_identity, places) != there:
            return


async def _until(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _identity(places: Callable[[], Sequence[Path]]) -> Identity:
    found = []
    for place in places():
        try:
            status = os.stat(place)
        except OSError:
            continue
        found.append((str(place), status.st_dev, status.st_ino))
    return tuple(found)
