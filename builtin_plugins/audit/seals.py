"""Seals over the entries, the heads that are kept beside them, and the check of all of it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import Host, StartError, StoreError
from hookgate.kit.content.files import write_whole
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.builtin_plugins.audit.tables import AuditKeeper

KEY_BYTES = 32
"""The length of a key that is made here; that of the digest, as RFC 2104 recommends."""

SEALED = (
    "chain",
    "seq",
    "at",
    "kind",
    "turn",
    "session",
    "call",
    "tool",
    "category",
    "outcome",
    "data",
    "previous",
    "key",
)
"""The columns that a seal covers, in the order in which they go into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last row of a chain.

    Attributes:
        chain: The chain.
        seq: The row's number in it.
        seal: Its seal, in hex; "" for a row from before there were seals.
    """

    chain: str
    seq: int
    seal: str

    def __str__(self) -> str:
        return f"{self.chain}/{self.seq}/{self.seal}"


def parse_head(text: str) -> Head | None:
    """Read what ``str(head)`` wrote; None where it is none."""
    chain, _, rest = text.partition("/")
    number, _, seal = rest.partition("/")
    if not chain or not number.isascii() or not number.isdigit():
        return None
    return Head(chain=chain, seq=int(number), seal=seal)


class Sealer:
    """Seals rows with one key, and knows rows that were sealed with those before it.

    Args:
        key: The key.
        since: Since when there is the key, as rows write times; "" where that is not known.
        former: Sealers with the keys of before, which seal nothing any more.

    Attributes:
        name: Names the key in rows without telling it: the beginning of its SHA-256.
        since: Since when there is the first of the keys. No row that is newer can be from before
            there were seals.
    """

    def __init__(self, key: bytes, since: str = "", former: Iterable[Sealer] = ()) -> None:
        self._key = key
        self._former = {one.name: one for one in former}
        known = (since, *(one.since for one in self._former.values()))
        self.since: str = min(filter(None, known), default="")
        self.name: str = hashlib.sha256(b"hookgate audit key\n" + key).hexdigest()[:16]

    def seal(self, row: Mapping[str, Any], before: str) -> str:
        """Return the seal of `row`, in hex.

        Args:
            row: At least the columns of `SEALED`.
            before: The seal of the row before it in its chain; "" for the first one.
        """
        covered = canonical({"before": before, "row": [row[name] for name in SEALED]})
        return hmac.new(self._key, covered, hashlib.sha256).hexdigest()

    def knows(self, name: str) -> bool:
        """Whether `name` is that of its key, or of one before it."""
        return name == self.name or name in self._former

    def fits(self, row: Mapping[str, Any], before: str) -> bool:
        """Whether the seal in `row` is the one that it has to have, by the key that it names."""
        by = self._former.get(str(row["key"]), self)
        return hmac.compare_digest(str(row["seal"]), by.seal(row, before))

    def chained(self, row: Mapping[str, Any], head: Head | None) -> dict[str, Any]:
        """Return `row` with its number and its seal.

        Args:
            row: The row without them.
            head: The last row of its own chain; where there is none, the last row of all,
                which the first row of a chain names.
        """
        own = head if head is not None and head.chain == row["chain"] else None
        placed = {
            **row,
            "seq": own.seq + 1 if own else 1,
            "previous": "" if own or head is None else str(head),
            "key": self.name,
        }
        return {**placed, "seal": self.seal(placed, own.seal if own else "")}


def key_from_secret(value: str, name: str) -> bytes:
    """Return the key that a secret holds.

    Raises:
        StartError: It is too short to be one.
    """
    raw = value.strip().encode()
    if len(raw) < KEY_BYTES:
        raise StartError(
            f"the secret {name!r} has {len(raw)} bytes: expected at least {KEY_BYTES} for the key "
            "of the audit; `openssl rand -hex 32` makes one"
        )
    return raw


def key_from_file(path: Path, *, make: bool = True) -> bytes:
    """Return the key in `path`; make one where there is no file. It blocks.

    Args:
        path: The file.
        make: Whether one is made. A key of before has to be there.

    Raises:
        StartError: The file cannot be read or made, or holds no key.
    """
    what = "read"
    try:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            if not make:
                raise
            what = "made: expected a folder that can be written to"
            raw = _made(path)
    except OSError as error:
        raise StartError(f"the key of the audit, {path}, cannot be {what} ({error})") from error
    key = raw.strip()
    if len(key) < KEY_BYTES:
        raise StartError(
            f"found {len(key)} bytes in {path}, expected a key of at least {KEY_BYTES}: put the "
            "right file back, or move this one away for a new key (older rows then cannot be "
            "verified)"
        )
    return key


def made_at(path: Path) -> str:
    """Return since when there is the key in `path`, as rows write times. It blocks.

    A copy that was made without its times counts as younger than it is, which believes more
    rows without a seal, and accuses none.
    """
    made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return made.isoformat(timespec="microseconds")


def _made(path: Path) -> bytes:
    key = os.urandom(KEY_BYTES).hex().encode() + b"\n"
    try:
        write_whole(path, key, durable=True, replace=False)
    except FileExistsError:
        return path.read_bytes()  # another process was faster
    return key


# -- heads -----------------------------------------------------------------------

# The last row of the record, kept in a file of `home`, where the store is not.
#
# Who can change the store alone can empty every seal, or take every row away, and what is left
# agrees with itself. It does not agree with this file.

HEAD_FILE = "audit.head"
"""The file's name in `home`."""

