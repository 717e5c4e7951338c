"""The operations that search, and that show what capabilities there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hookgate import (
    Capability,
    HookgateError,
    Host,
    Invocation,
    Principal,
    TurnPlan,
    not_found,
    operation,
)
from hookgate.builtin_plugins.discovery.discoverer import Discoverer, Filter
from hookgate.builtin_plugins.discovery.index.graph import Graph
from hookgate.builtin_plugins.discovery.learn.lessons import Lessons
from hookgate.builtin_plugins.discovery.learn.view import META_TOOL, ExampleSet, said_alike
from hookgate.builtin_plugins.discovery.show.entries import Discovery, FoundCapability
from hookgate.builtin_plugins.discovery.show.text import READ_TOOL
from hookgate.catalogue import capability_rows, is_chosen, matches
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery import models
else:
    models = on_demand("hookgate.builtin_plugins.discovery.models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.sources.collection import Collected


class CapabilityOperations:
    """Capabilities: list and show them, check their files, begin new ones.

    Args:
        inventory: Returns what the files hold now.
    """

    def __init__(self, inventory: Callable[[], Collected]) -> None:
        self._inventory = inventory

    @operation("capabilities.list", rest=("GET", "/v1/capabilities"))
    async def listed(
        self, invocation: Invocation, params: models.CapabilityListParams
    ) -> models.CapabilityRows:
        """List tools, skills, extensions, channels and cards."""
        rows = await asyncio.to_thread(capability_rows, invocation.host)
        shown = [rows[row_id] for row_id in sorted(rows) if _fits(rows[row_id], params)]
        return models.CapabilityRows(
            capabilities=tuple(
                models.CapabilityRow.of_record(row, source=row.source_ref) for row in shown
            )
        )

    @operation("capabilities.show")
    async def show(
        self,
        invocation: Invocation,
        id: Annotated[str, Field(max_length=256)],
    ) -> models.CapabilityShown:
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


def _fits(row: Capability, params: models.CapabilityListParams) -> bool:
    held = " ".join((row.id, row.display_name, row.description, *row.tags)).casefold()
    return (
        params.kind in (None, row.kind)
        and params.category.casefold() in ("", row.category.casefold())
        and params.available in (None, row.available)
        and params.text.casefold() in held
    )


def _shown(row: Capability, why: Sequence[str]) -> models.CapabilityShown:
    """Return everything about `row`; it reads files."""
    schema, content, problem = None, "", ""
    if row.load is not None:
        try:
            detail = row.load()
            schema, content = detail.schema, detail.content
        except HookgateError as error:
            problem = str(error)
    return models.CapabilityShown.of_record(
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
    async def discover(
        self, invocation: Invocation, params: models.DiscoverParams
    ) -> models.Discovered:
        """Search the capabilities, and show what a model would see.

        A message of yours is looked for with the default agent.

        Example:
            hookgate discover "convert 5 miles to km" --explain
        """
        seen = self._view(invocation.principal)
        return _discovered(await _search(self._discoverer(), seen, params), seen.examples)

    @operation("capabilities.stats", also="discovery.stats")
    async def stats(self, _: Invocation) -> models.Stats:
        """Say what the index of capabilities holds."""
        known = await self._discoverer().get_stats()
        return models.Stats(
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
    async def graph(self, invocation: Invocation, params: models.GraphParams) -> models.GraphPage:
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
    graph: Graph, globs: Mapping[str, Sequence[str] | None], params: models.GraphParams
) -> models.GraphPage:
    behind = [one for one in graph.rows if one > params.after]
    shown = behind[: params.limit]
    nodes, edges = [], []
    for row in map(graph.rows.__getitem__, shown):
        users = [
            name for name, some in globs.items() if row.kind != "tool" or matches(row.name, some)
        ]
        nodes.append(models.GraphNode.of_record(row, agents=tuple(users)))
        edges += [
            edge
            for edge in graph.edges(row.id)
            # What leads both ways is told once.
            if edge.type == "DEPENDS_ON" or edge.source < edge.target
        ]
    more = shown[-1] if len(behind) > len(shown) else ""
    return models.GraphPage(agents=tuple(globs), nodes=nodes, edges=edges, next=more)


async def _search(
    discoverer: Discoverer, seen: CallerView, params: models.DiscoverParams
) -> Discovery:
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


def _discovered(discovery: Discovery, examples: ExampleSet) -> models.Discovered:
    return models.Discovered.of_record(
        discovery,
        found=[
            _found(one, said_alike(discovery.query, one.row.id, examples))
            for one in discovery.found
        ],
        tokens=discovery.token_estimate,
        milliseconds={step: round(time, 3) for step, time in discovery.milliseconds.items()},
        vectors=discovery.dense,
    )


def _found(found: FoundCapability, learned: list[str]) -> models.FoundRow:
    figures = ("relevance", "dense", "lexical", "graph")
    return models.FoundRow.of_record(
        found,
        id=found.row.id,
        **{name: round(getattr(found, name), 4) for name in figures},
        words=list(found.words),
        edge=found.edge or "",
        available=found.row.available,
        learned=learned,
    )
