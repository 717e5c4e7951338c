"""Conversations, questions and lanes in this process: kept until it ends."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from hookgate.core.domain.errors import LaneFullError, LaneHeldError, StaleFenceError, counted
from hookgate.core.domain.messages import CLEAN, Message, Taint, join_taints
from hookgate.core.domain.ports import Conversations, Loaded, Page, Said
from hookgate.core.domain.turn import Fence, Principal, SessionKey, Turn
from hookgate.core.hooks.tasks import finish
from hookgate.ports import Question, Settled, Store

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


# -- questions -------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Waiting:
    question: Question
    settled: asyncio.Future[Settled]
    # Whether somebody's answer is being kept: nobody else can answer meanwhile.
    taken: bool = False
    free: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        # Whoever awaited it with a limit has cancelled it: nobody would hear an answer.
        return not self.taken and not self.settled.done()


class InProcessQuestions:
    """Questions that end with the process; see `hookgate.core.domain.ports.Questions`.

    Args:
        store: Returns the store in which answers write what goes with them; None without one.
    """

    def __init__(self, store: Callable[[], Store | None] = lambda: None) -> None:
        self._store = store
        self._waiting: dict[str, _Waiting] = {}

    async def ask(self, question: Question) -> asyncio.Future[Settled]:
        """Let `question` wait; the future says what becomes of it."""
        settled: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = _Waiting(question, settled)
        settled.add_done_callback(lambda _: self._waiting.pop(question.id, None))
        return settled

    async def find(self, question_id: str) -> Question | None:
        """Return a question that waits."""
        found = self._waiting.get(question_id)
        return found.question if found is not None and found.open else None

    async def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions at addresses that `principal` may claim, the oldest first."""
        return [
            one.question
            for one in self._waiting.values()
            if one.open and principal.may_claim(one.question.address)
        ]

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        by: str,
        also: Callable[[Connection | None], None] | None = None,
    ) -> bool:
        """Answer a question; False where it does not wait any more."""
        found = self._waiting.get(question_id)
        if found is None or not found.open:
            return False
        found.question.check(value)
        found.taken = True

        async def settle() -> None:
            try:
                await self._write(also)
            except BaseException:
                found.taken = False
                raise
            finally:
                found.free.set()
                found.free = asyncio.Event()
            self._settle(found, Settled(state="answered", value=value, by=by))

        # Whole: what was handed to the store is written, and then its asker has to hear of it.
        await finish(settle())
        return True

    async def _write(self, also: Callable[[Connection | None], None] | None) -> None:
        store = self._store()
        if also is None:
            return
        if store is None:
            also(None)
        else:
            await store.write(also)

    async def end(
        self, question_id: str, state: Literal["expired", "withdrawn"], why: str
    ) -> Settled:
        """End a question, if nobody answers it first; return what became of it."""
        found = self._waiting.get(question_id)
        while found is not None and found.taken and not found.settled.done():
            await found.free.wait()
        if found is None or found.settled.cancelled():
            self._waiting.pop(question_id, None)
            return Settled(state=state, why=why)
        if not found.settled.done():
            self._settle(found, Settled(state=state, why=why))
        return found.settled.result()

    async def expire(self) -> Sequence[Question]:
        """There is nothing to end: no question is here whose asker has stopped."""
        return ()

    def _settle(self, found: _Waiting, settled: Settled) -> None:
        self._waiting.pop(found.question.id, None)
        if not found.settled.done():
            found.settled.set_result(settled)


# -- lanes -----------------------------------------------------------------------

# One holder of a session at a time, first come, first served.


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
