"""Capabilities and an embedder for the tests of searching: small, and the same on each run."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from hookgate import EmbeddingError
from hookgate.builtin_plugins.discovery.index.documents import words_of
from hookgate.core.domain.descriptors import Capability
from hookgate.core.registry.snapshots import CapabilityIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

DIMENSION = 64


def row(name: str, description: str = "", kind: Any = "tool", **more: Any) -> Capability:
    more = {"whose": "own", **more}
    return Capability(id=f"{kind}:{name}", kind=kind, name=name, description=description, **more)


def snapshot(rows: Iterable[Capability], version: int = 1) -> CapabilityIndex:
    return CapabilityIndex({one.id: one for one in rows}, version)


def word_vector(word: str, salt: str = "", dimension: int = DIMENSION) -> Floats:
    """Return a vector that only depends on `word` and `salt`."""
    seed = hashlib.blake2b(f"{salt}:{word}".encode("utf-8", "surrogatepass"), digest_size=8)
    made = np.random.default_rng(int.from_bytes(seed.digest())).standard_normal(dimension)
    return made.astype(np.float32)


def vector(text: str, salt: str = "", dimension: int = DIMENSION) -> Floats:
    """Return the sum of the vectors of the words of `text`, of length 1."""
    total = sum(
        (word_vector(word, salt, dimension) for word in words_of(text)), np.zeros(dimension)
    )
    length = float(np.linalg.norm(total))
    one = total / length if length else np.eye(1, dimension)[0]
    return np.asarray(one, np.float32)


class FakeEmbedder:
    """An `Embedder` of hashed words, that notes what it was asked for."""

    def __init__(self, fingerprint: str = "fake:1", dimension: int = DIMENSION) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.failing: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.most = 1_000_000
        """After so many texts it answers no more."""
        self.hung = asyncio.Event()
        self.loaded = True
        self.loading = asyncio.Event()
        """Queries are answered once it is set, as by a model that is being loaded."""
        self.loading.set()
        self._cache: dict[str, Floats] = {}

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.texts += texts
        if len(self.texts) > self.most:
            self.gate.clear()
            self.hung.set()
        await self.gate.wait()
        if self.failing is not None:
            raise self.failing
        return np.stack([vector(text, self.fingerprint, self.dimension) for text in texts])

    async def embed_query(self, text: str) -> Floats:
        self.queries.append(text)
        await self.loading.wait()
        if self.failing is not None:
            raise self.failing
        if text not in self._cache:
            self._cache[text] = vector(text, self.fingerprint, self.dimension)
        return self._cache[text]


def broken(why: str = "the model is gone") -> EmbeddingError:
    return EmbeddingError(why)
