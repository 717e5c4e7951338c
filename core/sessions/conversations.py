"""Conversations in this process: kept until it ends."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StaleFenceError
from hookgate.core.domain.messages import CLEAN, join_taints
from hookgate.core.domain.turn import SessionKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hookgate.core.domain.messages import Message, Taint

__all__ = ["InProcessConversations"]


@dataclass(slots=True)
class _Kept:
    """One conversation.

    Attributes:
        messages: What was said, oldest first.
        fence: The highest fence that has written to it.
        taint: What was added to it beside its messages.
    """

    messages: deque[Message]
    fence: int = 0
    taint: Taint = CLEAN

    @property
    def size(self) -> int:
        """What it counts for: a session takes room although nothing was said in it."""
        return max(len(self.messages), 1)


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
        self._last_fence = 0
        # The one that was written to longest ago comes first.
        self._sessions: OrderedDict[SessionKey, _Kept] = OrderedDict()

    async def last_fence(self) -> int:
        """Return the highest fence that was ever written, 0 if none was."""
        return self._last_fence

    async def append(self, session: SessionKey, messages: Sequence[Message], *, fence: int) -> None:
        """Add `messages` at the end. See `Conversations.append`."""
        self._write(session, messages, CLEAN, fence)

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole."""
        chosen: list[Message] = []
        seen: list[str] = []
        kept = self._sessions.get(session)
        for message in reversed(kept.messages if kept else ()):
            if not seen or seen[-1] != message.turn:
                if len(seen) >= turns:
                    break
                seen.append(message.turn)
            chosen.append(message)
        return chosen[::-1]

    async def taint(self, session: SessionKey, *, turns: int) -> Taint:
        """Return what a session is tainted with. See `Conversations.taint`."""
        kept = self._sessions.get(session)
        if kept is None:
            return CLEAN
        said = await self.history(session, turns=turns)
        return kept.taint | join_taints(message.taint for message in said)

    async def add_taint(self, session: SessionKey, taint: Taint, *, fence: int) -> None:
        """Add `taint` to a session. See `Conversations.add_taint`."""
        if taint:
            self._write(session, (), taint, fence)

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""
        rows = [
            {
                "session": str(key),
                "messages": len(kept.messages),
                "updated": kept.messages[-1].created.isoformat(),
            }
            for key, kept in self._sessions.items()
            if kept.messages
        ]
        rows.sort(key=lambda row: str(row["updated"]), reverse=True)
        return rows[:limit]

    async def delete(self, session: SessionKey) -> int:
        """Forget all that was said in a session; return how many messages that were."""
        kept = self._sessions.pop(session, None)
        if kept is None:
            return 0
        self._size -= kept.size
        return len(kept.messages)

    def _write(
        self, session: SessionKey, messages: Sequence[Message], taint: Taint, fence: int
    ) -> None:
        kept = self._sessions.get(session)
        if kept is not None and fence < kept.fence:
            raise StaleFenceError(
                f"session {session}: fence {fence} is older than {kept.fence}; "
                "another holder of the lane has written since"
            )
        if kept is None:
            kept = self._sessions[session] = _Kept(deque(maxlen=self._keep))
            self._size += kept.size
        self._sessions.move_to_end(session)
        before = kept.size
        kept.fence = fence
        kept.messages.extend(messages)
        kept.taint |= taint
        self._last_fence = max(self._last_fence, fence)
        self._size += kept.size - before
        while self._size > self._total and len(self._sessions) > 1:
            _, gone = self._sessions.popitem(last=False)
            self._size -= gone.size
