"""The benchmark of memory, with a conversation of our own."""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.memory import Chance, Costs, grow, quality, recall_within, run, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TURNS = [
    ("1:56 pm on 8 May, 2023", "Ann", "My dog is called Luna."),
    ("1:56 pm on 8 May, 2023", "Ben", "What a name! Mine is Rex."),
    ("12:05 am on 3 June, 2023", "Ann", "I moved to Berlin, where it rains."),
    ("12:05 am on 3 June, 2023", "Ben", "Berlin is a fine city."),
]


def write(path: Path, rows: Sequence[Any]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    turns = [
        {"id": f"D{at}", "session": at // 2, "time": time, "speaker": who, "text": text}
        for at, (time, who, text) in enumerate(TURNS)
    ]
    write(tmp_path / "conversations.jsonl.gz", [{"id": "c", "turns": turns}])
    asked = {"q0": ("What is Ann's dog called?", ["D0"]), "q1": ("Where did Ann move?", ["D2"])}
    questions = [
        {"id": key, "conversation": "c", "question": text, "evidence": gold, "category": "single"}
        for key, (text, gold) in asked.items()
    ]
    write(tmp_path / "questions.jsonl.gz", questions)
    return tmp_path


def test_times_of_conversations_are_read() -> None:
    assert time_of("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert time_of("12:05 am on 3 June, 2023") == datetime(2023, 6, 3, 0, 5, tzinfo=UTC)
    assert time_of("2023-06-03T00:05:00") == datetime(2023, 6, 3, 0, 5, tzinfo=UTC)


def test_a_turn_that_does_not_fit_is_passed_over() -> None:
    costs = {"a": 5, "b": 90, "c": 10}
    assert recall_within(["a", "b", "c"], costs, ["a", "c"], 20) == 1
    assert recall_within(["a", "b", "c"], costs, ["b", "c"], 20) == 0.5
    assert recall_within([], costs, ["b"], 20) == 0


@pytest.mark.parametrize("embedder", [None, Chance()])
def test_conversations_are_kept_and_questions_answered(folder: Path, embedder: Any) -> None:
    costs = Costs([], [], [])
    found = asyncio.run(run(folder, embedder, costs))
    assert found["q0"][0] == "D0"
    assert sorted(found["q0"]) == ["D0", "D1", "D2", "D3"]
    assert (len(costs.kept), len(costs.recalled)) == (4, 2)
    values = {figure.name: figure.value for figure in quality(folder, found, "")}
    assert values["memory.recall.all.500"] == 1
    assert values["memory.recall.single.5000"] == 1


def test_sizes_grow(folder: Path) -> None:
    names = [figure.name for figure in asyncio.run(grow(folder, [40]))]
    assert "memory.scale.40.recall.p50" in names
