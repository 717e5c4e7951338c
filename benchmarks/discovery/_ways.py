"""What a search finds against what it costs: four ways to make a query of a message."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks.discovery._stages import Stages, queries_of
from benchmarks.discovery._tool_sets import DEPTH, score
from benchmarks.discovery._vectors import Vectors
from hookgate.builtin_plugins.discovery.index import IndexQuery

TIMED = 40
"""Queries of a set that are timed, evenly spread over it."""

DEFAULT = "one run of the model, clauses pooled from it"

Maker: TypeAlias = Callable[[Sequence[str], Vectors], list[IndexQuery]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way came to.

    Attributes:
        recalls: Recall@5 of each set.
        milliseconds: CPU time of a query: its vectors, and the search.
    """

    recalls: list[float]
    milliseconds: float

    @property
    def recall(self) -> float:
        """The mean of Recall@5 over the sets."""
        return sum(self.recalls) / len(self.recalls)


def words_alone(texts: Sequence[str], vectors: Vectors) -> list[IndexQuery]:
    del vectors
    return [IndexQuery.of(text) for text in texts]


def whole_alone(texts: Sequence[str], vectors: Vectors) -> list[IndexQuery]:
    queries = [IndexQuery(IndexQuery.of(text).parts[:1]) for text in texts]
    made = vectors.asked([(text, ()) for text in texts])
    return [query.with_vectors(own) for query, own in zip(queries, made, strict=True)]


def run_a_clause(texts: Sequence[str], vectors: Vectors) -> list[IndexQuery]:
    queries = [IndexQuery.of(text) for text in texts]
    parts = list(dict.fromkeys(part.text for query in queries for part in query.parts))
    made = vectors.asked([(part, ()) for part in parts])
    known = {part: own[0] for part, own in zip(parts, made, strict=True)}
    return [query.with_vectors([known[part.text] for part in query.parts]) for query in queries]


WAYS: dict[str, Maker] = {
    "words alone": words_alone,
    "the vector of the whole message, no clauses": whole_alone,
    DEFAULT: queries_of,
    "one run of the model for each clause": run_a_clause,
}


def costs(every: Sequence[Stages], vectors: Vectors) -> dict[str, Cost]:
    """Return what each way finds in some sets, and what a query costs it."""
    return {name: _cost(way, every, vectors) for name, way in WAYS.items()}


def _cost(way: Maker, every: Sequence[Stages], vectors: Vectors) -> Cost:
    recalls, spent, timed = [], 0.0, 0
    way(["the model is loaded before anything is timed"], vectors.without_cache())
    for stages in every:
        questions = stages.tools.questions
        queries = way([question.text for question in questions], vectors)
        run = {
            question.id: [
                stages.index.rows[place].id
                for place in stages.index.search(query).places[:DEPTH].tolist()
            ]
            for question, query in zip(questions, queries, strict=True)
        }
        recalls.append(score(questions, run)["Recall@5"])
        for question in questions[:: max(1, len(questions) // TIMED)]:
            bare = vectors.without_cache()
            start = time.thread_time()
            (query,) = way([question.text], bare)
            stages.index.search(query)
            spent += time.thread_time() - start
            timed += 1
    return Cost(recalls, 1000 * spent / timed)


def show_costs(found: dict[str, Cost]) -> None:
    """Print the table, the default marked."""
    table = Table(title="what a search finds, and what it costs (* is the default)")
    for heading in ("way", "mean Recall@5", "CPU ms a query"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name, cost in found.items():
        mark = " *" if name == DEFAULT else ""
        table.add_row(name + mark, f"{cost.recall:.4f}", f"{cost.milliseconds:.2f}")
    Console(width=120).print(table)
