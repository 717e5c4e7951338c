"""The plugin ``discovery``: chooses capabilities for turns, and lets models search for more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from hookgate import (
    EMBEDDER,
    Block,
    Capabilities,
    Capability,
    CapabilityIndex,
    ContextBuilder,
    Embedder,
    Event,
    Flags,
    HookgateError,
    Host,
    Operation,
    Outcome,
    Principal,
    Selection,
    Tool,
    ToolResult,
    Turn,
    TurnKey,
    operations_of,
)
from hookgate.builtin_plugins.discovery.discoverer import Discoverer, Filter, taint_of
from hookgate.builtin_plugins.discovery.index import Surroundings
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.index.vectors import Elsewhere
from hookgate.builtin_plugins.discovery.learn.examples import Examples
from hookgate.builtin_plugins.discovery.learn.lessons import LearnedCache, Lessons, LessonsCache
from hookgate.builtin_plugins.discovery.learn.view import META_TOOL
from hookgate.builtin_plugins.discovery.operations import CallerView, DiscoveryOperations
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.discovery.show.assembler import is_cut, read_on
from hookgate.builtin_plugins.discovery.show.entries import Discovery, FoundCapability
from hookgate.builtin_plugins.discovery.show.text import READ_TOOL
from hookgate.builtin_plugins.discovery.sources.collection import Sources
from hookgate.catalogue import (
    KIND_PATTERN,
    Snapshot,
    capability_rows,
    capability_version,
    matches,
    may_use,
)
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool
from hookgate.tasks import stop
from hookgate.wire import canonical

DESCRIPTION_CHARS = 300
"""So much of a description a model gets to see in a list of results."""

SEARCH_FLOOR = 0.25
"""The least relevance of what `discover_capabilities` returns. A model that searches wants
something; below this it would be anything."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 500},
        "kind": {"type": "string", "description": "tool, skill, ..."},
        "category": {"type": "string"},
    },
    "required": ["query"],
    "additionalProperties": False,
}
"""What the meta-tool takes. It goes with every request, so that it says no word too many."""

QUIET_SECONDS = 0.25
"""How long after a change it is indexed; a turn that comes before that does not wait for it."""

PAGE_TOKENS = 1500
"""The longest page of `read_capability`."""

READ_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "offset": {"type": "integer", "minimum": 0}},
    "required": ["id"],
    "additionalProperties": False,
}
"""What it takes. It is offered where something was cut; it says no word too many all the same."""

HIDDEN = 32
"""Sets of capabilities that are hidden from turns, by agent and by what is withheld."""

DISCOVERED: TurnKey[Discovery] = TurnKey("discovery.discovered")
SHOWN: TurnKey[tuple[int | None, dict[str, Tool]]] = TurnKey("discovery.shown")
"""What the tiers depend on beside what was found: the sanitizers, and what is offered."""


