"""Ending what a principal has under way when the principal expires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.core.domain.ports import Clock
    from hookgate.core.domain.turn import Principal

EXPIRED = "the token has expired"


class Expiry:
    """Calls a function when a principal expires; it may do so at once.

    Args:
        principal: The principal; nothing is done for one that never expires.
        clock: Says when that is. It is looked at again at least each `LOOK` seconds: it may be
            set, and a machine that sleeps stops no wall clock.
        end: Ends what it has under way; must not wait.
    """

    LOOK = 60.0

    def __init__(self, principal: Principal, clock: Clock, end: Callable[[], object]) -> None:
        self._expires = principal.expires
        self._clock = clock
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        if self._expires is not None:
            self._look()

    def _look(self) -> None:
        assert self._expires is not None, "only who expires is watched"
        left = (self._expires - self._clock.now()).total_seconds()
        if left <= 0:
            self._end()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(left, self.LOOK), self._look)

    def cancel(self) -> None:
        """Let it be; it is over."""
        if self._timer is not None:
            self._timer.cancel()
