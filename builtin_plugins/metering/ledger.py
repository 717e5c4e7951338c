"""The ledger: a row for each model call, on its way to where it is kept.

Nobody waits for a row. The store commits in the order in which it is handed things, and a row is
handed to it before the call's turn goes on, so the answer of a turn is not acknowledged before
the rows of its calls are committed. A turn without an answer commits nothing behind its calls, so
its end waits for their rows (`Ledger.committed`).

A row that could not be written is kept and tried again, with its id and its number, until it is
written; meanwhile the ledger is `Ledger.behind`, and no model is asked. A row may turn out to
have been committed although the store had said otherwise: its id is the primary key, and it is
counted as written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from hookgate import Store, StoreError, StoreUnavailableError, counted, new_id
from hookgate.builtin_plugins.metering.calls import LedgerRow, sound
from hookgate.builtin_plugins.metering.tables.ledger import CALLS, MARKS, trimmed, turns_of, written
from hookgate.kit.records import MemoryStore

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
"""Seconds until a row that could not be written is tried again."""
AT_ONCE = 500
"""So many rows are tried again in one transaction."""
MOST_REFUSED = 10_000
"""Rows of refused calls are dropped while so many rows wait: nothing was used, and a client that
asks on and on while the store is away must not fill the memory."""

CALLS_OF_SESSION = 2000
"""So many of a session's last calls say what its turns use."""

Row = dict[str, Any]