class Plugin:
    """Finds capabilities by words and by meaning."""

    Settings = DiscoverySettings

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._sources = Sources(
            dirs=settings.dirs,
            skill_dirs=settings.skill_dirs,
            catalogue=settings.catalogue,
            disabled=settings.disabled,
            debounce_ms=settings.debounce_ms,
        )
        self._examples = Examples(**settings.learning.model_dump())
        self._elsewhere = Elsewhere()
        self._learned: LessonsCache | None = None
        self._made: tuple[Host, Discoverer] | None = None
        self._newest: CapabilityIndex | None = None
        self._hidden = _Hidden()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open what was learned, follow the folders, and keep the index ready."""
        discoverer = self._discoverer(host)
        await self._examples.open(host)
        if self._settings.vectors == "postgres":
            await self._elsewhere.open(host, self._settings.collection_name)
        changed = asyncio.Event()
        for registry in (host.tools, host.channels, host.capabilities, host.descriptions):
            registry.watch(changed.set)
        tasks = [host.spawn(self._elsewhere.keep(host), name="discovery.keep")]
        if self._settings.index_ahead:
            tasks.append(host.spawn(self._index_ahead(host, changed), name="discovery.index"))
        tasks.append(host.spawn(self._catch_up(host), name="discovery.catch_up"))
        if self._settings.watch:
            tasks.append(
                host.spawn(
                    self._sources.watch(host, host.tools, host.channels), name="discovery.watch"
                )
            )
        try:
            yield
        finally:
            await stop(*tasks)
            await self._examples.close()
            await discoverer.engine.close()
            self._made = self._learned = self._newest = None

    async def _catch_up(self, host: Host) -> None:
        """Learn from turns whose end nobody has heard, once there are tools."""
        there = asyncio.Event()
        host.tools.watch(there.set)
        await there.wait()
        await self._examples.catch_up(host.tools.view())

    async def _index_ahead(self, host: Host, changed: asyncio.Event) -> None:
        """Index each version before a turn asks for it."""
        engine = self._discoverer(host).engine
        await host.started()
        while True:
            await changed.wait()
            # At a start one change comes after the other, and there is better to do.
            await asyncio.sleep(QUIET_SECONDS)
            changed.clear()
            index = await engine.index_of(self._capabilities(host))
            data = {
                "version": index.version,
                "capabilities": len(index),
                "vectors": index.dense is not None,
            }
            host.events.publish(Event("capabilities_indexed", data, scope="read"))

    def _discoverer(self, host: Host) -> Discoverer:
        if self._made is None or self._made[0] is not host:
            folder = host.settings.home / "discovery"
            surroundings = Surroundings(
                embedder=lambda: _embedder(host),
                standing=host.standing,
                path=folder / f"{self._settings.collection_name}.npz",
                clock=host.clock.monotonic,
                elsewhere=self._elsewhere.of,
            )
            discoverer = Discoverer(
                SearchEngine(surroundings),
                self._settings,
                capabilities=lambda: self._capabilities(host),
                counter=host.tokens,
                sanitize=host.sanitize,
                sanitizers=lambda: host.sanitizers,
            )
            self._made = (host, discoverer)
            vectors = LearnedCache(
                lambda: _embedder(host), lambda work, name: host.spawn(work, name=name)
            )
            self._learned = LessonsCache(vectors)
        return self._made[1]

    def _open(self) -> Discoverer:
        """Return what searches.

        Raises:
            HookgateError: The plugin is not open, so that nothing is indexed.
        """
        if self._made is None:
            raise HookgateError("nothing is indexed: the plugin discovery is not open")
        return self._made[1]

    def _capabilities(self, host: Host) -> Capabilities:
        """Return what there is now, as the next turn's snapshot will hold it."""
        version = capability_version(host)
        if self._newest is None or self._newest.version != version:
            self._newest = CapabilityIndex(capability_rows(host), version)
        return self._newest

    # -- what there is -------------------------------------------------------

    @hookimpl
    async def list_capabilities(self, host: Host) -> Sequence[Capability]:
        """Bring skills, extensions and whatever else the folders hold."""
        return (await self._sources.refresh(host)).rows

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        """Bring the search, offered on every turn, and what reads on where a text was cut."""
        made = tool(
            self.discover_capabilities,
            flags=Flags.none(),
            idempotent=True,
            always_on=True,
            category="discovery",
            tags=("search", "tools", "skills"),
        )
        reader = tool(
            self.read_capability,
            flags=Flags.none(),
            idempotent=True,
            category="discovery",
            tags=("skills", "details"),
        )
        return [replace(made, schema=SCHEMA), replace(reader, schema=READ_SCHEMA)]

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring what shows capabilities, searches for them, and forgets examples."""
        return [
            *self._sources.operations(),
            *self._examples.operations(),
            *operations_of(
                DiscoveryOperations(
                    lambda: self._discoverer(host), lambda principal: self._view(host, principal)
                )
            ),
        ]

    # -- a turn --------------------------------------------------------------

    @hookimpl
    async def select_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Sequence[Selection]:
        """Choose what fits the message, within the plan's kinds, category and availability."""
        del capabilities  # What is withheld is excluded below; the index holds all.
        discovery = await self._discovered(turn)
        chosen = [
            Selection(id=found.row.id, score=found.relevance, reason=_reason(found))
            for found in discovery.found
        ]
        if chosen and self._shows_tiers(turn) and await self._is_cut(discovery.found):
            why = "the details of what fits are cut"
            score = chosen[-1].score
            # It comes along with what fits, and fits nothing itself.
            chosen.append(Selection(id=f"tool:{READ_TOOL}", score=score, reason=why, forced=True))
        return chosen

    async def _is_cut(self, found: Sequence[FoundCapability]) -> bool:
        discoverer = self._open()
        return await is_cut(discoverer, found, self._settings, discoverer.counter)

    def _shows_tiers(self, turn: Turn) -> bool:
        plan = turn.plan
        return self._settings.prompt_context and plan.prompt_context and plan.discovery

    @hookimpl
    async def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
        """Show the map of categories, summaries of what fits, and the first ones in full."""
        if not self._shows_tiers(turn):
            return
        judged, sight = self._sanitizers(), _sight(turn)
        shown = judged, dict(turn.offered)
        if context.stage != "start" and turn.get(SHOWN) == shown:
            return  # The model has read it.
        turn[SHOWN] = shown
        discovery = await self._discovered(turn)
        zero, one, two = await self._open().show(
            discovery.found,
            turn.snapshot.capabilities,
            exclude=self._hidden.of(turn),
            offered={name: tool.description for name, tool in turn.offered.items()},
        )
        text, tokens = zero.text, zero.tokens
        context.add(Block(kind="tiers", key="overview", text=text, tokens=tokens, stable=True))

        if not discovery.found:
            return
        rows = {found.row.id: found.row for found in discovery.found}
        # Each by itself: what stands in front of an earlier message is not shown once more.
        full = [
            (id, text, 0, rows[id].taint, [id]) for id, text in zip(two.ids, two.texts, strict=True)
        ]
        for key, text, priority, taint, ids in [("found", one.text, 1, one.taint, one.ids), *full]:
            stays = partial(self._may_see, [rows[id] for id in ids], judged, sight)
            block = Block(
                kind="tiers", key=key, text=text, priority=priority, taint=taint, stays=stays
            )
            context.add(block)

    def _sanitizers(self) -> int | None:
        """Return the version of the sanitizers; None where the plugin is not open."""
        return None if self._made is None else self._made[0].sanitizers

    def _may_see(
        self, rows: Sequence[Capability], judged: int | None, sight: object, turn: Turn
    ) -> bool:
        """Whether a later turn may be shown what was shown of `rows`.

        It may find all of them, they are as they were, and the sanitizers judge as they did.
        """
        if judged is None or judged != self._sanitizers() or not self._shows_tiers(turn):
            return False
        if sight == _sight(turn):
            return True
        there, allowed = turn.snapshot.capabilities, _planned(turn)
        # One that was brought anew is another object, and may say something else.
        return all(there.get(row.id) is row and allowed.admits(row) for row in rows)

    @hookimpl
    async def after_turn(self, turn: Turn, outcome: Outcome | None) -> None:
        """Learn from a turn that went well."""
        await self._examples.learn(turn, outcome)

    async def _discovered(self, turn: Turn) -> Discovery:
        """Return what fits the turn's message; it is looked for once a turn."""
        if DISCOVERED in turn:
            return turn[DISCOVERED]
        allowed = _planned(turn)
        discovery = await self._open().discover(
            turn.message.text,
            capabilities=turn.snapshot.capabilities,
            allowed=allowed,
            learned=self._lessons(self._examples.scope_of(turn)),
            tiers=False,
            patient=False,
        )
        turn[DISCOVERED] = discovery
        return discovery

    def _lessons(self, scope: str) -> Lessons | None:
        if self._learned is None:
            return None
        return self._learned.of(scope, self._examples.of_scope(scope))

    def _view(self, host: Host, principal: Principal) -> CallerView:
        """Return what a turn of `principal` with the default agent would see with."""
        settings = host.settings
        name = settings.default_agent or next(iter(settings.agents), "demo")
        agent = settings.agents.get(name)
        scope = self._examples.scope_for(principal.id, name)
        return CallerView(
            host=host,
            globs=None if agent is None else agent.tools,
            learned=self._lessons(scope),
            examples=self._examples.of_scope(scope),
            selected=self._settings.selected,
        )

    # -- the meta-tool -------------------------------------------------------

    async def discover_capabilities(
        self,
        turn: Turn,
        query: Annotated[str, Field(min_length=1, max_length=500)],
        kind: Annotated[str, Field(pattern=f"^{KIND_PATTERN}$")] | None = None,
        category: Annotated[str, Field(max_length=80)] = "",
    ) -> ToolResult:
        """Find tools, skills and channels by what they do; found tools can be called.

        Args:
            turn: The turn; not part of the arguments.
            query: What it should be able to do.
            kind: One kind only.
            category: One category only.
        """
        discoverer, capabilities = self._open(), turn.snapshot.capabilities
        allowed = Filter(
            kinds=None if kind is None else frozenset({kind}),
            category=category,
            exclude=turn.withheld,
            usable=lambda row: _usable(turn, row),
        )
        discovery = await discoverer.discover(
            query,
            capabilities=capabilities,
            allowed=allowed,
            limit=self._settings.results,
            config={"floor": min(SEARCH_FLOOR, self._settings.floor)},
            learned=self._lessons(self._examples.scope_of(turn)),
            tiers=False,
            patient=False,
        )
        entries = await discoverer.entries.of(discovery.found, self._settings.results, details=0)
        found = [
            _row(entry.found, entry.description[:DESCRIPTION_CHARS], entry.found.pulled_by)
            for entry in entries
        ]
        hidden = sum(1 for row_id in turn.withheld if row_id in capabilities)
        total = len(capabilities) - len(capabilities.of_kind("card")) - hidden
        data = {"capabilities": found, "totalIndexed": max(total, 0)}
        return ToolResult(
            content=canonical(data).decode(),
            data=data,
            taint=taint_of(entry.found.row for entry in entries),
            reveal=tuple(
                one["name"] for one in found if one["kind"] == "tool" and one["available"]
            ),
        )

    async def read_capability(
        self, turn: Turn, id: str, offset: Annotated[int, Field(ge=0)] = 0
    ) -> ToolResult:
        """Read on where the details of a capability were cut.

        Args:
            turn: The turn; not part of the arguments.
            id: The id of the capability.
            offset: The characters that were read before.
        """
        row = turn.snapshot.capabilities.get(id)
        if row is None or row.kind == "card" or not _planned(turn).admits(row):
            known = "`discover_capabilities` finds what there is"
            missing = f"There is no capability {id[:100]!r} here: {known}."
            return ToolResult(content=missing, is_error=True)
        discoverer = self._open()
        text = await read_on(
            discoverer,
            row,
            offset,
            budget=PAGE_TOKENS,
            counter=discoverer.counter,
            offered=turn.offered,
        )
        if text is None:
            return ToolResult(content="A sanitizer rejects what it says.", is_error=True)
        return ToolResult(
            content=text or "Nothing more: this is behind its end.",
            taint=taint_of([row]),
        )


