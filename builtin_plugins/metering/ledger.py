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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import cache, reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import Connection

from hookgate import Principal, Store, StoreError, StoreUnavailableError, Usage, counted, new_id
from hookgate.builtin_plugins.metering.calls import (
    COUNTS,
    PICO,
    TALLIES,
    LedgerRow,
    UsageQuery,
    sound,
)
from hookgate.builtin_plugins.metering.tables import (
    CALLS,
    MARKS,
    added_up,
    next_chunk,
    sums_of,
    trimmed,
    turns_of,
    written,
)
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


# -- what calls have cost ----------------------------------------------------------

# Money is added up in whole numbers of 1e-12 dollars, and shown as decimals: no report is off by
# a rounding. Whoever may see some sessions alone sees the calls of those.

EVERY = 10.0
"""Seconds between two times that rows are added."""
SUMMED_AT_ONCE = 2000
"""So many rows of a writer are added in one transaction."""
TIMES = (("day",), ("month",))
"""What groups are put in the order of; all others begin with the dearest."""
ORDER = "metering.sums"
"""Where adding comes among the functions that change shared rows."""


class Totals(NamedTuple):
    """Sums of calls.

    Attributes:
        calls: How many calls.
        refused: How many of them were refused, and never sent.
        failed: How many were sent and did not end well: they failed, were cut or cancelled.
        estimated: Of how many the counts are not the provider's own.
        unpriced: How many were of a model without a known price; `cost` lacks theirs.
        usage: Their tokens.
        cost: Units of 1e-12 dollars.
        saved: What caching saved, in the same units.
    """

    calls: int = 0
    refused: int = 0
    failed: int = 0
    estimated: int = 0
    unpriced: int = 0
    usage: Usage = Usage()
    cost: int = 0
    saved: int = 0

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Totals:
        """Return a row of sums."""
        return cls(
            **{name: row[name] for name in TALLIES},
            usage=Usage(**{name: row[name] for name in COUNTS}),
            cost=row["cost_dollars"] * PICO + row["cost_rest"],
            saved=row["saved_dollars"] * PICO + row["saved_rest"],
        )

    def plus(self, other: Totals) -> Totals:
        """Return both together."""
        return Totals(*map(add, self, other))


@dataclass(frozen=True, slots=True)
class Report:
    """What calls have used.

    Attributes:
        groups: Sums by what they were told apart by; days and months in their order, and others
            from the dearest on.
        found: How many groups there are.
        days: Sums by day, in order.
        whole: The sum of all.
    """

    groups: Mapping[tuple[str, ...], Totals]
    found: int
    days: Mapping[str, Totals]
    whole: Totals


@dataclass(eq=False)
class Reports:
    """Reads the ledger.

    Attributes:
        ledger: The ledger; where its rows end with the process, so does what is reported.
    """

    ledger: Ledger

    async def usage(self, query: UsageQuery, principal: Principal | None = None) -> Report:
        """Return what calls have used, all that was handed over until now.

        Args:
            query: Which sums are wanted.
            principal: Who asks: calls of sessions that they may not see are left out. None for
                nobody from whom anything is hidden.

        Raises:
            StoreError: The ledger cannot be read.
        """
        by, most = query.by, query.most
        # A session's key is kept as databases take it, and asked for as it is.
        query = query._replace(equal={name: sound(text) for name, text in query.equal.items()})
        bound = None if principal is None or principal.sees_all else principal
        if bound:
            places = tuple((one.channel, one.account) for one in bound.bindings)
            # Which sessions somebody may see is told session by session.
            query = query._replace(by=(*by, "session"), places=places)
        if bound or by[:1] in TIMES:
            query = query._replace(most=0)
        queries = [query, query._replace(by=("day", *query.by[len(by) :]), most=0)]
        await self.ledger.flush()
        groups, days = await self.ledger.store.read(sums_of(queries))
        if bound:
            sees = cache(bound.sees)
            groups, days = (
                [row for row in rows if sees(row["session"])] for rows in (groups, days)
            )
        by_group, by_day = _merged(groups, by), _merged(days, ("day",))
        return Report(
            groups=_in_order(by_group, by, most),
            found=groups[0]["groups"] if query.most and groups else len(by_group),
            days={key[0]: by_day[key] for key in sorted(by_day)},
            whole=reduce(Totals.plus, by_day.values(), Totals()),
        )


def _merged(rows: Iterable[dict[str, Any]], by: Sequence[str]) -> dict[tuple[str, ...], Totals]:
    groups: dict[tuple[str, ...], Totals] = {}
    for row in rows:
        key, totals = tuple(row[name] for name in by), Totals.of_row(row)
        groups[key] = groups[key].plus(totals) if key in groups else totals
    return groups


def _in_order(
    groups: dict[tuple[str, ...], Totals], by: tuple[str, ...], most: int
) -> dict[tuple[str, ...], Totals]:
    def dearest(key: tuple[str, ...]) -> tuple[Any, ...]:
        totals = groups[key]
        return -totals.cost, -totals.usage.total, -totals.calls, key

    keys = sorted(groups)[-most:] if by[:1] in TIMES else sorted(groups, key=dearest)
    return {key: groups[key] for key in keys[: most or None]}


@dataclass(eq=False)
class Rollup:
    """Adds rows of the ledger to the sums by day, beside the turns. Several gateways may at once.

    Reports are exact without it: they read the sums and all rows that are in none. It keeps those
    few.

    Attributes:
        store: Has the tables.
        failed: Told when rows could not be added; they stay where they are.
    """

    store: Store
    failed: Callable[[BaseException], None] = lambda _: None

    async def run(self) -> None:
        """Do so until it is cancelled. What was begun is committed, or nothing of it."""
        while True:
            try:
                await self.roll()
            except StoreError as error:
                self.failed(error)
            await asyncio.sleep(EVERY)

    async def roll(self) -> int:
        """Add all rows that are in no sum yet; return how many this gateway has added.

        Raises:
            StoreError: The store could not be read or written.
        """
        count = 0
        while chunks := await self.store.read(next_chunk(SUMMED_AT_ONCE)):
            for chunk in chunks:
                if await self.store.write(added_up(chunk), order=ORDER):
                    count += chunk.to - chunk.after
        return count
