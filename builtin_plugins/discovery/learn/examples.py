"""Learning from use: queries that a capability has answered well become examples of it.

Retrieval may look at them, and does without them: whatever fails here is said in `status`
and ends no turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import (
    CONVERSATIONS,
    STORE,
    Conversations,
    Host,
    Message,
    Operation,
    Outcome,
    SessionKey,
    Store,
    StoreError,
    Tool,
    Turn,
    operations_of,
)
from hookgate.builtin_plugins.discovery.learn.operations import ExampleOperations
from hookgate.builtin_plugins.discovery.learn.view import (
    NO_EXAMPLES,
    Example,
    ExampleBounds,
    ExampleSet,
    ExampleView,
    failed_with,
    fold,
    is_whole,
    kept_text,
    used_well,
    used_well_in,
)
from hookgate.kit.tables import tables_of
from hookgate.tasks import finish

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.learn.store import StoreExamples

LearningScope: TypeAlias = Literal["principal", "agent", "gateway"]

PART = "discovery.examples"

OFTEN = 1000
"""After so many turns, what the next start would read again is moved on."""


class Examples:
    """The examples of one gateway.

    Without a store they are kept in memory and end with the process. While the store fails,
    nothing is learned, and each lesson tries again. Everything here is called on the event
    loop; what `of_scope` returns may be read anywhere.

    Args:
        enabled: Whether anything is learned, and shown to retrieval. What is kept already
            can be seen and erased all the same.
        per_capability: Examples of one capability in one scope at most.
        total: Examples of one scope at most.
        overall: Examples of all scopes together at most.
        scope: Who shares examples: all turns of one principal, of one agent, or all.
        judged_only: Whether only turns teach that a plugin has judged (`judge_turn`), and not
            those that the core takes for a success because they gave a whole answer.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        per_capability: int = 30,
        total: int = 10_000,
        overall: int = 100_000,
        scope: LearningScope = "principal",
        judged_only: bool = False,
    ) -> None:
        self._enabled = enabled
        self._bounds = ExampleBounds(per_capability=per_capability, total=total, overall=overall)
        self._width: LearningScope = scope
        self._judged_only = judged_only
        self._view = ExampleView(self._bounds)
        self._host: Host | None = None
        self._store: Store | None = None
        self._kept: StoreExamples | None = None
        self._last = 0
        self._heard = 0
        # Before the first turn of this gateway, and, once all before was heard, before what runs.
        self._start = ""
        self._erased = 0
        self._mark: str | None = None
        # The store and the view change together, one change after the other.
        self._lock = asyncio.Lock()

    @property
    def enabled(self) -> bool:
        """Whether anything is learned."""
        return self._enabled

    @property
    def durable(self) -> bool:
        """Whether what is learned outlives the process."""
        return self._kept is not None and self._store is not None and self._store.durable

    async def open(self, host: Host) -> None:
        """Load what is kept.

        Raises:
            StartError: The table is outdated and may not be changed, or newer than the code.
        """
        self._host, self._store, self._kept = host, host.get(STORE), None
        self._view = ExampleView(self._bounds)
        if self._store is None:
            if self._enabled:
                host.standing(PART).bad(
                    "no plugin provides a store: examples are kept in memory and lost when the "
                    "gateway stops (enable the plugin `storage`)"
                )
            return
        try:
            await self._ready()
            if (conversations := self._conversations()) is not None:
                self._start = await conversations.end()
        except StoreError as error:
            self._fails(error)

    async def catch_up(self, tools: Mapping[str, Tool]) -> int:
        """Learn from turns that were committed, and whose `after_turn` a kill has prevented.

        Args:
            tools: The tools that there are, by name.

        Returns:
            How many turns taught something.
        """
        conversations = self._conversations()
        if conversations is None or self._kept is None or not self._start:
            return 0
        try:
            cursor, taught = await self._kept.heard(), 0
            # Where nobody has listened before, what was said until now is left alone.
            if cursor is not None and not self._judged_only:
                taught = await self._hear(turns_since(conversations, cursor), tools)
            await self._kept.set_heard(self._start)
            self._mark = self._start
        except StoreError as error:
            self._fails(error)
            return 0
        return taught

    async def close(self) -> None:
        """Keep that every turn was heard; nothing follows a turn any more."""
        conversations = self._conversations()
        if conversations is not None and self._kept is not None and self._mark is not None:
            try:
                await self._kept.set_heard(await conversations.end())
            except StoreError as error:
                self._fails(error)

    async def learn(self, turn: Turn, outcome: Outcome | None) -> int:
        """Keep the message of `turn` as an example of each capability that it used well.

        A message that is an example already is counted once more. It counts half as often once a
        turn of it has failed with that capability, and is forgotten where that is not once.

        Args:
            turn: The turn, ended.
            outcome: How it went; None where nobody knows, which teaches nothing.

        Returns:
            How many examples are new.
        """
        if not self._enabled or self._host is None or turn.ephemeral:
            return 0
        await self._listened()
        if failed := failed_with(turn, outcome):
            await finish(self._lower(self.scope_of(turn), failed, turn.message.text))
        capabilities = used_well(turn, outcome, judged_only=self._judged_only)
        if not capabilities:
            return 0
        text = kept_text(turn.message.text, self._host.secrets.redact)
        if text is None:
            return 0
        # Whole: what the store has taken, memory knows, even if the hook is cut short.
        return await finish(self._keep(self.scope_of(turn), capabilities, text))

    def of_scope(self, scope: str) -> ExampleSet:
        """Return the examples of `scope` as they are now; none where learning is off."""
        return self._view.of_scope(scope) if self._enabled else NO_EXAMPLES

    def scope_of(self, turn: Turn) -> str:
        """Return the scope whose examples `turn` may see and add to."""
        return self.scope_for(turn.principal.id, turn.agent.name)

    def scope_for(self, principal: str, agent: str) -> str:
        """Return the scope of the turns of a principal with an agent, by their names."""
        if self._width == "principal":
            return f"principal:{principal}"
        return f"agent:{agent}" if self._width == "agent" else "gateway"

    def matching(
        self, *, scope: str | None = None, capability: str | None = None, text: str = ""
    ) -> Sequence[Example]:
        """Return the examples that fit and hold `text`, the most recently used first."""
        part = fold(text)
        fits = self._view.matching(scope=scope, capability=capability, folded=None)
        return [example for example in reversed(fits) if part in example.folded]

    async def forget(
        self,
        *,
        scope: str | None = None,
        capability: str | None = None,
        query: str | None = None,
    ) -> int:
        """Erase the examples that fit everything that is not None; all, where all are None.

        Args:
            scope: A scope, such as ``principal:loopback``.
            capability: The id of a capability.
            query: A text; case, width and white space do not matter.

        Returns:
            How many are gone, from the store too.

        Raises:
            StoreError: The store did not take it; nothing is erased.
        """
        return await finish(self._forget(scope, capability, None if query is None else fold(query)))

    async def take_in(
        self, scope: str, rows: Sequence[tuple[str, str, int]], *, trusted: bool
    ) -> tuple[int, int, int]:
        """Take in examples of elsewhere: triples of capability, text and count.

        Args:
            scope: Whose they are to be.
            rows: The examples, the least recently used first.
            trusted: Whether whoever imports them knows who wrote them. Others count less in
                searches, as the examples of other people's capabilities do, until one is used well.

        Returns:
            How many were added, were there already, and are none that is kept.

        Raises:
            StoreError: The store did not take them; nothing is added.
        """
        return await finish(self._take_in(scope, rows, trusted))

    def operations(self) -> Sequence[Operation[Any, Any]]:
        """Return what shows and erases examples."""
        return operations_of(ExampleOperations(self))

    # -- inside ------------------------------------------------------------------

    def _conversations(self) -> Conversations | None:
        """Return the conversations to catch up with; None where none outlive the process."""
        if not self._enabled or self._host is None or not self.durable:
            return None
        conversations = self._host.get(CONVERSATIONS)
        return conversations if conversations is not None and conversations.durable else None

    async def _hear(
        self, turns: AsyncIterator[tuple[SessionKey, list[Message]]], tools: Mapping[str, Tool]
    ) -> int:
        assert self._host is not None, "nothing is learned before `open`"
        taught = 0
        async for session, messages in turns:
            first, ended = messages[0], _microseconds(messages[-1].created)
            whole = is_whole(messages) and ended > self._erased
            capabilities = used_well_in(messages, tools) if whole else ()
            text = kept_text(first.text, self._host.secrets.redact)
            if (
                capabilities
                and text is not None
                and (first.principal or self._width != "principal")
            ):
                scope = self.scope_for(first.principal, session.agent)
                missed = [
                    each for each in capabilities if not self._knows(scope, each, text, ended)
                ]
                if missed:
                    await finish(self._keep(scope, missed, text))
                    taught += 1
        return taught

    def _knows(self, scope: str, capability: str, text: str, ended: int) -> bool:
        """Whether that was learned after a turn had `ended`: from this very one, most likely."""
        known = self._view.get(Example.new(scope, capability, text, at=ended).id)
        return known is not None and known.used >= ended

    async def _listened(self) -> None:
        """Move on, now and then, what the next start has to read again.

        Not to where the conversations end, since turns run that are not heard yet, but to where
        they ended the last time: in between, as many turns as this were heard to their end.
        """
        self._heard += 1
        if self._mark is None or self._heard % OFTEN:
            return
        conversations = self._conversations()
        if conversations is None:
            return
        assert self._kept is not None, "what is durable is kept"
        try:
            mark, self._mark = self._mark, await conversations.end()
            await self._kept.set_heard(mark)
        except StoreError as error:
            self._fails(error)

    async def _keep(self, scope: str, capabilities: Sequence[str], text: str) -> int:
        async with self._lock:
            try:
                kept = await self._ready()
                examples = [self._used(scope, capability, text) for capability in capabilities]
                if kept is not None:
                    await kept.keep(examples)
            except StoreError as error:
                self._fails(error)
                return 0
            if kept is not None and self._host is not None:
                self._host.standing(PART).good()
            new = [example for example in examples if example not in self._view]
            self._view.keep(examples)
            return sum(example in self._view for example in new)

    async def _lower(self, scope: str, capabilities: Sequence[str], said: str) -> None:
        assert self._host is not None, "nothing is learned before `open`"
        text = kept_text(said, self._host.secrets.redact)
        async with self._lock:
            try:
                kept = await self._ready()
                lowered = []
                for capability in capabilities if text is not None else ():
                    again = self._used(scope, capability, text or "")
                    if (known := self._view.get(again.id)) is not None:
                        lowered.append(replace(known, count=known.count // 2, used=again.used))
                if kept is not None and lowered:
                    await kept.lower(lowered)
            except StoreError as error:
                self._fails(error)
                return
            self._view.drop([one for one in lowered if not one.count])
            self._view.keep([one for one in lowered if one.count])

    async def _take_in(
        self, scope: str, rows: Sequence[tuple[str, str, int]], trusted: bool
    ) -> tuple[int, int, int]:
        assert self._host is not None, "nothing is imported before `open`"
        redact = self._host.secrets.redact
        async with self._lock:
            kept = await self._ready()
            fresh: dict[str, Example] = {}
            known = unfit = 0
            for capability, said, count in rows:
                if (text := kept_text(said, redact)) is None:
                    unfit += 1
                    continue
                example = self._used(scope, capability, text)
                if example in self._view or example.id in fresh:
                    known += 1
                    continue
                fresh[example.id] = replace(example, count=count, foreign=not trusted)
            if kept is not None and fresh:
                await kept.take_in(list(fresh.values()))
            self._view.keep(fresh.values())
            return sum(one in self._view for one in fresh.values()), known, unfit

    async def _forget(self, scope: str | None, capability: str | None, folded: str | None) -> int:
        async with self._lock:
            kept = await self._ready()
            erased = None
            if kept is not None:
                await self._leave_alone(kept)
                erased = await kept.forget(scope=scope, capability=capability, folded=folded)
            gone = self._view.matching(scope=scope, capability=capability, folded=folded)
            self._view.drop(gone)
            return len(gone) if erased is None else erased

    async def _leave_alone(self, kept: StoreExamples) -> None:
        """See to it that nothing that was said until now is learned once more after a kill."""
        conversations = self._conversations()
        if conversations is None or self._host is None:
            return
        end = await conversations.end()
        await kept.set_heard(end)
        self._start = end
        self._erased = _microseconds(self._host.clock.now())
        if self._mark is not None:
            self._mark = end

    def _used(self, scope: str, capability: str, text: str) -> Example:
        """Return the example as it is with one use more."""
        assert self._host is not None, "nothing is learned before `open`"
        now = _microseconds(self._host.clock.now())
        # Grows always, so that the order of use survives a restart and a clock that jumps.
        self._last = max(self._last + 1, now)
        example = Example.new(scope, capability, text, at=self._last)
        known = self._view.get(example.id)
        return (
            example
            if known is None
            else replace(known, count=known.count + 1, used=example.used, foreign=False)
        )

    async def _ready(self) -> StoreExamples | None:
        """Return the examples in the store, loaded; None where there is no store.

        Raises:
            StoreError: They cannot be loaded now.
        """
        if self._kept is not None or self._store is None:
            return self._kept
        module = "hookgate.builtin_plugins.discovery.learn.store"
        tables, _ = await tables_of(self._store, "discovery", module)
        kept: StoreExamples = tables.StoreExamples(self._store, self._bounds)
        rows = await kept.load()
        view = ExampleView(self._bounds)
        # The bounds may be lower than they were when these were kept.
        if gone := await asyncio.to_thread(view.keep, rows):
            await kept.drop(gone)
        self._last = max([self._last, *(row.used for row in rows)])
        self._view, self._kept = view, kept
        return kept

    def _fails(self, error: StoreError) -> None:
        if self._host is not None:
            self._host.standing(PART).bad(f"nothing is learned from use: {error}")


def _microseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000)


# -- Stored turns, one after the other, as they were committed -------------------


async def turns_since(
    conversations: Conversations, cursor: str
) -> AsyncIterator[tuple[SessionKey, list[Message]]]:
    """Yield the messages of each turn that came after `cursor`, once it is over.

    A turn is over when its session goes on with another one, or when there is nothing more.
    """
    open_turns: dict[SessionKey, list[Message]] = {}
    more = True
    while more:
        page = await conversations.since(cursor)
        for said in page.said:
            messages = open_turns.get(said.session)
            if messages is not None and messages[0].turn == said.message.turn:
                messages.append(said.message)
                continue
            if messages is not None:
                yield said.session, messages
            open_turns[said.session] = [said.message]
        cursor, more = page.cursor, page.more
    for session, messages in open_turns.items():
        yield session, messages
