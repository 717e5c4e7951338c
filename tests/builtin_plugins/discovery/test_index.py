from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builtin_plugins.discovery.searching import DIMENSION, row, vector

from hookgate.builtin_plugins.discovery.index import (
    COVERED,
    LEAST_COSINE,
    WEIGHTS,
    Index,
    IndexQuery,
)
from hookgate.builtin_plugins.discovery.index.build import Material
from hookgate.builtin_plugins.discovery.index.documents import text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hookgate.builtin_plugins.discovery.index import Ranking
    from hookgate.core.domain.descriptors import Capability

WORDS = ["mail", "send", "page", "web", "time", "book", "flight", "hotel", "music", "play", "chart"]


def fill(
    material: Material, rows: Sequence[Capability], lacking: Collection[str] = (), version: int = 1
) -> Index:
    """Index `rows` with the vectors of all their texts, but for rows that are `lacking`."""
    draft = material.draft(version, rows, "fake")
    without = {key for at, one in enumerate(rows) if one.name in lacking for key in draft.texts[at]}
    texts = {key: text for key, text in draft.missing.items() if key not in without}
    vectors = np.stack([vector(text) for text in texts.values()] or [np.zeros(DIMENSION)])
    material.take("fake", list(texts), vectors[: len(texts)].astype(np.float32))
    return material.index(draft)


def index_of(rows: Sequence[Capability], lacking: Collection[str] = ()) -> Index:
    return fill(Material(), rows, lacking)


def query_of(text: str) -> IndexQuery:
    query = IndexQuery.of(text)
    return query.with_vectors([vector(part.text) for part in query.parts])


def ids(index: Index, ranking: Ranking, count: int = 5) -> list[str]:
    return [index.rows[place].id for place in ranking.places[:count].tolist()]


def slow_ranking(index: Index, query: IndexQuery) -> list[float]:
    """Return the score of each row, one after the other, by the formulas of the docstrings."""
    parts = []
    for part in query.parts:
        lexical, _ = index.lexical.scores(part.words)
        best = max(float(lexical.max(initial=0.0)), 1e-6)
        assert part.vector is not None
        cosines = [float(part.vector @ vector(text_of(one))) for one in index.rows]
        top = max([*cosines, LEAST_COSINE])
        parts.append(
            [
                WEIGHTS.meaning * cosine / top
                + (1 - WEIGHTS.meaning) * (score / best) ** WEIGHTS.power
                for cosine, score in zip(cosines, lexical.tolist(), strict=True)
            ]
        )
    if len(parts) == 1:
        return parts[0]
    return [
        (1 - WEIGHTS.clause) * whole + WEIGHTS.clause * max(clauses)
        for whole, *clauses in zip(*parts, strict=True)
    ]


said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
corpora = st.lists(
    st.builds(row, said, said), min_size=2, max_size=25, unique_by=lambda one: one.id
)
messages = st.one_of(
    said, st.tuples(said, said).map(lambda two: f"please {two[0]} soon. then {two[1]} later on")
)


@example([row("mail", "mail"), row("send", "mail")], "music")
@given(corpora, messages)
def test_ranking_is_the_one_of_the_formulas(rows: list[Capability], text: str) -> None:
    index, query = index_of(rows), query_of(text)
    ranking = index.search(query)
    slow = slow_ranking(index, query)
    assert ranking.complete
    assert sorted(ranking.places.tolist()) == list(range(len(rows)))
    assert (np.diff(ranking.scores) <= 0).all()
    top = max(max(slow), 0.0) or 1.0
    expected = [slow[place] / top for place in ranking.places.tolist()]
    # A clause that others serve already counts for less; nothing counts for more.
    served = WEIGHTS.clause * (1 - WEIGHTS.served**COVERED) if len(query.parts) > 2 else 0.0
    for score, unserved in zip(ranking.scores.tolist(), expected, strict=True):
        assert unserved - served / top - 5e-3 <= score <= unserved + 5e-3


@given(corpora, messages, st.integers(min_value=1, max_value=4))
def test_best_row_of_a_few_candidates_is_the_best_of_all_where_it_leads_somewhere(
    rows: list[Capability], text: str, count: int
) -> None:
    index, query = index_of(rows), query_of(text)
    slow = slow_ranking(index, query)
    few = index.search(query, count=count)
    best = int(np.argmax(slow))
    second = max(score for at, score in enumerate(slow) if at != best)
    assert query.matrix is not None
    assert index.dense is not None
    scores = [index.lexical.scores(part.words)[0] for part in query.parts]
    leading = {int(one.argmax()) for one in scores if one.any()}
    leading |= {int(index.dense.cosines(query.matrix, np.arange(len(rows)))[0].argmax())}
    if best in leading and slow[best] - second > 0.02:
        assert int(few.places[0]) == best


@given(corpora, said)
def test_words_alone_and_meaning_alone_rank_by_themselves(
    rows: list[Capability], text: str
) -> None:
    index, query = index_of(rows), query_of(text)
    lexical = index.search(query, mode="lexical")
    scores, _ = index.lexical.scores(query.parts[0].words)
    assert (np.diff(scores[lexical.places]) <= 1e-6).all()
    dense = index.search(query, mode="dense")
    cosines = np.array([query.parts[0].vector @ vector(text_of(one)) for one in rows])
    assert (np.diff(cosines[dense.places]) <= 2e-3).all()


