"""How many failed authentications an address may make."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WINDOW", "Attempts"]

WINDOW = 60.0
"""Seconds that a failure counts."""

CAPACITY = 4096
"""Addresses that are remembered. Past it the one that failed longest ago is forgotten."""


class Attempts:
    """Counts failures per address over a sliding minute, in bounded memory.

    Args:
        limit: Failures of one address in `WINDOW` seconds.
        monotonic: Returns seconds that never go backwards.
        capacity: Addresses that are remembered.
    """

    def __init__(
        self, limit: int, monotonic: Callable[[], float], *, capacity: int = CAPACITY
    ) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._capacity = capacity
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until `address` may try again; 0 where it may now."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < self._limit:
            return 0.0
        return max(0.0, failures[0] + WINDOW - self._monotonic())

    def failed(self, address: str) -> None:
        """Count one failure of `address`."""
        failures = self._failures.get(address)
        if failures is None:
            failures = self._failures[address] = deque(maxlen=self._limit)
            if len(self._failures) > self._capacity:
                self._failures.popitem(last=False)
        failures.append(self._monotonic())
        self._failures.move_to_end(address)

    def __len__(self) -> int:
        return len(self._failures)
