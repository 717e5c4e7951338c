"""What a model reads of the capabilities, against the declarations of all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from benchmarks.discovery._stages import index_of, queries_of
from benchmarks.discovery._tool_sets import ToolSet
from benchmarks.discovery._vectors import Vectors
from hookgate.builtin_plugins.discovery.index.relevance import Relevance
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.discovery.show.assembler import Assembler, TierBudgets, render
from hookgate.builtin_plugins.discovery.show.entries import FoundCapability, ShownEntry
from hookgate.builtin_plugins.embedding.onnx import TOKENIZER
from hookgate.core.domain.ports import TokenCounter
from hookgate.core.host import QuarterTokens
from hookgate.kit.vectors import small_talk

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
    """Mean tokens of a query, by one way of counting.

    Attributes:
        counted: How they were counted.
        capabilities: How many capabilities there are.
        tiers: Of the three tiers, whatever the floor says of what was found.
        request: Of the tiers as the settings have them, and of the declarations of the tools
            that are chosen for the turn, which go with the request.
        dump: Of the declarations of all capabilities.
    """

    counted: str
    capabilities: int
    tiers: float
    request: float
    dump: float

    def saved(self, tokens: float) -> float:
        """Return what `tokens` spare of the dump, in percent."""
        return 100 * (1 - tokens / self.dump)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found.

    Attributes:
        entries: The best, whatever their relevance.
        chosen: The places of those that are chosen for a turn.
    """

    entries: Sequence[ShownEntry]
    chosen: Sequence[int]


class Sample:
    """Capabilities of a set, with their declarations."""

    def __init__(self, tools: ToolSet) -> None:
        """Take tools that queries ask for, in the order of the digests of their ids."""
        gold = frozenset().union(*(question.gold for question in tools.questions))
        order = sorted(
            (place for place, row in enumerate(tools.rows) if row.id in gold),
            key=lambda place: _digest(tools.rows[place].id),
        )[:CAPABILITIES]
        self.rows = [tools.rows[place] for place in order]
        self.schemas = [tools.schemas[place] for place in order]

    def declared(self, places: Sequence[int]) -> str:
        """Return the declarations of tools as JSON, without white space."""
        return json.dumps(
            [
                {
                    "name": self.rows[place].name,
                    "description": self.rows[place].description,
                    "schema": self.schemas[place],
                }
                for place in places
            ],
            separators=(",", ":"),
            ensure_ascii=False,
        )


def token_costs(tools: ToolSet, vectors: Vectors) -> list[Cost]:
    """Return what is read over queries that ask for a sample's capabilities.

    The queries are taken in the order of the digests of their ids.
    """
    sample = Sample(tools)
    held = {row.id for row in sample.rows}
    asked = sorted(
        (question for question in tools.questions if question.gold & held),
        key=lambda question: _digest(question.id),
    )[:QUERIES]
    answers = _answers(sample, [question.text for question in asked], vectors)
    dump = sample.declared(range(len(sample.rows)))
    counters: dict[str, TokenCounter] = {
        "a token for each four characters": QuarterTokens(),
        "MiniLM's tokenizer": WordPieces(),
    }
    return [
        Cost(
            name,
            len(sample.rows),
            _tier_tokens(sample, answers, counter),
            _request_tokens(sample, answers, counter),
            counter.count(dump),
        )
        for name, counter in counters.items()
    ]


def _answers(sample: Sample, texts: Sequence[str], vectors: Vectors) -> list[Answer]:
    index, settings = index_of(sample.rows, vectors), DiscoverySettings()
    judge = Relevance(small_talk())
    answers = []
    for query in queries_of(texts, vectors):
        ranking = index.search(query)
        relevance = judge.judge(index, query, ranking)
        places = ranking.places.tolist()
        entries = [
            ShownEntry(
                found=FoundCapability(row=sample.rows[place], relevance=float(sure)),
                description=sample.rows[place].description,
                schema=sample.schemas[place],
            )
            for place, sure in zip(places, relevance, strict=True)
        ]
        chosen = min(settings.selected, int((relevance >= settings.floor).sum()))
        answers.append(Answer(entries[: settings.selected], places[:chosen]))
    return answers


def _tier_tokens(sample: Sample, answers: Sequence[Answer], counter: TokenCounter) -> float:
    """Return the mean tokens of the tiers, which keep to their budgets as `counter` sees them."""
    assembler = Assembler(TierBudgets(), counter)
    shown = []
    for answer in answers:
        two = assembler.tier2(answer.entries)
        one = assembler.tier1(answer.entries, detailed=two.ids)
        shown.append(counter.count(render([assembler.tier0(sample.rows, 1), one, two])))
    return float(np.mean(shown))


def _request_tokens(sample: Sample, answers: Sequence[Answer], counter: TokenCounter) -> float:
    assembler = Assembler(TierBudgets(), counter)
    totals = []
    for answer in answers:
        entries = answer.entries[: len(answer.chosen)]
        chosen = [sample.rows[place] for place in answer.chosen]
        offered = {row.name: row.description for row in chosen}
        two = assembler.tier2(entries, offered=offered)
        one = assembler.tier1(entries, offered=offered, detailed=two.ids)
        text = render([assembler.tier0(sample.rows, 1), one, two])
        totals.append(counter.count(text) + counter.count(sample.declared(answer.chosen)))
    return float(np.mean(totals))


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
