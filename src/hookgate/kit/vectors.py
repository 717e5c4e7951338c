"""Comparing vectors beside turns, and how near a message is to one that asks for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]

__all__ = ["idleness", "products", "small_talk"]

NEAREST = 3
"""Lines of small talk whose mean cosine counts: a single one may be near by chance. One that is
nearly the message itself counts alone, at two times its cosine less one."""


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


def small_talk() -> tuple[str, ...]:
    """Return messages that ask for nothing, in several languages; reads a file.

    The builtin embedder has their vectors at hand.
    """
    text = Path(__file__).with_name("small_talk.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def idleness(messages: Floats, talk: Floats) -> Floats:
    """Return how near each message is to small talk, 0 to 1.

    Args:
        messages: An array (messages, dimension).
        talk: The vectors of `small_talk`, an array (lines, dimension).
    """
    most = min(NEAREST, len(talk))
    nearest = np.partition(products(messages, talk), -most, axis=1)[:, -most:]
    near: Floats = np.maximum(nearest.mean(axis=1), 2 * nearest.max(axis=1) - 1)
    return np.maximum(near, 0)