def _planned(turn: Turn) -> Filter:
    """Return what the turn's plan lets be found for its message."""
    plan = turn.plan
    return Filter(
        kinds=None if plan.kinds is None else frozenset(plan.kinds),
        category=plan.category,
        only_available=plan.only_available,
        exclude=turn.withheld,
        usable=lambda row: _usable(turn, row),
    )


def _sight(turn: Turn) -> object:
    """Return what decides which capabilities a turn may find: where it is the same, so are they."""
    plan, there = turn.plan, turn.snapshot.capabilities.version
    narrow = plan.kinds, plan.category, plan.only_available
    return there, turn.withheld, turn.agent.tools, *narrow


def _embedder(host: Host) -> Embedder | None:
    """Return the embedder, if it has a model: what it lacks, it says itself."""
    embedder = host.get(EMBEDDER)
    return embedder if embedder is not None and embedder.dimension else None


def _row(found: FoundCapability, description: str, needed_by: str) -> dict[str, Any]:
    row = found.row
    shown = {
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "description": description,
        "category": row.category,
        "relevance": round(found.relevance, 3),
        "available": row.available,
    }
    return {**shown, "neededBy": needed_by} if needed_by else shown


def _reason(found: FoundCapability) -> str:
    if found.pulled_by:
        verb = "needed by" if found.edge == "DEPENDS_ON" else "used with"
        return f"{verb} {found.pulled_by}"
    words = f", holds {', '.join(found.words)}" if found.words else ""
    if found.tag:
        words += f", tag {found.tag}"
    return f"cosine {found.dense:.2f}, words {found.lexical:.2f}{words}"


class _Hidden:
    """What turns may not know of, found out once for each snapshot, agent and what is withheld."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[tuple[str, ...], frozenset[str]], tuple[Snapshot, frozenset[str]]
        ] = {}

    def of(self, turn: Turn) -> frozenset[str]:
        """Return what is withheld, and the tools that the turn's agent lacks."""
        globs = turn.agent.tools
        if globs is None:
            return turn.withheld
        known = self._known.get((globs, turn.withheld))
        if known is not None and known[0] is turn.snapshot:
            return known[1]
        lacking = (f"tool:{name}" for name in turn.snapshot.tools if not matches(name, globs))
        hidden = turn.withheld.union(lacking)
        if len(self._known) >= HIDDEN:
            self._known.clear()
        self._known[globs, turn.withheld] = (turn.snapshot, hidden)
        return hidden


def _usable(turn: Turn, row: Capability) -> bool:
    """Whether the turn may know of `row`: no tool that its agent lacks, not the search itself."""
    if row.id in turn.withheld or row.name in (META_TOOL, READ_TOOL):
        return False
    made = turn.snapshot.tools.get(row.name) if row.kind == "tool" else None
    return made is None or may_use(turn, made)
