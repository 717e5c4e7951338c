"""What the floor of relevance keeps out: small talk, and some of what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.discovery._stages import Stages, queries_of
from benchmarks.discovery._vectors import Vectors
from hookgate.builtin_plugins.discovery.index import IndexQuery
from hookgate.builtin_plugins.discovery.index.relevance import Relevance, passed, tag_of
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.kit.vectors import small_talk

MESSAGES = Path(__file__).with_name("small_talk.txt")
"""Messages that need no capability. They were written apart from those that the product
knows, and no constant was fitted to them."""

FIRST = 5


@dataclass(frozen=True, slots=True)
class Passed:
    """What passes the floor in one set.

    Attributes:
        floor: The floor, which is that of the settings.
        small_talk: The share of small talk for which anything is selected.
        lost: The share of the queries with gold among the first five for which some of that
            is below the floor.
        recall: Recall@5 without the floor.
        recall_kept: Recall@5 of what is above it.
    """

    floor: float
    small_talk: float
    lost: float
    recall: float
    recall_kept: float


def messages() -> list[str]:
    """Return the small talk that is measured."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def let_through(stages: Stages, vectors: Vectors) -> Passed:
    """Return what the floor does to small talk, and to a set's own queries."""
    floor = DiscoverySettings().floor
    relevance = Relevance(small_talk())
    index = stages.index

    def above(query: IndexQuery) -> tuple[Sequence[int], Collection[str]]:
        """Return the places, best first, and the ids of what is looked at."""
        ranking = index.search(query)
        sure = relevance.judge(index, query, ranking)
        found = passed(
            index, query, ranking, sure, lambda _: True,
            limit=len(index), floor=floor, tag=tag_of(relevance, query),
        )  # fmt: skip
        return ranking.places.tolist(), {one.row.id for one in found}

    chatter = [bool(above(query)[1]) for query in queries_of(messages(), vectors)]
    answered, lost, before, after = 0, 0, 0.0, 0.0
    for question, query in zip(stages.tools.questions, stages.queries, strict=True):
        places, there = above(query)
        first = [index.rows[place].id for place in places[:FIRST]]
        hits = [id_ in question.gold for id_ in first]
        kept = [hit and id_ in there for hit, id_ in zip(hits, first, strict=True)]
        answered += any(hits)
        lost += sum(kept) < sum(hits)
        before += sum(hits) / len(question.gold)
        after += sum(kept) / len(question.gold)
    asked = len(stages.queries)
    return Passed(
        floor=floor,
        small_talk=sum(chatter) / len(chatter),
        lost=lost / max(1, answered),
        recall=before / asked,
        recall_kept=after / asked,
    )
