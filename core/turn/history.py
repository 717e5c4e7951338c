"""The part of a stored conversation that a turn begins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.core.domain.messages import Message
    from hookgate.core.domain.ports import Conversations, Loaded
    from hookgate.core.domain.turn import Fence, SessionKey

MOST_TURNS = 1024
"""So many stored turns are read at most, in search of the message that began them."""


async def load_turns(
    conversations: Conversations, session: SessionKey, turns: int, fence: Fence
) -> Loaded:
    """Return at least the last `turns` turns, from a message that began something.

    A client that runs tools itself makes a turn of each round of them. Where the first
    turn brings results only, older ones are read until the calls are there, too.
    """
    seen = 0
    while True:
        loaded = await conversations.load(session, turns=turns, fence=fence)
        messages = loaded.messages
        if len(messages) == seen or whole(messages) or turns >= MOST_TURNS:
            return loaded
        seen = len(messages)
        turns *= 2


def whole(messages: Sequence[Message]) -> bool:
    """Whether stored messages begin with one that began something."""
    return not messages or messages[0].role != "tool"


def group_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Return stored messages turn by turn, oldest first.

    A turn that begins with tool results belongs to the one before it, whose calls they
    answer; where that one is not there any more, it cannot be shown without it.
    """
    groups: list[list[Message]] = []
    orphan = ""
    for message in messages:
        if message.turn == orphan and orphan:
            continue
        if groups and (groups[-1][-1].turn == message.turn or message.role == "tool"):
            groups[-1].append(message)
        elif message.role == "tool":
            orphan = message.turn
        else:
            groups.append([message])
    return groups


@dataclass(slots=True)
class Past:
    """Stored messages, by what a model needs of them.

    A turn that brings tool results goes on with an earlier one. Of that one the message
    that began it and the calls that are answered now have to be there; the rounds between
    may be left out, the oldest first.

    Attributes:
        older: Turns that are over.
        began: The message that began what goes on now, if something does.
        rounds: Its rounds of calls and results so far, the last one left out.
        calls: Its last round: the calls that are answered now.
    """

    older: list[list[Message]] = field(default_factory=list)
    began: list[Message] = field(default_factory=list)
    rounds: list[list[Message]] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)

    @classmethod
    def of(cls, history: Sequence[Message], *, turns: int, goes_on: bool) -> Past:
        """Read `history`, of which `turns` turns at most are wanted."""
        groups = group_turns(history)
        past = cls()
        if goes_on and groups:
            past._take(groups.pop())
            turns -= 1
        past.older = groups[-turns:] if turns > 0 else []
        return past

    def _take(self, group: list[Message]) -> None:
        rounds: list[list[Message]] = []
        for message in group:
            if message.role == "assistant":
                rounds.append([message])
            elif rounds:
                rounds[-1].append(message)
            else:
                self.began.append(message)
        if rounds:
            self.calls = rounds.pop()
        self.rounds = rounds

    @property
    def needed(self) -> list[Message]:
        """What has to be in front of the model, whatever else is left out."""
        return [*self.began, *self.calls]

    @property
    def optional(self) -> list[list[Message]]:
        """What is there as far as it fits, oldest first."""
        return [*self.older, *self.rounds]

    def ordered(self, kept: Sequence[Message]) -> list[Message]:
        """Return what is needed together with what was `kept` of the rest, in order."""
        inner = {message.id for messages in self.rounds for message in messages}
        older = [message for message in kept if message.id not in inner]
        rounds = [message for message in kept if message.id in inner]
        return [*older, *self.began, *rounds, *self.calls]
