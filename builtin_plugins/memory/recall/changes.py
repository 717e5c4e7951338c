"""`Changes`: who changes memory's rows, so that what is known of them is asked for once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from hookgate import Store
from hookgate.builtin_plugins.memory.recall.index import Indexes

T = TypeVar("T")


class Moment(NamedTuple):
    """A time at which it is known who has changed memory's rows.

    Attributes:
        epoch: Changes where it is not known whose rows were changed.
        over: How many changes of this process are over.
    """

    epoch: int
    over: int


class Changes:
    """Counts the changes of memory's rows, each within the transaction that makes it.

    A transaction that was begun may be committed at any time, also where whoever waited for it
    has given up. So from the count on until a later one is known to be committed nothing that is
    known of the rows counts: the store's one writer takes one transaction after the other.

    Args:
        store: The store.
        indexes: What is known of scopes.
    """

    def __init__(self, store: Store, indexes: Indexes) -> None:
        self._store = store
        self._indexes = indexes
        self._begun = self._over = self._epoch = self._gone = 0
        self._outside: int | None = None

    def begin(self) -> int:
        """Count a change, within the transaction that makes it; return its number."""
        self._begun += 1
        return self._begun

    def takes_away(self) -> None:
        """Note, within its transaction, that a change which was counted forgets something."""
        self._gone = self._begun

    def forgotten(self) -> tuple[int, int] | None:
        """Return what stays the same as long as nobody has anything forgotten.

        Returns:
            None where that is not known: something is being forgotten, or others share the store.
        """
        outside = self._store.outside
        return None if outside is None or self._gone > self._over else (outside, self._gone)

    async def write(
        self,
        work: Callable[[Connection], T],
        scopes: Collection[str] | None = None,
        *,
        known: Callable[[T], Collection[str]] = lambda _: (),
    ) -> T:
        """Change rows in a write transaction; return once it is committed.

        Args:
            work: What changes them.
            scopes: Whose rows those are at most; None where that is not known.
            known: Takes what was changed into indexes, where nobody else has changed anything, and
                returns the scopes of which they know all by that.

        Raises:
            StoreError: The store did not take it; nothing was changed.
        """

        def counted(connection: Connection) -> tuple[int, T]:
            return self.begin(), work(connection)

        number, value = await self._store.write(counted)
        if scopes is None or number != self._over + 1:
            self._epoch += 1
        else:
            self._indexes.doubt(set(scopes).difference(known(value)))
        self._over = max(self._over, number)
        return value

    def moment(self) -> Moment | None:
        """Return since when nobody else has changed rows, as of the last commit of this process.

        Returns:
            None where that is not known: something is being changed, or others share the store.
        """
        outside = self._store.outside
        if outside is None or self._begun != self._over:
            return None
        if outside != self._outside:
            self._outside, self._epoch = outside, self._epoch + 1
        return Moment(self._epoch, self._over)
