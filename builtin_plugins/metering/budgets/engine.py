"""`Budgets`: what callers reserve from and settle with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import partial

from hookgate import Signals, StoreUnavailableError
from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.builtin_plugins.metering.budgets.leasing import (
    FAULTS,
    ORDER,
    Draft,
    EndedCall,
    Leasing,
    Lessee,
)
from hookgate.builtin_plugins.metering.budgets.waiting import Waiting, held_of
from hookgate.builtin_plugins.metering.budgets.windows import (
    MOST,
    CallRecord,
    CounterStanding,
    Hold,
    LeasedWindow,
    LocalWindow,
    Short,
    Want,
    Window,
)
from hookgate.builtin_plugins.metering.tables import OPEN
from hookgate.tasks import finish, stop

TURN = "/turn:"
"""A key with this in it is kept in memory: its window ends with a turn of this gateway."""

TOPIC = "metering.leases"
"""Gateways in one process tell each other by it that they ask for leases, or give some back."""

IDLE_POLL = 5.0
"""Seconds between two looks for gateways that have stopped, where nothing is leased here."""
SCAN = 1.0
"""Seconds between two looks at all windows."""

FLUSH = 2.0
"""Seconds after which what calls have used is settled in the store."""

WINDOWS_AT_ONCE = 500
"""So many windows are written by one write at most."""

PATIENCE = 3.5
"""Seconds; the hook that waits has five. Gateways look four times a second for what they are asked,
and later where their machine is busy: a call that did not wait for that is refused falsely."""

JUMP = 3600.0
"""A clock that has moved by so many seconds more than time has is not believed."""


@dataclass(eq=False)
class Budgets(Lessee):
    """Counters with limits, which gateways on one store share.

    A gateway leases a chunk of a counter in the store, and reserves from it in memory. What is
    leased is never more than there is; so nothing is used past a limit, except by a call that
    used more than was reserved for it. A call that leaves a `CallRecord` is open in the store
    before it is let in: a crash charges that, and frees the rest of the chunk.

    Attributes:
        signals: Tells other gateways in this process at once what they would see a moment later.
        patience: So many seconds a call waits at most until others have given back what they do
            not hold.
        poll: Seconds between two looks at what others ask for; None where `tick` is called.
        tell: Called with why what was used cannot be written, and with "" when it can again.
    """

    signals: Signals | None
    _: KW_ONLY
    patience: float = PATIENCE
    poll: float | None = 0.25
    tell: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._monotonic = self.clock.monotonic
        self._windows: dict[str, Window] = {}
        self._urgent: set[LeasedWindow] = set()
        self._leasing = Leasing(
            store=self.store,
            clock=self.clock,
            gateway=self.gateway,
            ttl=self.ttl,
            idle=self.idle,
            windows=lambda: list(self._leased()),
            lost=self.lost,
        )
        self._waiting = Waiting(
            leasing=self._leasing,
            clock=self.clock,
            patience=self.patience,
            reserve=self.try_reserve,
            asked=self._send,
            end=self._end,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._woken = asyncio.Event()
        self._scanned = self._settled = float("-inf")
        self._opened = (self.clock.now(), self._monotonic())
        self._problem = ""
        self._closed = False

    # -- life --------------------------------------------------------------

    async def open(self) -> None:
        """Begin; the calls of gateways that have stopped are charged.

        Raises:
            StoreUnavailableError: The store cannot be written.
        """
        await finish(self._leasing.exchange(Draft))
        await self._leasing.look(at_once=True)
        if self.poll is not None:
            self._tasks.append(asyncio.create_task(self._follow(), name="metering.budgets"))
            if self.signals is not None:
                self._tasks.append(asyncio.create_task(self._listen(), name="metering.signals"))

    async def close(self) -> None:
        """Write what was used, and give back all that no call holds."""
        self._closed = True
        await stop(*self._tasks)
        await self._waiting.close()
        try:
            left = [window for window in self._leased() if window.leased]
            while left or self._leasing.ended:
                some, left = left[:WINDOWS_AT_ONCE], left[WINDOWS_AT_ONCE:]
                draft = partial(self._leasing.draft, some, idle=True)
                await finish(self._leasing.exchange(draft))
            await self.store.write(partial(rows.leave, me=self._leasing.me), order=ORDER)
        except FAULTS as error:
            self.tell(f"what was used of budgets is settled when a gateway starts next: {error}")

    # -- calls -------------------------------------------------------------

    def try_reserve(self, wants: Sequence[Want]) -> Hold | None:
        """Reserve from what is in memory, all or nothing; None where `reserve` is to be asked."""
        now = self._monotonic()
        if now >= self._leasing.until:
            return None
        windows = self._windows
        parts: list[tuple[Window, int, int]] = []
        for key, limit, amount, _ in wants:
            window = windows.get(key)
            if window is None or not window.take(amount, limit, now):
                for taken, held, _ in parts:
                    taken.undo(held)
                return None
            parts.append((window, amount, window.epoch))
        return Hold(parts)

    async def reserve(
        self, wants: Sequence[Want], record: CallRecord | None = None
    ) -> Hold | Short:
        """Reserve, all or nothing, or say what does not fit.

        It does not fit where what is used and what running calls hold leave too little. What
        other gateways have leased and do not hold is asked back first, and waited for.

        Args:
            wants: What is needed.
            record: What a crash leaves of the call: committed before this returns a hold. None
                for what is never sent.

        Raises:
            ValueError: An amount or a limit is below 0 or past `MOST`, or a counter stands twice.
            StoreUnavailableError: Nothing can be leased, since the store does not work.
        """
        pairs = [(want, self._window(want)) for want in wants]
        if len({window for _, window in pairs}) < len(wants):
            raise ValueError(
                f"found {', '.join(want.key for want in wants)}, expected each counter once"
            )
        if record is None and (hold := self.try_reserve(wants)) is not None:
            return hold
        for want, window in pairs:
            if (short := window.short(want)) is not None:
                return short
        if self._closed:
            raise StoreUnavailableError("nothing can be reserved: the gateway is stopping")
        if record is not None and (hold := await self._opened_call(pairs, record)) is not None:
            return hold
        future = self._waiting.add(pairs, record)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                hold_or_short = future.result()
                if isinstance(hold_or_short, Hold):
                    self.settle(hold_or_short, [0] * len(wants))
            raise

    async def _opened_call(
        self, pairs: Sequence[tuple[Want, Window]], record: CallRecord
    ) -> Hold | None:
        """Open a call for which enough is leased, where nobody else can have charged the lease.

        Nothing is decided in the store, so its row is all that is written, with whatever is
        committed at that moment. None where it is to be decided.
        """
        hold = None if self.store.shared else self.try_reserve([want for want, _ in pairs])
        if hold is None:
            return None
        row = {"call": record.call, "gateway": self._leasing.me, "row": record.row}
        try:
            await self.store.insert(OPEN, ({**row, "held": held_of(pairs)},))
        except BaseException:
            hold.undo()
            # It is never sent, and may be open all the same.
            self._end(EndedCall(record.call, ()))
            raise
        hold.call = record.call
        return hold

    def settle(self, hold: Hold, amounts: Sequence[int], *, recorded: bool = True) -> None:
        """Charge what a call has used, and free the rest of what it held. Once counts.

        Args:
            hold: What was reserved.
            amounts: What was used of each want. More than was held is charged all the same; one
                below 0 is none, and what was held is charged.
            recorded: False for a call whose row is on its way to the ledger: it stays open until
                `recorded` is told of it.

        Raises:
            ValueError: There are not as many amounts as wants; nothing was settled.
        """
        if hold.settled:
            return
        if len(amounts) != len(hold.parts):
            raise ValueError(f"found {len(amounts)} amounts, expected {len(hold.parts)}")
        hold.settled = True
        now = self._monotonic()
        settled: list[tuple[LeasedWindow, int]] = []
        for (window, held, epoch), actual in zip(hold.parts, amounts, strict=True):
            used = held if actual < 0 else min(actual, MOST)
            if isinstance(window, LocalWindow):
                window.release(held, used, epoch, now)
            else:
                if more := window.release(held, used, epoch, now):
                    settled.append((window, more))
                self._hurry(window, now)
        if not (hold.call or settled):
            return
        ended = EndedCall(hold.call, settled)
        if recorded:
            self._end(ended)
        else:
            self._leasing.unrecorded[hold.call] = ended

    def recorded(self, calls: Iterable[str]) -> None:
        """Note that the rows of some calls are in the ledger: they can be settled in the store."""
        now, unrecorded = self._monotonic(), self._leasing.unrecorded
        for call in calls:
            if (ended := unrecorded.pop(call, None)) is not None:
                self._end(ended)
                for window, _ in ended.used:
                    self._hurry(window, now)

    def _end(self, ended: EndedCall) -> None:
        if not self._leasing.ended:
            self._woken.set()
        self._leasing.ended.append(ended)

    def _hurry(self, window: LeasedWindow, now: float) -> None:
        """Write a window at once where others wait for it."""
        if _moves(window, now):
            self._urgent.add(window)
            self._woken.set()

    def used(self, key: str) -> int:
        """Return what is used and held of a counter, as far as this gateway knows."""
        window = self._windows.get(key)
        return 0 if window is None else window.known

    def drop(self, keys: Iterable[str]) -> None:
        """Forget counters that are in memory alone, such as those of a turn that has ended."""
        for key in keys:
            if isinstance(self._windows.get(key), LocalWindow):
                del self._windows[key]

    def _window(self, want: Want) -> Window:
        if not (0 <= want.amount <= MOST and 0 <= want.limit <= MOST):
            raise ValueError(
                f"found the amount {want.amount} and the limit {want.limit} of {want.key!r}, "
                f"expected numbers from 0 to {MOST}"
            )
        window = self._windows.get(want.key)
        if window is None:
            if TURN in want.key:
                window = LocalWindow(lasting=want.lasting)
            else:
                now = self._monotonic()
                window = LeasedWindow(key=want.key, lasting=want.lasting, active=now, since=now)
                self._woken.set()
            self._windows[want.key] = window
        return window

    # -- operators ---------------------------------------------------------

    async def standing(self, keys: Sequence[str]) -> Mapping[str, CounterStanding]:
        """Return how counters stand, over all gateways; one that nobody has used is all 0."""
        found = await self._leasing.read(partial(rows.standings, keys=list(keys)))
        return {key: self._with_own(key, found.get(key, CounterStanding())) for key in keys}

    async def standings(self, windows: Collection[str]) -> Mapping[str, CounterStanding]:
        """Return how all counters of some windows stand, such as ``day:2026-11-22``.

        At most 10,000 of them: those that stand first in the store.
        """
        ends = tuple(f"/{window}" for window in windows)
        keys = {key for key in self._windows if key.endswith(ends)}
        keys.update(await self._leasing.read(partial(rows.keys_of, ends=ends)))
        return await self.standing(sorted(keys))

    def _with_own(self, key: str, stored: CounterStanding) -> CounterStanding:
        window = self._windows.get(key)
        if window is None:
            return stored
        if isinstance(window, LocalWindow):
            return CounterStanding(settled=window.spent, held=window.held, leased=window.held)
        return CounterStanding(
            settled=stored.settled + window.spent,
            held=window.held,
            leased=max(stored.leased - window.spent, window.held),
            lost=stored.lost,
        )

    async def forget(self, before: datetime, *, kind: str = "") -> int:
        """Delete some counters that nobody has used since `before`.

        Args:
            before: The time; all windows that may still be used are younger.
            kind: How the windows begin that are meant, such as ``minute:``; "" for all.

        Returns:
            How many were deleted in the store; there are no more of them where it is 0. A clock
            that has jumped forgets nothing, until the gateway starts again.
        """
        now, ticks = self.clock.now(), self._monotonic()
        passed = (now - self._opened[0]).total_seconds()
        if abs(passed - (ticks - self._opened[1])) > JUMP:
            return 0
        work = partial(rows.forget, before=int(before.timestamp()), kind=kind)
        return await self.store.write(work, order=ORDER)

    # -- in the background -------------------------------------------------

    async def tick(self) -> None:
        """Write what is due, answer other gateways, and see which have stopped."""
        leasing = self._leasing
        now = self._monotonic()
        due = self._scan(now)
        problem = ""
        try:
            if self.store.shared:
                await self._hear(leasing, due)
            late = bool(leasing.ended) and now - self._settled >= FLUSH
            if due or late or leasing.beat_due:
                await self._write(leasing, list(due)[:WINDOWS_AT_ONCE])
            if self.store.shared:
                await leasing.look()
                # Whoever has given back may have done so for a call that waits here.
                self._waiting.look_again()
        except FAULTS as error:
            problem = f"what is used of budgets cannot be written: {error}"
        if problem != self._problem:
            self._problem = problem
            self.tell(problem)

    async def _write(self, leasing: Leasing, windows: Sequence[LeasedWindow]) -> None:
        # What is settled meanwhile is due again.
        self._urgent.difference_update(windows)
        self._settled = self._monotonic()
        try:
            await finish(leasing.exchange(partial(leasing.draft, windows)))
        except BaseException:
            self._urgent.update(windows)
            raise
        if any(window.asked for window in windows):
            self._send()

    async def _hear(self, leasing: Leasing, due: set[LeasedWindow]) -> None:
        if not any(window.leased for window in self._leased()):
            return
        for key, asked in (await self.store.read(partial(rows.questions, me=leasing.me))).items():
            window = self._windows.get(key)
            if isinstance(window, LeasedWindow):
                window.asked = max(window.asked, asked)
                due.add(window)

    def _scan(self, now: float) -> set[LeasedWindow]:
        """Return the windows that are to be written, and let go of those that nobody needs."""
        due = {window for window in self._urgent if _moves(window, now)}
        self._urgent = set(due)
        if now - self._scanned < SCAN:
            return due
        self._scanned = now
        for window in list(self._leased()):
            idle = now - window.active >= self.idle
            if window.empty and idle:
                del self._windows[window.key]
                continue
            if (idle and window.free) or _moves(window, now):
                due.add(window)
        return due

    def _leased(self) -> Iterator[LeasedWindow]:
        return (one for one in self._windows.values() if isinstance(one, LeasedWindow))

    def _send(self) -> None:
        """Tell gateways in this process that there is something to look at."""
        if self.signals is not None:
            told = self.signals.send(TOPIC, {"by": self._leasing.me})
            task = asyncio.create_task(told, name="metering.signal")
            self._tasks = [one for one in self._tasks if not one.done()]
            self._tasks.append(task)

    async def _listen(self) -> None:
        assert self.signals is not None
        async with self.signals.listen(TOPIC) as told:
            async for data in told:
                if data.get("by") != self._leasing.me:
                    self._woken.set()

    async def _follow(self) -> None:
        assert self.poll is not None
        loop = asyncio.get_running_loop()
        while True:
            # Where nothing is leased nobody asks for anything, and there is nothing to be written.
            busy = self._leasing.ended or any(self._leased())
            timer = None
            if busy or self.store.shared:
                timer = loop.call_later(self.poll if busy else IDLE_POLL, self._woken.set)
            await self._woken.wait()
            if timer is not None:
                timer.cancel()
            self._woken.clear()
            await self.tick()


def _moves(window: LeasedWindow, now: float) -> bool:
    """Whether others should see at once what has become of a window."""
    if window.free < 0 or window.answered < window.asked:
        return True
    return now < window.scarce_until and bool(window.free or window.spent)
