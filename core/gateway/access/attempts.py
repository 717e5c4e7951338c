"""How many failed authentications an address may make.

Many come from one address behind a proxy or a NAT, so failures lock out what is not known, and
not those whose credential is: what was let in before is still looked at.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

WINDOW = 60.0
"""Seconds that a failure counts."""

CAPACITY = 4096
"""Addresses that are remembered. Past it the one that failed longest ago is forgotten. As many
credentials are."""


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
        self._trials: dict[str, _Trials] = {}
        self._let_in: OrderedDict[bytes, None] = OrderedDict()

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

    def let_in(self, credential: bytes) -> None:
        """Remember the digest of a credential that was right."""
        self._let_in[credential] = None
        self._let_in.move_to_end(credential)
        if len(self._let_in) > self._capacity:
            self._let_in.popitem(last=False)

    def forget(self, credential: bytes) -> None:
        """Forget the digest of a credential that is right no more."""
        self._let_in.pop(credential, None)

    def knows(self, credential: bytes) -> bool:
        """Whether the credential with this digest was right when it was last looked at."""
        return credential in self._let_in

    @asynccontextmanager
    async def trial(self, address: str) -> AsyncIterator[None]:
        """Wait until one more attempt may run, and run it; for attempts that take time.

        Never more run at once than may still fail, so that guesses which are made side by side
        are as few as those made one after the other. Right ones wait for each other at most.
        The caller looks at `wait` again within, and counts a failure before it leaves. Those
        that are known run one by one where nobody else may.
        """
        trials = self._trials.setdefault(address, _Trials())
        trials.known += 1
        try:
            while trials.running and trials.running >= self._room(address):
                await trials.free.wait()
            trials.running += 1
            try:
                yield
            finally:
                trials.running -= 1
                trials.mark()
        finally:
            trials.known -= 1
            if not trials.known:
                del self._trials[address]

    def _room(self, address: str) -> int:
        """Return how many attempts may still fail now."""
        since = self._monotonic() - WINDOW
        failures = self._failures.get(address, ())
        return self._limit - sum(moment > since for moment in failures)

    def __len__(self) -> int:
        return len(self._failures)


class _Trials:
    """The attempts of one address that run, and those that wait for them."""

    __slots__ = ("free", "known", "running")

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.known = 0
        self.running = 0

    def mark(self) -> None:
        """Have all that wait look again."""
        self.free.set()
        self.free = asyncio.Event()
