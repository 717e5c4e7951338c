"""Comparing vectors beside turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]

__all__ = ["products"]


def products(queries: Floats, vectors: Floats) -> Floats:
    """Return the inner product of each query with each vector: the cosine, of vectors of length 1.

    ``queries @ vectors.T`` shares such small work out among the threads of the linear algebra
    library, and the caller then spends its time waiting for them: on the event loop, beside a model
    that computes, milliseconds for what takes a tenth of one. Here it is done on the caller's
    thread, pair by pair, so that no product depends on what else is in the arrays.

    Args:
        queries: An array (queries, dimension).
        vectors: An array (vectors, dimension).

    Returns:
        An array (queries, vectors).
    """
    pairs: Floats = np.matmul(queries[:, None, None, :], vectors[:, :, None])
    return pairs[:, :, 0, 0]
