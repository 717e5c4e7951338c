"""The operation of the embedder: what it is, and how often its cache helped."""

from __future__ import annotations

from collections.abc import Callable

from hookgate import Invocation, OperationModel, operation
from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.settings import EmbedderName


class EmbeddingStatus(OperationModel):
    """Which model turns texts into vectors, and how often the cache saved asking it."""

    embedder: EmbedderName
    """The embedder of the settings."""
    fingerprint: str
    """The model, its version and how it reads a text; vectors of two fingerprints do not
    compare."""
    dimension: int
    """The length of a vector; 0 where there is no model."""
    loaded: bool
    """Whether it answers without loading anything first."""
    problem: str
    """Why it cannot answer; empty where nothing is known to be wrong."""
    cached: int
    """Queries whose vectors are kept."""
    hits: int
    """Queries that were answered without asking the model."""
    misses: int
    """Queries for which the model was asked."""


class EmbeddingOperations:
    """The embedder: which model turns texts into vectors."""

    def __init__(self, current: Callable[[], CachedEmbedder]) -> None:
        self._current = current

    @operation("embedding.status", rest=("GET", "/v1/embedding"), quick=True)
    async def status(self, _: Invocation) -> EmbeddingStatus:
        """Show which model turns texts into vectors, and how its cache does."""
        embedder = self._current()
        engine, cache = embedder.engine, embedder.cache
        return EmbeddingStatus.of_record(
            engine,
            embedder=embedder.kind,
            cached=len(cache),
            hits=cache.hits,
            misses=cache.misses,
        )
