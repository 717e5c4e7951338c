"""What a model gets to read: stored turns and blocks, under one hard budget of tokens.

The total binds everything: the message itself, the history, and every block that a
plugin adds. Within it each kind of block has a floor, which it gets first, and may have
a cap. What does not fit is left out, and said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate.core.domain.descriptors import KIND_PATTERN
from hookgate.core.domain.messages import (
    CLEAN,
    FIXED,
    Message,
    Opaque,
    Part,
    Provenance,
    Taint,
    ToolResultPart,
    ToolUse,
    join_taints,
)
from hookgate.core.domain.models import BETWEEN, SystemText, source_of
from hookgate.core.domain.parts import Image, Link, Text, plain_text
from hookgate.core.domain.ports import Conversations, Loaded, TokenCounter
from hookgate.core.domain.strict_json import canonical, well_formed
from hookgate.core.settings.sections import nearest

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Fence, SessionKey, Turn
    from hookgate.core.host import Host

BlockKind: TypeAlias = str
"""What a block is: `PRIORITIES` has the known kinds, and a plugin may bring others."""

PRIORITIES: Mapping[str, int] = {
    "soul": 100,
    "history": 80,
    "recall": 60,
    "cards": 40,
    "tiers": 20,
    "other": 0,
}
"""Which kind goes first once every kind has had its floor; higher is first. A kind of a plugin's
own goes with `other`."""
_KIND = re.compile(KIND_PATTERN)

MESSAGE_OVERHEAD = 4
"""Tokens that a chat format spends on each message beside its text; the figure that
OpenAI's cookbook gives for its chat models, rounded up."""


IMAGE_TOKENS = 1600
"""Tokens of a picture. Providers bill by area; this is what Anthropic documents for the
largest one that it does not scale down (1.15 megapixels / 750), rounded up."""

MEDIA_BYTES_PER_TOKEN = 50
"""Bytes of sound or of a document for each token, for packing only: a page of a PDF has some
100 kB and takes 1,500 to 3,000 tokens at Anthropic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One piece of the context that a plugin adds.

    Attributes:
        kind: What it is; decides its floor, its cap and its priority: soul, recall, cards, tiers,
            other, or a word of the plugin's own (lower-case letters, digits, ``_`` and ``-``).
        text: The text.
        plugin: Who added it; stamped by the builder.
        tokens: How many tokens it takes; counted by the builder where it is 0.
        priority: Within its kind; higher is first.
        stable: Whether it stays the same from turn to turn; stable blocks come first.
        provenance: How the text came in.
        taint: Where untrusted text in it came from.
        key: Which of the plugin's blocks of this kind it is, for `source`.
        stays: Says before each later turn of the session whether that one may be shown it as it
            is. With it the block stays where it stood, in front of the message that brought it, as
            long as the history shows that one and there is room; without, it goes with its turn.
            It is asked on the event loop, and is to look something up, not to find it out.
    """

    kind: BlockKind
    text: str
    plugin: str = ""
    tokens: int = 0
    priority: int = 0
    stable: bool = False
    provenance: Provenance = Provenance.INTERNAL_SYSTEM
    taint: Taint = CLEAN
    key: str = ""
    stays: Callable[[Turn], bool] | None = field(default=None, compare=False)

    @property
    def source(self) -> str:
        """The id under which its text stands in model requests; see `SystemText.source`."""
        return source_of(self.plugin, self.kind, self.key)

    def piece(self) -> SystemText:
        """Return it as a model request holds it."""
        return SystemText(text=self.text, stable=self.stable, taint=self.taint, source=self.source)


