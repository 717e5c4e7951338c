"""A gateway's leases in the store: one write at a time, and who else is alive."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from hookgate.builtin_plugins.metering.budgets import rows
from hookgate.core.domain.errors import StoreError, StoreUnavailableError
from hookgate.core.domain.messages import new_id
from hookgate.core.hooks.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from hookgate.builtin_plugins.metering.budgets.rows import Exchange, Grant, Plan
    from hookgate.builtin_plugins.metering.budgets.windows import LeasedWindow
    from hookgate.core.domain.ports import Clock, Store

__all__ = ["FAULTS", "Draft", "Leasing", "planned"]

Draft: TypeAlias = "Sequence[tuple[LeasedWindow, Plan]]"

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

TRIES = 4
"""One that was committed unnoticed, one whose lease was lost, and once more."""


def planned(
    window: LeasedWindow,
    now: float,
    *,
    needs: Sequence[int] = (),
    limit: int = 0,
    certain: bool = True,
    ask: bool = False,
    idle: bool = False,
) -> Plan:
    """Return what is to be written of a window; what it gives back cannot be reserved any more.

    Args:
        window: The window.
        now: Monotonic seconds.
        needs: The amounts of calls that wait.
        limit: How much the window has, as the newest of these calls knows.
        certain: Whether these calls need nothing of any other window.
        ask: Whether one of them may wait for others to give back.
        idle: Whether it is not likely to be used soon.
    """
    free = max(window.free, 0)
    scarce = now < window.scarce_until or window.answered < window.asked
    if needs and limit < window.limit:
        give = free
    elif scarce or idle:
        give = max(free - sum(needs), 0)
    else:
        give = 0
    covered = window.leased - window.held - window.returning - give
    window.returning += give
    window.free -= give
    burn = int(window.burned / max(now - window.since, 1.0) * AHEAD)
    return rows.Plan(
        key=window.key,
        lasting=window.lasting,
        leased=window.leased,
        settle=window.spent,
        cover=max(min(window.spent, covered), 0),
        give=give,
        room=free - give,
        needs=list(needs),
        certain=certain,
        limit=limit,
        burn=None if scarce else burn,
        ask=ask,
        answered=window.answered,
    )


class Leasing:
    """What a gateway has leased.

    A gateway is known by its beat, a number that it changes with each write. One whose beat has
    stayed the same for `ttl` seconds of another's own time has stopped: what it had leased is
    charged. It knows that itself, by its own time since its last write began, and reserves
    nothing any more a while before. No two clocks are compared.

    Args:
        store: The store, with the tables of `metering.tables`.
        clock: Says when a window was written, and measures leases.
        gateway: The gateway's name, for people.
        ttl: The seconds of a lease.
        windows: Return all windows of which something may be leased.

    Attributes:
        until: Until when chunks can be used, in monotonic seconds.
        me: This run of the gateway.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        gateway: str,
        ttl: float,
        windows: Callable[[], Iterable[LeasedWindow]],
    ) -> None:
        self.until = float("-inf")
        self.store = store
        self._clock = clock
        self._gateway = gateway
        self._ttl = ttl
        self._windows = windows
        self._writing = asyncio.Lock()
        self._numbers = 0
        self._beat: int | None = None
        self._unknown: tuple[Exchange, Draft] | None = None
        # Of each other gateway: its beat, and for how many seconds it has certainly not changed.
        self._silences: dict[str, tuple[int, float]] = {}
        self._looked = self._beaten = float("-inf")
        self.me = self._name()

    def _name(self) -> str:
        return f"{self._gateway}/{new_id('run')}"

    # -- writing -----------------------------------------------------------

    async def exchange(self, draft: Callable[[], Draft]) -> dict[str, Grant]:
        """Write what `draft` returns once it is this write's turn, and say what became of it.

        Raises:
            StoreUnavailableError: Nothing was written, as far as is known.
        """
        return await finish(self._exchange(draft))

    async def _exchange(self, draft: Callable[[], Draft]) -> dict[str, Grant]:
        async with self._writing:
            for _ in range(TRIES):
                pairs = draft()
                for window, _ in pairs:
                    # What it leases comes to this window, also where no call waits for it by then.
                    window.writes += 1
                began = self._clock.monotonic()
                one = self._next(pairs)
                try:
                    await self.store.write(one, order=ORDER)
                except Exception:
                    self._failed(one, pairs)
                    raise
                if one.state == "done":
                    self._done(one, pairs, began)
                    return one.grants
                _undo(pairs)
                if one.state == "gone":
                    self._lost()
                elif self._unknown is not None:
                    self._done(*self._unknown, self._beaten)
        raise StoreUnavailableError(
            "nothing can be leased: others charge what this gateway has leased as soon as it has; "
            "see whether its process is stopped for long, again and again"
        )

    def _next(self, pairs: Draft) -> Exchange:
        self._numbers += 1
        return rows.Exchange(
            me=self.me,
            expected=self._beat,
            beat=self._numbers,
            before=None if self._unknown is None else self._unknown[0].beat,
            plans=[plan for _, plan in pairs],
            at=int(self._clock.now().timestamp()),
        )

    def _failed(self, one: Exchange, pairs: Draft) -> None:
        if one.state != "done":
            _undo(pairs)
            return
        if one.expected is None:
            # Whether this run is known to others is not known: another one begins.
            self.me = self._name()
            _undo(pairs)
            return
        if self._unknown is not None:
            _undo(self._unknown[1])
        self._unknown = (one, pairs)

    def _done(self, one: Exchange, pairs: Draft, began: float) -> None:
        if self._unknown is not None and self._unknown[0] is not one:
            _undo(self._unknown[1])
        self._unknown = None
        self._beat = one.beat
        self._beaten = began
        # Nobody else charges anything where nobody else can be.
        shared = self.store.shared
        self.until = began + self._ttl * (1 - MARGIN) if shared else float("inf")
        for window, plan in pairs:
            _apply(window, plan, one.grants[plan.key], self._clock.monotonic())

    def _lost(self) -> None:
        """Begin as another run: all that was leased is charged."""
        self.until = float("-inf")
        self._beat = None
        self._unknown = None
        self.me = self._name()
        for window in self._windows():
            window.lose()

    @property
    def beat_due(self) -> bool:
        """Whether it is time to be heard of."""
        due = self._beaten + self._ttl / BEATS
        return self.store.shared and self._clock.monotonic() >= due

    async def leave(self) -> None:
        """Say that this run has ended, where it has given all back."""
        await self.store.write(partial(rows.leave, me=self.me), order=ORDER)

    # -- reading -----------------------------------------------------------

    async def questions(self) -> dict[str, int]:
        """Return of which windows this gateway was asked to give back."""
        return await self.store.read(partial(rows.questions, me=self.me))

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read while nothing of this gateway's is on its way."""
        async with self._writing:
            return await self.store.read(work)

    # -- others ------------------------------------------------------------

    async def look(self, *, at_once: bool = False) -> None:
        """See who is alive, and charge what those had leased who are not.

        Args:
            at_once: Whether to look now; else this is done a few times within a lease.
        """
        now = self._clock.monotonic()
        if not at_once and now < self._looked + self._ttl / BEATS:
            return
        found = await self.store.read(rows.beats)
        # Of a long time between two looks a part counts: while nothing could be read, nobody may
        # have been able to write. And all that counts adds up, or who looks seldom, on a busy
        # machine, would never find that another has stopped.
        passed = min(now - self._looked, self._ttl / BEATS)
        # What is read may have been written while it was being read.
        self._looked = self._clock.monotonic()
        silences = self._silences
        self._silences = {}
        for gateway, beat in sorted(found.items()):
            if gateway == self.me:
                continue
            before, silent = silences.get(gateway, (None, 0.0))
            silent = silent + passed if beat == before else 0.0
            self._silences[gateway] = (beat, silent)
            if not self.store.shared or silent >= self._ttl:
                work = partial(rows.sweep, gateway=gateway, beat=beat)
                await self.store.write(work, order=ORDER)
                del self._silences[gateway]


def _undo(pairs: Draft) -> None:
    for window, plan in pairs:
        window.writes -= 1
        window.returning -= plan.give
        window.free += plan.give


def _apply(window: LeasedWindow, plan: Plan, grant: Grant, now: float) -> None:
    window.writes -= 1
    window.leased += grant.amount - plan.cover - plan.give
    window.spent -= plan.settle
    window.returning -= plan.give
    window.free = window.leased - window.held - window.spent - window.returning
    window.used, window.others = grant.used, grant.others
    if grant.asked > window.asked:
        window.scarce_until = now + SCARCE
    window.asked, window.answered, window.heard = grant.asked, grant.answered, grant.heard
    window.written = now
    if plan.needs:
        window.limit = plan.limit
    if grant.amount:
        window.since, window.burned = now, 0
