"""Vectors are compared pair by pair, whatever stands beside them."""

from __future__ import annotations

import numpy as np

from hookgate.kit.vectors import products


def drawn(rows: int) -> np.typing.NDArray[np.float32]:
    return np.random.default_rng(rows).normal(size=(rows, 384)).astype(np.float32)


def test_each_query_is_compared_with_each_vector() -> None:
    queries, vectors = drawn(7), drawn(300)
    made = products(queries, vectors)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, queries @ vectors.T, rtol=1e-4, atol=1e-4)


def test_a_product_is_the_same_whatever_else_is_compared() -> None:
    queries, vectors = drawn(7), drawn(300)
    alone = [[products(query[None], vector[None])[0, 0] for vector in vectors] for query in queries]
    assert (products(queries, vectors) == np.array(alone)).all()


def test_nothing_compared_with_something_is_nothing() -> None:
    assert products(drawn(2), drawn(0)).shape == (2, 0)
    assert products(drawn(0), drawn(3)).shape == (0, 3)
