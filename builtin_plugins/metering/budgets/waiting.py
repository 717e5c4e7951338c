"""Calls that wait to be let in: all of them are decided by one write at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hookgate import Clock, StoreUnavailableError
from hookgate.builtin_plugins.metering.budgets.leasing import (
    FAULTS,
    Draft,
    EndedCall,
    Leasing,
    Need,
)
from hookgate.builtin_plugins.metering.budgets.rows import LeaseGrant, WaitingCall
from hookgate.builtin_plugins.metering.budgets.windows import (
    CallRecord,
    Hold,
    LeasedWindow,
    LocalWindow,
    Short,
    Want,
    Window,
)

TOGETHER = 256
"""So many calls are decided by one write at most."""

PAUSE = 0.05
"""Seconds between two looks at what others have given back."""

ATTEMPTS = 2
"""A write can fail for what others had in its transaction; so it is tried once more."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call that waits.

    Attributes:
        pairs: What it needs, and the counters of that.
        record: What a crash leaves of it.
        deadline: Until when it waits for others, in monotonic seconds.
        future: Its hold, or why there is none.
        asked: For counters of which others were asked to give back: the number of the question.
        failed: How often the store failed it.
        hold: What it holds while it is decided: all that it needs, or what memory alone decides.
    """

    pairs: Sequence[tuple[Want, Window]]
    record: CallRecord | None
    deadline: float
    future: asyncio.Future[Hold | Short]
    asked: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    hold: Hold | None = None

    @property
    def call(self) -> str:
        """Its id; "" where it leaves no trace in the store."""
        return "" if self.record is None else self.record.call

    def needs(self) -> Mapping[str, int]:
        """Return what it needs of counters that it holds nothing of, while it is decided."""
        held = set() if self.hold is None else {window for window, _, _ in self.hold.parts}
        return {want.key: want.amount for want, window in self.pairs if window not in held}

    def to_row(self) -> WaitingCall:
        """Return it as the store decides it."""
        needs = self.needs()
        if self.record is None:
            return WaitingCall(needs)
        return WaitingCall(needs, self.record.call, held_of(self.pairs), self.record.row)


@dataclass(eq=False, kw_only=True)
class Waiting:
    """Calls that wait, in the order of their arrival.

    Attributes:
        leasing: Writes what is decided.
        clock: Measures how long a call waits.
        patience: How many seconds a call waits for other gateways to give back.
        reserve: Reserves from what is leased, if it fits.
        asked: Called when others were asked to give back.
        end: Settles a call that is over.
    """

    leasing: Leasing
    clock: Clock
    patience: float
    reserve: Callable[[Sequence[Want]], Hold | None]
    asked: Callable[[], None]
    end: Callable[[EndedCall], None]

    def __post_init__(self) -> None:
        self._waiters: list[_Waiter] = []
        # Those of the write that is under way, in the order in which it decides them.
        self._decided: list[_Waiter] = []
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()

    def add(
        self, pairs: Sequence[tuple[Want, Window]], record: CallRecord | None
    ) -> asyncio.Future[Hold | Short]:
        """Let a call wait; its future gets a hold, or why there is none."""
        future: asyncio.Future[Hold | Short] = asyncio.get_running_loop().create_future()
        deadline = self.clock.monotonic() + self.patience
        waiter = _Waiter(pairs, record, deadline, future)
        # At once: whoever looks meanwhile how much is left is told what this call leaves.
        waiter.hold = self.reserve([want for want, _ in pairs])
        for _, window in pairs:
            # Nobody lets go of it meanwhile.
            window.calls += 1
        future.add_done_callback(lambda _: _leave(waiter))
        self._waiters.append(waiter)
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
                one = await self.leasing.exchange(lambda: self._draft(batch))  # noqa: B023
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
            waits = self._answer(one.grants, one.admitted)
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
        self._decided = [waiter for waiter in batch if not waiter.future.done()]
        needs: dict[LeasedWindow, Need] = {}
        for waiter in self._decided:
            if waiter.hold is None or not waiter.hold.stands:
                waiter.hold = self.reserve([want for want, _ in waiter.pairs])
            if waiter.hold is not None:
                continue
            waiter.hold = Hold([])
            now = self.clock.monotonic()
            for want, window in waiter.pairs:
                if isinstance(window, LeasedWindow):
                    more, _, ask = needs.get(window, Need())
                    # Of two that disagree, the later one knows the newer settings.
                    ask = ask or want.key not in waiter.asked
                    needs[window] = Need(more + want.amount, want.limit, ask)
                elif window.take(want.amount, want.limit, now):
                    waiter.hold.parts.append((window, want.amount, 0))
        # What is decided is not part of the free rest of a window: `needs` come behind all holds.
        draft = self.leasing.draft((), needs=needs)
        draft.asked = [waiter.to_row() for waiter in self._decided]
        draft.holds = [waiter.hold for waiter in self._decided if waiter.hold is not None]
        return draft

    def _answer(self, grants: Mapping[str, LeaseGrant], admitted: Sequence[bool]) -> bool:
        """Tell those whose case is clear; return whether any waits for other gateways."""
        decided = list(zip(self._decided, admitted, strict=True))
        for waiter, let_in in decided:
            if let_in:
                self._let_in(waiter)
            elif waiter.hold is not None:
                waiter.hold.undo()
        asked = {key for key, grant in grants.items() if grant.has_asked}
        waits = False
        for waiter, let_in in decided:
            if let_in or waiter.future.done():
                continue
            short = self._short(waiter, grants, asked)
            if short is not None:
                waiter.future.set_result(short)
            else:
                waits = True
        if asked:
            self.asked()
        return waits

    def _let_in(self, waiter: _Waiter) -> None:
        """Hold what a call needs: it is leased, and the call is open in the store."""
        assert waiter.hold is not None
        if waiter.future.done():
            # It has left meanwhile: nothing is sent.
            waiter.hold.undo()
            if waiter.call:
                self.end(EndedCall(waiter.call, ()))
            return
        now = self.clock.monotonic()
        known = {window: part for part in waiter.hold.parts for window in part[:1]}
        parts = []
        for want, window in waiter.pairs:
            if window not in known and isinstance(window, LeasedWindow):
                window.hold(want.amount, now)
            parts.append(known.get(window, (window, want.amount, window.epoch)))
        waiter.future.set_result(Hold(parts, waiter.call))

    def _short(
        self, waiter: _Waiter, grants: Mapping[str, LeaseGrant], asked: set[str]
    ) -> Short | None:
        """Return why a call does not fit; None where it is to be decided once more."""
        late = self.clock.monotonic() >= waiter.deadline
        for want, window in waiter.pairs:
            if (short := window.short(want)) is not None:
                return short
            if isinstance(window, LocalWindow) or not want.amount:
                continue
            if want.key in asked:
                waiter.asked.setdefault(want.key, grants[want.key].asked)
            short = Short(want, window.used + window.spent, window.held + window.others)
            heard = want.key in waiter.asked and window.heard >= waiter.asked[want.key]
            if (late or heard) and short.used + short.held + want.amount > want.limit:
                return short
        return None


def held_of(pairs: Sequence[tuple[Want, Window]]) -> str:
    """Return what a call holds of windows that last, in JSON."""
    held = {
        want.key: want.amount
        for want, window in pairs
        if want.lasting and want.amount and isinstance(window, LeasedWindow)
    }
    return json.dumps(held) if held else "{}"


def _leave(waiter: _Waiter) -> None:
    for _, window in waiter.pairs:
        window.calls -= 1
    failed = waiter.future.cancelled() or waiter.future.exception() is not None
    if failed and waiter.hold is not None:
        # Nobody is to come short of what a call holds that has left while it was decided.
        waiter.hold.undo()


def _fail(waiter: _Waiter, error: Exception) -> None:
    if not waiter.future.done():
        waiter.future.set_exception(error)
