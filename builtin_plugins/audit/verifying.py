"""Verifying the trail: the first row that is not as it was written, if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hookgate.builtin_plugins.audit.sealing import Head, Sealer, parse_head


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
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
    fault: Fault | None = None
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
        elif row["key"] != self._sealer.name:
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
        known, fault = self.findings.fault, Fault(chain=chain, seq=seq, what=what)
        if known is None or (chain, seq) < (known.chain, known.seq):
            self.findings.fault = fault
