"""The stages of a search, each by itself, over one set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.discovery._tool_sets import DEPTH, Question, Run, ToolSet
from benchmarks.discovery._vectors import Floats, Vectors
from hookgate.builtin_plugins.discovery.index import Index, IndexQuery, Part
from hookgate.builtin_plugins.discovery.index.build import Material
from hookgate.builtin_plugins.discovery.index.documents import (
    LexicalIndex,
    WordTable,
    digest_of,
    text_of,
)
from hookgate.builtin_plugins.discovery.index.graph import Graph
from hookgate.builtin_plugins.discovery.learn.lessons import Learned
from hookgate.builtin_plugins.discovery.show.entries import EDGES, FoundCapability
from hookgate.core.domain.descriptors import Capability
from hookgate.kit.vectors import small_talk

BASELINES = ("plain", "clauses")
STAGES = (*BASELINES, "lexical", "dense", "fused", "graph")
"""In the order in which they are shown. The first two are no part of the product: they are the
plain hybrid, and the same with the clauses of a message, that the others are compared with."""

PLAIN_DENSE = 0.6
"""The weight of meaning in the plain hybrid."""

PLAIN_CLAUSE = 0.5
"""The weight of the best clause in the plain hybrid with clauses."""

GRAPH_FACTOR = 0.15
"""How much of an edge's weight counts where related results lift each other."""

KS = (0, 3, 10, 30)
"""Examples a capability has learned at most."""

LEARNED_TOOLS, LEARNED_QUERIES = 20, 6
"""Learning is measured on sets with so many tools that have so many queries of their own."""


class Stages:
    """The index of one set, and its queries with their vectors."""

    def __init__(self, tools: ToolSet, vectors: Vectors) -> None:
        self.tools = tools
        self.index = index_of(tools.rows, vectors)
        self._places = {row.id: place for place, row in enumerate(tools.rows)}
        self._graph = Graph(tools.rows, {})
        self._plain = Plain(tools.rows, vectors)
        self._vectors = vectors
        self.queries = queries_of([one.text for one in tools.questions], vectors)

    def run(self, stage: str) -> Run:
        """Return the best ids of each query by a stage of `STAGES`."""
        rank = {
            "plain": self._plain.places,
            "clauses": partial(self._plain.places, clauses=True),
            "graph": self._related,
        }.get(stage)
        if rank is None:
            rank = partial(self._searched, mode=stage)
        return {
            question.id: self._ids(rank(query))
            for question, query in zip(self.tools.questions, self.queries, strict=True)
        }

    def learned(self, split: Split, count: int) -> Run:
        """Return the run over the questions of `split`, with `count` examples a capability."""
        texts = [text for examples in split.examples.values() for text in examples[:count]]
        owners = [id_ for id_, examples in split.examples.items() for _ in examples[:count]]
        memory = Learned(owners, self._vectors.of(texts)) if texts else None
        run = {}
        for question, query in zip(self.tools.questions, self.queries, strict=True):
            if question.id in split.asked:
                learned = None if memory is None else memory.of(query, self.index)
                ranking = self.index.search(query, learned=learned)
                run[question.id] = self._ids(ranking.places.tolist())
        return run

    def _searched(self, query: IndexQuery, mode: str) -> list[int]:
        return [int(place) for place in self.index.search(query, mode=mode).places]

    def _related(self, query: IndexQuery) -> list[int]:
        """Rank by the whole search, then let related results among the best lift each other."""
        ranking = self.index.search(query)
        places = ranking.places[:DEPTH].tolist()
        found = [
            FoundCapability(row=self.index.rows[place], relevance=float(score))
            for place, score in zip(places, ranking.scores, strict=False)
        ]
        ranked = self._graph.rerank(found, factor=GRAPH_FACTOR, boosts=EDGES, pulls=())
        return [self._places[item.row.id] for item in ranked]

    def _ids(self, places: Sequence[int]) -> list[str]:
        return [self.index.rows[place].id for place in places[:DEPTH]]


def index_of(rows: Sequence[Capability], vectors: Vectors) -> Index:
    """Return the index that the product makes of `rows`."""
    material = Material(background=small_talk())
    draft = material.draft(1, rows)
    made = vectors.of(list(draft.missing.values()))
    material.take(vectors.fingerprint, list(draft.missing), made)
    return material.index(draft)


def queries_of(texts: Sequence[str], vectors: Vectors) -> list[IndexQuery]:
    """Return the queries with a vector for each of their parts."""
    queries = [IndexQuery.of(text) for text in texts]
    spans = [[part.span for part in query.parts[1:]] for query in queries]
    made = vectors.asked(list(zip(texts, spans, strict=True)))
    return [query.with_vectors(own) for query, own in zip(queries, made, strict=True)]


class Plain:
    """The hybrid that anybody would write first: one vector and BM25 of one text.

    Both are brought to 0 to 1 over all rows, query by query, and added with fixed weights. With
    clauses, that of the whole message and the best of its clauses are added in the same way.
    """

    def __init__(self, rows: Sequence[Capability], vectors: Vectors) -> None:
        texts = [text_of(row) for row in rows]
        self._matrix = vectors.of(texts)
        # As the description of a nameless row, each word of the text counts the same.
        bare = [Capability(id=row.id, kind=row.kind, name="", description=text)
                for row, text in zip(rows, texts, strict=True)]  # fmt: skip
        self._lexical = LexicalIndex(WordTable.of(bare, [digest_of(row) for row in bare]))

    def places(self, query: IndexQuery, *, clauses: bool = False) -> list[int]:
        scores = self._scores(query.parts[0])
        if clauses and len(query.parts) > 1:
            best = np.max([self._scores(part) for part in query.parts[1:]], axis=0)
            scores = (1 - PLAIN_CLAUSE) * scores + PLAIN_CLAUSE * best
        return [int(place) for place in np.argsort(-scores, kind="stable")[:DEPTH]]

    def _scores(self, part: Part) -> Floats:
        assert part.vector is not None
        words, _ = self._lexical.scores(part.words)
        meaning = self._matrix @ part.vector
        scores: Floats = PLAIN_DENSE * _spread(meaning) + (1 - PLAIN_DENSE) * _spread(words)
        return scores


def _spread(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


# -- learning ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Split:
    """Which queries are examples, and which are asked.

    Attributes:
        examples: For each capability the queries that it may learn from, in a fixed order:
            the first 3 of them are among the first 10.
        asked: The ids of the questions that are asked, whatever the number of examples.
    """

    examples: dict[str, list[str]]
    asked: frozenset[str]

    def mean(self, count: int) -> float:
        """Return the mean examples a capability, of `count` at most."""
        return sum(len(one[:count]) for one in self.examples.values()) / len(self.examples)


def split_of(questions: Iterable[Question]) -> Split | None:
    """Divide the queries that one tool answers; None where there are too few.

    At least half of each tool's queries are asked. The order is that of the digests of ids.
    """
    owned: dict[str, list[Question]] = {}
    for question in questions:
        if len(question.gold) == 1:
            owned.setdefault(next(iter(question.gold)), []).append(question)
    owned = {id_: own for id_, own in sorted(owned.items()) if len(own) >= LEARNED_QUERIES}
    if len(owned) < LEARNED_TOOLS:
        return None
    examples, asked = {}, set()
    for id_, own in owned.items():
        own.sort(key=lambda one: hashlib.sha256(one.id.encode()).digest())
        count = min(max(KS), len(own) // 2)
        examples[id_] = [one.text for one in own[:count]]
        asked |= {one.id for one in own[count:]}
    return Split(examples, frozenset(asked))
