"""The operations that search, and that show what capabilities there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from hookgate import (
    Capability,
    HookgateError,
    Host,
    Invocation,
    OperationModel,
    Principal,
    TurnPlan,
    not_found,
    operation,
)
from hookgate.builtin_plugins.discovery.discoverer import Discoverer, Filter
from hookgate.builtin_plugins.discovery.index.graph import Edge, Graph
from hookgate.builtin_plugins.discovery.learn.lessons import Lessons
from hookgate.builtin_plugins.discovery.learn.view import META_TOOL, ExampleSet, said_alike
from hookgate.builtin_plugins.discovery.show.entries import Discovery, FoundCapability, Tier
from hookgate.builtin_plugins.discovery.show.text import READ_TOOL
from hookgate.catalogue import KIND_PATTERN, KINDS, capability_rows, is_chosen, matches
from hookgate.settings import nearest

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.sources.collection import Collected


class CapabilityListParams(OperationModel):
    """Which capabilities to list."""

    kind: str | None = Field(default=None, pattern=f"^{KIND_PATTERN}$")
    """One kind only: `tool`, `skill`, `extension`, `channel`, `connector`, `resource`, `prompt`,
    `card`, or a plugin's own."""
    category: str = Field(default="", max_length=80)
    """One category only."""
    available: bool | None = None
    """Only what is available, or only what is not."""
    text: str = Field(default="", max_length=200)
    """Only what holds this text in its id, names, description or tags."""


class CapabilityOutline(OperationModel):
    """Which capability it is, and whether it can be used."""

    id: str
    """Its id."""
    kind: str
    """tool, skill, extension, channel or card."""
    category: str
    """Its category."""
    available: bool
    """Whether all that it requires is there."""


class CapabilityRow(CapabilityOutline):
    """One capability in a list."""

    source: str
    """Where it was declared."""


class CapabilityRows(OperationModel):
    """Capabilities."""

    capabilities: tuple[CapabilityRow, ...]
    """In the order of their ids."""


class CapabilityShown(CapabilityRow):
    """All that is known of one capability."""

    name: str
    """Its name within its kind."""
    display_name: str
    """Its name for people."""
    description: str
    """What it does."""
    tags: tuple[str, ...]
    """Words that it is found by."""
    examples: tuple[str, ...]
    """Messages that ask for it, as given; `examples list` shows learned ones."""
    parameters: tuple[str, ...]
    """What it takes as input."""
    required_secrets: tuple[str, ...]
    """Secrets without which it does not work."""
    required_tools: tuple[str, ...]
    """Tools without which it does not work."""
    unavailable_because: tuple[str, ...]
    """Why it is not available."""
    has_side_effects: bool
    """Whether using it changes anything."""
    flags: dict[str, bool | None]
    """What it does to the world; null where nothing is declared."""
    input_schema: dict[str, Any] | None
    """The JSON Schema of its input."""
    content: str
    """Its full text."""
    problem: str
    """Why schema and text cannot be read; empty where they can."""


class CapabilityOperations:
    """Capabilities: list and show them, check their files, begin new ones.

    Args:
        inventory: Returns what the files hold now.
    """

    def __init__(self, inventory: Callable[[], Collected]) -> None:
        self._inventory = inventory

    @operation("capabilities.list", rest=("GET", "/v1/capabilities"))
    async def listed(self, invocation: Invocation, params: CapabilityListParams) -> CapabilityRows:
        """List tools, skills, extensions, channels and cards."""
        rows = await asyncio.to_thread(capability_rows, invocation.host)
        shown = [rows[row_id] for row_id in sorted(rows) if _fits(rows[row_id], params)]
        return CapabilityRows(
            capabilities=tuple(CapabilityRow.of_record(row, source=row.source_ref) for row in shown)
        )

    @operation("capabilities.show")
    async def show(
        self,
        invocation: Invocation,
        id: Annotated[str, Field(max_length=256)],
    ) -> CapabilityShown:
        """Show all that is known of one capability, its schema and text included.

        Args:
            id: Its id, such as `skill:draft-email`.
        """
        rows = await asyncio.to_thread(capability_rows, invocation.host)
        row = rows.get(id)
        if row is None:
            raise not_found("capability", id, "`hookgate capabilities list` shows all", known=rows)
        why = () if row.available else self._inventory().reasons.get(row.id, ())
        return await asyncio.to_thread(_shown, row, why)


def _fits(row: Capability, params: CapabilityListParams) -> bool:
    held = " ".join((row.id, row.display_name, row.description, *row.tags)).casefold()
    return (
        params.kind in (None, row.kind)
        and params.category.casefold() in ("", row.category.casefold())
        and params.available in (None, row.available)
        and params.text.casefold() in held
    )


