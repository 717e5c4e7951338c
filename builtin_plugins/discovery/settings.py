"""The settings of discovery: ``[plugin.discovery]``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hookgate import Section
from hookgate.builtin_plugins.discovery.show.entries import EdgeType


class LearningSettings(Section):
    """``[plugin.discovery.learning]``: example queries, learned from use."""

    enabled: bool = True
    """Whether messages that were answered well become examples of what answered them."""
    scope: Literal["principal", "agent", "gateway"] = "principal"
    """Whose messages help whose: a person's own, those of one agent, or everybody's."""
    per_capability: int = Field(default=30, ge=1, le=1000)
    """Examples of one capability within one scope; the least recently used goes first."""
    total: int = Field(default=10_000, ge=1, le=1_000_000)
    """Examples of one scope."""
    overall: int = Field(default=100_000, ge=1, le=10_000_000)
    """Examples of all scopes together."""
    judged_only: bool = False
    """Whether a turn teaches only where a plugin or a person has judged it."""


class DiscoverySettings(Section):
    """``[plugin.discovery]``: how capabilities are found, and what a model sees of them."""

    results: int = Field(default=8, ge=1, le=100)
    """Capabilities that `discover_capabilities` returns at most."""
    selected: int = Field(default=8, ge=0, le=1000)
    """Capabilities that are chosen for a turn at most."""
    floor: float = Field(default=0.4, ge=0, le=1)
    """The least relevance, 0 to 1, of what is chosen or shown for a turn. It is calibrated:
    small talk stays below it, whatever capabilities there are."""
    prompt_context: bool = True
    """Whether the three tiers become part of the context."""
    tier0_token_budget: int = Field(default=200, ge=0, le=100_000)
    """Tokens of the map of categories."""
    tier1_token_budget: int = Field(default=800, ge=0, le=100_000)
    """Tokens of the summaries."""
    tier2_token_budget: int = Field(default=2000, ge=0, le=100_000)
    """Tokens of the full details."""
    tier1_top_k: int = Field(default=5, ge=0, le=100)
    """Capabilities that are summarised; what they need is shown besides."""
    tier2_top_k: int = Field(default=2, ge=0, le=20)
    """Capabilities that are shown in full."""
    graph_boost_factor: float = Field(default=0.15, ge=0, le=1)
    """What a related capability adds, as a share of the edge's weight."""
    boost: tuple[EdgeType, ...] = ()
    """Edges over which capabilities that were both found raise one another. Edges of
    likeness, `TAGGED_WITH` and `SAME_CATEGORY`, lowered recall when it was measured."""
    pull: tuple[EdgeType, ...] = ("DEPENDS_ON", "COMPOSED_WITH")
    """Edges over which a found capability brings others along, in places of their own."""
    pulled: int = Field(default=3, ge=0, le=100)
    """Capabilities that are brought along at most."""
    presets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Ids of capabilities that are used together, by a name for each set."""
    dirs: tuple[Path, ...] = ()
    """More folders of manifests and skills."""
    skill_dirs: tuple[Path, ...] = ()
    """Folders of skills alone."""
    catalogue: Path | None = None
    """A file that names extensions which could be installed."""
    disabled: tuple[str, ...] = ()
    """Ids of capabilities that are not available whatever else holds."""
    watch: bool = True
    """Whether folders are watched, and read again when something in them changes."""
    debounce_ms: int = Field(default=500, ge=10, le=60_000)
    """The longest time for which a burst of changes is gathered, in milliseconds."""
    collection_name: str = Field(default="capability_index", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """The name of the index's file, in the folder `discovery` of `home`, and of its tables."""
    vectors: Literal["memory", "postgres"] = "memory"
    """Where vectors are searched: in this process, or in the store, which then has to be
    PostgreSQL with pgvector. Gateways that share the store share the vectors."""
    index_ahead: bool = True
    """Whether what there is is indexed before a turn asks for it; without, the first one waits."""
    learning: LearningSettings = Field(default_factory=LearningSettings.by_default)
    """Example queries, learned from use."""
