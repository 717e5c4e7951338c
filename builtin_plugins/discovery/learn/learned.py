"""Example queries as a search sees them: earlier messages, and what they were answered with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hookgate import Embedder, EmbeddingError
from hookgate.kit.vectors import products

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.discovery.index.searching import Index, Query
    from hookgate.builtin_plugins.discovery.learn.view import ExampleSet

    Boost = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None

SCOPES = 64
"""Scopes whose examples are kept with their vectors, the latest used."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Examples row by row, as one index has the rows.

    Attributes:
        places: The rows that have examples, in order.
        starts: Where each of them begins in `vectors`.
        vectors: The vectors of their examples.
    """

    places: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]


class Learned:
    """Example queries with their vectors. It never changes."""

    def __init__(self, owners: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        """Take the examples.

        Args:
            owners: The id of the capability that each example was answered with.
            vectors: The vector of each example, one a row.
        """
        self._owners = owners
        self._vectors = vectors
        self._grouped_for: tuple[Index, _Groups] | None = None

    def of(self, query: Query, index: Index) -> Boost:
        """Return the rows with examples, and how like them the parts of the query are.

        Returns:
            The rows in order, and an array (parts, rows) of the best cosine with the examples
            of each; None where vectors do not take part.
        """
        if query.matrix is None or query.matrix.shape[1] != self._vectors.shape[-1]:
            return None
        groups = self._grouped(index)
        if not len(groups.places):
            return None
        cosines = products(query.matrix, groups.vectors)
        return groups.places, np.maximum.reduceat(cosines, groups.starts, axis=1)

    def _grouped(self, index: Index) -> _Groups:
        if self._grouped_for is None or self._grouped_for[0] is not index:
            where = {row.id: place for place, row in enumerate(index.rows)}
            at = np.array([where.get(owner, -1) for owner in self._owners], np.int64)
            order = np.argsort(at, kind="stable")
            order = order[at[order] >= 0]
            places, starts = np.unique(at[order], return_index=True)
            self._grouped_for = (index, _Groups(places, starts, self._vectors[order]))
        return self._grouped_for[1]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a scope: the examples of one version, by the vectors of one embedder."""

    version: int
    fingerprint: str
    examples: tuple[tuple[str, str], ...]
    vectors: Mapping[str, npt.NDArray[np.float32]]
    learned: Learned

    @classmethod
    def of(
        cls,
        version: int,
        fingerprint: str,
        examples: Sequence[tuple[str, str]],
        vectors: Mapping[str, npt.NDArray[np.float32]],
    ) -> _Known:
        """Put the vectors of texts behind the owners of `examples`: pairs of text and owner."""
        stacked = np.stack([vectors[text] for text, _ in examples])
        kept = {text: vectors[text] for text, _ in examples}
        learned = Learned([owner for _, owner in examples], stacked)
        return cls(version, fingerprint, tuple(examples), kept, learned)


class LearnedCache:
    """The vectors of the examples of the latest scopes. A search never waits for them.

    A scope whose examples have changed is embedded anew beside the turns, only the texts that
    are new; until then its searches do without, or with those before.
    """

    def __init__(
        self,
        embedder: Callable[[], Embedder | None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """Take what the gateway offers.

        Args:
            embedder: Returns the embedder, or None where there is none.
            spawn: Runs work beside the turns, under a name.
        """
        self._embedder = embedder
        self._spawn = spawn
        self._scopes: OrderedDict[str, _Known] = OrderedDict()
        self._working: set[str] = set()

    def of(self, scope: str, examples: ExampleSet) -> Learned | None:
        """Return the examples of a scope with their vectors; None where they are not there."""
        embedder, known = self._embedder(), self._scopes.get(scope)
        if known is not None:
            self._scopes.move_to_end(scope)
            if embedder is not None and embedder.fingerprint != known.fingerprint:
                known = None
            elif known.version == examples.version:
                return known.learned
        if not examples.texts:
            self._scopes.pop(scope, None)
            return None
        if scope not in self._working and embedder is not None:
            self._working.add(scope)
            self._spawn(self._embed(scope, examples, embedder), "discovery.examples")
        known = None if known is None else self._without_erased(scope, known, examples)
        return None if known is None else known.learned

    def _without_erased(self, scope: str, known: _Known, examples: ExampleSet) -> _Known | None:
        """Return what is known without the examples that are not there any more."""
        there = set(zip(examples.texts, examples.owners, strict=True))
        kept = [pair for pair in known.examples if pair in there]
        if len(kept) == len(known.examples):
            return known
        if not kept:
            del self._scopes[scope]
            return None
        # Still of its own version, so that what is new is embedded.
        known = _Known.of(known.version, known.fingerprint, kept, known.vectors)
        self._scopes[scope] = known
        return known

    async def _embed(self, scope: str, examples: ExampleSet, embedder: Embedder) -> None:
        try:
            fingerprint, known = embedder.fingerprint, self._scopes.get(scope)
            same = known is not None and known.fingerprint == fingerprint
            vectors = dict(known.vectors) if known is not None and same else {}
            fresh = [text for text in dict.fromkeys(examples.texts) if text not in vectors]
            vectors.update(zip(fresh, await embedder.embed(fresh) if fresh else (), strict=True))
        except EmbeddingError:
            # The engine says what is wrong with the embedder; examples are a bonus.
            return
        finally:
            self._working.discard(scope)
        pairs = list(zip(examples.texts, examples.owners, strict=True))
        self._scopes[scope] = _Known.of(examples.version, fingerprint, pairs, vectors)
        self._scopes.move_to_end(scope)
        while len(self._scopes) > SCOPES:
            self._scopes.popitem(last=False)
