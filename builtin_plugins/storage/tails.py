"""The ends of conversations, kept in the process: what turns go on with is not read each time.

The first write of a turn needs the session's row to say what it said when its tail was kept. Every
write of messages, at whichever gateway, leaves a number of its own there, and what is forgotten is
counted: so what others have written, tainted or forgotten is always seen before a model is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import NamedTuple

from hookgate import Message, Part, Taint, Text, ToolResultPart, ToolUse

MOST_SESSIONS = 10_000
MOST_CHARS = 32 * 1024 * 1024
"""Characters of all tails together."""
MESSAGE_CHARS = 1000
"""What a message counts for beside its own characters."""


class Standing(NamedTuple):
    """What a session's row says of its messages.

    Attributes:
        fence: The number of the fence that wrote last.
        messages: How many were written.
        turns: The number of the newest turn.
        forgotten: How many are not there any more.
        last_turn: The id of the newest turn.
    """

    fence: int
    messages: int
    turns: int
    forgotten: int
    last_turn: str = ""


class Stored(NamedTuple):
    """One stored message.

    Attributes:
        turn_number: The place of its turn.
        body: What the store has.
        message: What that says; None where it is read each time.
        lent: Whether each reader gets a copy of its own: arguments of tools are dictionaries, which
            a plugin might write into.
    """

    turn_number: int
    body: str
    message: Message | None
    lent: bool = False

    @classmethod
    def of(cls, turn_number: int, body: str, message: Message) -> Stored:
        """Return a message with what the store has of it."""
        others = [part for part in message.parts if not _is_fixed(part)]
        if not others:
            return cls(turn_number, body, message)
        if not all(type(part) is ToolUse and _is_flat(part.input) for part in others):
            return cls(turn_number, body, None)
        # Whoever brought it has it still.
        return cls(turn_number, body, _copy_of(message), lent=True)

    @property
    def known(self) -> Message | None:
        """The message, as somebody may have it; None where it is read each time."""
        return _copy_of(self.message) if self.lent and self.message else self.message


def _is_fixed(part: Part) -> bool:
    """Whether nobody can change what is in a part."""
    if type(part) is ToolResultPart:
        content = part.content
        return isinstance(content, str) or all(map(_is_fixed, content))
    return type(part) is Text and not part.source


def _is_flat(arguments: object) -> bool:
    return type(arguments) is dict and _PLAIN.issuperset(map(type, arguments.values()))


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _copy_of(message: Message) -> Message:
    parts = [
        replace(part, input=dict(part.input))
        if isinstance(part, ToolUse) and isinstance(part.input, dict)
        else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one conversation.

    Attributes:
        standing: What the session's row said.
        taint: What it said of the session's own taint, as it is stored.
        turns: Of how many of the last turns the messages are there.
        messages: The messages, oldest first.
        chars: What they count for.
        version: What the writer's connection said of writes beside its own; None where the tail was
            read by another one, which counts by itself.
    """

    standing: Standing
    taint: str
    turns: int
    messages: tuple[Stored, ...]
    chars: int
    version: int | None = None

    @classmethod
    def of(cls, standing: Standing, taint: str, turns: int, messages: Iterable[Stored]) -> Tail:
        """Return the tail of the last `turns` turns; older messages are left out."""
        first = standing.turns - turns
        kept = tuple(dropwhile(lambda one: one.turn_number <= first, messages))
        return cls(standing, taint, turns, kept, _chars(kept))

    def extended(self, standing: Standing, messages: Sequence[Stored], version: int) -> Tail:
        """Return it with what was committed since, and the oldest turns left out for that."""
        first = standing.turns - self.turns
        kept, chars = (*self.messages, *messages), self.chars + _chars(messages)
        if self.messages and self.messages[0].turn_number <= first:
            gone = list(takewhile(lambda one: one.turn_number <= first, self.messages))
            kept, chars = kept[len(gone) :], chars - _chars(gone)
        return Tail(standing, self.taint, self.turns, kept, chars, version)

    def has(self, turns: int) -> bool:
        """Whether the last `turns` turns are in it."""
        return self.turns >= min(turns, self.standing.turns)

    def last(self, turns: int, read: Callable[[str], Message]) -> tuple[Message, ...]:
        """Return the messages of the last `turns` turns; `read` reads what the store has."""
        first = self.standing.turns - turns
        return tuple(
            [
                (one.known if one.lent else one.message) or read(one.body)
                for one in self.messages
                if one.turn_number > first
            ]
        )


def _chars(messages: Iterable[Stored]) -> int:
    return sum([MESSAGE_CHARS + len(one.body) for one in messages])


