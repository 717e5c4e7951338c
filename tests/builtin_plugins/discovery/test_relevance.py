from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.discovery.searching import DIMENSION, snapshot, vector

from hookgate.builtin_plugins.discovery.index import IndexQuery, Ranking, Surroundings
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.index.relevance import (
    CHANCE,
    WORDS_ALONE,
    Relevance,
)
from hookgate.builtin_plugins.discovery.learn.view import META_TOOL
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.discovery.sources.folders import Root, scan, shipped_folder
from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files
from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.worker import ThreadEngine
from hookgate.kit.vectors import small_talk

FLOOR = DiscoverySettings().floor
CHATTER = Path(__file__).parents[3] / "benchmarks" / "discovery" / "small_talk.txt"

numbers = st.floats(min_value=-1, max_value=1, width=32, allow_subnormal=False)


def ranking_of(scores: list[float], cosines: list[float], shares: list[float]) -> Ranking:
    order = np.argsort(-np.array(scores, np.float32))
    return Ranking(
        places=order,
        scores=np.array(scores, np.float32)[order],
        cosines=np.array(cosines, np.float32)[order],
        shares=np.array(shares, np.float32)[order],
        complete=True,
    )


def query_of(text: str) -> IndexQuery:
    return IndexQuery.of(text).with_vectors([vector(text)])


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=12), st.booleans())
def test_relevance_never_grows_down_the_list(
    rows: list[tuple[float, float, float]], dense: bool
) -> None:
    scores = [score for score, _, _ in rows]
    top = max([*scores, 1e-6])
    ranking = ranking_of(
        [score / top for score in scores], [cos for _, cos, _ in rows], [abs(s) for _, _, s in rows]
    )
    relevance = Relevance(("hello",)).of(
        ranking, query_of("send mail"), vector("hello")[None] if dense else None
    )
    assert len(relevance) == len(rows)
    assert (np.diff(relevance) <= 0).all()
    assert not len(relevance) or relevance[0] <= 1


def test_message_like_small_talk_needs_a_better_match() -> None:
    relevance = Relevance(())
    ranking, query = ranking_of([1], [0.5], [0.1]), query_of("thanks")
    far, near = np.eye(1, DIMENSION, dtype=np.float32), vector("thanks")[None]
    assert relevance.confidence(ranking, query, near) < 0.1
    assert relevance.confidence(ranking, query, far) > 0.5
    better = ranking_of([1], [0.9], [0.1])
    assert relevance.confidence(better, query, far) > relevance.confidence(ranking, query, far)


def test_without_vectors_a_word_of_its_own_makes_sure_and_small_talk_does_not() -> None:
    relevance = Relevance(("thanks", "good morning", "good night"))
    held, nothing = ranking_of([1], [0], [0.4]), ranking_of([1], [0], [0])
    assert relevance.confidence(held, IndexQuery.of("good mail"), None) == WORDS_ALONE
    assert relevance.confidence(held, IndexQuery.of("good thanks"), None) == CHANCE
    assert relevance.confidence(nothing, IndexQuery.of("mail"), None) == 0
    # A word that no row holds speaks for none.
    assert relevance.confidence(held, IndexQuery.of("good Zoe"), None, ("good",)) == CHANCE
    assert CHANCE < FLOOR < WORDS_ALONE


def test_small_talk_is_there_in_several_languages() -> None:
    lines = small_talk()
    assert len(lines) > 100
    assert len(set(lines)) == len(lines)
    assert not any(line.startswith("#") or line != line.strip() for line in lines)
    assert "danke" in " ".join(lines).casefold()


# -- the real model and the capabilities that come with the product -------------------

ASKED = {"what can you do?", "shorter please", "could you explain that again?"}
"""Small talk where tools are for other things; what comes with hookgate has some for these."""

ON_TOPIC = [
    ("what is 17% of 2300", {"tool:calculate", "skill:percentage-and-tax"}),
    ("draft an email to my landlord", {"skill:draft-email"}),
    ("what time is it in Tokyo", {"tool:clock"}),
    ("explain this traceback: KeyError: 'name'", {"skill:explain-error"}),
    ("how many days are between 3 May and 20 June", {"skill:date-arithmetic"}),
    ("convert 5 miles to kilometres", {"skill:unit-conversion"}),
    ("write a commit message for these changes", {"skill:write-commit-message"}),
    ("translate the contract that I paste below", {"skill:translate-text"}),
    ("summarise this article for me", {"skill:summarise-text", "skill:web-page-digest"}),
    ("remember that I am allergic to nuts", {"tool:remember"}),
    ("forget my address", {"tool:forget"}),
    ("write a regex that matches phone numbers", {"skill:regex-helper"}),
    ("write a SQL query that joins orders and customers", {"skill:sql-query-helper"}),
    ("turn these notes into minutes of the meeting", {"skill:meeting-notes"}),
    ("review this pull request diff", {"skill:review-diff"}),
    ("fetch https://example.org and say what is there", {"tool:http_get", "skill:web-page-digest"}),
    ("check the spelling and grammar of my essay", {"skill:proofread-text"}),
    ("which laptop should I buy, the cheap one or the fast one", {"skill:compare-options"}),
    ("this JSON is invalid, can you fix and indent it", {"skill:json-formatting"}),
    ("make a plan for building a garden shed", {"skill:plan-project"}),
    ("scale this recipe for six people and make a shopping list", {"skill:shopping-and-cooking"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Mapping[str, Sequence[str]]:
    """What each message finds at the default floor among all that the product ships."""
    declared = scan([Root(path=shipped_folder(), origin="hookgate", expected=True)]).declared
    rows = snapshot(one.row for one in declared if one.row.name != META_TOOL)

    async def search() -> dict[str, list[str]]:
        model = OnnxModel(find_files(EmbeddingSettings()))
        worker = ThreadEngine(model, failed=lambda why: pytest.fail(why))
        embedder = CachedEmbedder(worker, kind="onnx", cache_size=8)
        engine = SearchEngine(Surroundings(embedder=lambda: embedder))
        await engine.ready(rows)
        results = {}
        for text in (*chatter(), *(text for text, _ in ON_TOPIC)):
            finding = await engine.find(rows, text, limit=5, floor=FLOOR)
            assert finding.dense
            results[text] = [one.row.id for one in finding.found]
        await engine.close()
        await embedder.close()
        return results

    return asyncio.run(search())


def chatter() -> list[str]:
    """Messages that need no capability, none of which the product knows: every second one."""
    lines = CHATTER.read_text("utf-8").splitlines()
    idle = [line for line in lines if line.strip() and not line.startswith("#")]
    return [line for line in idle if line not in ASKED][::2]


@pytest.mark.slow
def test_small_talk_selects_next_to_nothing(found: Mapping[str, Sequence[str]]) -> None:
    lines = chatter()
    assert not set(lines) & set(small_talk())
    assert len(lines) >= 75
    selecting = [line for line in lines if found[line]]
    assert len(selecting) <= 0.06 * len(lines), selecting


@pytest.mark.parametrize(("text", "wanted"), ON_TOPIC)
@pytest.mark.slow
def test_message_finds_what_helps_among_the_first_three(
    found: Mapping[str, Sequence[str]], text: str, wanted: set[str]
) -> None:
    assert wanted & set(found[text][:3]), found[text]
