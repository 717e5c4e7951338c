"""The trail: entries on their way to where they are kept, in order and with secrets masked."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple, Protocol

from hookgate import Claim, Clock, Principal, Secrets, Store, new_id
from hookgate.builtin_plugins.audit.entries import Entry
from hookgate.builtin_plugins.audit.sealing import Head, Sealer
from hookgate.builtin_plugins.audit.verifying import Findings, Verifier
from hookgate.settings import redact_json
from hookgate.wire import canonical

PAGE = 1000
"""So many rows are read at once."""


class Place(NamedTuple):
    """A row's place among all rows, of all chains. Places sort by time."""

    at: str
    chain: str
    seq: int

    def __str__(self) -> str:
        return f"{self.at}/{self.chain}/{self.seq}"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Place:
        """Return the place of a row."""
        return cls(row["at"], row["chain"], row["seq"])

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read what `str()` wrote.

        Raises:
            ValueError: It is no place.
        """
        at, chain, seq = text.split("/")
        return cls(at, chain, int(seq))


class Keeper(Protocol):
    """Where rows are kept."""

    @property
    def whole(self) -> bool:
        """Whether the first rows of chains stay."""

    @property
    def durable(self) -> bool:
        """Whether rows outlive the process."""

    def keep(self, row: Mapping[str, Any]) -> Coroutine[Any, Any, Head]:
        """Keep `row` and return the head of its chain; it is then as durable as it gets here."""

    async def newest(
        self,
        filters: Mapping[str, str],
        *,
        limit: int,
        before: Place | None,
        within: Sequence[Claim] | None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the newest rows, the newest first.

        Args:
            filters: Column -> the value that it must have.
            limit: So many rows at most.
            before: Only rows that come before this place; None for all.
            within: Rows of sessions outside of these may be left out; None for none.
        """

    async def page(self, after: tuple[str, int], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return rows in the order of chains and numbers, from behind `after` on."""

    async def links(self) -> Sequence[str]:
        """Return what first rows of chains name as the row before them."""


class Ring:
    """Keeps the last rows in memory, where there is no store."""

    whole = False
    durable = False

    def __init__(self, size: int, sealer: Sealer) -> None:
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=size)
        self._sealer = sealer
        self._heads: dict[str, Head] = {}

    async def keep(self, row: Mapping[str, Any]) -> Head:
        """Keep `row`; the oldest one goes when the ring is full."""
        sealed = self._sealer.chained(row, self._heads.get(row["chain"]))
        head = Head(chain=row["chain"], seq=sealed["seq"], seal=sealed["seal"])
        self._heads[row["chain"]] = head
        self._rows.append(sealed)
        return head

    async def page(self, after: tuple[str, int], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return rows in the order of chains and numbers, from behind `after` on."""
        rows = sorted(self._rows, key=lambda row: (row["chain"], row["seq"]))
        return [row for row in rows if (row["chain"], row["seq"]) > after][:limit]

    async def links(self) -> Sequence[str]:
        """Return nothing: chains in memory follow no other."""
        return ()

    async def newest(
        self,
        filters: Mapping[str, str],
        *,
        limit: int,
        before: Place | None,
        within: Sequence[Claim] | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the newest rows, the newest first."""
        fitting = [
            row
            for row in self._rows
            if all(row[key] == value for key, value in filters.items())
            and (before is None or Place.of(row) < before)
        ]
        return sorted(fitting, key=Place.of, reverse=True)[:limit]


class StoreKeeper:
    """Keeps rows in the store."""

    whole = True

    def __init__(self, store: Store, sealer: Sealer) -> None:
        # The tables bring SQLAlchemy with them, which a gateway without a store never needs.
        from hookgate.builtin_plugins.audit import tables

        self._store = store
        self._sealer = sealer
        self._tables = tables
        self.durable = store.durable

    async def keep(self, row: Mapping[str, Any]) -> Head:
        """Return once `row` is committed."""
        return await self._store.write(self._tables.chained(self._sealer, row))

    async def page(self, after: tuple[str, int], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return rows in the order of chains and numbers, from behind `after` on."""
        return await self._store.read(self._tables.page(after, limit))

    async def links(self) -> Sequence[str]:
        """Return what first rows of chains name as the row before them."""
        return await self._store.read(self._tables.links)

    async def newest(
        self,
        filters: Mapping[str, str],
        *,
        limit: int,
        before: Place | None,
        within: Sequence[Claim] | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the newest rows, the newest first."""
        query = self._tables.newest(filters, limit=limit, before=before, within=within)
        return await self._store.read(query)


class Trail:
    """Masks secrets in entries and hands them to a keeper, which chains them.

    It is the `Audit` that other plugins reach under the key ``audit``.

    Attributes:
        chain: Names this start of the process; begins with the time, so that chains sort.
        head: The last row of this chain that was kept; None while there is none.
    """

    def __init__(
        self,
        keeper: Keeper,
        clock: Clock,
        secrets: Secrets,
        *,
        failed: Callable[[BaseException], None] = lambda _: None,
        worked: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._secrets = secrets
        self._failed = failed
        self._worked = worked
        self._handed_over: set[asyncio.Task[None]] = set()
        started = clock.now().astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.chain = f"{started}-{new_id('chain').removeprefix('chain_')[:12]}"
        self.head: Head | None = None

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Commit one row of a plugin's own kind.

        Raises:
            StoreUnavailableError: Nothing was written.
        """
        await self.write(Entry(kind=kind, data=data))

    async def write(self, entry: Entry) -> None:
        """Return once `entry` is committed.

        Raises:
            StoreUnavailableError: Nothing was written.
        """
        await self._keep(self._row(entry))
        self._worked()

    async def _keep(self, row: Mapping[str, Any]) -> None:
        head = await self._keeper.keep(row)
        if self.head is None or head.seq > self.head.seq:
            self.head = head

    def hand_over(self, entry: Entry) -> None:
        """Write `entry` without waiting for it; a failure goes to `failed`.

        The store commits in the order in which it is handed rows, so what a turn commits
        after this is not acknowledged before this row is.
        """
        task = asyncio.create_task(self._keep(self._row(entry)), name="audit row")
        self._handed_over.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._handed_over.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def flush(self) -> None:
        """Return once everything that was handed over is written, or has failed."""
        await asyncio.gather(*tuple(self._handed_over), return_exceptions=True)

    async def page(self, after: tuple[str, int], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return rows in the order of chains and numbers, from behind `after` on."""
        return await self._keeper.page(after, limit)

    async def rows(self) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """Yield all rows in the order of chains and numbers, page by page."""
        after = ("", 0)
        while page := await self._keeper.page(after, PAGE):
            yield page
            after = (page[-1]["chain"], page[-1]["seq"])

    async def verify(
        self, sealer: Sealer, expected: Sequence[Head] = (), *, kept: Sequence[Head] = ()
    ) -> Findings:
        """Look whether every row is as it was written; see `Verifier`."""
        links = await self._keeper.links()
        verifier = Verifier(sealer, expected, links, kept=kept, whole=self._keeper.whole)
        async for page in self.rows():
            await asyncio.to_thread(verifier.take, page)
        return verifier.finish()

    @property
    def durable(self) -> bool:
        """Whether what is recorded outlives the process."""
        return self._keeper.durable

    async def newest(
        self,
        filters: Mapping[str, str],
        *,
        limit: int,
        before: Place | None = None,
        principal: Principal | None = None,
    ) -> list[dict[str, Any]]:
        """Return the newest rows that fit, ``data`` read, the newest first.

        Args:
            filters: Column -> the value that it must have.
            limit: So many rows at most.
            before: Only rows that come before this place; None for all.
            principal: Only rows that this one may see; None for all.
        """
        filters = {column: self._secrets.redact(value) for column, value in filters.items()}
        within = None if principal is None or principal.sees_all else principal.bindings
        found: list[dict[str, Any]] = []
        while len(found) < limit:
            rows = await self._keeper.newest(filters, limit=limit, before=before, within=within)
            found += [
                {**row, "data": json.loads(row["data"])}
                for row in rows
                if principal is None or principal.sees(row["session"])
            ]
            if len(rows) < limit:
                break
            before = Place.of(rows[-1])
        return found[:limit]

    def _row(self, entry: Entry) -> dict[str, Any]:
        clean = redact_json(self._secrets, entry.data)
        plain = canonical(dict(entry.data))
        masked = canonical(clean)
        if masked != plain:
            # A decision that is judged again later must know that it cannot see all.
            masked = canonical({**clean, "redacted": True})
        mask = self._secrets.redact
        return {
            "chain": self.chain,
            "at": self._clock.now().astimezone(UTC).isoformat(timespec="microseconds"),
            "kind": entry.kind,
            "turn": entry.turn,
            "session": mask(entry.session),
            "call": mask(entry.call),
            "tool": mask(entry.tool),
            "category": entry.category,
            "outcome": mask(entry.outcome),
            "data": masked.decode(),
        }
