"""What calls have used and cost: sums of the ledger, told apart as one likes.

Money is added up in whole numbers of 1e-12 dollars, and shown as decimals: no report is off by
a rounding. Whoever may see some sessions alone sees the calls of those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import Any, NamedTuple

from hookgate import Principal, Store, StoreError, Usage
from hookgate.builtin_plugins.metering.calls import COUNTS, PICO, TALLIES, UsageQuery, sound
from hookgate.builtin_plugins.metering.ledger import Ledger
from hookgate.builtin_plugins.metering.tables import sums

EVERY = 10.0
"""Seconds between two times that rows are added."""
AT_ONCE = 2000
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
        groups, days = await self.ledger.store.read(sums.usage(queries))
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
        while chunks := await self.store.read(sums.next_chunk(AT_ONCE)):
            for chunk in chunks:
                if await self.store.write(sums.added(chunk), order=ORDER):
                    count += chunk.to - chunk.after
        return count
