"""A gateway's leases in the store: one write at a time, and who else is alive."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from hookgate import Clock, Store, StoreError, StoreUnavailableError, new_id
from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.builtin_plugins.metering.budgets.rows import Exchange, LeaseGrant, Plan, WaitingCall
from hookgate.builtin_plugins.metering.budgets.windows import Hold, LeasedWindow

FAULTS = (StoreError, SQLAlchemyError)
"""What is raised where the store does not work."""

ORDER = "metering"
"""See `hookgate.core.domain.ports.Store.write`."""

BEATS = 4
"""How often a gateway is heard of within a lease."""

MARGIN = 0.1
"""The share of a lease at its end in which nothing is reserved any more."""

AHEAD = 10.0
"""Seconds of what a gateway uses that it leases at once."""

SCARCE = 10.0
"""Seconds in which no more is leased than is needed, after somebody came short."""

CALLS_AT_ONCE = 500
"""So many calls are settled by one write at most."""

TRIES = 4
"""One that was committed unnoticed, one whose lease was lost, and once more."""


@dataclass(eq=False, slots=True)
class EndedCall:
    """A call that is over, and is not settled in the store.

    Attributes:
        call: Its id; "" where it is not open there.
        used: What it has used of each window since its lease.
    """

    call: str
    used: Sequence[tuple[LeasedWindow, int]]


@dataclass(eq=False, slots=True)
class Draft:
    """What one write is to do.

    Attributes:
        pairs: Windows, and what is meant to be done with them.
        asked: Calls that are to be let in.
        ended: Calls that are settled.
        holds: What calls of `asked` hold already, for as long as this may succeed.
    """

    pairs: list[tuple[LeasedWindow, Plan]] = field(default_factory=list)
    asked: list[WaitingCall] = field(default_factory=list)
    ended: list[EndedCall] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def undo(self) -> None:
        """Do as if it had never been drafted."""
        self.release()
        for window, plan in self.pairs:
            window.writes -= 1
            window.returning -= plan.give + plan.room
            window.free += plan.give + plan.room

    def release(self) -> None:
        """Let go of what calls hold already."""
        for hold in self.holds:
            hold.undo()
        self.holds.clear()


class Need(NamedTuple):
    """What calls need of a window that are decided together.

    Attributes:
        amount: How much.
        limit: How much the window has, as the newest of these calls knows.
        ask: Whether one of them may wait for others to give back.
    """

    amount: int = 0
    limit: int = -1
    ask: bool = False


def _planned(
    window: LeasedWindow, now: float, *, settle: int, need: Need | None, idle: bool
) -> Plan:
    """Return what is to be written of a window; what is part of it cannot be reserved meanwhile.

    Args:
        window: The window.
        now: Monotonic seconds.
        settle: What calls have used that are settled by this.
        need: What calls need that are decided; None where there are none.
        idle: Whether it is not likely to be used soon.
    """
    free = max(window.free, 0)
    scarce = now < window.scarce_until or window.answered < window.asked
    amount, limit, ask = need or Need()
    if need and limit < window.limit:
        give = free
    elif scarce or (idle and not need):
        give = max(free - amount, 0)
    else:
        give = 0
    room = free - give if need else 0
    covered = window.leased - window.held - window.returning - give
    window.returning += give + room
    window.free -= give + room
    burn = int(window.burned / max(now - window.since, 1.0) * AHEAD)
    return rows.Plan(
        key=window.key,
        lasting=window.lasting,
        leased=window.leased,
        settle=settle,
        cover=max(min(settle, covered), 0),
        give=give,
        room=room,
        spare=0 if need else free - give,
        limit=limit,
        burn=None if scarce else burn,
        ask=ask,
        answered=window.answered,
    )


@dataclass(eq=False)
class Lessee:
    """Who leases, and for how long.

    Attributes:
        store: The store, with the tables of `metering.tables`.
        clock: Says when a window was written, and measures leases.
        gateway: The gateway's name, for people.
        ttl: The seconds of a lease: a gateway that was not heard of for so long has stopped.
        idle: What was not used for so many seconds is given back.
        lost: Called with the rows of the ledger that were written for calls of gateways that have
            stopped.
    """

    store: Store
    clock: Clock
    _: KW_ONLY
    gateway: str
    ttl: float = 30.0
    idle: float = 10.0
    lost: Callable[[Sequence[Mapping[str, Any]]], None] = lambda _: None


@dataclass(eq=False, kw_only=True)
class Leasing(Lessee):
    """What a gateway has leased.

    A gateway is known by its beat, a number that it changes with each write. One whose beat has
    stayed the same for `ttl` seconds of another's own time has stopped: its open calls are charged,
    and the rest of what it had leased is free. It knows that itself, by its own time since its
    last write began, and reserves nothing any more a while before. No two clocks are compared.

    Attributes:
        windows: Return all windows of which something may be leased.
        until: Until when chunks can be used, in monotonic seconds.
        me: This run of the gateway.
        ended: Calls that can be settled, in the order in which they came to that.
        unrecorded: Calls, by id, that can be settled once their rows are in the ledger.
    """

    windows: Callable[[], Iterable[LeasedWindow]]

    def __post_init__(self) -> None:
        self.until = float("-inf")
        self.ended: deque[EndedCall] = deque()
        self.unrecorded: dict[str, EndedCall] = {}
        # Calls that are not let in, and may be open in the store all the same.
        self._stray: list[str] = []
        self._writing = asyncio.Lock()
        self._numbers = 0
        self._beat: int | None = None
        self._unknown: tuple[Exchange, Draft] | None = None
        # Of each other gateway: its beat, and for how many seconds it has certainly not changed.
        self._silences: dict[str, tuple[int, float]] = {}
        self._looked = self._beaten = float("-inf")
        self.me = self._name()

    def _name(self) -> str:
        return f"{self.gateway}/{new_id('run')}"

    # -- what is to be written ---------------------------------------------

    def draft(
        self,
        windows: Iterable[LeasedWindow],
        *,
        needs: Mapping[LeasedWindow, Need] | None = None,
        idle: bool = False,
    ) -> Draft:
        """Return what is to be written of windows; calls are settled in all their windows at once.

        Args:
            windows: Windows that are due.
            needs: What calls need that are decided now. With it, only calls are settled that have
                used one of these windows.
            idle: Whether none of the windows is likely to be used soon.
        """
        draft = Draft(ended=self._take_ended(needs))
        settle: dict[LeasedWindow, int] = {}
        for one in draft.ended:
            for window, used in one.used:
                settle[window] = settle.get(window, 0) + used
        now = self.clock.monotonic()
        for window in dict.fromkeys([*windows, *(needs or ()), *settle]):
            plan = _planned(
                window,
                now,
                settle=settle.get(window, 0),
                need=(needs or {}).get(window),
                idle=idle or now - window.active >= self.idle,
            )
            # What it leases comes to this window, also where no call waits for it by then.
            window.writes += 1
            draft.pairs.append((window, plan))
        return draft

    def _take_ended(self, windows: Collection[LeasedWindow] | None) -> list[EndedCall]:
        """Take calls that are settled next: all of them, or those that have used `windows`."""
        if windows is None:
            return [self.ended.popleft() for _ in range(min(len(self.ended), CALLS_AT_ONCE))]
        if not any(window.spent for window in windows):
            return []
        taken: list[EndedCall] = []
        left: deque[EndedCall] = deque()
        for one in self.ended:
            fits = len(taken) < CALLS_AT_ONCE and any(window in windows for window, _ in one.used)
            (taken if fits else left).append(one)
        self.ended = left
        return taken

    # -- writing -----------------------------------------------------------

    async def exchange(self, draft: Callable[[], Draft]) -> Exchange:
        """Write what `draft` returns once it is this write's turn, and say what became of it.

        Whoever may be cancelled meanwhile awaits it whole: what was written must be known.

        Raises:
            StoreUnavailableError: Nothing was written, as far as is known.
        """
        async with self._writing:
            for _ in range(TRIES):
                drafted = draft()
                began = self.clock.monotonic()
                one = self._next(drafted)
                try:
                    await self.store.write(one, order=ORDER)
                except Exception:
                    self._failed(one, drafted)
                    raise
                if one.state == "done":
                    self._stray.clear()
                    self._done(one, drafted, began)
                    return one
                self._undo(drafted)
                if one.state == "gone":
                    self._lost()
                elif self._unknown is not None:
                    self._done(*self._unknown, self._beaten)
        raise StoreUnavailableError(
            "nothing can be leased: others charge what this gateway has leased as soon as it has; "
            "see whether its process is stopped for long, again and again"
        )

    def _next(self, draft: Draft) -> Exchange:
        self._numbers += 1
        return rows.Exchange(
            me=self.me,
            expected=self._beat,
            beat=self._numbers,
            before=None if self._unknown is None else self._unknown[0].beat,
            plans=[plan for _, plan in draft.pairs],
            asked=draft.asked,
            closed=[*self._stray, *(ended.call for ended in draft.ended if ended.call)],
            at=int(self.clock.now().timestamp()),
        )

    def _undo(self, draft: Draft) -> None:
        draft.undo()
        self.ended.extendleft(reversed(draft.ended))

    def _failed(self, one: Exchange, draft: Draft) -> None:
        if one.state != "done":
            self._undo(draft)
            return
        # It may have been committed. Whoever it was to let in asks once more, or is refused.
        self._stray += (asked.call for asked in draft.asked if asked.call)
        draft.release()
        if one.expected is None:
            # Whether this run is known to others is not known: another one begins.
            self.me = self._name()
            self._undo(draft)
            return
        if self._unknown is not None:
            self._undo(self._unknown[1])
        self._unknown = (one, draft)

    def _done(self, one: Exchange, draft: Draft, began: float) -> None:
        if self._unknown is not None and self._unknown[0] is not one:
            self._undo(self._unknown[1])
        self._unknown = None
        self._beat = one.beat
        self._beaten = began
        # Nobody else charges anything where nobody else can be.
        shared = self.store.shared
        self.until = began + self.ttl * (1 - MARGIN) if shared else float("inf")
        for window, plan in draft.pairs:
            _apply(window, plan, one.grants[plan.key], self.clock.monotonic())

    def _lost(self) -> None:
        """Begin as another run: its calls are charged, and nothing is leased any more."""
        self.until = float("-inf")
        self._beat = None
        self._unknown = None
        self.me = self._name()
        self.ended.clear()
        self.unrecorded.clear()
        for window in self.windows():
            window.lose()

    @property
    def beat_due(self) -> bool:
        """Whether it is time to be heard of."""
        due = self._beaten + self.ttl / BEATS
        return self.store.shared and self.clock.monotonic() >= due

    # -- reading -----------------------------------------------------------

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read while nothing of this gateway's is on its way."""
        async with self._writing:
            return await self.store.read(work)

    # -- others ------------------------------------------------------------

    async def look(self, *, at_once: bool = False) -> None:
        """See who is alive, and charge the calls of those who are not.

        Args:
            at_once: Whether to look now; else this is done a few times within a lease.
        """
        now = self.clock.monotonic()
        if not at_once and now < self._looked + self.ttl / BEATS:
            return
        found = await self.store.read(rows.beats)
        # Of a long time between two looks a part counts: while nothing could be read, nobody may
        # have been able to write. And all that counts adds up, or who looks seldom, on a busy
        # machine, would never find that another has stopped.
        passed = min(now - self._looked, self.ttl / BEATS)
        # What is read may have been written while it was being read.
        self._looked = self.clock.monotonic()
        silences = self._silences
        self._silences = {}
        for gateway, beat in sorted(found.items()):
            if gateway == self.me:
                continue
            before, silent = silences.get(gateway, (None, 0.0))
            silent = silent + passed if beat == before else 0.0
            self._silences[gateway] = (beat, silent)
            if not self.store.shared or silent >= self.ttl:
                work = partial(rows.sweep, gateway=gateway, beat=beat)
                if lost := await self.store.write(work, order=ORDER):
                    self.lost(lost)
                del self._silences[gateway]


def _apply(window: LeasedWindow, plan: Plan, grant: LeaseGrant, now: float) -> None:
    window.writes -= 1
    window.leased += grant.amount - plan.cover - plan.give
    window.spent -= plan.settle
    window.returning -= plan.give + plan.room
    window.free = window.leased - window.held - window.spent - window.returning
    window.used, window.others = grant.used, grant.others
    if grant.asked > window.asked:
        window.scarce_until = now + SCARCE
    window.asked, window.answered, window.heard = grant.asked, grant.answered, grant.heard
    if plan.limit >= 0:
        window.limit = plan.limit
    if grant.amount:
        window.since, window.burned = now, 0
