"""What was accepted, compared with what there is, kept, and known to all gateways on a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hookgate.core.domain.errors import StoreError
from hookgate.core.domain.ports import SWITCHES, Switch
from hookgate.kit.content.files import write_whole
from hookgate.kit.tables import tables_of
from hookgate.ports import ACCEPTANCES, STORE, Acceptance, Subject

if TYPE_CHECKING:
    from hookgate.core.host import Host
    from hookgate.kit.acceptance.tables import Accepted
    from hookgate.kit.records import Records

__all__ = ["AcceptanceBook", "AcceptanceDesk", "WaitingSubject", "acceptances_of"]

UNREAD = "they have not been read yet"

CHANGED = "acceptance.changed"
"""The switch by which other gateways on the store hear that something was accepted."""

FORMAT = "hookgate-accepted-1"
FILED = ("guest",)
"""What is kept in a file where there is no store: guests run unasked once they were accepted.
Tools and cards that were accepted without a store are new at the next start."""


async def acceptances_of(host: Host) -> AcceptanceBook:
    """Return what all plugins of `host` keep together of what was accepted.

    Where it cannot be read, its `problem` says why: then nothing that needs it counts.
    """
    known = host.get(ACCEPTANCES)
    if isinstance(known, AcceptanceBook):
        return known
    store = host.get(STORE)
    tables, kept = await tables_of(store, "acceptance", "hookgate.kit.acceptance.tables")
    book = AcceptanceBook(
        tables.Accepted.records(kept),
        lambda: host.clock.now().isoformat(),
        # A store that stands in for one that cannot be read knows nothing of what was accepted.
        trusts_first=store is None or not store.problem,
        file=host.settings.home.expanduser() / "accepted.json",
    )
    host.provide(ACCEPTANCES, book)
    try:
        await book.load()
    except StoreError as error:
        host.log.warning("what was accepted cannot be read", error=str(error))
    if not book.in_process:
        book.follow(host)
    return book


class WaitingSubject(NamedTuple):
    """Something that does not count before somebody has accepted it as it is now.

    Attributes:
        name: Its name.
        digest: What it is now, as whoever accepts it has seen it.
        why: Why it waits.
    """

    name: str
    digest: str
    why: str


class AcceptanceDesk(NamedTuple):
    """Where the things of one kind are accepted.

    Attributes:
        waiting: Returns those that wait, looking where nobody has yet.
        accept: Accepts one by its name as it is now: ``await accept(name, by=..., digest=...)``.
            A digest that is not its own by now is a TurnError; "" is any.
    """

    waiting: Callable[[], Awaitable[Iterable[WaitingSubject]]]
    accept: Callable[..., Awaitable[object]]


class AcceptanceBook:
    """The `Acceptances` of a gateway, in its store.

    Attributes:
        problem: Why nothing can be relied on; "" where it can.
        in_process: Whether it is kept by this process alone, and all of it is known here.
        trusts_first: Whether the first of a name may count unasked.
        desks: Where things are accepted, by kind; a plugin puts its own there.
    """

    def __init__(
        self,
        records: Records[Accepted],
        now: Callable[[], str],
        *,
        trusts_first: bool = True,
        file: Path | None = None,
    ) -> None:
        """Know nothing yet.

        Args:
            records: Where it is kept.
            now: Returns the time, ISO 8601 in UTC.
            trusts_first: Whether the first of a name may count unasked. Not where what earlier
                runs accepted is lost: then nothing shows that it is the first.
            file: Where that of `FILED` is kept if `records` end with the process.
        """
        self.in_process = records.in_process
        self.trusts_first = trusts_first
        self.problem = UNREAD
        self.desks: dict[str, AcceptanceDesk] = {}
        self._records = records
        self._now = now
        self._file = file if self.in_process else None
        self._loaded = False
        self._kinds: dict[str, dict[str, Accepted]] = {}
        self._watchers: list[Callable[[], None]] = []
        self._writing = asyncio.Lock()
        self._told = 0
        self._tell: Callable[[], object] = lambda: None

    async def load(self) -> None:
        """Read what earlier runs, and other gateways on the same store, have accepted.

        Raises:
            StoreError: It cannot be read. What had been read before counts on; where nothing
                was, `problem` says so.
        """
        if self.in_process and self._loaded:
            return
        try:
            if self._file is not None:
                await self._records.save(await asyncio.to_thread(self._filed, self._file))
            rows = await self._records.all()
        except Exception as error:
            if not self._loaded:
                self.problem = str(error) or repr(error)
            raise
        self._kinds = {}
        self._take(rows)
        self._loaded, self.problem = True, ""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of which something is known."""
        return sorted(self._kinds)

    def of(self, kind: str) -> Mapping[str, Acceptance]:
        """Return what is known of the things of one kind, by name."""
        return self._kinds.get(kind, {})

    def news(self, kind: str, subjects: Iterable[Subject]) -> tuple[list[Subject], list[Subject]]:
        """Return those of which nothing is known, and those that were not seen like this."""
        known, new, changed = self.of(kind), [], []
        for one in subjects:
            row = known.get(one.name)
            if row is None:
                new.append(one)
            elif row.seen != one.digest:
                changed.append(one)
        return new, changed

    # -- keeping -----------------------------------------------------------

    async def add(self, kind: str, subjects: Sequence[Subject], *, accepted: bool = True) -> None:
        """Keep those of which nothing is known; where another gateway was first, its word counts.

        Args:
            kind: Their kind.
            subjects: Which.
            accepted: Whether they count, or wait until somebody accepts them.

        Raises:
            StoreError: It cannot be kept; nothing was.
        """
        rows = [self._row(kind, one, accepted=accepted) for one in subjects]
        if rows:
            async with self._writing:
                await self._keep_file(kind, {row.name: row for row in rows} | self._here(kind))
                self._take(await self._records.add(rows))

    def add_here(self, kind: str, subjects: Sequence[Subject]) -> None:
        """Do what `add` does at once, where it is kept by this process alone."""
        self._take([self._row(kind, one, accepted=True) for one in subjects])

    async def note(self, kind: str, subjects: Iterable[Subject]) -> None:
        """Keep that these were seen as they are now.

        Raises:
            StoreError: It cannot be kept; nothing was.
        """
        known = self._here(kind)
        rows = [
            known[one.name].model_copy(update={"seen": one.digest, "changed": self._now()})
            for one in subjects
            if one.name in known
        ]
        await self._records.save(rows)
        self._take(rows)

    async def accept(self, kind: str, subjects: Sequence[Subject], *, by: str) -> None:
        """Let these count as they are now, at all gateways on the store.

        Raises:
            StoreError: It cannot be kept, and they do not count.
        """
        rows = [self._row(kind, one, by=by) for one in subjects]
        if rows:
            async with self._writing:
                await self._keep_file(kind, self._here(kind) | {row.name: row for row in rows})
                await self._records.save(rows)
                self._take(rows)
            self._tell()

    async def take_back(self, kind: str, name: str, *, by: str) -> bool:
        """Let something wait until somebody accepts it again; return whether it counted.

        Raises:
            StoreError: It cannot be kept; it counts on.
        """
        row = self._here(kind).get(name)
        if row is None or not row.digest:
            return False
        news = {"digest": "", "accepted_by": by, "changed": self._now()}
        async with self._writing:
            taken = row.model_copy(update=news)
            await self._keep_file(kind, self._here(kind) | {name: taken})
            await self._records.save([taken])
            self._take([taken])
        self._tell()
        self._wake()
        return True

    async def forget(self, kind: str, name: str) -> bool:
        """Take back that something was accepted; return whether anything was known of it.

        Raises:
            StoreError: It cannot be kept; it counts on.
        """
        async with self._writing:
            left = self._here(kind)
            left.pop(name, None)
            await self._keep_file(kind, left)
            columns = self._records.c
            gone = await self._records.remove(columns.kind == kind, columns.name == name)
            self._kinds.get(kind, {}).pop(name, None)
        self._tell()
        return bool(gone)

    # -- other gateways ----------------------------------------------------

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` once something is taken back, or another gateway has accepted something.

        Return what undoes it.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def follow(self, host: Host) -> None:
        """Hear of what other gateways accept, and let them hear."""
        switches = host[SWITCHES]

        async def tell() -> None:
            try:
                known = await switches.get(CHANGED)
                self._told = known.version + 1
                # Where another one was faster, all have heard.
                await switches.put(CHANGED, self._told, version=known.version)
            except StoreError as error:
                host.log.warning("other gateways hear of an acceptance later", error=str(error))

        async def heard() -> None:
            try:
                await self.load()
            except StoreError as error:
                host.log.warning("what was accepted cannot be read", error=str(error))
            self._wake()

        def changed(switch: Switch) -> None:
            if switch.version != self._told:
                host.spawn(heard(), name="acceptance.heard")

        self._tell = lambda: host.spawn(tell(), name="acceptance.tell")
        switches.watch(CHANGED, changed)

    def _wake(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    # -- within ------------------------------------------------------------

    def _row(self, kind: str, subject: Subject, *, accepted: bool = True, by: str = "") -> Accepted:
        return self._records.row(
            kind=kind,
            name=subject.name,
            digest=subject.digest if accepted else "",
            seen=subject.digest,
            detail=subject.detail,
            accepted_by=by,
            changed=self._now(),
        )

    def _take(self, rows: Iterable[Accepted]) -> None:
        for row in rows:
            self._kinds.setdefault(row.kind, {})[row.name] = row

    def _here(self, kind: str) -> dict[str, Accepted]:
        return dict(self._kinds.get(kind, {}))

    async def _keep_file(self, kind: str, rows: Mapping[str, Accepted]) -> None:
        file = self._file
        if file is None or kind not in FILED:
            return
        listed = [row.model_dump(mode="json") for _, row in sorted(rows.items())]
        content = json.dumps({"format": FORMAT, "accepted": listed}, indent=2).encode() + b"\n"
        try:
            await asyncio.to_thread(write_whole, file, content, durable=True)
        except OSError as error:
            raise StoreError(f"{file}: it cannot be written: {error.strerror}") from error

    def _filed(self, file: Path) -> list[Accepted]:
        try:
            data = json.loads(file.read_bytes())
            if data["format"] != FORMAT:
                raise ValueError(f"the format {data['format']!r}")
            return [self._records.row(**row) for row in data["accepted"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{file}: found {str(error)[:200]}, expected what was accepted: move the file "
                "away, and accept again what it held"
            ) from error
