"""What a search finds and what a model gets to see of it: the values between the parts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hookgate import CLEAN, Capability, Taint
from hookgate.catalogue import Whose

EdgeType: TypeAlias = Literal["DEPENDS_ON", "COMPOSED_WITH", "TAGGED_WITH", "SAME_CATEGORY"]

EDGES: tuple[EdgeType, ...] = ("DEPENDS_ON", "COMPOSED_WITH", "TAGGED_WITH", "SAME_CATEGORY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A capability that a search found, or that a found one pulled in.

    Attributes:
        row: The capability.
        relevance: 0 to 1, calibrated: comparable from query to query and corpus to corpus.
        dense: Cosine of query and capability; 0 where there are no vectors.
        lexical: The share of the reachable BM25 score, 0 to 1.
        graph: What related capabilities added to `relevance`.
        words: The words of the query that it holds, as they were compared.
        tag: The tag of its own that the query holds, where that is why it was found although
            it is below the floor.
        pulled_by: The id of the capability that pulled it in; "" where it was found itself.
        edge: The edge over which it was pulled in.
    """

    row: Capability
    relevance: float
    dense: float = 0.0
    lexical: float = 0.0
    graph: float = 0.0
    words: tuple[str, ...] = ()
    tag: str = ""
    pulled_by: str = ""
    edge: EdgeType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEntry:
    """A found capability as it may be shown: its texts have passed the sanitizers.

    Attributes:
        found: What was found.
        description: Its description, sanitized.
        content: Its full text, sanitized; "" where there is none or it was not loaded.
        schema: The JSON Schema of its input, its texts sanitized; None where there is none or
            it was not loaded.
        written: What was written of it, by what for: it is written once for each. It hangs on
            the texts above, and on nothing of `found` but the row.
    """

    found: Found
    description: str
    content: str = ""
    schema: Mapping[str, object] | None = None
    written: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One tier's text.

    Attributes:
        text: What the model sees; "" where there is nothing to show.
        tokens: How many tokens `text` takes.
        ids: The capabilities that it shows, in order.
        left_out: The ids of those for which the budget had no room.
        whose: Who wrote its words; see `Capability.whose`.
        taint: What taints whoever reads it.
    """

    text: str = ""
    tokens: int = 0
    ids: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    whose: Whose = "own"
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """All that one search came to.

    Attributes:
        query: What was looked for.
        found: What fits, best first, pulled-in ones behind those that pulled them.
        tiers: Tier 0 (the map of categories), tier 1 (summaries), tier 2 (full details).
        index_version: The version of the index that was searched.
        dense: Whether vectors took part.
        problem: Why vectors took no part, or "".
        milliseconds: Time by step.
    """

    query: str
    found: tuple[Found, ...] = ()
    tiers: tuple[Tier, Tier, Tier] = field(default_factory=lambda: (Tier(), Tier(), Tier()))
    index_version: int = 0
    dense: bool = False
    problem: str = ""
    milliseconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def token_estimate(self) -> int:
        """Tokens of all three tiers together."""
        return sum(tier.tokens for tier in self.tiers)
