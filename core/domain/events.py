"""What a turn emits, the bounded bus that carries it, what is measured, and how parts stand.

An event is a flat, JSON-ready record with a `type`. Clients ignore types that they do
not know, so a plugin may emit types of its own. A scope says what a listener must be allowed
to do, an audience who of those it is for: see `Event.is_for`.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import structlog
from structlog.typing import FilteringBoundLogger

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Principal

DEFAULT_CAPACITY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """One record of figures.

    Attributes:
        name: What was measured, dotted, for example ``turn`` or ``tools.call``.
        timestamp: Milliseconds since 1970-01-01 UTC.
        fields: The figures and what they belong to, JSON-ready.
    """

    name: str
    timestamp: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        type: What happened: ``text``, ``tool_use``, ``tool_result``, ``usage``,
            ``approval``, ``error``, ``done``, ``lifecycle``, ``hook``, or a plugin's own.
            ``docs/turns.md`` has those of a turn.
        data: What is to be said about it, JSON-ready.
        turn: The turn's id, or "" for an event of the gateway itself.
        session: The session's key, or "".
        scope: The scope that a subscriber needs to see it on the bus.
        at: `time.perf_counter()` when it was told; 0 before that.
        audience: Says which of those with the scope it is for. `Turn.emit` narrows it to those
            who may see the turn. Without one, what names a session is for those who may see
            that, what names a turn alone for those who see all, and everything else for all.
        seq: Its number among those of its turn, from 1; 0 for an event of no turn.
        value: The same as an object, for whoever started the turn, where there is one: the
            `Usage` of ``usage``, the `Opaque` of ``opaque``, the `Ending` of ``model_ended``.
    """

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    turn: str = ""
    session: str = ""
    scope: str = "operate"
    at: float = 0.0
    audience: Callable[[Principal], bool] | None = field(default=None, compare=False, repr=False)
    seq: int = 0
    value: Any = field(default=None, compare=False, repr=False)

    def is_for(self, principal: Principal) -> bool:
        """Whether a listener of this name, scopes and bindings is to be handed it."""
        if self.scope not in principal.scopes:
            return False
        if self.audience is not None:
            return self.audience(principal)
        return not (self.turn or self.session) or principal.sees(self.session)


