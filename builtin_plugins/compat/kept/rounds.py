"""Hidden rounds: what stands behind an answer and its client was not shown.

A denied call and its denial, a tool of the gateway's and what it found, what a provider has signed
and the client's wire has no place for: the model has read it, and the client's history has not.
It is kept under the digest of what was shown, with all before it, so that it finds its place when
the history returns, and no other conversation's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hookgate import Message, Opaque, Principal, Text, ToolUse, Turn
from hookgate.builtin_plugins.compat.kept import Shelf, packed, unpacked
from hookgate.wire import dumps

if TYPE_CHECKING:
    from hookgate.builtin_plugins.compat.kept.tables import HiddenRound
    from hookgate.kit.records import Records

KEPT_SECONDS = 24 * 3600
KNOWN_SECONDS = 30 * 24 * 3600
"""For so long it is known that there was something which is kept no longer."""
MOST_BYTES = 4 * 1024 * 1024
"""Of a larger one it is known only that there was something."""
MOST_ROUNDS = 50_000
"""Beyond that the oldest are forgotten."""
PRUNED_SECONDS = 3600
MOST_ASKED = 500
"""Of a history's last answers so many are looked up."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """An answer in a client's history.

    Attributes:
        start: The place of its first message.
        end: The place behind its last one: a wire may have several for one answer.
        key: The digest of it and all before it.
        answer: The digest of it alone.
    """

    start: int
    end: int
    key: str
    answer: str


@dataclass(frozen=True, slots=True)
class Restored:
    """A client's history with what was hidden in its places.

    Attributes:
        messages: The history.
        session: The session of its last answer that is known; "" where none is.
        lost: The places in `messages` of answers of which something is not kept any longer.
    """

    messages: tuple[Message, ...]
    session: str = ""
    lost: frozenset[int] = frozenset()


class Conversation:
    """Digests of a conversation as its client sees it, message by message.

    Args:
        principal: Whose it is.
    """

    def __init__(self, principal: Principal) -> None:
        self._own = principal.id.encode()
        self._chain = hashlib.sha256(self._own)

    def walk(self, messages: Sequence[Message]) -> list[ShownMessage]:
        """Go on with a history; return the answers in it."""
        found, place = [], 0
        while place < len(messages):
            message, start = messages[place], place
            if message.role != "assistant":
                results = [part.tool_use_id for part in message.tool_results]
                self._add([_squeezed(message.text), results])
                place += 1
                continue
            while place < len(messages) and messages[place].role == "assistant":
                place += 1
            group = messages[start:place]
            text = "".join(one.text for one in group)
            calls = [use for one in group for use in one.tool_uses]
            if text or calls:
                found.append(ShownMessage(start, place, *self.answer(text, calls)))
        return found

    def answer(self, text: str, calls: Iterable[ToolUse]) -> tuple[str, str]:
        """Go on with an answer; return its digest with all before it, and its own."""
        told = [_squeezed(text), [[use.id, use.name, _given(use.input)] for use in calls]]
        self._add(told)
        own = hashlib.sha256(self._own + dumps(told))
        return self._chain.hexdigest(), own.hexdigest()

    def _add(self, told: Any) -> None:
        self._chain.update(hashlib.sha256(dumps(told)).digest())


def _squeezed(text: str) -> str:
    """Return a text without white space, with which clients are free."""
    return "".join(text.split())


def _given(arguments: Mapping[str, Any] | str) -> Any:
    """Return arguments in one order of their names."""
    return dict(sorted(arguments.items())) if isinstance(arguments, Mapping) else arguments


def made_in(turn: Turn, said: str) -> list[Message]:
    """Return the messages that a turn's model and tools have made, whatever was shown of them.

    Args:
        turn: The turn, ended.
        said: What the gateway has said in the place of calls that it has denied.
    """
    messages = turn.messages
    first = next((at for at, one in enumerate(messages) if one.role == "assistant"), len(messages))
    made = list(messages[first:])
    if said:
        made.append(Message(role="assistant", parts=(Text(said),), turn=turn.id))
    return made


def is_hidden(made: Sequence[Message], *, shows_opaque: bool) -> bool:
    """Whether a client sees less of an answer than there is.

    Args:
        made: The answer's messages.
        shows_opaque: Whether it gets what only its provider reads.
    """
    if len(made) > 1:
        return True
    return not shows_opaque and any(
        isinstance(part, Opaque) for message in made for part in message.parts
    )


class HiddenRounds:
    """Keeps what clients are not shown, and puts it back in its place.

    Args:
        shelf: Where it is kept.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._some: bool | None = None
        """Whether this process has kept any, or found any; None before it was looked."""
        self._pruned = 0
        self._passing: Records[HiddenRound] | None = None
        """Those of requests of which nothing is to be stored."""

    # -- back in its place -------------------------------------------------------------------

    async def restored(self, principal: Principal, messages: tuple[Message, ...]) -> Restored:
        """Return a client's history with what was hidden in its places.

        Raises:
            StoreError: It cannot be read.
        """
        if not any(message.role == "assistant" for message in messages):
            return Restored(messages)
        tables = await self._tables()
        if not await self._may_have():
            return Restored(messages)
        await self._prune()
        shown = Conversation(principal).walk(messages)
        wanted = [one.answer for one in shown[-MOST_ASKED:]]
        rows = [row for table in tables for row in await table.all(table.c.answer.in_(wanted))]
        return await self._placed(messages, shown, rows)

    async def _placed(
        self,
        messages: tuple[Message, ...],
        shown: Sequence[ShownMessage],
        rows: Sequence[HiddenRound],
    ) -> Restored:
        known, told = {row.key: row for row in rows}, {row.answer for row in rows}
        found: list[Message] = []
        lost: set[int] = set()
        session, place = "", 0
        for one in shown:
            found += messages[place : one.start]
            row, place = known.get(one.key), one.end
            session = row.session if row is not None else session
            hidden = await self._read(row)
            if hidden is None:
                if one.answer in told:
                    lost.update(range(len(found), len(found) + one.end - one.start))
                found += messages[one.start : one.end]
                continue
            found += hidden or messages[one.start : one.end]
            if hidden and hidden[-1].role == "tool" and place < len(messages):
                # What the client brings of the same message stands in one with it.
                found += _divided(messages[place])
                place += 1
        return Restored((*found, *messages[place:]), session, frozenset(lost))

    async def _read(self, row: HiddenRound | None) -> list[Message] | None:
        """Return the messages of a row, none where nothing was hidden; None where they are lost."""
        if row is None or not row.messages or row.made + KEPT_SECONDS < self._shelf.now():
            return None
        return [Message.from_json(one) for one in await unpacked(row.messages)]

    # -- what is kept ------------------------------------------------------------------------

    async def keep(
        self,
        digests: tuple[str, str],
        session: str,
        made: Sequence[Message],
        *,
        stored: bool,
    ) -> None:
        """Keep what stands behind an answer.

        Args:
            digests: Of the answer, as it was shown.
            session: The client's session.
            made: The messages in its place; none where nothing was hidden.
            stored: Whether it may outlive the process.

        Raises:
            StoreError: It was not kept.
        """
        module, _ = await self._shelf.open()
        key, answer = digests
        written = await packed([message.to_json() for message in made])
        row = module.HiddenRound(
            key=key,
            answer=answer,
            session=session,
            made=self._shelf.now(),
            messages=written if len(written) <= MOST_BYTES else b"",
        )
        table, passing = await self._tables()
        kept = table if stored else passing
        await kept.save([row])
        self._some = True
        await self._prune()

    async def _prune(self) -> None:
        """Forget, once an hour, what is kept no longer."""
        now = self._shelf.now()
        if now < self._pruned + PRUNED_SECONDS:
            return
        self._pruned = now
        module, _ = await self._shelf.open()
        for table in await self._tables():
            work = partial(
                module.forget_rounds,
                kept=now - KEPT_SECONDS,
                known=now - KNOWN_SECONDS,
                most=MOST_ROUNDS,
            )
            await table.store.write(work)

    async def _tables(self) -> tuple[Records[HiddenRound], Records[HiddenRound]]:
        module, store = await self._shelf.open()
        if self._passing is None:
            from hookgate.kit.records import MemoryStore

            self._passing = module.HiddenRound.records(MemoryStore(module.METADATA))
        return module.HiddenRound.records(store), self._passing

    async def _may_have(self) -> bool:
        """Whether there may be any: of other gateways' own nobody here is told."""
        table, _ = await self._tables()
        if table.store.shared:
            return True
        if self._some is None:
            self._some = bool(await table.page(limit=1))
        return self._some


def _divided(message: Message) -> Iterator[Message]:
    """Yield a message's results as one of their own, and what else is in it."""
    results = message.tool_results
    rest = tuple(part for part in message.parts if part not in results)
    if message.role != "user" or not results:
        yield message
        return
    yield replace(message, role="tool", parts=results)
    if rest:
        yield replace(message, parts=rest)


def without_thoughts(messages: Sequence[Message], lost: frozenset[int]) -> tuple[Message, ...]:
    """Return a history without what only a provider reads in those messages.

    Its signature does not fit what stands beside it now.
    """
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if place in lost:
            parts = tuple(part for part in message.parts if not isinstance(part, Opaque))
            if not parts:
                continue
            message = message if len(parts) == len(message.parts) else replace(message, parts=parts)
        kept.append(message)
    return tuple(kept)


def in_a_round(messages: Sequence[Message], lost: frozenset[int]) -> bool:
    """Whether results come back for a call whose message has lost its thoughts."""
    last = max((at for at, one in enumerate(messages) if one.role == "assistant"), default=-1)
    if last not in lost:
        return False
    thinks = any(isinstance(part, Opaque) for part in messages[last].parts)
    calls = any(isinstance(part, ToolUse) for part in messages[last].parts)
    return thinks and calls
