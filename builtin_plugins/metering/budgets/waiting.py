"""Calls that wait for a lease: all of them are served by one write at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.metering.budgets.leasing import FAULTS, planned
from hookgate.builtin_plugins.metering.budgets.values import Hold, Short
from hookgate.builtin_plugins.metering.budgets.windows import LeasedWindow
from hookgate.core.domain.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hookgate.builtin_plugins.metering.budgets.leasing import Draft, Leasing
    from hookgate.builtin_plugins.metering.budgets.rows import Grant
    from hookgate.builtin_plugins.metering.budgets.values import Want
    from hookgate.builtin_plugins.metering.budgets.windows import Window
    from hookgate.core.domain.ports import Clock

__all__ = ["Waiting"]

TOGETHER = 256
"""So many calls are served by one write at most."""

PAUSE = 0.05
"""Seconds between two looks at what others have given back."""

ATTEMPTS = 2
"""A write can fail for what others had in its transaction; so it is tried once more."""

TOO_SLOW = (
    "nothing can be reserved: found that the store takes longer to write a lease than the lease "
    "lasts, expected a fraction of that; see what holds up the database or this machine"
)


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call that waits.

    Attributes:
        wants: What it needs.
        windows: The counters of that.
        deadline: Until when it waits for others, in monotonic seconds.
        future: Its hold, or why there is none.
        asked: For counters of which others were asked to give back: the number of the question.
        failed: How often the store failed it.
    """

    wants: Sequence[Want]
    windows: Sequence[Window]
    deadline: float
    future: asyncio.Future[Hold | Short]
    asked: dict[str, int] = field(default_factory=dict)
    failed: int = 0


class Waiting:
    """Calls that wait, in the order of their arrival.

    Args:
        leasing: Leases.
        clock: Measures how long a call waits.
        patience: How many seconds a call waits for other gateways to give back.
        reserve: Reserves from what is leased, if it fits.
        asked: Called when others were asked to give back.
    """

    def __init__(
        self,
        leasing: Leasing,
        clock: Clock,
        *,
        patience: float,
        reserve: Callable[[Sequence[Want]], Hold | None],
        asked: Callable[[], None],
    ) -> None:
        self._leasing = leasing
        self._clock = clock
        self._patience = patience
        self._reserve = reserve
        self._asked = asked
        self._waiters: list[_Waiter] = []
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()

    def add(self, wants: Sequence[Want], windows: Sequence[Window]) -> asyncio.Future[Hold | Short]:
        """Let a call wait; its future gets a hold, or why there is none."""
        future: asyncio.Future[Hold | Short] = asyncio.get_running_loop().create_future()
        deadline = self._clock.monotonic() + self._patience
        for window in windows:
            # Nobody lets go of it meanwhile.
            window.calls += 1
        future.add_done_callback(lambda _: _leave(windows))
        self._waiters.append(_Waiter(wants, windows, deadline, future))
        self._again.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve(), name="metering.leases")
        return future

    def look_again(self) -> None:
        """Look at once whether others have given back."""
        self._again.set()

    async def close(self) -> None:
        """Refuse all that wait."""
        error = StoreUnavailableError("nothing can be reserved: the gateway is stopping")
        for waiter in self._waiters:
            _fail(waiter, error)
        self._again.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        while True:
            self._waiters = [one for one in self._waiters if not one.future.done()]
            if not self._waiters:
                return
            self._again.clear()
            batch, later = self._waiters[:TOGETHER], self._waiters[TOGETHER:]
            try:
                grants = await self._leasing.exchange(lambda: self._draft(batch))  # noqa: B023
            except FAULTS as error:
                for waiter in batch:
                    waiter.failed += 1
                    if waiter.failed >= ATTEMPTS:
                        _fail(waiter, error)
                continue
            except Exception as error:
                # Nobody else would end their waiting.
                for waiter in self._waiters:
                    _fail(waiter, error)
                raise
            waits = self._answer(batch, grants)
            # What came meanwhile stands at the end of `self._waiters`; who waits on goes behind.
            arrived = self._waiters[len(batch) + len(later) :]
            self._waiters = [*later, *arrived, *batch]
            if waits and not later and not arrived:
                await self._pause()

    async def _pause(self) -> None:
        timer = asyncio.get_running_loop().call_later(PAUSE, self._again.set)
        await self._again.wait()
        timer.cancel()

    # -- one write ---------------------------------------------------------

    def _draft(self, batch: Sequence[_Waiter]) -> Draft:
        needs: dict[LeasedWindow, list[tuple[_Waiter, Want]]] = {}
        for waiter in batch:
            if waiter.future.done():
                continue
            for want, window in zip(waiter.wants, waiter.windows, strict=True):
                if isinstance(window, LeasedWindow):
                    needs.setdefault(window, []).append((waiter, want))
        now = self._clock.monotonic()
        return [
            (
                window,
                planned(
                    window,
                    now,
                    needs=[want.amount for _, want in pairs],
                    # Of two that disagree, the later one knows the newer settings.
                    limit=pairs[-1][1].limit,
                    certain=all(len(waiter.wants) == 1 for waiter, _ in pairs),
                    ask=any(want.key not in waiter.asked for waiter, want in pairs),
                ),
            )
            for window, pairs in needs.items()
        ]

    def _answer(self, batch: Sequence[_Waiter], grants: dict[str, Grant]) -> bool:
        """Tell those whose case is clear; return whether any waits for other gateways."""
        asked = {key for key, grant in grants.items() if grant.has_asked}
        waits = False
        for waiter in batch:
            if waiter.future.done():
                continue
            late = self._clock.monotonic() >= waiter.deadline
            outcome = self._outcome(waiter, grants, asked, late=late)
            if outcome is not None:
                waiter.future.set_result(outcome)
            elif late:
                _fail(waiter, StoreUnavailableError(TOO_SLOW))
            else:
                waits = True
        if asked:
            self._asked()
        return waits

    def _outcome(
        self, waiter: _Waiter, grants: dict[str, Grant], asked: set[str], *, late: bool
    ) -> Hold | Short | None:
        """Return what becomes of a call; None where it waits for other gateways.

        A call that is `late` waits for none: None says then that all that it needs was leased,
        and that the lease was over before this was known.
        """
        if (hold := self._reserve(waiter.wants)) is not None:
            return hold
        unfit: Short | None = None
        for want, window in zip(waiter.wants, waiter.windows, strict=True):
            if (short := window.short(want)) is not None:
                return short
            if not isinstance(window, LeasedWindow) or not want.amount:
                continue
            if want.key in asked:
                waiter.asked.setdefault(want.key, grants[want.key].asked)
            if want.amount <= window.free and want.limit >= window.limit:
                continue
            short = Short(want, window.used + window.spent, window.held + window.others)
            unfit = unfit or short
            heard = want.key in waiter.asked and window.heard >= waiter.asked[want.key]
            if heard and short.used + short.held + want.amount > want.limit:
                return short
        return unfit if late else None


def _leave(windows: Sequence[Window]) -> None:
    for window in windows:
        window.calls -= 1


def _fail(waiter: _Waiter, error: Exception) -> None:
    if not waiter.future.done():
        waiter.future.set_exception(error)
