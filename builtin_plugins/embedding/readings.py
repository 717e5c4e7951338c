"""What one run of a model says of a text: its vector, and those of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Places: TypeAlias = npt.NDArray[np.int64]

WHOLE = 0.5
"""So much of the text's vector is taken off a part's. The model has read each token beside all
others, so that every part says something of the whole, and would bring the same rows as it."""

LEAST = 1e-6
"""A shorter vector has no direction."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text, as the model left them.

    Attributes:
        states: Their vectors, of shape (tokens, dimension).
        places: The characters of each, from and to: an array (tokens, 2). A token that the
            model has added has none: it begins where it ends.
    """

    states: Floats
    places: Places


@dataclass(frozen=True, slots=True, eq=False)
class TextReading:
    """A text that a model has read.

    Attributes:
        vector: The vector of the text, of length 1. It cannot be written to.
        tokens: Its tokens; None where the model does not tell them.
    """

    vector: Floats
    tokens: Tokens | None = None

    @property
    def weight(self) -> int:
        """How many tokens' vectors it holds."""
        return 0 if self.tokens is None else len(self.tokens.states)

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[Floats | None]:
        """Return the vectors of parts of the text, of length 1.

        Args:
            spans: The characters of each part, from and to.

        Returns:
            A vector for each; None for one that was not read to its end, or has no token.
        """
        if self.tokens is None or not spans:
            return [None] * len(spans)
        first, last = np.array(spans, np.int64).T[:, :, None]
        starts, ends = self.tokens.places.T
        inside = (ends > starts) & (starts >= first) & (ends <= last)
        there = inside.any(axis=1) & (last[:, 0] <= ends.max(initial=0))
        parts = _directions(inside.astype(np.float32) @ self.tokens.states) - WHOLE * self.vector
        there &= np.linalg.norm(parts, axis=1) > LEAST
        made = _directions(parts)
        made.setflags(write=False)
        return [vector if one else None for vector, one in zip(made, there, strict=True)]


def _directions(vectors: Floats) -> Floats:
    """Bring vectors to length 1, where they have one."""
    made: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST)
    return made