said_by = attrgetter("plugin", "kind", "text")
"""Who says what in a block: what is the same need not stand there twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that did not fit.

    Attributes:
        kind: The kind of block, or ``history``.
        plugin: Who had added it.
        tokens: How many tokens it would have taken.
    """

    kind: str
    plugin: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What was packed.

    Attributes:
        system: The instructions and blocks, stable ones first.
        history: The stored messages that fit, oldest first, turns whole.
        tokens: How many tokens all of it takes, the turn's own messages included.
        of_messages: How many of them stored and own messages take.
        left_out: What did not fit.
        by_kind: Tokens by kind of block; what stays of earlier turns is history.
        staying: The blocks for this turn that are to stay where they stand.
    """

    system: tuple[SystemText, ...] = ()
    history: tuple[Message, ...] = ()
    tokens: int = 0
    of_messages: int = 0
    left_out: tuple[LeftOut, ...] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)
    staying: tuple[Block, ...] = ()


def said_of(pieces: Sequence[SystemText], turn: str) -> Message:
    """Return blocks as a message; none runs into what stands behind it."""
    return Message(
        role="user",
        parts=tuple([Text(piece.text + BETWEEN, piece.source) for piece in pieces]),
        taint=join_taints([piece.taint for piece in pieces]),
        turn=turn,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """Blocks that a message brought, where they stand: in front of it.

    Attributes:
        blocks: The blocks.
        message: They as a model reads them.
    """

    blocks: tuple[Block, ...]
    message: Message

    @classmethod
    def of(cls, blocks: Sequence[Block], turn: str) -> Stood:
        """Return the blocks of a turn as they stand in later ones.

        Their ids in requests name the turn, so that they are not taken for those of another one.
        """
        pieces = [replace(one.piece(), source=f"{one.source}@{turn}") for one in blocks]
        return cls(blocks=tuple(blocks), message=said_of(pieces, turn))


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """Return how many tokens a message takes, tool calls and results included.

    What a message of text or of results takes is kept with it, since nobody can change that one:
    each turn of a session, and each request of a turn, counts all messages before it.
    """
    known = message.counted
    if known is not None and known[0] is counter:
        return known[1]
    tokens = MESSAGE_OVERHEAD + sum([_part_tokens(part, counter) for part in message.parts])
    if message.plain or FIXED.issuperset(map(type, message.parts)):
        object.__setattr__(message, "counted", (counter, tokens))
    return tokens


def _part_tokens(part: Part, counter: TokenCounter) -> int:
    match part:
        case Text(text):  # nearly every part is
            return counter.count(text)
        case ToolResultPart():
            own, content = counter.count(part.tool_use_id), part.content
            if isinstance(content, str):
                return own + counter.count(content)
            return own + sum([_part_tokens(item, counter) for item in content])
        case ToolUse():
            given = part.input if isinstance(part.input, str) else canonical(part.input).decode()
            return counter.count(given) + counter.count(part.name) + counter.count(part.id)
        case Opaque():
            return counter.count(canonical(part.data).decode())
        case Link():
            return counter.count(plain_text((part,)))
        case Image():
            return IMAGE_TOKENS
        case _:
            return math.ceil(part.size / MEDIA_BYTES_PER_TOKEN)


class ContextBuilder:
    """Takes blocks and packs them. Plugins meet it in `before_context_build`.

    Attributes:
        stage: ``start``, or ``after_tool``.
        budget: The hard total, in tokens.
        counter: Counts tokens.
        stood: What stands in the history, by the id of the message behind it.
    """

    def __init__(
        self,
        *,
        budget: int,
        counter: TokenCounter,
        stage: Literal["start", "after_tool"] = "start",
        floors: Mapping[str, int] | None = None,
        caps: Mapping[str, int] | None = None,
        standing: Mapping[str, Stood] | None = None,
    ) -> None:
        self.stage = stage
        self.budget = budget
        self.counter = counter
        self._floors = dict(floors or {})
        self._caps = dict(caps or {})
        self._blocks: list[Block] = []
        self._history: list[tuple[Message, ...]] = []
        self.stood = standing or {}
        self.plugin = ""

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks so far, in the order in which they were added."""
        return tuple(self._blocks)

    @property
    def standing(self) -> Sequence[Block]:
        """Blocks of earlier turns that the model reads where they stood; see `Block.stays`.

        One that says the same is left out, so that nothing is said twice.
        """
        return [block for one in self.stood.values() for block in one.blocks]

    def add(self, block: Block) -> str:
        """Take `block`; an empty one is passed over.

        Returns:
            The id under which it stands in the requests that it gets into:
            ``request.sources`` has it.

        Raises:
            ValueError: Its kind is no name, or a misspelt one; or its taint is no set.
        """
        if block.kind not in PRIORITIES:
            _check_kind(block.kind)
        if not isinstance(block.taint, frozenset | set):
            raise ValueError(f"found a block's taint {block.taint!r}: expected a frozenset")
        plugin = block.plugin or self.plugin
        if not block.text:
            return source_of(plugin, block.kind, block.key)
        text = well_formed(block.text)
        taken = Block(
            kind=block.kind,
            text=text,
            plugin=plugin,
            # Counted here whatever the plugin says: the budget is hard, a claim is not.
            tokens=max(block.tokens, self.counter.count(text)),
            priority=block.priority,
            stable=block.stable,
            provenance=block.provenance,
            taint=frozenset(block.taint),
            key=block.key,
            stays=block.stays,
        )
        self._blocks.append(taken)
        return taken.source

    def drop(self, known: Collection[tuple[str, str, str]]) -> None:
        """Forget blocks that are in front of the model already, as ``(plugin, kind, text)``."""
        self._blocks = [block for block in self._blocks if said_by(block) not in known]

    def add_history(self, turns: Iterable[Sequence[Message]]) -> None:
        """Take stored turns, oldest first; each is kept or left out whole."""
        self._history.extend(map(tuple, turns))

    def keep_history(self, newest: int) -> None:
        """Forget all stored turns but so many of the newest."""
        del self._history[: max(len(self._history) - newest, 0)]

    def let_go(self) -> None:
        """Forget what stands of the kind that goes first where room is short."""
        least = min([_priority(block.kind) for block in self.standing], default=0)
        left: dict[str, Stood] = {}
        for key, one in self.stood.items():
            if blocks := [block for block in one.blocks if _priority(block.kind) > least]:
                left[key] = Stood.of(blocks, one.message.turn)
        self.stood = left

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages with the blocks that stand in front of them."""
        if not self.stood:
            return messages
        found = []
        for message in messages:
            if one := self.stood.get(message.id):
                found.append(one.message)
            found.append(message)
        return found

    def pack(self, own: Sequence[Message]) -> Context:
        """Pack everything under the budget.

        Args:
            own: The turn's own messages. They are always kept and counted first.

        Returns:
            What fits. First each kind gets its floor, then the rest is shared in the order
            of `PRIORITIES`; within a kind by priority, then in the order of arrival.
        """
        items: list[_Item] = []
        there = set(map(said_by, self.standing)) if self.stood else ()
        for order, block in enumerate(self._blocks):
            if there and said_by(block) in there:
                continue
            rank = (-_priority(block.kind), -block.priority, order)
            items.append(_Item(block.kind, block.tokens, rank, block.plugin, block=block))
        # The newest turn first: history is cut at its old end, and never has a hole.
        for order, turn in enumerate(reversed(self._history)):
            shown = self.shown(turn) if self.stood else turn
            tokens = sum([message_tokens(message, self.counter) for message in shown])
            rank = (-PRIORITIES["history"], 0, order)
            items.append(_Item("history", tokens, rank, "core", turn=turn))
        used = sum([message_tokens(message, self.counter) for message in self.shown(own)])
        taken, by_kind = self._choose(items, self.budget - used)
        blocks: list[Block] = []
        turns: list[_Item] = []
        tokens = of_messages = used
        for item in taken:
            tokens += item.tokens
            if item.block is not None:
                blocks.append(item.block)
            else:
                turns.append(item)
                of_messages += item.tokens
        blocks.sort(key=_place_of)
        turns.sort(key=_rank_of, reverse=True)
        left = () if len(taken) == len(items) else [item for item in items if not item.taken]
        return Context(
            system=tuple([block.piece() for block in blocks]),
            history=tuple(chain.from_iterable([item.turn or () for item in turns])),
            tokens=tokens,
            of_messages=of_messages,
            left_out=tuple(
                [LeftOut(kind=item.kind, plugin=item.plugin, tokens=item.tokens) for item in left]
            ),
            by_kind=by_kind,
            staying=tuple(
                [
                    block
                    for block in blocks
                    # What counts against a cap goes with its turn: a cap is for what is new.
                    if block.stays and not block.stable and block.kind not in self._caps
                ]
            ),
        )

    def _choose(self, items: list[_Item], room: int) -> tuple[list[_Item], dict[str, int]]:
        items = sorted(items, key=_rank_of)
        spent, caps, floors = dict[str, int](), dict[str, int](), dict[str, int]()
        for item in items:
            if (kind := item.kind) not in spent:
                spent[kind], caps[kind] = 0, self._caps.get(kind, self.budget)
                floors[kind] = min(caps[kind], self._floors.get(kind, 0))
        taken: list[_Item] = []
        for most in (floors, caps):
            gap = False
            for item in items:
                if item.taken or (gap and item.turn is not None):
                    continue
                total = spent[item.kind] + item.tokens
                if total <= most[item.kind] and item.tokens <= room:
                    taken.append(item)
                    item.taken = True
                    spent[item.kind] = total
                    room -= item.tokens
                elif item.turn is not None:
                    gap = True
        return taken, {kind: spent[kind] for kind in dict.fromkeys(map(_kind_of, taken))}


def _priority(kind: BlockKind) -> int:
    return PRIORITIES.get(kind, PRIORITIES["other"])


def _check_kind(kind: object) -> None:
    """Raise `ValueError` for a kind that is no name, or nearly that of a known one."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ValueError(
            f"found a block of kind {kind!r}: expected {', '.join(PRIORITIES)}, or a word of your "
            "own: lower-case letters, digits, _ and -"
        )
    if near := nearest(kind, PRIORITIES, cutoff=0.75):
        raise ValueError(
            f"found a block of kind {kind!r}: did you mean {near!r}? If not, call yours by a word "
            "that cannot be taken for it"
        )


