"""Conversations in this process: kept until it ends."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StaleFenceError
from hookgate.core.domain.turn import SessionKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hookgate.core.domain.messages import Message

__all__ = ["InProcessConversations"]


class InProcessConversations:
    """Conversations that end with the process: what there is without a storage plugin.

    Each session keeps its last `keep` messages, all of them together `total`: beyond that
    the sessions that were written to longest ago are forgotten.
    """

    durable = False

    def __init__(self, *, keep: int = 10_000, total: int = 100_000) -> None:
        self._keep = keep
        self._total = total
        self._count = 0
        self._last_fence = 0
        # The one that was written to longest ago comes first.
        self._sessions: OrderedDict[SessionKey, deque[Message]] = OrderedDict()
        self._fences: dict[SessionKey, int] = {}

    async def last_fence(self) -> int:
        """Return the highest fence that was ever written, 0 if none was."""
        return self._last_fence

    async def append(self, session: SessionKey, messages: Sequence[Message], *, fence: int) -> None:
        """Add `messages` at the end. See `Conversations.append`."""
        if fence < self._fences.get(session, 0):
            raise StaleFenceError(
                f"session {session}: fence {fence} is older than {self._fences[session]}; "
                "another holder of the lane has written since"
            )
        self._fences[session] = fence
        self._last_fence = max(self._last_fence, fence)
        kept = self._sessions.setdefault(session, deque(maxlen=self._keep))
        self._sessions.move_to_end(session)
        before = len(kept)
        kept.extend(messages)
        self._count += len(kept) - before
        while self._count > self._total and len(self._sessions) > 1:
            forgotten, gone = self._sessions.popitem(last=False)
            del self._fences[forgotten]
            self._count -= len(gone)

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole."""
        chosen: list[Message] = []
        seen: list[str] = []
        for message in reversed(self._sessions.get(session, ())):
            if not seen or seen[-1] != message.turn:
                if len(seen) == turns:
                    break
                seen.append(message.turn)
            chosen.append(message)
        return chosen[::-1]

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""
        rows = [
            {"session": str(key), "messages": len(kept), "updated": kept[-1].created.isoformat()}
            for key, kept in self._sessions.items()
            if kept
        ]
        rows.sort(key=lambda row: str(row["updated"]), reverse=True)
        return rows[:limit]

    async def delete(self, session: SessionKey) -> int:
        """Forget all that was said in a session; return how many messages that were."""
        gone = self._sessions.pop(session, ())
        self._count -= len(gone)
        return len(gone)