class Tails:
    """The tails of the sessions that were used last; bounded in sessions and in characters.

    Args:
        sessions: The most sessions.
        chars: The most characters of all of them.
    """

    def __init__(self, sessions: int = MOST_SESSIONS, chars: int = MOST_CHARS) -> None:
        self._most, self._room = sessions, chars
        self._tails: OrderedDict[str, Tail] = OrderedDict()

    def get(self, session: str) -> Tail | None:
        """Return what is kept of a session."""
        if (tail := self._tails.get(session)) is not None:
            self._tails.move_to_end(session)
        return tail

    def said(self, session: str, body: str) -> Message | None:
        """Return the message that the store has as `body`, where nobody has to read that."""
        tail = self._tails.get(session)
        messages = () if tail is None else tail.messages
        for one in reversed(messages):
            if one.body == body:
                return one.known
        return None

    def keep(self, session: str, tail: Tail) -> None:
        """Keep the tail of a session, in place of the one before it."""
        self.drop(session)
        self._tails[session] = tail
        self._room -= tail.chars
        while len(self._tails) > self._most or self._room < 0:
            self.drop(next(iter(self._tails)))

    def extend(
        self,
        session: str,
        before: Standing,
        after: Standing,
        messages: Sequence[Stored],
        version: int = 0,
    ) -> None:
        """Add what was committed to a session whose row has gone from `before` to `after`."""
        if (tail := self._tails.get(session)) is None:
            return
        if tail.standing == before:
            self.keep(session, tail.extended(after, messages, version))
        else:
            self.drop(session)

    def drop(self, session: str) -> None:
        """Forget the tail of a session."""
        if (tail := self._tails.pop(session, None)) is not None:
            self._room += tail.chars


@dataclass(eq=False, slots=True)
class AskedTaint:
    """What the taint of a session was asked for, and what was found.

    Attributes:
        session: The session.
        turns: Of how many turns what the messages carry counts.
        outside: What the store said of writes by others, as of the last look; see `Store.outside`.
        taint: What was found; None before that.
    """

    session: str
    turns: int
    outside: int | None
    taint: Taint | None = None


class KnownTaints:
    """The taints of the sessions that were asked for last, as far as nothing was written since.

    A turn that keeps no messages asks for it each time, and mostly nothing has changed. Only a
    store that no other gateway writes to can say so.
    """

    def __init__(self, sessions: int = MOST_SESSIONS) -> None:
        self._most = sessions
        self.asked: OrderedDict[str, AskedTaint] = OrderedDict()
        self._left: Counter[str] = Counter()
        """The sessions with writes under way that nobody waits for any longer."""

    def of(self, session: str, turns: int, outside: int | None) -> AskedTaint:
        """Return what is known; without a taint where it has to be read, and then be kept."""
        known = self.asked.get(session)
        is_read = known is not None and known.taint is not None
        if known and is_read and (known.turns, known.outside) == (turns, outside):
            self.asked.move_to_end(session)
            return known
        asked = AskedTaint(session, turns, outside)
        self.asked.pop(session, None)
        if session in self._left:
            return asked
        self.asked[session] = asked
        if len(self.asked) > self._most:
            self.asked.popitem(last=False)
        return asked

    def keep(self, asked: AskedTaint, taint: Taint) -> None:
        """Keep what was read, unless something was written or asked meanwhile."""
        if self.asked.get(asked.session) is asked:
            asked.taint = taint

    def changing(self, session: str, behind: Callable[[], asyncio.Future[None]]) -> Changing:
        """Know nothing of a session before and behind a write to it, whatever becomes of that.

        Args:
            session: The session.
            behind: Returns what is done once all that was handed to the store by then is written:
                a write is made also where whoever wanted it was cancelled.
        """
        return Changing(self, session, behind)

    def leave(self, session: str, behind: asyncio.Future[None]) -> None:
        """Keep nothing of a session until `behind` is done: a write to it is still under way."""
        self._left[session] += 1
        behind.add_done_callback(lambda done: self._written(session, done))

    def _written(self, session: str, done: asyncio.Future[None]) -> None:
        if not done.cancelled():
            done.exception()  # A store that is closed, or cannot be written, tells others.
        self._left[session] -= 1
        if not self._left[session]:
            del self._left[session]


@dataclass(eq=False, slots=True)
class Changing:
    """A write to a session, of which nothing is known meanwhile; see `KnownTaints.changing`."""

    known: KnownTaints
    session: str
    behind: Callable[[], asyncio.Future[None]]

    def __enter__(self) -> None:
        self.known.asked.pop(self.session, None)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self.known.leave(self.session, self.behind())
        self.known.asked.pop(self.session, None)