PART = "audit.head"
"""What `status` calls a record that does not agree with the file."""


class KeptHead:
    """The file. It is written when the gateway starts and stops, and when a record verifies.

    A file with which the store does not agree is evidence: it stays as it is.

    Attributes:
        head: What the file names; None where there is none.
    """

    def __init__(self, host: Host, keeper: AuditKeeper) -> None:
        self._host = host
        self._keeper = keeper
        self._path: Path = host.settings.home / HEAD_FILE
        self._sound: bool | None = None
        self.head: Head | None = None

    async def open(self) -> None:
        """Read the file and hold it against the store; then remember the store's last row."""
        try:
            self.head = await asyncio.to_thread(self._read)
            newest = await self._keeper.newest()
        except (OSError, ValueError) as error:
            self._sound = False
            self._host.standing(PART).bad(f"the last row of the audit is not known: {error}")
            return
        except StoreError:
            return  # the store says so itself; what the file names is compared before it changes
        if await self._agrees() and newest is not None and newest.seal:
            await self.keep(newest)

    async def _agrees(self) -> bool:
        """Whether the store has the row that the file names; looked up once."""
        if self._sound is None and self.head is not None:
            try:
                seal = await self._keeper.seal_of(self.head)
            except StoreError:
                return False
            if seal != self.head.seal:
                self._disagree(self.head, gone=seal is None)
        self._sound = self._sound is not False
        return self._sound

    def _disagree(self, head: Head, *, gone: bool) -> None:
        self._sound = False
        what = "is gone" if gone else "is another one"
        self._host.standing(PART).bad(
            f"row {head.seq} of {head.chain}, which {self._path} names as written, {what}: run "
            "`hookgate audit verify`; where an older copy of the store was put back on purpose, "
            "move the file away"
        )

    async def keep(self, head: Head) -> None:
        """Remember `head`, unless the file is evidence."""
        if not await self._agrees() or head == self.head:
            return
        try:
            await asyncio.to_thread(write_whole, self._path, f"{head}\n".encode(), durable=True)
        except OSError as error:
            self._host.standing(PART).bad(f"{self._path} cannot be written: {error}")
            return
        self.head = head
        self._host.standing(PART).good()

    def _read(self) -> Head | None:
        try:
            text = self._path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        head = parse_head(text)
        if head is None or not head.seal:
            raise ValueError(
                f"found {text[:80]!r} in {self._path}, expected CHAIN/SEQ/SEAL: put the right "
                "file back, or move this one away"
            )
        return head


# -- verifying -------------------------------------------------------------------

# Verifying the trail: the first row that is not as it was written, if there is one.


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFault:
    """A row that is not as it was written, or one that is not there.

    Attributes:
        chain: Its chain.
        seq: Its number in it.
        what: What is wrong.
    """

    chain: str
    seq: int
    what: str


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was found.

    Attributes:
        rows: Rows that were looked at.
        unsealed: Rows from before there were seals.
        foreign: Rows that were sealed with another key, by the name of that key.
        fault: The first thing that is wrong, in the order of the chains.
        heads: The last row of each chain.
    """

    rows: int = 0
    unsealed: int = 0
    foreign: dict[str, int] = field(default_factory=dict)
    fault: SealFault | None = None
    heads: dict[str, Head] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every sealed row could be verified, and is as it was written."""
        return self.fault is None and not self.foreign