@dataclass(slots=True, eq=False)
class _Item:
    kind: BlockKind
    tokens: int
    rank: tuple[int, int, int]
    """Lower is first: by kind, then by priority, then in the order of arrival."""
    plugin: str
    block: Block | None = None
    turn: tuple[Message, ...] | None = None
    taken: bool = False


_rank_of, _kind_of = attrgetter("rank"), attrgetter("kind")


def _place_of(block: Block) -> tuple[bool, bool, int]:
    """Return by what blocks are ordered in a request: what changes least comes first."""
    return (not block.stable, block.stays is None, -_priority(block.kind))


# -- what a turn begins with -----------------------------------------------------


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
    group: list[Message] = []
    last = orphan = ""
    for message in messages:
        turn = message.turn
        if turn == orphan and orphan:
            continue
        if group and (turn == last or message.role == "tool"):
            group.append(message)
        elif message.role == "tool":
            orphan = turn
            continue
        else:
            groups.append(group := [message])
        last = turn
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

    def begin_at(self, start: int) -> list[Message]:
        """Leave out turns that are over, up to the one at `start`; return all that is left."""
        self.older = self.older[start:]
        return self.ordered([*chain.from_iterable((*self.older, *self.rounds))])

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
        if not self.rounds:
            return [*kept, *self.began, *self.calls]
        inner = {message.id for messages in self.rounds for message in messages}
        older = [message for message in kept if message.id not in inner]
        rounds = [message for message in kept if message.id in inner]
        return [*older, *self.began, *rounds, *self.calls]


