"""The plugin ``memory``: what was said is kept, found again, and shown where it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgate import (
    CONVERSATIONS,
    STORE,
    ContextBuilder,
    Conversations,
    Event,
    HookgateError,
    Host,
    ModelRequest,
    Operation,
    Outcome,
    PartStanding,
    Said,
    Store,
    StoreError,
    Tool,
    Turn,
    TurnError,
    operations_of,
)
from hookgate.builtin_plugins.memory.domain import Aside, scopes_of
from hookgate.builtin_plugins.memory.operations import MemoryOperations
from hookgate.builtin_plugins.memory.recall.lines import (
    MOST_LINES,
    RECALLED,
    Packing,
    Recalled,
    RecalledLine,
    Still,
    blocks_of,
    line_of,
    orders_of,
    pack,
    seen,
)
from hookgate.builtin_plugins.memory.settings import MemorySettings
from hookgate.builtin_plugins.memory.tools import MemoryTools
from hookgate.hookspecs import hookimpl
from hookgate.kit.tables import tables_of
from hookgate.tasks import stop

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.keeper import Keeper

PART = "memory"
RECALL = "memory recall"
EXTRACTING = "memory extractor"

AT_START = ("max_notes", "max_turns")
"""What is read when memory is opened."""


class Plugin:
    """Keeps turns, facts and notes in the store; without one, notes in the process."""

    Settings = MemorySettings

    def __init__(self, settings: MemorySettings) -> None:
        self._started = self._settings = settings
        self._host: Host | None = None
        self._keeper: Keeper | None = None
        self._recalls: PartStanding | None = None

    def take_settings(self, settings: MemorySettings) -> Collection[str]:
        """Take over changed settings; return the keys that wait for a restart."""
        self._settings = settings
        return [key for key in AT_START if getattr(settings, key) != getattr(self._started, key)]

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open what is kept, and follow what is said."""
        self._host, store = host, host.get(STORE)
        self._recalls = host.standing(RECALL)
        conversations = None
        if store is None:
            host.standing(PART).bad(
                "no plugin provides a store: notes are kept in memory and lost when the gateway "
                "stops, and nothing that is said is recalled (enable the plugin `storage`)"
            )
        else:
            conversations = self._followed(host, store)
        _, kept = await tables_of(store, "memory", "hookgate.builtin_plugins.memory.tables")
        # It takes some time to import: not on the event loop.
        module = "hookgate.builtin_plugins.memory.keeper"
        made = await asyncio.to_thread(import_module, module)
        keeper: Keeper = made.Keeper(host, kept, conversations, lambda: self._settings)
        self._keeper = keeper
        host.load_later("hookgate.builtin_plugins.memory.recall.ranker")
        undo = None
        if conversations is not None:
            undo = conversations.forgets_with(keeper.forget_with)
        task = host.spawn(keeper.run(), name="memory.follow")
        try:
            yield
        finally:
            await stop(task)
            await keeper.finish()
            if undo is not None:
                undo()
            self._keeper = None

    def _opened(self) -> Keeper:
        if self._keeper is None:
            raise TurnError(
                "memory is not open: the gateway starts, or stops",
                code="no_store",
                action="ask again once it runs",
            )
        return self._keeper

    @staticmethod
    def _followed(host: Host, store: Store) -> Conversations | None:
        """Return the conversations, if they are kept as long as what is learned from them."""
        conversations = host.get(CONVERSATIONS)
        if conversations is None or conversations.durable != store.durable:
            host.standing(PART).bad(
                "conversations are not kept in the store: what is said is not learned (use one "
                "plugin for both)"
            )
            return None
        return conversations

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        """Bring the tools."""
        return MemoryTools(host, lambda: self._settings, self._opened).all()

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Show and erase what is remembered."""
        return operations_of(MemoryOperations(host, lambda: self._settings, self._opened))

    # -- a turn ----------------------------------------------------------------

    @hookimpl
    async def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
        """Show what answers the message, of what is not in the window of the history."""
        keeper, host, settings, recalls = self._keeper, self._host, self._settings, self._recalls
        if keeper is None or host is None or recalls is None:
            return
        if not settings.recall or context.stage != "start":
            return
        # Whoever keeps the conversation knows it; and a nested turn speaks with a model.
        if turn.plan.history == "client" or turn.parent is not None:
            return
        window = {message.turn for message in turn.history} | {turn.id}
        scopes = scopes_of(turn.session, settings).read
        here, aside, count = str(turn.session), Aside(), host.tokens.count
        there, then = seen(context.standing), (keeper.forgotten, host.sanitizers)
        try:
            async with asyncio.timeout(settings.recall_seconds):
                found = await keeper.search(
                    scopes,
                    turn.message.text,
                    without=window,
                    committed=True,
                    turn=aside,
                )
                asked = orders_of(aside.orders, here, window)
                orders = [line_of(hit, here, count) for hit in asked]
                if there:
                    found = [hit for hit in found if (hit.scope, hit.id) not in there]
                packing = Packing(settings.recall_tokens, count, orders)
                await pack(host, found[:MOST_LINES], here, packing)
        except TimeoutError:
            why = f"it took longer than {settings.recall_seconds:g} s: a turn went on without"
            recalls.bad(why)
            return
        except StoreError as error:
            recalls.bad(f"turns go on without what they would recall: {error}")
            return
        recalls.good()
        recalled = Recalled()
        for block, lines in blocks_of(packing):
            stays = Still(lines, self._may_see, then)
            recalled.sources[context.add(replace(block, stays=stays))] = lines
        if recalled.sources:
            turn[RECALLED] = recalled

    def _may_see(self, turn: Turn, lines: Sequence[RecalledLine], then: tuple[object, int]) -> bool:
        """Whether a turn may be shown lines: nobody has forgotten anything, and it reads them."""
        keeper, host, settings = self._keeper, self._host, self._settings
        if keeper is None or host is None or not settings.recall or then[0] is None:
            return False
        read = scopes_of(turn.session, settings).read
        is_as_it_was = (keeper.forgotten, host.sanitizers) == then
        return is_as_it_was and all(line.hit.scope in read for line in lines)

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> None:
        """Say which lines the model gets to read, and why each."""
        recalled, host = turn.get(RECALLED), self._host
        if recalled is None or recalled.told or host is None or request.cause != "turn":
            return
        sent = [source for source in recalled.sources if source in request.sources]
        if sent:
            recalled.told = True
            data = recalled.to_json(sent)
            turn.emit(Event("recall", data, scope="chat"))

    @hookimpl
    async def after_turn(self, turn: Turn, outcome: Outcome | None) -> None:
        """Have what was said in the turn learned, and ask a model for more where that is set."""
        del outcome
        keeper, host, settings = self._keeper, self._host, self._settings
        if keeper is None or host is None or turn.ephemeral:
            return
        keeper.wake(turn.session, turn.id)
        if settings.extractor != "model":
            return
        from hookgate.builtin_plugins.memory.model_extractor import claims_in

        for said in keeper.kept_of(Said(turn.session, turn.message)):
            try:
                claims = await claims_in(host, turn, settings.extractor_model)
                await keeper.take(said, claims)
                host.standing(EXTRACTING).good()
            except HookgateError as error:
                host.standing(EXTRACTING).bad(f"facts are found by patterns alone: {error}")
