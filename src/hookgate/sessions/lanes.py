"""Lanes in this process: one holder of a session at a time, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import LaneFullError, LaneHeldError, StaleFenceError, counted
from hookgate.core.domain.ports import Conversations
from hookgate.core.domain.turn import Fence, SessionKey, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(slots=True)
class _Lane:
    held: bool = False
    holder: Turn | None = None
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


@dataclass(slots=True)
class InProcessLease:
    """A lane that is held in this process.

    Attributes:
        session: The session whose lane it is.
        conversations: Know who wrote to the session last.
        fence: Who holds it.
        held: Whether it has not been given back yet.
    """

    session: SessionKey
    conversations: Callable[[], Conversations]
    fence: Fence = field(default_factory=Fence)
    held: bool = True

    def check(self, connection: Connection) -> None:
        """Make sure that the lane is still held. See `Lease.check`."""
        if not self.held:
            raise StaleFenceError(
                f"session {self.session}: its lane was given back already; write while you hold it"
            )
        self.conversations().check(connection, self.session, self.fence)


class InProcessLanes:
    """One lane a session, in this process: first come, first served, with a bounded queue.

    Args:
        conversations: Returns the conversations, which know who wrote to a session last.
        queue: How many may wait for one lane.
    """

    def __init__(self, conversations: Callable[[], Conversations], *, queue: int = 16) -> None:
        self._conversations = conversations
        self._queue = queue
        self._lanes: dict[SessionKey, _Lane] = {}

    def ahead(self, session: SessionKey) -> int:
        """Return how many hold the lane or wait for it."""
        lane = self._lanes.get(session)
        return 0 if lane is None else len(lane.waiting) + lane.held

    @asynccontextmanager
    async def hold(
        self, session: SessionKey, turn: Turn | None = None
    ) -> AsyncIterator[InProcessLease]:
        """Wait for the lane of `session` and hold it, for `turn` or without one."""
        lane = self._lanes.setdefault(session, _Lane())
        if lane.held:
            self._refuse_ancestors(lane.holder, session, turn)
            if len(lane.waiting) >= self._queue:
                raise LaneFullError(
                    f"{counted(len(lane.waiting), 'message')} of session {session} waited already",
                    action="wait for an answer, or raise `turn.lane_queue`",
                    data={"waiting": len(lane.waiting)},
                )
            await self._wait(lane, session)
        lane.held, lane.holder = True, turn
        lease = InProcessLease(session, self._conversations)
        try:
            yield lease
        finally:
            lease.held = False
            self._pass_on(lane, session)

    @staticmethod
    def _refuse_ancestors(holder: Turn | None, session: SessionKey, turn: Turn | None) -> None:
        ancestor = turn.parent if turn is not None else None
        while ancestor is not None:
            if ancestor is holder:
                raise LaneHeldError(
                    f"session {session} is held by turn {holder.id}, which waits for this one",
                    action="let the nested turn have a session of its own",
                )
            ancestor = ancestor.parent

    async def _wait(self, lane: _Lane, session: SessionKey) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            # The lane may have been handed over in the same moment: pass it on.
            if place.done() and not place.cancelled():
                self._pass_on(lane, session)
            else:
                with suppress(ValueError):
                    lane.waiting.remove(place)
            raise

    def _pass_on(self, lane: _Lane, session: SessionKey) -> None:
        # `held` stays set until the next one takes over, so that nobody slips between.
        while lane.waiting:
            place = lane.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        lane.held, lane.holder = False, None
        if self._lanes.get(session) is lane:
            del self._lanes[session]


# -- Signals in this process: waking whoever waits for a topic -------------------


class InProcessSignals:
    """Signals within this process."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Queue[Mapping[str, Any]]]] = {}

    async def send(self, topic: str, data: Mapping[str, Any]) -> None:
        """Hand `data` to all who listen to `topic` now."""
        for queue in tuple(self._listeners.get(topic, ())):
            queue.put_nowait(data)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Listen to `topic` for the length of an ``async with`` block."""
        queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)

        async def items() -> AsyncIterator[Mapping[str, Any]]:
            while True:
                yield await queue.get()

        try:
            yield items()
        finally:
            listeners = self._listeners[topic]
            listeners.discard(queue)
            if not listeners:
                del self._listeners[topic]
