"""The last row of the record, kept in a file of `home`, where the store is not.

Who can change the store alone can empty every seal, or take every row away, and what is left
agrees with itself. It does not agree with this file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate import Host, StoreError
from hookgate.builtin_plugins.audit.sealing import Head, parse_head
from hookgate.kit.content.files import write_whole

if TYPE_CHECKING:
    from hookgate.builtin_plugins.audit.tables import Keeper

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

    def __init__(self, host: Host, keeper: Keeper) -> None:
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