CUT_SHORT = "cancelled from outside"
"""The outcome of a span whose caller was cancelled: no fault of the plugin's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpan:
    """One implementation of one hook ran. Made only while somebody subscribes to spans.

    Attributes:
        hook: The hook's name.
        plugin: The plugin's name.
        seconds: How long it took, waiting included.
        outcome: What it returned or how it failed, in a few words.
        failed: Whether it failed.
        held: Whether it held the event loop for too long: a plain function that took its time
            and is not `blocking`. The outcome says so, too.
        turn: The turn's id, where the hook has one.
        at: `time.perf_counter()` when it began.
    """

    hook: str
    plugin: str
    seconds: float
    outcome: str
    failed: bool = False
    held: bool = False
    turn: str = ""
    at: float = 0.0


class Subscription:
    """One subscriber's bounded queue. The oldest event is dropped when it is full.

    Attributes:
        types: The types that are wanted, or globs of them.
        where: Whether an event of these is; None for all of them.
        principal: Who listens; None where that is the gateway's own code.
        scopes: What that is shown.
        dropped: How many events this subscriber has missed.
    """

    def __init__(
        self,
        capacity: int,
        types: Sequence[str] = ("*",),
        where: Callable[[Event], bool] | None = None,
        principal: Principal | None = None,
        scopes: frozenset[str] = frozenset(),
        deliver: Callable[[Event], None] | None = None,
    ) -> None:
        self._queue: deque[Event] = deque(maxlen=capacity)
        self._ready = asyncio.Event()
        self.types = types
        self.where = where
        self.principal = principal
        self.scopes = scopes
        self.offer = self._keep if deliver is None else deliver
        """Takes an event that is wanted; never waits."""
        self._closed = False
        self.dropped = 0

    def _keep(self, event: Event) -> None:
        if self._closed:
            return
        if len(self._queue) == self._queue.maxlen:
            self.dropped += 1
        self._queue.append(event)
        self._ready.set()

    def close(self) -> None:
        """End the iteration once the queue is drained."""
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()


MOST_TYPES = 256
"""Types of events of which it is remembered who wants them."""


class EventBus:
    """Hands events to whoever subscribes. A slow subscriber loses events, not the turn.

    Attributes:
        on_spans: Called with True when the first subscriber wants hook spans, and with
            False when the last one is gone; until then nobody makes any.
    """

    def __init__(self, redact: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict) -> None:
        self._subscriptions: set[Subscription] = set()
        self._wanting: dict[str, Sequence[Subscription]] = {}
        self._redact = redact
        self._wanting_spans = 0
        self.on_spans: Callable[[bool], None] = lambda _: None
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` whenever somebody has stopped listening; return what undoes it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return bool(self._subscriptions)

    def wanted(self, kind: str) -> bool:
        """Whether anybody listens for this type; makers of costly events look here first."""
        return bool(self._subscriptions) and bool(self._listeners(kind))

    def reaches(self, event: Event) -> bool:
        """Whether any principal who listens now would be handed `event`."""
        return any(
            subscription.principal is not None
            and event.is_for(subscription.principal)
            and (subscription.where is None or subscription.where(event))
            for subscription in self._listeners(event.type)
        )

    def publish(self, event: Event) -> None:
        """Hand `event` to every subscriber, redacted; never waits and never fails."""
        if not self._subscriptions:
            return
        listeners = self._wanting.get(event.type)
        if listeners is None:
            listeners = self._listeners(event.type)
        if not listeners:
            return
        data = self._redact(event.data)
        # A turn's event comes with its time, and mostly holds no secret: then it is passed on
        # as it is.
        safe = event
        if not event.at or data != event.data or event.value is not None:
            safe = Event(
                event.type,
                data,
                event.turn,
                event.session,
                event.scope,
                event.at or perf_counter(),
                event.audience,
                event.seq,
            )
        # Many tabs are one person: whom it is for is found out once for each.
        known: dict[int, bool] = {}
        for subscription in listeners:
            principal = subscription.principal
            if principal is None:
                shown = event.scope in subscription.scopes
            elif id(principal) in known:
                shown = known[id(principal)]
            else:
                shown = known[id(principal)] = safe.is_for(principal)
            if shown and (subscription.where is None or subscription.where(safe)):
                subscription.offer(safe)

    def _listeners(self, kind: str) -> Sequence[Subscription]:
        """Return who wants events of this type; whom each of them is for, it says itself."""
        found = self._wanting.get(kind)
        if found is None:
            if len(self._wanting) >= MOST_TYPES:
                self._wanting.clear()
            found = self._wanting[kind] = [
                subscription
                for subscription in self._subscriptions
                if any(fnmatch.fnmatchcase(kind, glob) for glob in subscription.types)
            ]
        return found

    @contextmanager
    def subscribe(
        self,
        *,
        principal: Principal | None = None,
        scopes: frozenset[str] = frozenset(),
        capacity: int = DEFAULT_CAPACITY,
        types: Sequence[str] = ("*",),
        where: Callable[[Event], bool] | None = None,
        spans: bool = False,
        deliver: Callable[[Event], None] | None = None,
    ) -> Iterator[Subscription]:
        """Subscribe for the length of a `with` block.

        Args:
            principal: Who listens; only what is for this one is shown. Whoever passes events
                on to somebody names that somebody here.
            scopes: Without a principal, for the gateway's own code: the scopes whose events
                are shown, whomever they are for.
            capacity: How many events may wait.
            types: The types that are wanted, or globs of them; what is not costs nothing.
            where: Keeps the events of these for which it returns True.
            spans: Whether hook spans are wanted, as events of type ``hook``.
            deliver: Called with each event at once, in place of a queue; it must neither wait
                nor fail.

        Yields:
            A `Subscription`, to be read with ``async for``.
        """
        subscription = Subscription(capacity, types, where, principal, scopes, deliver)
        self._subscriptions.add(subscription)
        self._wanting.clear()
        self._want_spans(int(spans))
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._wanting.clear()
            self._want_spans(-int(spans))
            subscription.close()
            for watcher in tuple(self._watchers):
                watcher()

    def _want_spans(self, change: int) -> None:
        before, self._wanting_spans = self._wanting_spans, self._wanting_spans + change
        if bool(before) != bool(self._wanting_spans):
            self.on_spans(bool(self._wanting_spans))


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the gateway's log, masked and cut.

    Attributes:
        seq: Its number, from 1.
        time: When, ISO 8601 in UTC.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
        logger: Who speaks; ``hookgate`` is the gateway itself.
        event: What is said.
        fields: What belongs to it, as text by name.
    """

    seq: int
    time: str
    level: str
    logger: str
    event: str
    fields: Mapping[str, str]