class Verifier:
    """Takes rows in the order of chains and numbers, and says what is wrong.

    Chains are named so that they sort by their start.

    Args:
        sealer: Has the key.
        expected: Heads that were exported before; they must still be rows.
        kept: Heads that the gateway itself remembers; the same holds for them.
        named: What first rows name as the row before them, see `Sealer.chained`.
        whole: Whether chains begin with their first row; kept in memory, the first ones go.
    """

    def __init__(
        self,
        sealer: Sealer,
        expected: Sequence[Head] = (),
        named: Iterable[str] = (),
        *,
        kept: Sequence[Head] = (),
        whole: bool = True,
    ) -> None:
        self._sealer = sealer
        self._whole = whole
        told = (("the exported head", expected), ("the head that the gateway keeps", kept))
        self._expected = [(head, who) for who, heads in told for head in heads]
        heads = (*expected, *kept, *filter(None, map(parse_head, named)))
        # Of a million rows, the seals of these few are needed once more at the end.
        self._seals: dict[tuple[str, int], str | None] = {
            (head.chain, head.seq): None for head in heads
        }
        self._links: list[tuple[Head, Head]] = []
        self._last: Head | None = None
        self._bare: Head | None = None
        self._sealed = False
        self.findings = Findings()

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Look at some more rows."""
        for row in rows:
            self._look(row)

    def finish(self) -> Findings:
        """Compare with what other rows, and an exported head, say that there was."""
        for first, named in self._links:
            if self._seals.get((named.chain, named.seq)) != named.seal:
                what = f"it was written behind row {named.seq} of {named.chain}, which is gone"
                self._fault(first.chain, first.seq, what)
        for head, who in self._expected:
            seal = self._seals.get((head.chain, head.seq))
            if seal is None:
                self._fault(head.chain, head.seq, f"{who} names it, and it is gone")
            elif seal != head.seal:
                self._fault(head.chain, head.seq, f"it is not the row that {who} names")
        return self.findings

    def _look(self, row: Mapping[str, Any]) -> None:
        found, last = self.findings, self._last
        found.rows += 1
        chain, seq, seal = str(row["chain"]), int(row["seq"]), str(row["seal"])
        own = last if last is not None and last.chain == chain else None
        self._last = found.heads[chain] = Head(chain=chain, seq=seq, seal=seal)
        if (chain, seq) in self._seals:
            self._seals[chain, seq] = seal
        if not seal and not self._sealed:
            found.unsealed += 1
            self._bare = self._bare or self._last
            self._look_at_bare(row, chain, seq)
            return
        if not self._sealed:
            self._begin(row, own)
        self._sealed = True
        if own is None and not self._whole and seq > 1:
            return  # what its seal was made over is gone, as it may be
        if seq != (own.seq + 1 if own else 1):
            missing = own.seq + 1 if own else 1
            self._fault(chain, missing, f"it is gone: the next row is {seq}")
            return
        if not seal:
            self._fault(chain, seq, "its seal was taken off")
        elif not self._sealer.knows(str(row["key"])):
            name = str(row["key"]) or "none"
            found.foreign[name] = found.foreign.get(name, 0) + 1
        elif not self._sealer.fits(row, own.seal if own else ""):
            self._fault(chain, seq, "its seal does not fit: it, or the order of rows, was changed")
        if own is None and row["previous"]:
            named = parse_head(str(row["previous"]))
            if named is None:
                self._fault(chain, seq, f"it names {row['previous']!r} as the row before it")
            else:
                self._links.append((self._last, named))

    def _look_at_bare(self, row: Mapping[str, Any], chain: str, seq: int) -> None:
        """Look at a row without a seal: may it be from before there were any?"""
        since = self._sealer.since
        if row["key"] or row["previous"]:
            self._fault(chain, seq, "its seal was taken off")
        elif since and str(row["at"]) > since:
            self._fault(chain, seq, f"it has no seal, and is newer than the key, of {since}")

    def _begin(self, row: Mapping[str, Any], own: Head | None) -> None:
        """Look at the first row that has a seal: does it know those before it, which have none?

        A process seals all of its rows or none. Its first row names the row before it, and
        that seal covers the name.
        """
        bare = self._bare
        if bare is None or not self._whole:
            return
        if own is not None:
            self._fault(own.chain, own.seq, "its seal was taken off: a sealed row stands behind it")
        elif not row["previous"]:
            what = f"it has no seal, and row {row['seq']} of {row['chain']} was the first of all"
            self._fault(bare.chain, bare.seq, what)

    def _fault(self, chain: str, seq: int, what: str) -> None:
        known, fault = self.findings.fault, SealFault(chain=chain, seq=seq, what=what)
        if known is None or (chain, seq) < (known.chain, known.seq):
            self.findings.fault = fault
