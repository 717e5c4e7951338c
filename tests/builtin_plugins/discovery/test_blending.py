from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.discovery.index import (
    COVERED,
    Weights,
    best_first,
    blend,
    shares_of_meaning,
    shares_of_words,
)

ONLY_CLAUSES = Weights(clause=1.0, served=0.9)

shares = st.floats(min_value=-0.25, max_value=1.0, width=32)
scored = st.integers(min_value=1, max_value=30).flatmap(
    lambda rows: st.lists(
        st.lists(shares, min_size=rows, max_size=rows), min_size=1, max_size=5
    ).map(lambda parts: np.array(parts, np.float32))
)


def order_of(parts: list[list[float]], weights: Weights, count: int = 64) -> list[int]:
    order, _ = best_first(np.array(parts, np.float32), np.arange(len(parts[0])), count, weights)
    return order.tolist()


def test_a_row_for_another_clause_comes_before_a_second_one_for_the_same() -> None:
    whole = [0.0] * 5
    mail = [1.0, 0.97, 0.96, 0.1, 0.1]
    trip = [0.1, 0.1, 0.1, 0.95, 0.5]
    assert order_of([whole, mail, trip], ONLY_CLAUSES) == [0, 3, 1, 2, 4]
    assert order_of([whole, mail, trip], Weights(clause=1.0, served=1.0)) == [0, 1, 2, 3, 4]


def test_a_row_that_fits_far_better_stays_before_one_for_another_clause() -> None:
    whole = [0.0] * 3
    assert order_of([whole, [1.0, 0.9, 0.1], [0.1, 0.1, 0.5]], ONLY_CLAUSES) == [0, 1, 2]


@pytest.mark.parametrize("parts", [[[0.1, 0.9, 0.5]], [[0.0] * 3, [0.1, 0.9, 0.5]]])
def test_one_clause_alone_is_served_by_the_best_rows(parts: list[list[float]]) -> None:
    assert order_of(parts, ONLY_CLAUSES) == [1, 2, 0]


@given(scored, st.integers(min_value=1, max_value=8))
def test_each_row_comes_once_and_scores_never_grow(
    parts: np.ndarray[tuple[int, int], np.dtype[np.float32]], count: int
) -> None:
    rows = parts.shape[1]
    order, scores = best_first(parts, np.arange(rows), count)
    assert len(order) == len(scores) == len(set(order.tolist()))
    assert len(order) == (rows if rows <= 4 * count else 2 * count)
    assert (np.diff(scores) <= 1e-6).all()
    weights = Weights()
    plain = parts[0]
    if len(parts) > 1:
        plain = (1 - weights.clause) * plain + weights.clause * parts[1:].max(axis=0)
    assert scores[0] == pytest.approx(plain.max(), abs=1e-6)
    assert (scores <= plain[order] + 1e-6).all()


def test_more_rows_than_are_covered_stand_by_what_is_left_of_their_clauses() -> None:
    mail = [1.0 - at / 100 for at in range(COVERED + 3)]
    trip = [0.0] * (COVERED + 2) + [0.8]
    found = order_of([[0.0] * len(mail), mail, trip], ONLY_CLAUSES)
    # Of eight rows for the first clause, the ninth tenth of it falls below the second clause.
    assert found.index(COVERED + 2) < COVERED


def test_words_and_meaning_count_as_shares_of_the_best() -> None:
    words = shares_of_words(np.array([[4.0, 2.0, 0.0]], np.float32), Weights(power=2.0))
    assert words.tolist() == [[1.0, 0.25, 0.0]]
    meaning = shares_of_meaning(np.array([[0.8, 0.4, -0.2], [0.01, 0.0, 0.0]], np.float32))
    assert meaning[0].tolist() == pytest.approx([1.0, 0.5, -0.25])
    # What is like nothing is not made to fit.
    assert meaning[1].tolist() == pytest.approx([0.2, 0.0, 0.0])
    both = blend(
        np.array([[4.0, 2.0]], np.float32), np.array([[0.4, 0.8]], np.float32), Weights(0.6, 1.0)
    )
    assert both.tolist()[0] == pytest.approx([0.6 * 0.5 + 0.4, 0.6 + 0.4 * 0.5])