@dataclass(eq=False)
class Ledger:
    """Writes calls down. It belongs to the event loop on which it is used.

    Attributes:
        store: Where rows are kept.
        writer: Names this start of the gateway in the rows, and no other one.
        failed: Told each time that a row could not be written.
        worked: Told when all such rows are written.
        wrote: Told of the ids of calls whose rows are committed.
        dropped: How many rows of refused calls were dropped.
    """

    store: Store
    _: KW_ONLY
    writer: str = field(default_factory=lambda: new_id("gateway"))
    failed: Callable[[BaseException], None] = lambda _: None
    worked: Callable[[], None] = lambda: None
    wrote: Callable[[Iterable[str]], None] = lambda _: None
    dropped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._seq = 0
        self._marked = False
        # Numbers of rows that another has written: rows behind one that lacks are in no sum.
        self._unused: deque[int] = deque()
        self._under_way: dict[asyncio.Future[Any], list[Row]] = {}
        self._waiting: list[Row] = []
        self._again: asyncio.Task[None] | None = None
        self._trying = asyncio.Lock()

    @property
    def behind(self) -> bool:
        """Whether a row could not be written so far."""
        return bool(self._waiting)

    @property
    def waiting(self) -> int:
        """How many rows could not be written so far."""
        return len(self._waiting)

    def hand_over(self, call: LedgerRow) -> None:
        """Write `call` without waiting for it: with the next commit that anybody waits for."""
        if self._waiting:
            self._go_on()  # it does already, unless somebody has cancelled it
            if not call.sent and len(self._waiting) >= MOST_REFUSED:
                self.dropped += 1
                return
        row = call.to_row()
        row["writer"] = self.writer
        if self._unused:
            row["seq"] = self._unused.popleft()
        else:
            self._seq += 1
            row["seq"] = self._seq
        committed: asyncio.Future[Any]
        if not self._marked:
            # Reports look at the rows of writers that have a mark: none is there without it.
            self._marked = True
            mark = {"writer": self.writer, "seq": 0}
            marked = self.store.insert_soon(MARKS, (mark,))
            committed = asyncio.gather(marked, self.store.insert_soon(CALLS, (row,)))
        else:
            committed = self.store.insert_soon(CALLS, (row,))
        rows = self._under_way.get(committed)
        if rows is None:
            rows = self._under_way[committed] = []
            committed.add_done_callback(self._reap)
        rows.append(row)

    def _reap(self, committed: asyncio.Future[Any]) -> None:
        rows = self._under_way.pop(committed)
        if committed.cancelled():
            self._keep(rows, asyncio.CancelledError("writing the ledger was cancelled"))
        elif (error := committed.exception()) is not None:
            self._keep(rows, error)
        else:
            self.wrote([row["id"] for row in rows])

    def _keep(self, rows: Sequence[Row], error: BaseException) -> None:
        """Keep `rows` until they are written."""
        self._waiting += rows
        self.failed(error)
        self._go_on()

    def _go_on(self) -> asyncio.Task[None]:
        if self._again is None or self._again.done():
            self._again = asyncio.create_task(self._try_on(), name="rows of the ledger, again")
        return self._again

    async def _try_on(self) -> None:
        delay = FIRST_DELAY
        while self._waiting:
            await asyncio.sleep(delay)
            delay = FIRST_DELAY if await self._try_again() else min(2 * delay, LONGEST_DELAY)

    async def _try_again(self) -> bool:
        """Write what waits; return whether all of it is written."""
        async with self._trying:
            refused: list[Row] = []
            while self._waiting and not refused:
                rows = self._waiting[:AT_ONCE]
                try:
                    refused = await self._insist(rows)
                except StoreError as error:
                    self.failed(error)
                    return False
                # What came meanwhile stands behind these.
                self._waiting[: len(rows)] = refused
                if not self._waiting:
                    self.worked()
        return not self._waiting

    async def _insist(self, rows: list[Row]) -> list[Row]:
        """Write `rows`; return those that no database takes, which must not hold up the others.

        Raises:
            StoreUnavailableError: The store takes nothing.
        """
        try:
            swept = await self.store.write(written(self.writer, rows))
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - told, and tried again
            if len(rows) == 1:
                self.failed(error)
                return rows
            return [bad for row in rows for bad in await self._insist([row])]
        self._unused += (row["seq"] for row in rows if row["id"] in swept)
        self.wrote([row["id"] for row in rows])
        return []

    async def committed(self, turn: str) -> None:
        """Return once the rows of a turn are written, or could not be; mostly that is at once."""
        rows = [
            future
            for future, rows in self._under_way.items()
            if any(row["turn"] == turn for row in rows)
        ]
        if rows:
            # They were to go with another write; of a turn that keeps nothing there is none.
            with suppress(StoreError):
                await self.store.write(_nothing)
            await asyncio.wait(rows)

    async def turns(self, session: str, since: datetime) -> Sequence[tuple[str, datetime, int]]:
        """Return what the last turns of a session have used: id, end and tokens, oldest first.

        Raises:
            StoreError: The ledger cannot be read.
        """
        start = since.astimezone(UTC).isoformat(timespec="microseconds")
        read = turns_of(sound(session), start, CALLS_OF_SESSION)
        rows = await self.store.read(read)
        return [(turn, datetime.fromisoformat(at), int(tokens)) for turn, at, tokens in rows]

    async def trim(self) -> None:
        """Keep the last calls alone, where all of it ends with the process."""
        if isinstance(self.store, MemoryStore):
            await self.store.write(trimmed)

    async def flush(self) -> None:
        """Return once everything that was handed over is written, or was tried again in vain."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))
        await self._try_again()

    async def close(self, *, limit: float = 5.0) -> None:
        """Write everything, for `limit` seconds at most, and say what is lost."""
        try:
            async with asyncio.timeout(limit):
                await self.flush()
                if self._waiting:
                    await asyncio.wait({self._go_on()})
        except TimeoutError:
            lost = len(self._waiting) + sum(map(len, self._under_way.values()))
            rows = counted(lost, "row")
            self.failed(StoreError(f"the gateway stops, and the ledger lacks {rows}"))
        finally:
            if self._again is not None:
                self._again.cancel()
                await asyncio.wait({self._again})


def _nothing(_: Connection) -> None:
    """Write nothing but what has waited for another write."""