def many(count: int = 300) -> list[Capability]:
    return [row(f"filler{at}", f"does thing{at} for case{at}") for at in range(count)]


def test_few_candidates_hold_the_best_by_words_and_the_best_by_meaning() -> None:
    rows = [*many(), row("send_mail", "write to people"), row("flight", "book a seat")]
    index = index_of(rows)
    ranking = index.search(query_of("send mail"), count=2)
    assert ids(index, ranking, 1) == ["tool:send_mail"]
    assert not ranking.complete
    assert len(ranking.places) < 20
    assert ids(index, index.search(query_of("flight"), count=2, mode="dense"), 1) == ["tool:flight"]


def test_rows_that_say_the_same_come_up_together_by_meaning_alone() -> None:
    twins = [row("rendezvous", "meet somebody", kind=kind) for kind in ("tool", "skill", "channel")]
    rows = [*many(), *twins]
    index = index_of(rows)
    query = IndexQuery.of("xyzzy").with_vectors([vector("rendezvous meet somebody")])
    assert set(ids(index, index.search(query, count=4), 3)) == {one.id for one in twins}
    assert index.dense is not None
    assert set(index.dense.best(vector("rendezvous")[None], 1).tolist()) == {300, 301, 302}


def test_vectors_of_earlier_versions_do_not_crowd_out_those_of_this_one() -> None:
    material = Material()
    wanted = row("flight", "book a seat")
    for version in range(100):
        edited = row("flights", f"book a seat {version}")
        index = fill(material, [*many(200), edited, wanted], version=version)
    index = fill(material, [*many(200), wanted], version=100)
    query = IndexQuery.of("xyzzy").with_vectors([vector("flights book a seat")])
    assert index.search(query, count=8).places[0] == 200


def test_rows_without_vectors_compete_by_their_words() -> None:
    rows = [*many(100), row("send_mail", "write to people")]
    index = index_of(rows, lacking=["send_mail"])
    assert index.dense is not None
    assert not index.dense.whole
    ranking = index.search(query_of("send mail"))
    assert ids(index, ranking, 1) == ["tool:send_mail"]
    assert ranking.cosines[0] == 0
    assert np.isfinite(ranking.scores).all()
    assert np.isfinite(ranking.cosines).all()
    assert ids(index, index.search(query_of("send mail"), mode="dense"), 1) != ["tool:send_mail"]


def test_few_vectors_take_no_part() -> None:
    rows = many(20)
    index = index_of(rows, lacking=[one.name for one in rows[:10]])
    assert index.dense is None


@pytest.mark.parametrize("filler", [0, 300])
def test_each_thing_that_a_message_asks_for_comes_up(filler: int) -> None:
    rows = [
        *many(filler),
        *(row(f"mail{at}", "send mail and more mail to send") for at in range(4)),
        row("flight_booking", "book a flight"),
        row("play_music", "play a song"),
    ]
    index = index_of(rows)
    text = "I want to send a mail with mail about the mail to everybody. Then book a flight for me."
    found = ids(index, index.search(query_of(text)))
    assert "tool:flight_booking" in found
    assert any(one.startswith("tool:mail") for one in found)


def test_learned_rows_come_up_although_nothing_else_speaks_for_them() -> None:
    rows = [*many(), row("quotient", "arithmetic")]
    index, query = index_of(rows), query_of("how much is a tip")
    assert index.search(query, count=2).places[0] != 300
    learned = (np.array([300]), np.array([[0.99]], np.float32))
    ranking = index.search(query, count=2, learned=learned)
    assert ranking.places[0] == 300
    assert ranking.cosines[0] == pytest.approx(0.99)


@pytest.mark.parametrize("text", ["", "   ", "???", "the and of", "\ud800", "xyzzy plugh"])
def test_message_that_says_nothing_is_searched_without_an_error(text: str) -> None:
    for rows in ([], [row("!!")], [row("send_mail", "write")], many(200)):
        index = index_of(rows)
        for query in (IndexQuery.of(text), query_of(text)):
            for mode in ("fused", "lexical", "dense"):
                ranking = index.search(query, mode=mode, count=3)
                assert np.isfinite(ranking.scores).all()


def test_rows_of_equal_words_stand_in_their_order() -> None:
    rows = [row("mail", kind=kind) for kind in ("tool", "skill", "extension")]
    ranking = index_of(rows).search(query_of("mail"), mode="lexical")
    assert ranking.places.tolist() == [0, 1, 2]
    assert ranking.scores.tolist() == pytest.approx([1, 1, 1])


def test_query_holds_each_word_once_and_its_clauses() -> None:
    query = IndexQuery.of("send mail mail and mails. then book a flight")
    assert query.parts[0].words == ("send", "mail", "then", "book", "flight")
    assert [part.text for part in query.parts[1:]] == [
        "send mail mail and mails",
        "then book a flight",
    ]
    assert query.matrix is None
    full = query.with_vectors([vector(part.text) for part in query.parts])
    assert full.matrix is not None
    assert full.matrix.shape == (3, DIMENSION)
    assert full.without_vectors().matrix is None
    assert query.without_vectors() is query