class LogTail:
    """The last lines of a log. Lines come from any thread."""

    LINES = 500
    CHARS = 2_000
    """So much is kept of a text."""
    FIELDS = 20
    SECONDS = 0.25
    """The pause between two events that say that there are new lines: a line that comes of
    telling of a line cannot make a storm."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=self.LINES)
        self._seq = 0
        self._lock = Lock()
        self._due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: EventBus | None = None

    @property
    def last(self) -> int:
        """The number of the newest line; 0 before the first."""
        return self._seq

    def lines(self, after: int = 0) -> list[LogLine]:
        """Return the lines after one that is known by its number, the oldest first."""
        with self._lock:
            return [line for line in self._lines if line.seq > after]

    def keep(
        self, time: str, level: str, logger: str, event: str, fields: Mapping[str, str]
    ) -> None:
        """Keep a line, whose secrets are masked already; the oldest one goes for it."""
        cut = {
            name[: self.CHARS]: text[: self.CHARS]
            for name, text in list(fields.items())[: self.FIELDS]
        }
        with self._lock:
            self._seq += 1
            line = LogLine(self._seq, time, level, logger, event[: self.CHARS], cut)
            self._lines.append(line)
            loop, events = self._loop, self._events
            tells = loop is not None and not self._due and events is not None and events.watched
            self._due = self._due or tells
        if tells and loop is not None:
            # Whoever has closed the loop wants to hear nothing more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.call_later, self.SECONDS, self._tell)

    def _tell(self) -> None:
        self._due = False
        if self._events is not None:
            self._events.publish(Event("log", {"last": self._seq}))

    @contextmanager
    def told(self, events: EventBus) -> Iterator[None]:
        """Say on a bus that lines have come, for the length of a ``with`` block."""
        self._loop, self._events, self._due = asyncio.get_running_loop(), events, False
        try:
            yield
        finally:
            self._loop = self._events = None


@dataclass(slots=True)
class Standings:
    """All parts that an operator should know something of.

    Attributes:
        redact: Masks secrets in what is said.
        publish: Takes an event whenever something else is to be said.
        log: Where it is logged.
        degraded: What does not work as it should: part -> why.
        notices: What an operator should know although nothing is wrong: part -> what.
        unready: Why balancers are to send new work elsewhere: part -> why.
    """

    redact: Callable[[str], str] = str
    publish: Callable[[Event], object] = bool
    log: FilteringBoundLogger = field(default_factory=lambda: structlog.get_logger("hookgate"))
    degraded: dict[str, str] = field(default_factory=dict)
    notices: dict[str, str] = field(default_factory=dict)
    unready: dict[str, str] = field(default_factory=dict)

    def turned(self, before: Collection[str], now: Mapping[str, str]) -> set[str]:
        """Say of parts that were bad `before` what is wrong `now`, and that the others are good.

        Args:
            before: The parts, as this returned them the last time.
            now: What is wrong: part -> why.
        """
        for part in set(before) - now.keys():
            self(part).good()
        for part, why in now.items():
            self(part).bad(why)
        return set(now)

    def __call__(self, part: str) -> PartStanding:
        """Return how `part` stands, to say otherwise of it."""
        return PartStanding(self, self.redact(part))


@dataclass(frozen=True, slots=True)
class PartStanding:
    """How one part stands; ``host.standing("part")``.

    Saying the same again costs nothing: the log and the event bus hear of a change alone.
    """

    standings: Standings
    part: str

    def bad(self, why: str) -> None:
        """Say that it does not work as it should: in the log, `status` and `/health`.

        Args:
            why: What is wrong, and what comes of it; "" where it works again.
        """
        if not why:
            self.good()
            return
        told, why = self.standings, self.standings.redact(why)
        if told.degraded.get(self.part) != why:
            told.degraded[self.part] = why
            told.log.warning("degraded", part=self.part, why=why)
            told.publish(Event("degraded", {"part": self.part, "why": why}, scope="read"))

    def good(self) -> None:
        """Say that it works again."""
        told = self.standings
        if told.degraded.pop(self.part, None) is not None:
            told.log.info("recovered", part=self.part)
            told.publish(Event("recovered", {"part": self.part}, scope="read"))

    def unready(self, why: str) -> None:
        """Say that balancers are to send new work elsewhere: `/ready` is 503 for as long.

        The gateway takes what comes all the same.

        Args:
            why: What is wrong, for the log; "" takes it back.
        """
        told, why = self.standings, self.standings.redact(why)
        if not why:
            if told.unready.pop(self.part, None) is not None:
                told.log.info("ready again", part=self.part)
        elif told.unready.get(self.part) != why:
            told.unready[self.part] = why
            told.log.warning("no longer ready", part=self.part, why=why)

    def note(self, what: str) -> None:
        """Say what an operator should know of it, though nothing is wrong; "" takes it back."""
        told, what = self.standings, self.standings.redact(what)
        if not what:
            told.notices.pop(self.part, None)
        elif told.notices.get(self.part) != what:
            told.notices[self.part] = what
            told.log.info("notice", part=self.part, what=what)
            told.publish(Event("notice", {"part": self.part, "what": what}, scope="read"))
