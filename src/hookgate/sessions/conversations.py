"""Conversations in this process: kept until it ends."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StaleFenceError
from hookgate.core.domain.messages import CLEAN, Message, Taint, join_taints
from hookgate.core.domain.ports import Loaded, Page, Said
from hookgate.core.domain.turn import Fence, SessionKey

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(slots=True)
class _Kept:
    """One conversation.

    Attributes:
        messages: What was said, oldest first, each with its place among all messages.
        fence: The number of the fence that wrote last.
        written: How many messages were ever written to it.
        taint: What was added to it beside its messages.
    """

    messages: deque[tuple[int, Message]]
    fence: int = 0
    written: int = 0
    taint: Taint = CLEAN

    @property
    def size(self) -> int:
        """What it counts for: a session takes room although nothing was said in it."""
        return max(len(self.messages), 1)


_NOTHING = _Kept(deque(maxlen=0))
"""A session in which nothing was said."""


class InProcessConversations:
    """Conversations that end with the process: what there is without a storage plugin.

    Each session keeps its last `keep` messages, all of them together `total`: beyond that
    the sessions that were written to longest ago are forgotten.
    """

    durable = False

    def __init__(self, *, keep: int = 10_000, total: int = 100_000) -> None:
        self._keep = keep
        self._total = total
        self._size = 0
        self._last = 0
        # The one that was written to longest ago comes first.
        self._sessions: OrderedDict[SessionKey, _Kept] = OrderedDict()

    async def load(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded:
        """Read what a holder of the lane goes on with. See `Conversations.load`."""
        kept = self._sessions.get(session, _NOTHING)
        fence.read(kept.fence, kept.written)
        return Loaded(await self.history(session, turns=turns), kept.taint)

    def recall(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded | None:
        """Return None: to read is to remember here. See `Conversations.recall`."""

    async def append(
        self, session: SessionKey, messages: Sequence[Message], *, fence: Fence
    ) -> None:
        """Add `messages` at the end. See `Conversations.append`."""
        if messages:
            self._write(session, messages, CLEAN, fence)

    def check(self, connection: Connection, session: SessionKey, fence: Fence) -> None:
        """Make sure that `fence` may still write. See `Conversations.check`."""
        kept = self._sessions.get(session, _NOTHING)
        if not fence.stands(kept.fence, kept.written):
            raise StaleFenceError.of(session)

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole."""
        chosen: list[Message] = []
        seen: list[str] = []
        for _, message in reversed(self._sessions.get(session, _NOTHING).messages):
            if not seen or seen[-1] != message.turn:
                if len(seen) >= turns:
                    break
                seen.append(message.turn)
            chosen.append(message)
        return chosen[::-1]

    async def taint(self, session: SessionKey, *, turns: int) -> Taint:
        """Return what a session is tainted with. See `Conversations.taint`."""
        kept = self._sessions.get(session, _NOTHING)
        said = await self.history(session, turns=turns)
        return kept.taint | join_taints(message.taint for message in said)

    async def add_taint(self, session: SessionKey, taint: Taint, *, fence: Fence) -> None:
        """Add `taint` to a session. See `Conversations.add_taint`."""
        if taint:
            self._write(session, (), taint, fence)

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""
        rows = [
            {
                "session": str(key),
                "messages": len(kept.messages),
                "updated": kept.messages[-1][1].created.isoformat(),
            }
            for key, kept in self._sessions.items()
            if kept.messages
        ]
        rows.sort(key=lambda row: str(row["updated"]), reverse=True)
        return rows[:limit]

    async def export(self, session: SessionKey, *, after: str = "", limit: int = 500) -> Page:
        """Return all that was said in a session, page by page. See `Conversations.export`."""
        Page.check(limit)
        kept = self._sessions.get(session, _NOTHING)
        return _page(((place, session, said) for place, said in kept.messages), after, limit)

    async def since(self, cursor: str = "", *, limit: int = 500) -> Page:
        """Return what was said in all sessions, page by page. See `Conversations.since`."""
        Page.check(limit)
        sessions = [
            ((place, key, said) for place, said in kept.messages)
            for key, kept in self._sessions.items()
        ]
        return _page(merge(*sessions, key=lambda each: each[0]), cursor, limit)

    async def end(self) -> str:
        """Return the cursor of `since` behind all that was said by now."""
        return str(self._last)

    async def forget(self, session: SessionKey, *, turns: Collection[str] | None = None) -> int:
        """Forget what was said in a session. See `Conversations.forget`."""
        kept = self._sessions.get(session, _NOTHING)
        size, before = kept.size, len(kept.messages)
        if turns is None:
            if self._sessions.pop(session, None) is not None:
                self._size -= size
            return before
        left = [each for each in kept.messages if each[1].turn not in turns]
        if len(left) < before:
            kept.messages = deque(left, maxlen=self._keep)
            self._size += kept.size - size
        return before - len(left)

    def forgets_with(
        self, work: Callable[[Connection, SessionKey, Collection[str] | None], None]
    ) -> Callable[[], None]:
        """Pass over `work`: these are in no store. See `Conversations.forgets_with`."""
        del work
        return lambda: None

    def _write(
        self, session: SessionKey, messages: Sequence[Message], taint: Taint, fence: Fence
    ) -> None:
        kept = self._sessions.get(session) or _Kept(deque(maxlen=self._keep))
        if not fence.stands(kept.fence, kept.written):
            raise StaleFenceError.of(session)
        if session not in self._sessions:
            self._sessions[session] = kept
            self._size += kept.size
        self._sessions.move_to_end(session)
        before = kept.size
        if messages:
            kept.fence, fence.taken = fence.number, True
        kept.messages.extend(enumerate(messages, self._last + 1))
        self._last += len(messages)
        kept.written += len(messages)
        kept.taint |= taint
        self._size += kept.size - before
        while self._size > self._total and len(self._sessions) > 1:
            _, gone = self._sessions.popitem(last=False)
            self._size -= gone.size


def _page(every: Iterable[tuple[int, SessionKey, Message]], after: str, limit: int) -> Page:
    if after and not after.isdecimal():
        raise ValueError(f"found the cursor {after[:80]!r}, expected one that a page gave")
    behind = int(after or 0)
    found = list(islice((each for each in every if each[0] > behind), limit + 1))
    shown = found[:limit]
    return Page(
        said=tuple(Said(key, message) for _, key, message in shown),
        cursor=str(shown[-1][0]) if shown else after,
        more=len(found) > limit,
    )
