"""Scanning folders for manifests and skills, and noticing when they change."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchfiles import awatch

from hookgate.builtin_plugins.discovery.folders import Walk
from hookgate.builtin_plugins.discovery.manifests import MANIFEST, read_manifest
from hookgate.builtin_plugins.discovery.problems import Problem
from hookgate.builtin_plugins.discovery.skills import read_skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from hookgate.builtin_plugins.discovery.folders import Root
    from hookgate.builtin_plugins.discovery.manifests import Declared

__all__ = ["Scan", "changes", "scan"]

LOOK_MS = 1000
"""So often, in milliseconds, it is looked whether the folders are still the ones watched."""

POLL_SECONDS = 5.0
"""So often the folders are read again where the system cannot watch them."""

STEP_MS = 50
"""A burst of changes is over when nothing more came for so long."""

Identity = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the folders hold. Two scans are equal where nothing has changed.

    Attributes:
        declared: The capabilities, each id once, in the order of folders and names.
        problems: What is wrong, and which files were left out for an earlier one.
    """

    declared: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()


def scan(roots: Sequence[Root]) -> Scan:
    """Read every manifest and skill below `roots`. It blocks, and never raises."""
    first: dict[str, Declared] = {}
    problems: list[Problem] = []
    for root in roots:
        walk = Walk(root)
        for path in walk.files():
            reading = read_manifest(path) if path.name == MANIFEST else read_skill(path)
            problems += reading.problems
            for declared in reading.declared:
                winner = first.setdefault(declared.row.id, declared)
                if winner is not declared:
                    problems.append(_left_out(declared, winner))
        problems += walk.problems
    return Scan(declared=tuple(first.values()), problems=tuple(problems))


def _left_out(loser: Declared, winner: Declared) -> Problem:
    return Problem(
        file=str(loser.path),
        line=loser.line,
        found=f"the id {loser.row.id!r}, which {winner.path} has already",
        expected="another id; this file is left out",
        severity="warning",
    )


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
    while not stop.is_set():
        there = await asyncio.to_thread(_identity, places())
        if there:
            try:
                async for _ in _watched(places, there, debounce_ms, stop):
                    yield
            except OSError:
                # The system watches no more folders: then looking must do.
                await _until(stop, POLL_SECONDS)
                yield
        else:
            await _until(stop, LOOK_MS / 1000)
        if not stop.is_set() and await asyncio.to_thread(_identity, places()) != there:
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
            if await asyncio.to_thread(_identity, places()) != there:
                return
    except FileNotFoundError:
        # It went between the look and the watch; the next look will see it.
        return
    finally:
        await found.aclose()


async def _until(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _identity(places: Sequence[Path]) -> Identity:
    found = []
    for place in places:
        try:
            status = os.stat(place)
        except OSError:
            continue
        found.append((str(place), status.st_dev, status.st_ino))
    return tuple(found)
