"""What a model reads of the capabilities: the three tiers, against all schemas at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from benchmarks._stages import index_of, queries_of
from benchmarks._tool_sets import ToolSet
from benchmarks._vectors import Vectors
from hookgate.builtin_plugins.discovery.assembler import Assembler, Budgets, render
from hookgate.builtin_plugins.discovery.results import Entry, Found
from hookgate.builtin_plugins.embedding.onnx import TOKENIZER
from hookgate.core.host import QuarterTokens
from hookgate.core.ports import TokenCounter

CAPABILITIES = 100
QUERIES = 100


class WordPieces:
    """Counts tokens with the tokenizer of the installed MiniLM."""

    def __init__(self) -> None:
        self._tokenizer: Any = Tokenizer.from_file(str(TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True)
class Cost:
    """Mean tokens of a query by one way of counting.

    Attributes:
        counted: How they were counted.
        capabilities: How many capabilities there are.
        tiers: Of the three tiers.
        dump: Of the schemas of all capabilities.
    """

    counted: str
    capabilities: int
    tiers: float
    dump: float

    @property
    def saved(self) -> float:
        """What the tiers spare, in percent."""
        return 100 * (1 - self.tiers / self.dump)


def token_costs(tools: ToolSet, vectors: Vectors) -> list[Cost]:
    """Return what the tiers cost over queries of a sample of capabilities.

    The sample holds tools that queries ask for, and the queries ask for tools of the sample;
    both are taken in the order of the digests of their ids.
    """
    gold = frozenset().union(*(question.gold for question in tools.questions))
    order = sorted(
        (place for place, row in enumerate(tools.rows) if row.id in gold),
        key=lambda place: _digest(tools.rows[place].id),
    )[:CAPABILITIES]
    rows = [tools.rows[place] for place in order]
    held = {row.id for row in rows}
    asked = sorted(
        (question for question in tools.questions if question.gold & held),
        key=lambda question: _digest(question.id),
    )[:QUERIES]
    index = index_of(rows, vectors)
    budgets = Budgets()
    found = []
    for query in queries_of([question.text for question in asked], vectors):
        ranking = index.search(query)
        found.append(
            [
                Entry(
                    found=Found(row=rows[place], relevance=float(score)),
                    description=rows[place].description,
                    schema=tools.schemas[order[place]],
                )
                for place, score in zip(
                    ranking.places[: budgets.top_summaries], ranking.scores, strict=False
                )
            ]
        )
    dump = json.dumps(
        [
            {"name": row.name, "description": row.description, "schema": tools.schemas[place]}
            for row, place in zip(rows, order, strict=True)
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )
    counters: dict[str, TokenCounter] = {
        "a token for each four characters": QuarterTokens(),
        "MiniLM's tokenizer": WordPieces(),
    }
    return [
        Cost(name, len(rows), _tier_tokens(rows, found, budgets, counter), counter.count(dump))
        for name, counter in counters.items()
    ]


def _tier_tokens(
    rows: Sequence[Any], found: Sequence[Sequence[Entry]], budgets: Budgets, counter: TokenCounter
) -> float:
    """Return the mean tokens of the tiers, which keep to `budgets` as `counter` sees them."""
    assembler = Assembler(budgets, counter)
    texts = [
        render([assembler.tier0(rows, 1), assembler.tier1(entries), assembler.tier2(entries)])
        for entries in found
    ]
    return float(np.mean([counter.count(text) for text in texts]))


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
