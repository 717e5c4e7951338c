"""What callers of budgets say and get."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.budgets.windows import Window

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


class Record(NamedTuple):
    """What a crash must leave of a call.

    Attributes:
        call: Its id.
        row: Its row of the ledger as JSON, for the most that it can use.
    """

    call: str
    row: str


class Hold:
    """What is reserved for one call; it is settled once.

    Attributes:
        parts: Each window, how much is reserved, and under which lease.
        call: The call's id, where it is open in the store; "" where it leaves no trace there.
        settled: Whether it is settled.
    """

    __slots__ = ("call", "parts", "settled")

    def __init__(self, parts: list[tuple[Window, int, int]], call: str = "") -> None:
        self.parts = parts
        self.call = call
        self.settled = False

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

    @property
    def limit(self) -> int:
        """How much the counter has."""
        return self.want.limit


class Standing(NamedTuple):
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
