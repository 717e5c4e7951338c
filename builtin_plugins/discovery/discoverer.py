"""Discovery from the message to the text that a model sees."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hookgate import Capabilities, Capability, Card, Rejected, Taint, TokenCounter, join_taints
from hookgate.builtin_plugins.discovery.index import nothing_found
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.index.graph import Graph
from hookgate.builtin_plugins.discovery.learn.lessons import Lessons
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.discovery.show.assembler import Assembler, TierBudgets, render
from hookgate.builtin_plugins.discovery.show.entries import (
    Details,
    Discovery,
    Entries,
    FoundCapability,
    Tier,
)

if TYPE_CHECKING:
    Offered = Mapping[str, str] | Callable[[Sequence[FoundCapability]], Mapping[str, str]]

GRAPHS = 2
"""Graphs that are kept: a running turn may still need that of the version before the newest."""

LOOKED_THROUGH = 256
"""Up to so many rows are looked through for one that may be found, before a message is embedded."""

NO_TIERS = (Tier(), Tier(), Details())

INLINE_ROWS = 2000
"""Up to so many rows are mapped in less time than the way to a thread and back takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What may be found.

    Attributes:
        kinds: These kinds alone; None for all.
        category: This category alone, whatever its case; "" for all.
        only_available: Whether what lacks something that it requires is left out.
        exclude: Ids that are neither found nor counted.
        usable: Whatever else has to hold.
    """

    kinds: frozenset[str] | None = None
    category: str = ""
    only_available: bool = False
    exclude: frozenset[str] = frozenset()
    usable: Callable[[Capability], bool] = lambda _: True

    def admits(self, row: Capability) -> bool:
        """Whether `row` may be found."""
        return (
            (self.kinds is None or row.kind in self.kinds)
            and (not self.category or row.category.casefold() == self.category.casefold())
            and (row.available or not self.only_available)
            and row.id not in self.exclude
            and self.usable(row)
        )

    def may_admit(self, capabilities: Capabilities) -> bool:
        """Whether any of `capabilities` may be found; True where looking would take long.

        Where none may, there is nothing to embed a message for.
        """
        if len(capabilities) > LOOKED_THROUGH:
            return True
        return any(row.kind != "card" and self.admits(row) for row in capabilities)


class Discoverer:
    """Finds, relates, and shows: engine, graph and tiers together.

    It is plain Python, usable without a gateway::

        discoverer = Discoverer(Engine(), capabilities=lambda: CapabilityIndex(rows, 1))
        await discoverer.initialize()
        discovery = await discoverer.discover("search the web", kind="tool")
        print(discoverer.render_for_prompt(discovery), discovery.token_estimate)
    """

    def __init__(
        self,
        engine: SearchEngine,
        settings: DiscoverySettings | None = None,
        *,
        capabilities: Callable[[], Capabilities],
        counter: TokenCounter,
        sanitize: Callable[[Card], Awaitable[Card | Rejected]] | None = None,
        sanitizers: Callable[[], int] = lambda: 0,
    ) -> None:
        """Put the parts together.

        Args:
            engine: Searches.
            settings: The defaults of every search.
            capabilities: Returns what there is now, for calls that bring no snapshot.
            counter: Counts tokens.
            sanitize: What third-party text passes before it is shown; see `Host.sanitize`.
            sanitizers: Returns their version; see `Host.sanitizers`.
        """
        self.engine = engine
        self._settings = settings or DiscoverySettings()
        self._capabilities = capabilities
        self.counter = counter
        self.entries = Entries(sanitize, sanitizers)
        self._graphs: OrderedDict[int, Graph] = OrderedDict()
        self._usual = Assembler(_budgets(self._settings), counter)
        self._assemblers: dict[TierBudgets, Assembler] = {}

    # -- the index -----------------------------------------------------------

    async def initialize(self) -> None:
        """Index what there is now, and wait for its vectors."""
        await self.engine.ready(self._capabilities())

    async def refresh_index(self) -> None:
        """Index what has changed; searches meanwhile see the index before."""
        capabilities = self._capabilities()
        await self.engine.ready(capabilities)
        await self._graph(capabilities)

    async def get_stats(self) -> dict[str, Any]:
        """Return ``{capabilityCount, graphNodes, graphEdges, indexVersion, ...}``.

        ``graphEdges`` is None where there are too many to be counted.
        """
        capabilities = self._capabilities()
        index = await self.engine.index_of(capabilities)
        graph = await self._graph(capabilities)
        counts = await asyncio.to_thread(graph.edge_counts)
        known = [count for count in counts.values() if count is not None]
        return {
            "capabilityCount": len(index),
            "graphNodes": len(graph),
            "graphEdges": sum(known) if len(known) == len(counts) else None,
            "edges": dict(counts),
            "missing": {who: list(ids) for who, ids in graph.missing.items()},
            "indexVersion": index.version,
            "vectors": index.dense is not None,
            "problem": self.engine.problem or ("being made" if self.engine.filling else ""),
        }

    # -- one search ----------------------------------------------------------

    async def discover(
        self,
        text: str,
        *,
        capabilities: Capabilities | None = None,
        kind: str | None = None,
        category: str = "",
        only_available: bool = False,
        allowed: Filter | None = None,
        limit: int | None = None,
        config: Mapping[str, Any] | None = None,
        learned: Lessons | None = None,
        offered: Offered | None = None,
        tiers: bool = True,
        patient: bool = True,
        by_tag: bool = True,
    ) -> Discovery:
        """Return what fits `text`, and what a model is shown of it.

        Args:
            text: A message, or what is looked for.
            capabilities: The snapshot that is searched; what there is now where it is None.
            kind: One kind only.
            category: One category only.
            only_available: Leave out what lacks something that it requires.
            allowed: All of these and more, in place of the three above.
            limit: So many found ones at most.
            config: Settings of ``[plugin.discovery]`` that differ for this search.
            learned: Earlier queries, and what they were answered with.
            offered: What tools whose schemas go to the model anyway say there, by name, or
                what returns that for what was found.
            tiers: Whether the texts are made, too.
            patient: Whether it waits for a model that is not loaded yet, however long it
                takes. A turn waits for half a second; then words alone count.
            by_tag: Whether what has a tag that stands in `text` is found below the floor.

        Raises:
            ValueError: `config` holds a key or a value that the settings do not know.
        """
        settings = self._with(config)
        capabilities = self._capabilities() if capabilities is None else capabilities
        allowed = allowed or Filter(
            kinds=None if kind is None else frozenset({kind}),
            category=category,
            only_available=only_available,
        )
        limit = settings.selected if limit is None else limit
        if limit > 0 and allowed.may_admit(capabilities):
            finding = await self.engine.find(
                capabilities,
                text,
                shown=allowed.admits,
                limit=limit,
                floor=settings.floor,
                learned=learned,
                patient=patient,
                by_tag=by_tag,
            )
        else:
            finding = nothing_found(capabilities.version)
        begun = perf_counter()
        found = await self._related(finding.found, capabilities, allowed, settings)
        times = {**finding.milliseconds, "graph": (perf_counter() - begun) * 1000}
        begun = perf_counter()
        made = NO_TIERS
        if tiers:
            names = offered(found) if callable(offered) else offered
            made = await self.show(
                found, capabilities, exclude=allowed.exclude, offered=names, settings=settings
            )
        times["tiers"] = (perf_counter() - begun) * 1000
        return Discovery(
            query=text,
            found=tuple(found),
            tiers=made,
            index_version=finding.version,
            dense=finding.dense,
            problem=self.engine.problem,
            milliseconds=times,
        )

    @staticmethod
    def render_for_prompt(discovery: Discovery) -> str:
        """Return the text of all tiers."""
        return render(discovery.tiers)

    def _with(self, config: Mapping[str, Any] | None) -> DiscoverySettings:
        if not config:
            return self._settings
        return DiscoverySettings.model_validate({**self._settings.model_dump(), **config})

    async def _related(
        self,
        found: Sequence[FoundCapability],
        capabilities: Capabilities,
        allowed: Filter,
        settings: DiscoverySettings,
    ) -> Sequence[FoundCapability]:
        """Return what was found in its order among related ones, with what it needs."""
        graph = await self._graph(capabilities, settings.presets)
        return graph.rerank(
            found,
            factor=settings.graph_boost_factor,
            boosts=settings.boost,
            pulls=settings.pull,
            admit=allowed.admits,
            places=settings.pulled,
        )

    # -- relating ------------------------------------------------------------

    async def _graph(
        self, capabilities: Capabilities, presets: Mapping[str, tuple[str, ...]] | None = None
    ) -> Graph:
        usual = presets is None or presets == self._settings.presets
        graph = self._graphs.get(capabilities.version) if usual else None
        if graph is None:
            rows = [row for row in capabilities if row.kind != "card"]
            named = self._settings.presets if presets is None else presets
            graph = await asyncio.to_thread(Graph, rows, named)
            if not usual:
                return graph
            self._graphs[capabilities.version] = graph
            while len(self._graphs) > GRAPHS:
                del self._graphs[min(self._graphs)]
        return graph

    async def related(self, capability_id: str) -> tuple[Any, ...]:
        """Return the edges that lead from a capability, the heaviest of each type first."""
        return (await self.graph()).edges(capability_id)

    async def graph(self) -> Graph:
        """Return how all that there is now is related."""
        return await self._graph(self._capabilities())

    # -- showing -------------------------------------------------------------

    async def show(
        self,
        found: Sequence[FoundCapability],
        capabilities: Capabilities,
        *,
        exclude: frozenset[str] = frozenset(),
        offered: Mapping[str, str] | None = None,
        settings: DiscoverySettings | None = None,
    ) -> tuple[Tier, Tier, Details]:
        """Return the three tiers of what was found; their texts have passed the sanitizers."""
        settings = settings or self._settings
        assembler = self._assembler(settings)
        if len(capabilities) <= INLINE_ROWS:
            zero = assembler.tier0(capabilities, capabilities.version, exclude)
        else:
            # The first map of a version walks all rows.
            zero = await asyncio.to_thread(
                assembler.tier0, capabilities, capabilities.version, exclude
            )
        zero = await self.entries.map(zero, self.counter)
        if not found:
            return zero, NO_TIERS[1], NO_TIERS[2]
        entries = await self.entries.of(found, settings.tier1_top_k, details=settings.tier2_top_k)
        two = assembler.tier2(entries, offered=offered or ())
        one = assembler.tier1(entries, offered=offered, detailed=two.ids)
        taint = taint_of(entry.found.row for entry in entries)
        if taint:
            one, two = replace(one, taint=taint), replace(two, taint=taint)
        return zero, one, two

    def _assembler(self, settings: DiscoverySettings) -> Assembler:
        if settings is self._settings:
            return self._usual
        budgets = _budgets(settings)
        assembler = self._assemblers.get(budgets)
        if assembler is None:
            if len(self._assemblers) > 8:
                self._assemblers.clear()
            assembler = self._assemblers[budgets] = Assembler(budgets, self.counter)
        return assembler


def _budgets(settings: DiscoverySettings) -> TierBudgets:
    return TierBudgets(
        tier0=settings.tier0_token_budget,
        tier1=settings.tier1_token_budget,
        tier2=settings.tier2_token_budget,
        top_summaries=settings.tier1_top_k,
        top_details=settings.tier2_top_k,
    )


def taint_of(rows: Iterable[Capability]) -> Taint:
    """Return what taints whoever reads the words of all `rows`."""
    return join_taints(row.taint for row in rows)
