"""What callers of budgets say and get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MOST = 2**62
"""No counter grows past this, so that two of them can be added up in a column of 64 bits."""


class Want(NamedTuple):
    """What a call needs of one counter.

    Attributes:
        key: The counter: ``NAME/SUBJECT/WINDOW``. One with ``/turn:`` in it is kept in memory.
        limit: How much it has, in units of its own.
        amount: The most that this call can take.
        lasting: Whether what was used stays used. Calls side by side do not last: the amount of
            one comes back when it is settled, and that of a gateway that was killed, too.
    """

    key: str
    limit: int
    amount: int
    lasting: bool = True


class CallRecord(NamedTuple):
    """What a crash must leave of a call.

    Attributes:
        call: Its id.
        row: Its row of the ledger as JSON, for the most that it can use.
    """

    call: str
    row: str


@dataclass(slots=True, eq=False)
class Hold:
    """What is reserved for one call; it is settled once.

    Attributes:
        parts: Each window, how much is reserved, and under which lease.
        call: The call's id, where it is open in the store; "" where it leaves no trace there.
        settled: Whether it is settled.
    """

    parts: list[tuple[Window, int, int]]
    call: str = ""
    settled: bool = False

    @property
    def stands(self) -> bool:
        """Whether it is still held: not given back, and of leases that others have not taken."""
        return not self.settled and all(epoch == window.epoch for window, _, epoch in self.parts)

    def undo(self) -> None:
        """Give back once what was just taken, where the lease still stands that it is of."""
        if self.settled:
            return
        self.settled = True
        for window, amount, epoch in self.parts:
            if epoch == window.epoch:
                window.undo(amount)


class Short(NamedTuple):
    """Why nothing was reserved.

    Attributes:
        want: What did not fit.
        used: What is used of its counter for good.
        held: What other calls hold of it, and what gateways that do not answer have leased.
    """

    want: Want
    used: int
    held: int


class CounterStanding(NamedTuple):
    """How a counter stands, over all gateways on the store.

    Attributes:
        settled: What calls have used.
        held: What calls that run at this gateway hold.
        leased: What gateways have leased and not used; `held` is part of it.
        lost: What calls could have used that a crash has cut off.
    """

    settled: int = 0
    held: int = 0
    leased: int = 0
    lost: int = 0


# -- Counters as one gateway has them in memory ----------------------------------


@dataclass(slots=True, eq=False)
class Counter:
    """A counter as this gateway knows it.

    Attributes:
        lasting: Whether what is settled stays used.
        active: When it was last used, in monotonic seconds.
        calls: How many calls have reserved of it, or wait to.
        held: What they hold.
        spent: What calls have used; of a leased one, since it was last written.
        used: What was used or lost, over all gateways, when it was last written.
        epoch: Counts the leases that were lost: a hold of an earlier one is charged already.
    """

    lasting: bool
    active: float = 0.0
    calls: int = 0
    held: int = 0
    spent: int = 0
    used: int = 0
    epoch: int = 0

    @property
    def known(self) -> int:
        """What is used or held, as far as memory knows."""
        return self.used + self.spent + self.held

    def short(self, want: Want) -> Short | None:
        """Say why `want` cannot fit, whatever other gateways give back; None where it may."""
        if want.amount and self.known + want.amount > want.limit:
            return Short(want, self.used + self.spent, self.held)
        return None


class LocalWindow(Counter):
    """A counter that is in memory alone."""

    __slots__ = ()

    def take(self, amount: int, limit: int, now: float) -> bool:
        """Reserve `amount`, if it fits."""
        if amount and self.known + amount > limit:
            return False
        self.held += amount
        self.calls += 1
        self.active = now
        return True

    def undo(self, amount: int) -> None:
        """Give back what was just taken."""
        self.calls -= 1
        self.held -= amount

    def release(self, amount: int, actual: int, epoch: int, now: float) -> None:
        """Settle what was reserved."""
        self.calls -= 1
        self.held -= amount
        if self.lasting:
            self.spent = min(self.spent + actual, MOST)
        self.active = now


@dataclass(slots=True, eq=False, kw_only=True)
class LeasedWindow(Counter):
    """A counter of which this gateway has leased a chunk.

    ``leased = held + free + spent + returning``, always; `free` is below 0 only where a call
    has used more than was reserved for it, until that is written.

    Attributes:
        key: The counter.
        limit: Under which limit the chunk was leased.
        leased: What this gateway's row says.
        writes: How many writes of it are under way, or may have been committed unnoticed.
        returning: What is being given back, or is kept for calls that are being decided.
        free: What can be reserved.
        others: What others had leased when it was last written.
        asked: How often gateways were asked to give back, as far as is known.
        answered: Up to which of these this gateway has.
        heard: Up to which of these all others had, when it was last written.
        scarce_until: Until when no more is leased than is needed, in monotonic seconds.
        burned: What calls have used since `since`.
        since: When it was last leased.
    """

    key: str
    since: float
    limit: int = 0
    leased: int = 0
    writes: int = 0
    returning: int = 0
    free: int = 0
    others: int = 0
    asked: int = 0
    answered: int = 0
    heard: int = 0
    scarce_until: float = float("-inf")
    burned: int = 0

    def take(self, amount: int, limit: int, now: float) -> bool:
        """Reserve `amount` of what is leased, if it fits."""
        # The second, where a call has used more than was held for it.
        if amount and (amount > self.free or self.known + amount > limit or limit < self.limit):
            return False
        self.hold(amount, now)
        return True

    def hold(self, amount: int, now: float) -> None:
        """Reserve `amount`: it is leased for that."""
        self.free -= amount
        self.held += amount
        self.calls += 1
        self.active = now

    def undo(self, amount: int) -> None:
        """Give back what was just taken."""
        self.calls -= 1
        self.held -= amount
        self.free += amount

    def release(self, amount: int, actual: int, epoch: int, now: float) -> int:
        """Settle what was reserved; return what of it is to be settled in the store."""
        self.calls -= 1
        if not self.lasting:
            actual = 0
        self.active = now
        if epoch != self.epoch:
            # The whole hold was charged with the lease that was lost.
            over = max(actual - amount, 0)
            self.spent += over
            self.free -= over
            return over
        self.held -= amount
        self.spent += actual
        self.burned += actual
        self.free += amount - actual
        return actual

    def lose(self) -> None:
        """Forget the chunk: others have charged its calls, and freed the rest."""
        self.epoch += 1
        self.leased = self.held = self.returning = self.writes = self.spent = self.free = 0

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.calls or self.leased or self.spent or self.returning or self.writes)


Window = LocalWindow | LeasedWindow
