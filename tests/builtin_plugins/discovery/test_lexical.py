from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.discovery.searching import row

from hookgate.builtin_plugins.discovery.index.build import Material
from hookgate.builtin_plugins.discovery.index.documents import (
    K1,
    B,
    LexicalIndex,
    WordTable,
    digest_of,
    weights_of,
)
from hookgate.core.domain.descriptors import Capability

WORDS = ("mail", "send", "page", "web", "time", "book", "???")

said = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
rows = st.lists(
    st.builds(row, said, said, category=said, tags=st.lists(said, max_size=2).map(tuple)),
    max_size=8,
)
queries = st.lists(st.sampled_from((*WORDS[:-1], "absent", "other")), unique=True, max_size=5)


def table_of(rows: Sequence[Capability], before: WordTable | None = None) -> WordTable:
    return WordTable.of(rows, [digest_of(one) for one in rows], before)


def index_of(rows: Sequence[Capability], before: WordTable | None = None) -> LexicalIndex:
    return LexicalIndex(table_of(rows, before))


def slow_scores(rows: Sequence[Capability], words: Sequence[str]) -> tuple[list[float], float]:
    """Return BM25 over weighted fields, as a textbook has it."""
    weights = [weights_of(one) for one in rows]
    lengths = [float(sum(one.values())) for one in weights]
    mean = sum(lengths) / len(lengths) if sum(lengths) else 1.0
    scores, most = [0.0] * len(rows), 0.0
    for word in words:
        held = sum(1 for one in weights if word in one)
        idf = math.log(1 + (len(rows) - held + 0.5) / (held + 0.5))
        most += idf * (K1 + 1)
        for at, one in enumerate(weights):
            if word in one:
                norm = K1 * (1 - B + B * lengths[at] / mean)
                scores[at] += idf * one[word] * (K1 + 1) / (one[word] + norm)
    return scores, most


@given(rows, queries)
def test_scores_are_those_of_the_textbook(rows: list[Capability], words: list[str]) -> None:
    scores, most = index_of(rows).scores(words)
    slow, slow_most = slow_scores(rows, words)
    assert scores.tolist() == pytest.approx(slow, abs=1e-4)
    assert most == pytest.approx(slow_most, abs=1e-4)
    assert all(score <= most + 1e-4 for score in scores)


@given(st.lists(rows, min_size=1, max_size=4), queries)
def test_table_made_from_the_one_before_scores_like_a_fresh_one(
    versions: list[list[Capability]], words: list[str]
) -> None:
    table: WordTable | None = None
    for version in versions:
        table = table_of(version, table)
        scores, most = LexicalIndex(table).scores(words)
        fresh, fresh_most = index_of(version).scores(words)
        assert scores.tolist() == pytest.approx(fresh.tolist(), abs=1e-6)
        assert most == pytest.approx(fresh_most, abs=1e-6)


def test_rows_of_the_table_before_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [row("send_mail", "Send a mail."), row("web_page", "Read a page.")]
    table = table_of(old)
    read: list[str] = []

    def noting(one: Capability) -> object:
        read.append(one.name)
        return weights_of(one)

    monkeypatch.setattr("hookgate.builtin_plugins.discovery.index.documents.weights_of", noting)
    table_of([old[1], row("clock", "Tell the time."), old[0]], table)
    assert read == ["clock"]


def test_nothing_at_all_can_be_searched() -> None:
    scores, most = index_of([]).scores(["mail"])
    assert len(scores) == 0
    assert most > 0


@pytest.mark.parametrize("empty", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_rows_without_a_word_score_nothing_wherever_they_stand(empty: tuple[int, ...]) -> None:
    rows = [row("!" * (at + 1)) if at in empty else row("mail") for at in range(3)]
    scores, _ = index_of(rows).scores(["mail"])
    assert [score > 0 for score in scores] == [at not in empty for at in range(3)]


def test_unknown_words_score_nothing_and_make_a_match_weaker() -> None:
    index = index_of([row("mail"), row("page")])
    known, most = index.scores(["mail"])
    both, more = index.scores(["mail", "absent"])
    assert known.tolist() == both.tolist()
    assert more > most


def test_rare_words_count_for_more() -> None:
    index = index_of([row("mail", "rare"), row("mail"), row("mail"), row("page")])
    scores, _ = index.scores(["mail", "rare"])
    assert int(np.argmax(scores)) == 0
    assert index.scores(["rare"])[0][0] > index.scores(["mail"])[0][1] / 2


def test_older_index_stays_what_it_was_when_the_words_grow() -> None:
    rows = [row("send_mail", "Send a mail."), row("web_page", "Read a page.")]
    old = index_of(rows)
    before = old.scores(["mail", "zebra"])
    newer = index_of([*rows, row("zebra", "mail zebra stripes")], old.table)
    assert newer.table.words is old.table.words
    after = old.scores(["mail", "zebra"])
    assert after[0].tolist() == before[0].tolist()
    assert after[1] == before[1]
    assert old.held(["mail", "zebra"], 0) == ("mail",)
    assert newer.scores(["zebra"])[0].argmax() == 2


def test_held_names_the_words_of_one_row_in_the_order_of_the_query() -> None:
    index = index_of([row("!!"), row("send_mail", "by post"), row("web_page")])
    words = ["absent", "post", "page", "send"]
    assert index.held(words, 1) == ("post", "send")
    assert index.held(words, 2) == ("page",)
    assert index.held(words, 0) == ()
    assert len(index) == 3


def test_words_that_nobody_holds_any_more_are_forgotten_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.builtin_plugins.discovery.index.build.SLACK_WORDS", 100)
    material = Material()
    for version in range(100):
        material.draft(version, [row("log", " ".join(f"w{version}x{at}" for at in range(10)))])
    assert material.table is not None
    assert len(material.table.words) <= 150