MOST_WINDOWS = 4096
"""Sessions of which it is known where their history begins; the others begin anew."""


class Windows:
    """Where the history of each session begins that its model reads.

    A history that loses its oldest turn with each new one is read anew each time: no cache knows
    what it begins with. So it stays where it began until it has no room, and then loses several
    turns at once. Another gateway begins at another turn, which is as well.
    """

    def __init__(self) -> None:
        self._begun: dict[SessionKey, str] = {}

    def start(self, session: SessionKey, turns: Sequence[Sequence[Message]], most: int) -> int:
        """Return the place of the turn that the history begins at.

        Args:
            session: The session.
            turns: Its last turns, the oldest first: as many as there may be, at most.
            most: So many there may be.
        """
        begun = self._begun.get(session)
        start = 0
        if begun is not None and begun not in [turn[0].turn for turn in turns]:
            start = max(len(turns) - (most + 1) // 2, 0)
        elif begun is not None:
            start = [turn[0].turn for turn in turns].index(begun)
        self.begin(session, turns[start:])
        return start

    def begin(self, session: SessionKey, turns: Sequence[Sequence[Message]]) -> None:
        """Note that the history of a session is `turns` from here on."""
        self._begun.pop(session, None)
        if turns:
            self._begun[session] = turns[0][0].turn
        if len(self._begun) > MOST_WINDOWS:
            del self._begun[next(iter(self._begun))]


def newest_within(turns: Sequence[Sequence[Message]], tokens: float, counter: TokenCounter) -> int:
    """Return how many of the newest turns take at most so many tokens; one at least."""
    count = 0
    for turn in reversed(turns):
        tokens -= sum([message_tokens(message, counter) for message in turn])
        if tokens < 0:
            break
        count += 1
    return max(count, 1)


# -- what stays where it stood ---------------------------------------------------

MOST_SESSIONS = 1024
"""Sessions whose blocks are kept: those that spoke last. Each has what one request has room for."""


class StandingBlocks:
    """What messages of sessions brought that stays in front of them, by the messages' ids.

    It is kept in this process alone: behind a restart, or at another gateway, a session begins
    anew, and so it does where its history does, since all of it is read anew then anyway. No turn
    is shown what the plugin that brought it does not let that turn read.
    """

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, tuple[str, dict[str, Stood]]] = {}
        """The first message that each request began with, and what stands behind it."""

    def of(self, host: Host, turn: Turn) -> Mapping[str, Stood]:
        """Return what stands in front of messages of a turn's history; forget all else of it."""
        begun, kept = self._sessions.pop(turn.session, ("", {}))
        if not turn.history or turn.history[0].id != begun:
            return {}
        left: dict[str, Stood] = {}
        for message in turn.history:
            if (one := kept.get(message.id)) is None:
                continue
            blocks = [block for block in one.blocks if _may_stay(host, turn, block)]
            if len(blocks) == len(one.blocks):
                left[message.id] = one
            elif blocks:
                left[message.id] = Stood.of(blocks, message.turn)
        return left

    def keep(self, turn: Turn, standing: Mapping[str, Stood], fresh: Sequence[Block]) -> None:
        """Keep what stands in a turn's session, and what its message brought."""
        kept = dict(standing)
        if fresh:
            kept[turn.message.id] = Stood.of(fresh, turn.id)
        if not kept:
            return
        self._sessions[turn.session] = (*turn.history, turn.message)[0].id, kept
        if len(self._sessions) > MOST_SESSIONS:
            self.forget(next(iter(self._sessions)))

    def forget(self, session: SessionKey) -> None:
        """Have nothing stand in a session."""
        self._sessions.pop(session, None)


def _may_stay(host: Host, turn: Turn, block: Block) -> bool:
    """Whether the plugin that brought a block says that a turn may be shown it."""
    try:
        return block.stays is not None and block.stays(turn) is True
    except Exception as error:
        told = {"plugin": block.plugin, "kind": block.kind, "turn": turn.id}
        host.log.warning("a block that stood is dropped: its plugin fails", **told, exc_info=error)
        return False
