"""Noticing when something below a folder changes, even where the folder itself comes and goes."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

from watchfiles import Change, watch

__all__ = ["changes"]

LOOK_MS = 750
"""So often, in milliseconds, the system is asked what has changed, and it is looked whether the
folders are still the ones watched. With `STEP_MS`, a change is told of within a second."""

ASK_SECONDS = 5.0
"""So often it is asked which folders these are."""

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
    heard = asyncio.Event()
    follower = _Watch(places, there, debounce_ms, asyncio.get_running_loop(), heard)
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda _: heard.set())
    follower.start()
    try:
        while not stop.is_set():
            await heard.wait()
            heard.clear()
            if follower.over:
                break
            if not stop.is_set():
                yield
    finally:
        stopping.cancel()
        follower.end()
        # It waits for nothing but a look at the folders.
        await asyncio.shield(asyncio.to_thread(follower.join))
    if follower.error is not None:
        raise follower.error


class _Watch(threading.Thread):
    """A thread that looks now and then for what the system has noticed.

    The event loop is woken by a change alone: it looks far more often than anything changes, and
    each of its rounds costs more than a look.

    Attributes:
        over: Whether it has ended by itself: the places are not those that it watches any more.
        error: Why it ended; None where that is all.
    """

    def __init__(
        self,
        places: Callable[[], Sequence[Path]],
        there: Identity,
        debounce_ms: int,
        loop: asyncio.AbstractEventLoop,
        heard: asyncio.Event,
    ) -> None:
        super().__init__(name="watch folders", daemon=True)
        self._places = places
        self._there = there
        self._debounce = debounce_ms / 1000
        self._loop = loop
        self._heard = heard
        self._ended = threading.Event()
        self.over = False
        self.error: Exception | None = None

    def end(self) -> None:
        """Have it end soon."""
        self._ended.set()

    def run(self) -> None:
        try:
            # What went between the look and the watch is seen by the next look.
            with suppress(FileNotFoundError):
                self._follow()
        except Exception as error:  # noqa: BLE001 - it is raised where changes are awaited
            self.error = error
        self.over = True
        self._tell()

    def _follow(self) -> None:
        # What it has noticed is asked for and not waited for, so that several folders, and the
        # gateway's other looks, wake the processor together.
        found = watch(
            *(path for path, _, _ in self._there),
            debounce=1,
            step=1,
            rust_timeout=1,
            stop_event=self._ended,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        with closing(found):
            next(found, None)
            # What changed before the watch began has been seen by nobody.
            self._tell()
            places: list[str] = []
            asked = -math.inf
            while not self._ended.wait(LOOK_MS / 1000):
                if next(found, None):
                    self._gather(found)
                    self._tell()
                if monotonic() - asked >= ASK_SECONDS:
                    places, asked = [str(place) for place in self._places()], monotonic()
                if _there(places) != self._there:
                    return

    def _gather(self, found: Iterator[set[tuple[Change, str]]]) -> None:
        """Wait until a burst of changes is over."""
        until = monotonic() + self._debounce
        while (left := until - monotonic()) > 0:
            if self._ended.wait(min(STEP_MS / 1000, left)) or not next(found, None):
                return

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._heard.set)


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
    return _there([str(place) for place in places()])


def _there(places: Sequence[str]) -> Identity:
    found = []
    for place in places:
        try:
            status = os.stat(place)
        except OSError:
            continue
        found.append((place, status.st_dev, status.st_ino))
    return tuple(found)
