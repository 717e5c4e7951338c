"""The trail: entries on their way to where they are kept, in order and with secrets masked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from hookgate import Clock, Principal, Secrets, new_id
from hookgate.builtin_plugins.audit.entries import Entry
from hookgate.builtin_plugins.audit.seals import Findings, Head, Sealer, Verifier
from hookgate.settings import redact_json
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.builtin_plugins.audit.tables import AuditKeeper


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


class Trail:
    """Masks secrets in entries and hands them to a keeper, which chains them.

    It is the `Audit` that other plugins reach under the key ``audit``.

    Attributes:
        chain: Names this start of the process; begins with the time, so that chains sort.
        head: The last row of this chain that was kept; None while there is none.
    """

    def __init__(
        self,
        keeper: AuditKeeper,
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
        self._handed_over: set[asyncio.Future[Head]] = set()
        started = clock.now().astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.chain = f"{started}-{new_id('chain')[-12:]}"
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
        self._kept(await self._keeper.keep(self._row(entry)))
        self._worked()

    def _kept(self, head: Head) -> None:
        if self.head is None or head.seq > self.head.seq:
            self.head = head

    def hand_over(self, entry: Entry) -> None:
        """Write `entry` with the next write, without waiting for it; a failure goes to `failed`.

        The store commits in the order in which it is handed rows, so what a turn commits
        after this is not acknowledged before this row is.
        """
        kept = self._keeper.keep_soon(self._row(entry))
        self._handed_over.add(kept)
        kept.add_done_callback(self._reap)

    def _reap(self, kept: asyncio.Future[Head]) -> None:
        self._handed_over.discard(kept)
        if kept.cancelled():
            return
        if (error := kept.exception()) is not None:
            self._failed(error)
        else:
            self._kept(kept.result())

    async def flush(self) -> None:
        """Return once everything that was handed over is written, or has failed."""
        if self._handed_over:
            await asyncio.wait(self._handed_over)

    async def page(
        self,
        after: tuple[str, int],
        limit: int,
        *,
        since: str = "",
        until: str = "",
        kind: str = "",
    ) -> Sequence[Mapping[str, Any]]:
        """Return rows in the order of chains and numbers, from behind `after` on."""
        wanted = self._keeper.between(since, until, kind)
        rows = await self._keeper.rows.page(*wanted, after=after, newest=False, limit=limit)
        return [dict(row) for row in rows]

    async def verify(
        self, sealer: Sealer, expected: Sequence[Head] = (), *, kept: Sequence[Head] = ()
    ) -> Findings:
        """Look whether every row is as it was written; see `Verifier`."""
        links = await self._keeper.links()
        verifier = Verifier(sealer, expected, links, kept=kept, whole=self._keeper.whole)
        async for page in self._keeper.rows.each():
            await asyncio.to_thread(verifier.take, map(dict, page))
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
        rows = await self._keeper.rows.page(
            *self._keeper.fitting(filters),
            by=self._keeper.place,
            after=before,
            limit=limit,
            principal=principal,
        )
        return [{**dict(row), "data": json.loads(row.data)} for row in rows]

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
