"""The benchmark of a search's speed: its capabilities, its vectors, and that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.discovery import _synthetic
from benchmarks.discovery import speed as discovery_speed

from hookgate.builtin_plugins.discovery.index.documents import text_of
from hookgate.builtin_plugins.discovery.index.engine import QUERIES, RANKINGS

ROOT = Path(__file__).parent.parent.parent


def test_the_same_capabilities_come_each_time_whatever_their_number() -> None:
    few, many = _synthetic.capabilities(50), _synthetic.capabilities(500)

    assert [text_of(row) for row in few] == [text_of(row) for row in many[:50]]
    assert len({row.id for row in many}) == 500


def test_a_synthetic_capability_has_the_schema_that_it_names() -> None:
    row = _synthetic.capabilities(1)[0]

    assert row.load is not None
    schema = row.load().schema
    assert schema is not None
    assert tuple(schema["properties"]) == row.parameters


async def test_texts_that_share_words_are_near_each_other() -> None:
    embedder = _synthetic.WordEmbedder()

    one, like, other = await embedder.embed(["send my letter", "read my letter", "count a lamp"])

    assert one @ like > one @ other + 0.3
    assert np.linalg.norm(one) == pytest.approx(1)
    assert np.array_equal(await embedder.embed_query("send my letter"), one)


@pytest.mark.slow
async def test_warm_figures_hold_both_sides_and_their_ratio() -> None:
    figures = {each.name: each for each in await discovery_speed.warm(100, rounds=1)}

    bare, whole = figures["discovery.100.bare.p50"], figures["discovery.100.discover.p50"]
    ratio = figures["discovery.100.discover.ratio"]
    assert ratio.value == pytest.approx(whole.value / bare.value)
    assert ratio.goal == discovery_speed.FIND_GOALS[100]


def test_no_side_asks_what_another_has_just_asked() -> None:
    texts = _synthetic.messages(discovery_speed.MESSAGES)
    size = discovery_speed.BLOCK
    early = discovery_speed.blocks_of(texts, size)
    late = discovery_speed.blocks_of(texts, size, shift=len(early) // 3)

    asked = [text for pair in zip(early, late, strict=True) for block in pair for text in block]

    last = {text: place for place, text in enumerate(asked)}
    first = {text: place for place, text in reversed(list(enumerate(asked)))}
    assert len(first) == len(texts)
    assert all(last[text] - first[text] > RANKINGS for text in texts)
    assert len(texts) < QUERIES


@pytest.mark.slow
async def test_a_start_with_an_unchanged_index_embeds_nothing() -> None:
    figures = await discovery_speed.cold_and_start(20, queries=10, starts=1)

    values = {figure.name: figure.value for figure in figures}
    assert values["discovery.20.start.texts"] == 0
    assert values["discovery.20.start.ratio"] < 1


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "benchmarks.discovery.speed", "memory", "10"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert 0 <= float(json.loads(done.stdout.splitlines()[-1])) < 100
