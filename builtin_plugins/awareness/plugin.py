"""The plugin ``awareness``: cards for the turns that need them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    Block,
    Capabilities,
    Card,
    ContextBuilder,
    Event,
    Flags,
    HookgateError,
    Host,
    ModelRequest,
    Operation,
    Outcome,
    Rejected,
    Selection,
    Tool,
    ToolResult,
    Turn,
    join_taints,
    operations_of,
)
from hookgate.builtin_plugins.awareness.cards.listing import (
    LIST_TOOL,
    REFERENCE_TOOL,
    Reference,
    fitted,
    listing,
    pointer,
    shipped_reference,
    visible,
)
from hookgate.builtin_plugins.awareness.cards.shelf import SOURCE
from hookgate.builtin_plugins.awareness.operations import (
    AwarenessOperations,
    CardOperations,
    Explainer,
)
from hookgate.builtin_plugins.awareness.selection.injector import (
    STATE,
    TurnCards,
    selections,
    shown_file,
)
from hookgate.builtin_plugins.awareness.selection.selector import ask_model, order
from hookgate.builtin_plugins.awareness.service import Awareness, place_of
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings
from hookgate.builtin_plugins.awareness.switch import INSTRUMENTS, milliseconds
from hookgate.catalogue import KIND_PATTERN
from hookgate.hookspecs import hookimpl
from hookgate.kit.acceptance.acceptances import acceptances_of
from hookgate.kit.content.problems import ContentError
from hookgate.kit.tooling import tool
from hookgate.tasks import stop
from hookgate.wire import canonical

DESCRIPTION_CHARS = 200
"""So much of a description a model gets to see in the full list."""


class Plugin:
    """Shows cards to the turns that need them, and lists what there is."""

    Settings = AwarenessSettings

    def __init__(self, settings: AwarenessSettings) -> None:
        self._awareness = Awareness(settings)
        self._explainer = Explainer(self._awareness)

    def take_settings(self, settings: AwarenessSettings) -> Collection[str]:
        """Take over changed settings; turns that run go on as they began."""
        return self._awareness.take_settings(settings)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the switch and the pins, and follow the cards wherever they come from."""
        awareness, changed = self._awareness, asyncio.Event()
        host.instruments.apply(SOURCE, INSTRUMENTS)
        await awareness.open(host)
        host.cards.watch(changed.set)
        unwatch = (await acceptances_of(host)).watch(changed.set)
        tasks = [host.spawn(awareness.look_through(changed), name="awareness.look_through")]
        if awareness.settings.watch:
            tasks.append(host.spawn(awareness.registry.watch(host), name="awareness.watch"))
        try:
            yield
        finally:
            unwatch()
            await stop(*tasks)
            await awareness.shown.close()
            await awareness.control.close()

    # -- what there is -------------------------------------------------------

    @hookimpl
    async def list_cards(self, host: Host) -> Sequence[Card]:
        """Bring the cards of the folders and of the configured URLs."""
        return await self._awareness.registry.refresh(host)

    @hookimpl
    async def list_tools(self) -> Sequence[Tool]:
        """Bring the tools that tell what there is."""
        pages = await asyncio.to_thread(self._reference().pages)
        return [
            tool(
                self.show_capabilities,
                # The hook of this name is another thing: it brings capabilities.
                name=LIST_TOOL,
                flags=Flags.none(),
                idempotent=True,
                always_on=True,
                category="discovery",
                tags=("overview", "tools", "skills", "plugins"),
            ),
            tool(
                self.awareness_status,
                flags=Flags.none(),
                idempotent=True,
                category="discovery",
                tags=("cards", "router", "tokens"),
            ),
            tool(
                self.read_reference,
                name=REFERENCE_TOOL,
                description=f"Read how a part of this gateway works: {', '.join(pages)}.",
                flags=Flags.none(),
                idempotent=True,
                category="discovery",
                tags=("documentation", "manual", "help"),
            ),
        ]

    @hookimpl
    def list_operations(self) -> Sequence[Operation[Any, Any]]:
        """Bring what shows cards and switches them."""
        return operations_of(
            AwarenessOperations(self._awareness, self._explainer),
            CardOperations(self._awareness, self._explainer),
        )

    # -- before the model ----------------------------------------------------

    @hookimpl
    async def tag_turn(self, turn: Turn) -> Collection[str] | None:
        """Name what the message is about, by its words and by its meaning.

        A turn that is read as it came shows no cards, so nobody needs to know.
        """
        if turn.verbatim:
            return None
        awareness = self._awareness
        rules = awareness.rules(turn.agent.name)
        state = turn[STATE] = TurnCards.of(turn, rules, on=awareness.control.on)
        if not state.on:
            return None
        started = time.perf_counter()
        cards = turn.snapshot.cards
        found = await awareness.tags(turn.message.text, cards, patient=False)
        state.seconds += time.perf_counter() - started
        return frozenset(found)

    @hookimpl
    def withhold_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Collection[str] | None:
        """Take away what is excluded, what the agent's profile lacks, what is not approved."""
        return self._awareness.withheld(turn.agent.name, turn.snapshot.cards)

    @hookimpl
    async def select_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Sequence[Selection] | None:
        """Choose the cards whose tags the turn has, or whose keywords the message holds."""
        state, plan, awareness = turn.get(STATE), turn.plan, self._awareness
        if state is None or not state.on or (plan.kinds is not None and "card" not in plan.kinds):
            return None
        matcher = awareness.made(turn.snapshot.cards).matcher
        how = awareness.settings.selector
        state.select(matcher, turn, capabilities, rules=how != "none", every=how == "model")
        if how == "model":
            there = [one.card for one in order(list(state.judged.values()))]
            try:
                model = awareness.settings.selector_model
                scores = await ask_model(awareness.host, turn, there, model)
            except HookgateError as error:
                awareness.host.log.warning("cards are chosen by rules", reason=str(error))
            else:
                state.choose(scores, "chosen by a model")
        return selections(state.judged.values())

    @hookimpl
    async def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
        """Add the pointer, and the cards that were chosen and fit."""
        state, awareness = turn.get(STATE), self._awareness
        if state is None or not state.on:
            return
        matcher = awareness.made(turn.snapshot.cards).matcher
        if context.stage == "start":
            if not turn.plan.discovery:
                # Selectors were not asked; what is forced is shown all the same.
                state.force(turn)
            if awareness.settings.pointer:
                text = pointer(turn.offered)
                context.add(Block(kind="other", key="pointer", text=text, stable=True))
            await state.take_selections(turn, awareness.host.sanitize)
            state.take_client_calls(matcher, turn)
            chosen = list(state.judged.values())
        else:
            chosen = state.select_after_tools(matcher, turn)
        state.add_to(context, await state.blocks(chosen, awareness.host.sanitize))

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> None:
        """See which cards stand in the request, and show them in the session's file."""
        state, host = turn.get(STATE), self._awareness.host
        if state is None or request.cause != "turn" or not state.sent(request):
            return
        data = {"cards": [card.id for card in state.injected], "stage": turn.stage}
        turn.emit(Event("cards", data, scope="chat"))
        text = shown_file(turn, state, host.clock.now().isoformat(timespec="seconds"))
        # It is for people to look at: what a model gets to read does not hang on it.
        path = place_of(host.settings.home, str(turn.session))
        self._awareness.shown.put(path, host.secrets.redact(text))

    # -- after the turn ------------------------------------------------------

    @hookimpl
    async def after_turn(self, turn: Turn, outcome: Outcome | None) -> None:
        """Record what was decided, of turns that were refused or cancelled too."""
        if turn.ephemeral:
            return
        awareness = self._awareness
        host = awareness.host
        state = turn.get(STATE)
        if state is None:
            rules = awareness.rules(turn.agent.name)
            state = TurnCards.of(turn, rules, on=awareness.control.on)
        record = state.record(turn, milliseconds(host))
        await awareness.control.record(host, record, state.told(turn, record))

    # -- tools ---------------------------------------------------------------

    def _reference(self) -> Reference:
        return Reference((shipped_reference(), *self._awareness.settings.reference_dirs))

    async def show_capabilities(
        self,
        turn: Turn,
        detail: Literal["summary", "full"] = "summary",
        kind: Annotated[str, Field(pattern=f"^{KIND_PATTERN}$")] | None = None,
    ) -> ToolResult:
        """List the tools, skills, extensions, channels, cards and the like, on and off.

        Args:
            turn: The turn; not part of the arguments.
            detail: summary gives names; full says what each one does and where it is from.
            kind: one kind only, such as skill.
        """
        host = self._awareness.host
        plugins = host.plugins(every=True) if detail == "full" else ()
        why = self._awareness.control.why_off
        data = listing(turn, detail, plugins, kind=kind, why_off=why)
        if detail == "full":
            await self._describe(turn, data)
            limit = host.settings.context.result_tokens
            data = fitted(data, lambda made: host.tokens.count(canonical(made).decode()) <= limit)
        listed = (
            row for name, rows in visible(turn).items() if kind in (None, name) for row in rows
        )
        taint = join_taints(row.taint for row in listed)
        return ToolResult(content=canonical(data).decode(), data=data, taint=taint)

    async def _describe(self, turn: Turn, data: dict[str, Any]) -> None:
        texts = {row.id: row for rows in visible(turn).values() for row in rows}
        for kind in data["kinds"].values():
            for entry in kind["rows"]:
                row = texts[entry["id"]]
                text = row.description[:DESCRIPTION_CHARS]
                about = row.category[:DESCRIPTION_CHARS]
                own = row.whose == "own"
                card = Card(
                    id=row.id, name=about, text=text, source_ref=row.source_ref, trusted=own
                )
                safe = await self._awareness.host.sanitize(card)
                if "category" in entry:
                    entry["category"] = "" if isinstance(safe, Rejected) else safe.name
                entry["description"] = (
                    f"(not shown: {safe.reason})" if isinstance(safe, Rejected) else safe.text
                )

    async def awareness_status(self, turn: Turn) -> ToolResult:
        """Show which capability cards this conversation got, why, and what they cost.

        Args:
            turn: The turn; not part of the arguments.
        """
        control = self._awareness.control
        data: dict[str, Any] = {"on": control.on, "why": control.why_off}
        state = turn.get(STATE)
        if state is not None:
            data["thisTurn"] = state.told(
                turn, state.record(turn, milliseconds(self._awareness.host))
            )
        data["lastTurns"] = list(control.recent.of(str(turn.session)))
        # Their ids and the words by which they were found are theirs.
        cards = turn.snapshot.capabilities.of_kind("card").values()
        taint = join_taints(row.taint for row in cards)
        return ToolResult(content=canonical(data).decode(), data=data, taint=taint)

    async def read_reference(self, name: str) -> ToolResult:
        """Read how a part of this gateway works.

        Args:
            name: The page's name.
        """
        try:
            return ToolResult(content=await asyncio.to_thread(self._reference().read, name))
        except ContentError as error:
            return ToolResult.error(str(error))
