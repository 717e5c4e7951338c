"""Places in a bounded queue, handed out in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque


class Room:
    """Places for those on the way; who finds none waits in line.

    This is `asyncio.Semaphore` for a path where each microsecond is one of every write:
    taking a free place awaits nothing, and a whole group gives its places back at once.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self._free > 0 and not self._line:
            self._free -= 1
            return True
        return False

    def force(self) -> None:
        """Take a place although none may be free: later ones wait for one more to be given back."""
        self._free -= 1

    async def wait(self) -> None:
        """Wait for a place and take it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._line.remove(place)
            else:
                # The place was handed over just before: the next in line gets it.
                self.give(1)
            raise

    def give(self, places: int) -> None:
        """Give places back."""
        self._free += places
        while self._free > 0 and self._line:
            place = self._line.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)
