"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from hookgate import (
    OperationModel,
)
from hookgate.builtin_plugins.discovery.index.graph import Edge
from hookgate.builtin_plugins.discovery.show.entries import Tier
from hookgate.catalogue import KIND_PATTERN, KINDS
from hookgate.settings import nearest


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
