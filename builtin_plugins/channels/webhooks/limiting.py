"""How many posts an address, and a channel, may send in a minute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

CAPACITY = 4096
"""Addresses that are remembered. Past it the one that was seen longest ago is forgotten."""


class Rates:
    """Buckets that fill up again over a minute, in bounded memory.

    Args:
        monotonic: Returns seconds that never go backwards.
        capacity: Buckets that are remembered.
    """

    def __init__(self, monotonic: Callable[[], float], *, capacity: int = CAPACITY) -> None:
        self._monotonic = monotonic
        self._capacity = capacity
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, per_minute: int) -> float:
        """Take one from a bucket; return 0, or the seconds until there is one again."""
        now = self._monotonic()
        left, at = self._buckets.pop(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken = left >= 1
        self._buckets[key] = (left - 1 if taken else left, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) * 60 / per_minute

    def __len__(self) -> int:
        return len(self._buckets)
