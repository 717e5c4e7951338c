"""The vectors of the latest queries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

V = TypeVar("V")

LONG = 512
"""Characters from which on a digest stands for a text, so that the cache stays small."""


def key_of(text: str) -> str | bytes:
    """Return what stands for `text` in the cache: itself, or a digest of 32 bytes."""
    if len(text) <= LONG:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class QueryCache(Generic[V]):
    """Keeps the values that were used last. Belongs to one thread.

    Args:
        size: The weight of all values together, at most.
        weight: What a value weighs; each weighs 1 without it.

    Attributes:
        hits: How many lookups found their value, or found it on its way.
        misses: How often the model was asked.
    """

    def __init__(self, size: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        self._size = size
        self._weight = weight
        self._weighs = 0
        self._values: OrderedDict[str | bytes, V] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str | bytes) -> V | None:
        """Return the value of `key` and count a hit; None where it is not there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            self.hits += 1
        return value

    def put(self, key: str | bytes, value: V) -> None:
        """Keep `value`; what was used longest ago makes room for it."""
        before = self._values.pop(key, None)
        self._weighs += self._weight(value) - (0 if before is None else self._weight(before))
        self._values[key] = value
        while self._weighs > self._size:
            _, oldest = self._values.popitem(last=False)
            self._weighs -= self._weight(oldest)