def _shown(row: Capability, why: Sequence[str]) -> CapabilityShown:
    """Return everything about `row`; it reads files."""
    schema, content, problem = None, "", ""
    if row.load is not None:
        try:
            detail = row.load()
            schema, content = detail.schema, detail.content
        except HookgateError as error:
            problem = str(error)
    return CapabilityShown.of_record(
        row,
        source=row.source_ref,
        unavailable_because=tuple(why),
        flags=row.flags.to_json(),
        input_schema=None if schema is None else dict(schema),
        content=content,
        problem=problem,
    )


# -- The operations that search: ``discover`` and ``capabilities.stats`` ---------

VECTORS_SECONDS = 20.0
"""How long a search from outside waits for vectors that are being made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerView:
    """With what a turn of somebody would look, as far as that is known without one.

    What plugins withhold from a turn is not known: they are asked with the turn itself.

    Attributes:
        host: The gateway.
        globs: Globs of the tools that the turn's agent may call; None for all.
        learned: The examples of the turn's scope.
        examples: The same, as they were said.
        selected: So many capabilities are chosen for a turn at most.
    """

    host: Host
    globs: Sequence[str] | None
    learned: Lessons | None
    examples: ExampleSet
    selected: int

    def hidden(self) -> frozenset[str]:
        """Return the ids of the tools that the turn's agent may not call."""
        names = self.host.tools.view()
        return frozenset(f"tool:{name}" for name in names if not matches(name, self.globs))

    def offered(self, found: Sequence[FoundCapability]) -> dict[str, str]:
        """Return what the tools whose schemas go to the model anyway say there, by name."""
        turn = self.host.settings.turn
        plan = TurnPlan(
            tool_selection=turn.tool_selection, whole_tool_tokens=turn.whole_tool_tokens
        )
        tools = self.host.tools.view().values()
        usable = [tool for tool in tools if matches(tool.name, self.globs)]
        if is_chosen(self.host, plan, usable):
            chosen = {one.row.name for one in found if one.row.kind == "tool"}
            usable = [tool for tool in usable if tool.always_on or tool.name in chosen]
        return {tool.name: tool.description for tool in usable}


class DiscoverParams(OperationModel):
    """What is looked for."""

    query: str = Field(min_length=1, max_length=20_000)
    """A message, or what a capability should be able to do."""
    kind: str | None = Field(default=None, pattern=f"^{KIND_PATTERN}$")
    """One kind only: `tool`, `skill`, `extension`, `channel`, `connector`, `resource`, `prompt`,
    or a plugin's own."""
    category: str = Field(default="", max_length=80)
    """One category only."""

    @field_validator("kind")
    @classmethod
    def _is_meant(cls, kind: str | None) -> str | None:
        if kind == "card":
            raise ValueError(
                "found card, expected a kind of capabilities: `cards.explain` shows cards"
            )
        if kind is not None and (near := nearest(kind, KINDS, cutoff=0.75)) and near != kind:
            raise ValueError(f"found {kind!r}, expected a kind: did you mean {near!r}?")
        return kind

    available: bool = True
    """Leave out what lacks something that it requires, as a turn does."""
    limit: int | None = Field(default=None, ge=1, le=100)
    """So many found ones at most, `selected` of the settings by default; what they bring along
    comes besides."""
    floor: float | None = Field(default=None, ge=0, le=1)
    """The least relevance; the one of the settings by default."""


class FoundRow(OperationModel):
    """One capability that fits."""

    id: str
    """Its id."""
    relevance: float
    """How sure it is that it fits, 0 to 1."""
    dense: float
    """The cosine of message and capability: the best one of the message's clauses."""
    lexical: float
    """The share of the reachable BM25 score."""
    graph: float
    """What related capabilities added to the relevance."""
    words: list[str]
    """The words of the message that it holds, as stems."""
    tag: str
    """The tag of its own in the message for which it was found although it is below the floor."""
    pulled_by: str
    """The id of the capability that brought it along."""
    edge: str
    """The edge over which it was brought along."""
    available: bool
    """Whether it has all that it requires."""
    learned: list[str]
    """Up to two messages of the caller's scope that it has answered well before: those that have
    the most words in common with this one."""


class Discovered(OperationModel):
    """What a search came to."""

    query: str
    """What was looked for."""
    found: list[FoundRow]
    """What fits, best first."""
    tiers: tuple[Tier, ...]
    """The map of categories, the summaries, the full details."""
    tokens: int
    """Tokens of all tiers together."""
    milliseconds: dict[str, float]
    """Time by step."""
    index_version: int
    """The version of the index."""
    vectors: bool
    """Whether meaning took part."""
    problem: str
    """Why it did not, or ""."""


class Stats(OperationModel):
    """What the index holds."""

    capabilities: int
    """Capabilities, cards not counted."""
    index_version: int
    """The version of the index."""
    vectors: bool
    """Whether the vectors are there."""
    problem: str
    """Why they are not, or ""."""
    graph_nodes: int
    """Capabilities in the graph."""
    graph_edges: int | None
    """Edges of all types; null where there are too many to count."""
    edges: dict[str, int | None]
    """Edges by type."""
    missing: dict[str, list[str]]
    """Ids that requirements and presets name and that are not there."""


