"""Who answers a message, and in which order.

Bindings choose the agent; agent and peer make the session; each session has one lane,
in which its turns run one after the other. What stands here keeps everything in this
process; the ports let a plugin do the same across processes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.core.counting import counted
from hookgate.core.errors import LaneFullError, LaneHeldError, NoAgentError, StaleFenceError
from hookgate.core.shielding import contained
from hookgate.core.turn import SessionKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from hookgate.core.messages import Message
    from hookgate.core.settings import BindingSettings
    from hookgate.core.turn import Address, Agent, Turn

__all__ = [
    "InProcessConversations",
    "InProcessLanes",
    "InProcessSignals",
    "InSessionOrder",
    "Route",
    "Router",
    "Tier",
]

Tier: TypeAlias = Literal["request", "peer", "guild", "team", "account", "channel", "default"]
_TIERS: tuple[Tier, ...] = ("peer", "guild", "team", "account", "channel", "default")
_FIELDS = ("peer", "guild", "team", "account", "channel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which agent answers, and why.

    Attributes:
        agent: The agent.
        tier: The tier that decided.
        binding: The place of the binding in the settings, from 0; None where none matched.
        reason: The same in words.
    """

    agent: Agent
    tier: Tier
    binding: int | None = None
    reason: str = ""


class Router:
    """Resolves the agent of a message: peer > guild > team > account > channel > default.

    A binding belongs to the tier of the most specific field that it sets, and matches
    when all the fields that it sets do. Within a tier the first one in the settings wins.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        bindings: Sequence[BindingSettings] = (),
        default: str | None = None,
    ) -> None:
        self._agents = dict(agents)
        self._default = default
        self._tiers: dict[Tier, list[tuple[int, BindingSettings]]] = {tier: [] for tier in _TIERS}
        for number, binding in enumerate(bindings):
            self._tiers[_tier_of(binding)].append((number, binding))
        if default is None and not bindings and len(agents) == 1:
            self._default = next(iter(agents))

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by name."""
        return self._agents

    def resolve(self, address: Address, agent: str | None = None) -> Route:
        """Return who answers a message from `address`.

        Args:
            address: Where the message comes from.
            agent: An agent that was asked for by name; comes before all bindings.

        Raises:
            NoAgentError: Nothing matches, or the agent that was asked for is not there.
        """
        if agent is not None:
            if agent not in self._agents:
                raise NoAgentError(
                    f"found no agent called {agent!r}; configured are {self._names()}",
                    action=f"add a section [agents.{agent}] to the settings",
                )
            return Route(agent=self._agents[agent], tier="request", reason="asked for by name")
        for tier in _TIERS:
            for number, binding in self._tiers[tier]:
                if _matches(binding, address):
                    return Route(
                        agent=self._agents[binding.agent],
                        tier=tier,
                        binding=number,
                        reason=f"bindings[{number}] matches by {_describe(binding)}",
                    )
        if self._default is not None:
            return Route(agent=self._agents[self._default], tier="default", reason="the default")
        raise NoAgentError(
            f"no binding matches channel {address.channel!r}, account {address.account!r}, "
            f"peer {address.peer!r}, and there is no default; configured are {self._names()}",
            action="add a [[bindings]] entry for it, or set `default_agent`",
        )

    def _names(self) -> str:
        return ", ".join(sorted(self._agents)) or "none"


def _tier_of(binding: BindingSettings) -> Tier:
    for tier in _TIERS[:-1]:
        if getattr(binding, tier) is not None:
            return tier
    return "default"


def _matches(binding: BindingSettings, address: Address) -> bool:
    wanted = ((getattr(binding, name), getattr(address, name)) for name in _FIELDS)
    return all(want is None or want == have for want, have in wanted)


def _describe(binding: BindingSettings) -> str:
    given = [f"{name} {value!r}" for name in _FIELDS if (value := getattr(binding, name))]
    return " and ".join(given) or "setting no field"


@dataclass(slots=True)
class _Lane:
    holder: Turn | None = None
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class InProcessLease:
    """A lane that is held in this process."""

    fence: int


class InProcessLanes:
    """One lane a session, in this process: first come, first served, with a bounded queue."""

    def __init__(self, *, queue: int = 16) -> None:
        self._queue = queue
        self._lanes: dict[SessionKey, _Lane] = {}
        self._fence = 0

    def start_at(self, fence: int) -> None:
        """Make every fence from now on higher than `fence`, the highest one ever written."""
        self._fence = max(self._fence, fence)

    def ahead(self, session: SessionKey) -> int:
        """Return how many turns hold the lane or wait for it."""
        lane = self._lanes.get(session)
        return 0 if lane is None else len(lane.waiting) + (lane.holder is not None)

    @asynccontextmanager
    async def hold(self, session: SessionKey, turn: Turn) -> AsyncIterator[InProcessLease]:
        """Wait for the lane of `session` and hold it for `turn`. See `Lanes.hold`."""
        lane = self._lanes.setdefault(session, _Lane())
        if lane.holder is not None:
            self._refuse_ancestors(lane.holder, session, turn)
            if len(lane.waiting) >= self._queue:
                raise LaneFullError(
                    f"{counted(len(lane.waiting), 'message')} of session {session} waited already",
                    action="wait for an answer, or raise `turn.lane_queue`",
                    data={"waiting": len(lane.waiting)},
                )
            await self._wait(lane, session)
        lane.holder = turn
        self._fence += 1
        try:
            yield InProcessLease(self._fence)
        finally:
            self._pass_on(lane, session)

    @staticmethod
    def _refuse_ancestors(holder: Turn, session: SessionKey, turn: Turn) -> None:
        ancestor = turn.parent
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
        # `holder` stays set until the next one takes over, so that nobody slips between.
        while lane.waiting:
            place = lane.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        lane.holder = None
        if self._lanes.get(session) is lane:
            del self._lanes[session]


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


class InSessionOrder:
    """Runs work off the lanes, in the order in which it came in, session by session."""

    def __init__(self) -> None:
        self._last: dict[SessionKey, asyncio.Task[None]] = {}

    def run(self, session: SessionKey, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` once all earlier work of `session` is over."""
        before = self._last.get(session)

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await contained(work())

        task = asyncio.create_task(in_turn(), name=f"after {session}")
        self._last[session] = task
        task.add_done_callback(lambda done: self._forget(session, done))
        return task

    def _forget(self, session: SessionKey, task: asyncio.Task[None]) -> None:
        if self._last.get(session) is task:
            del self._last[session]

    async def drain(self) -> None:
        """Wait until all work is done."""
        while self._last:
            await asyncio.wait(tuple(self._last.values()))