class GraphParams(OperationModel):
    """Which part of the graph."""

    after: str = Field(default="", max_length=256)
    """The id behind which the page begins: `next` of the page before."""
    limit: int = Field(default=1000, ge=1, le=5000)
    """So many capabilities at most."""


class GraphNode(CapabilityOutline):
    """A capability."""

    agents: tuple[str, ...]
    """The agents that may use it."""


class GraphPage(OperationModel):
    """A page of the graph."""

    agents: tuple[str, ...]
    """The agents that the caller may speak to."""
    nodes: list[GraphNode]
    """Capabilities, cards not counted, in the order of their ids."""
    edges: list[Edge]
    """The edges that start at these, the heaviest 50 of each."""
    next: str
    """`after` of the next page; empty on the last one."""


class DiscoveryOperations:
    """Capabilities: list and show them, check their files, begin new ones.

    Args:
        discoverer: Returns what searches.
        view: Returns with what a turn of somebody would look.
    """

    def __init__(
        self, discoverer: Callable[[], Discoverer], view: Callable[[Principal], CallerView]
    ) -> None:
        self._discoverer = discoverer
        self._view = view

    @operation("discover", also="discovery.discover")
    async def discover(self, invocation: Invocation, params: DiscoverParams) -> Discovered:
        """Search the capabilities, and show what a model would see.

        A message of yours is looked for with the default agent.

        Example:
            hookgate discover "convert 5 miles to km" --explain
        """
        seen = self._view(invocation.principal)
        return _discovered(await _search(self._discoverer(), seen, params), seen.examples)

    @operation("capabilities.stats", also="discovery.stats")
    async def stats(self, _: Invocation) -> Stats:
        """Say what the index of capabilities holds."""
        known = await self._discoverer().get_stats()
        return Stats(
            capabilities=known["capabilityCount"],
            index_version=known["indexVersion"],
            vectors=known["vectors"],
            problem=known["problem"],
            graph_nodes=known["graphNodes"],
            graph_edges=known["graphEdges"],
            edges=known["edges"],
            missing=known["missing"],
        )

    @operation("capabilities.graph")
    async def graph(self, invocation: Invocation, params: GraphParams) -> GraphPage:
        """Show how capabilities are related, and which agents may use them."""
        graph = await self._discoverer().graph()
        settings, may = invocation.host.settings.agents, invocation.principal.may_use_agent
        globs = {
            name: settings[name].tools if name in settings else None
            for name in invocation.host.agents()
            if may(name)
        }
        return await asyncio.to_thread(_page, graph, globs, params)


def _page(
    graph: Graph, globs: Mapping[str, Sequence[str] | None], params: GraphParams
) -> GraphPage:
    behind = [one for one in graph.rows if one > params.after]
    shown = behind[: params.limit]
    nodes, edges = [], []
    for row in map(graph.rows.__getitem__, shown):
        users = [
            name for name, some in globs.items() if row.kind != "tool" or matches(row.name, some)
        ]
        nodes.append(GraphNode.of_record(row, agents=tuple(users)))
        edges += [
            edge
            for edge in graph.edges(row.id)
            # What leads both ways is told once.
            if edge.type == "DEPENDS_ON" or edge.source < edge.target
        ]
    more = shown[-1] if len(behind) > len(shown) else ""
    return GraphPage(agents=tuple(globs), nodes=nodes, edges=edges, next=more)


async def _search(discoverer: Discoverer, seen: CallerView, params: DiscoverParams) -> Discovery:
    # Whoever asks from the command line would rather wait for the vectors than miss them.
    with suppress(TimeoutError):
        async with asyncio.timeout(VECTORS_SECONDS):
            await discoverer.initialize()
    return await discoverer.discover(
        params.query,
        allowed=Filter(
            kinds=None if params.kind is None else frozenset({params.kind}),
            category=params.category,
            only_available=params.available,
            exclude=seen.hidden(),
            usable=lambda row: row.name not in (META_TOOL, READ_TOOL),
        ),
        limit=params.limit or seen.selected,
        config=None if params.floor is None else {"floor": params.floor},
        learned=seen.learned,
        offered=seen.offered,
        # A floor that was asked for holds.
        by_tag=params.floor is None,
    )


def _discovered(discovery: Discovery, examples: ExampleSet) -> Discovered:
    return Discovered.of_record(
        discovery,
        found=[
            _found(one, said_alike(discovery.query, one.row.id, examples))
            for one in discovery.found
        ],
        tokens=discovery.token_estimate,
        milliseconds={step: round(time, 3) for step, time in discovery.milliseconds.items()},
        vectors=discovery.dense,
    )


def _found(found: FoundCapability, learned: list[str]) -> FoundRow:
    figures = ("relevance", "dense", "lexical", "graph")
    return FoundRow.of_record(
        found,
        id=found.row.id,
        **{name: round(getattr(found, name), 4) for name in figures},
        words=list(found.words),
        edge=found.edge or "",
        available=found.row.available,
        learned=learned,
    )
