"""The embedder that the plugins share: its batches, and the vectors of the latest queries."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.stock import ShippedVectors
from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.embedding.settings import EmbedderName

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


# -- the service -------------------------------------------------------------------

V = TypeVar("V")

LONG = 512
"""Characters from which on a digest stands for a text, so that the cache stays small."""


def key_of(text: str) -> str | bytes:
    """Return what stands for `text` in the cache: itself, or a digest of 32 bytes."""
    if len(text) <= LONG:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class QueryCache(Generic[V]):
    """Keeps the values that were used last. Belongs to one thread.

    Args:
        size: The weight of all values together, at most.
        weight: What a value weighs; each weighs 1 without it.

    Attributes:
        hits: How many lookups found their value, or found it on its way.
        misses: How often the model was asked.
    """

    def __init__(self, size: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        self._size = size
        self._weight = weight
        self._weighs = 0
        self._values: OrderedDict[str | bytes, V] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str | bytes) -> V | None:
        """Return the value of `key` and count a hit; None where it is not there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
            self.hits += 1
        return value

    def put(self, key: str | bytes, value: V) -> None:
        """Keep `value`; what was used longest ago makes room for it."""
        before = self._values.pop(key, None)
        self._weighs += self._weight(value) - (0 if before is None else self._weight(before))
        self._values[key] = value
        while self._weighs > self._size:
            _, oldest = self._values.popitem(last=False)
            self._weighs -= self._weight(oldest)


# -- How many texts are computed together ----------------------------------------

BATCH_TOKENS = 128
"""Tokens of a batch, padding included.

Measured on one core with MiniLM, in milliseconds of computing for each text: texts of 64
tokens take 26 one by one, 24 in batches of 2 to 8, 29 in batches of 16 and 32 in batches of
32; texts of 12 tokens take 8.6 one by one, 3.7 in batches of 8 to 32 and 4.7 in batches of
64. So there is nothing to gain from large batches, and a query waits for at most one.
"""

BATCH_TEXTS = 32


def plan_batches(
    tokens: Sequence[int], *, most_tokens: int = BATCH_TOKENS, most_texts: int = BATCH_TEXTS
) -> list[list[int]]:
    """Return the places of texts, grouped by length into batches.

    Args:
        tokens: The tokens of each text.
        most_tokens: A batch is as long as its longest text times its texts, and no longer than
            this; a longer text is a batch by itself.
        most_texts: The most texts of a batch.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(tokens)), key=tokens.__getitem__):
        last = batches[-1] if batches else []
        if last and len(last) < most_texts and (len(last) + 1) * tokens[place] <= most_tokens:
            last.append(place)
        else:
            batches.append([place])
    return batches


# -- service ---------------------------------------------------------------------

# The service behind the `EMBEDDER` key: an engine, and a cache in front of its queries.

READ_TOKENS = 8192
"""Tokens whose vectors are kept, of the latest queries: 13 MB with MiniLM, of about 300 messages
of ordinary length. Whoever asks for parts of a message asks within its turn."""


class EmbeddingEngine(Protocol):
    """What computes vectors. It has no cache."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Names the model, its version and how it reads a text."""

    @property
    def loaded(self) -> bool:
        """Whether it answers without loading anything first."""

    @property
    def tells_tokens(self) -> bool:
        """Whether what it has read holds the vectors of tokens."""

    @property
    def problem(self) -> str:
        """Why it cannot answer; "" where nothing is known to be wrong."""

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension), in the order of `texts`.

        Raises:
            EmbeddingError: The model could not be asked.
        """

    async def read(self, text: str) -> TextReading:
        """Read one text, ahead of what `embed` still has to do.

        Raises:
            EmbeddingError: The model could not be asked.
        """

    async def close(self) -> None:
        """Take no more work. Who still waits gets an `EmbeddingError`."""


class NoEngine:
    """Stands where there is no model: it says why, and what to do."""

    loaded = False
    tells_tokens = False

    def __init__(self, problem: str, *, dimension: int = 0, fingerprint: str = "none") -> None:
        self.problem = problem
        self.dimension = dimension
        self.fingerprint = fingerprint

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Raise an `EmbeddingError`."""
        raise EmbeddingError(self.problem)

    async def read(self, text: str) -> TextReading:
        """Raise an `EmbeddingError`."""
        raise EmbeddingError(self.problem)

    async def close(self) -> None:
        """Do nothing."""


class CachedEmbedder:
    """The `Embedder` of a gateway. Its methods belong to the event loop's thread.

    Args:
        engine: Computes vectors.
        kind: The name of the embedder in the settings.
        cache_size: How many vectors of queries are kept.
        shipped: Reads vectors that need not be computed; called when texts first come in bulk.
    """

    def __init__(
        self,
        engine: EmbeddingEngine,
        *,
        kind: EmbedderName,
        cache_size: int,
        shipped: Callable[[], Coroutine[Any, Any, ShippedVectors | None]] | None = None,
    ) -> None:
        self.engine = engine
        self._shipped = shipped
        self._shipping: asyncio.Task[ShippedVectors | None] | None = None
        self.kind: EmbedderName = kind
        self.cache: QueryCache[npt.NDArray[np.float32]] = QueryCache(cache_size)
        # What has been read of the latest queries, where the engine tells their tokens.
        self._readings: QueryCache[TextReading] = QueryCache(READ_TOKENS, lambda one: one.weight)
        self._coming: dict[str | bytes, asyncio.Task[TextReading]] = {}

    @property
    def dimension(self) -> int:
        """The length of a vector; 0 where there is no model."""
        return self.engine.dimension

    @property
    def fingerprint(self) -> str:
        """Names the model, its version and how it reads a text."""
        return self.engine.fingerprint

    @property
    def loaded(self) -> bool:
        """Whether it answers without loading a model first."""
        return self.engine.loaded

    def cached(self, text: str) -> npt.NDArray[np.float32] | None:
        """Return the vector of a query where the cache has it; the model is not asked."""
        return self.cache.get(key_of(text))

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one vector of length 1 for each text: an array of shape (texts, dimension).

        The model is asked once for each that was no query lately, and whose vector has not come
        with hookgate. What it says is not cached: texts that are embedded in bulk are seldom asked
        again.

        Raises:
            EmbeddingError: The model could not be asked.
        """
        asked = {text: vector for text in texts if (vector := self.cached(text)) is not None}
        rest = [text for text in dict.fromkeys(texts) if text not in asked]
        made = await self._embed(rest)
        if len(rest) == len(texts):
            return made
        vectors = asked | dict(zip(rest, made, strict=True))
        return np.array([vectors[text] for text in texts])

    async def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        shipped = await self._shipped_vectors() if texts else None
        if shipped is None:
            return await self.engine.embed(texts)
        vectors, missing = shipped.find(texts)
        if missing:
            vectors[missing] = await self.engine.embed([texts[place] for place in missing])
        return vectors

    async def _shipped_vectors(self) -> ShippedVectors | None:
        """Return the vectors that come with hookgate; whoever asks first has them read."""
        if self._shipping is None:
            if self._shipped is None:
                return None
            self._shipping = asyncio.create_task(self._shipped(), name="read shipped vectors")
        return await asyncio.shield(self._shipping)

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Return the vector of a query, of shape (dimension,). It cannot be written to.

        Whoever asks for a text that is being computed waits for that computation; it goes on
        when one of them is cancelled.

        Raises:
            EmbeddingError: The model could not be asked. The next call asks it again.
        """
        key = key_of(text)
        vector = self.cache.get(key)
        return vector if vector is not None else (await self._read(key, text)).vector

    async def embed_parts(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> Sequence[npt.NDArray[np.float32]]:
        """Return the vector of a query, and behind it one for each span of its characters.

        The model reads the text once, and the parts' vectors are made of their tokens'. It is
        asked again for a part that lies beyond the tokens that it reads of a text, and for each
        part where it does not tell the tokens.

        Raises:
            EmbeddingError: The model could not be asked. The next call asks it again.
        """
        if not spans or not self.engine.tells_tokens:
            texts = [text[start:end] for start, end in spans]
            return [await self.embed_query(text), *(await self.embed(texts) if texts else ())]
        key = key_of(text)
        reading = self._readings.get(key)
        if reading is None:
            reading = await self._read(key, text)
        else:
            self.cache.hits += 1
        parts = reading.parts(spans)
        return [
            reading.vector,
            *[
                await self.embed_query(text[start:end]) if part is None else part
                for part, (start, end) in zip(parts, spans, strict=True)
            ],
        ]

    async def _read(self, key: str | bytes, text: str) -> TextReading:
        """Have a text read; whoever asks for one that is being read waits for that."""
        coming = self._coming.get(key)
        if coming is None:
            self.cache.misses += 1
            coming = asyncio.create_task(self._ask(key, text), name="embed a query")
            self._coming[key] = coming
            coming.add_done_callback(_retrieve)
        else:
            self.cache.hits += 1
        return await asyncio.shield(coming)

    async def _ask(self, key: str | bytes, text: str) -> TextReading:
        try:
            reading = await self.engine.read(text)
        finally:
            del self._coming[key]
        reading.vector.setflags(write=False)
        self.cache.put(key, reading.vector)
        if reading.tokens is not None:
            self._readings.put(key, reading)
        return reading

    async def close(self) -> None:
        """Take no more work, and tell whoever waits."""
        await self.engine.close()
        coming = [*self._coming.values(), *([self._shipping] if self._shipping else [])]
        await asyncio.gather(*coming, return_exceptions=True)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
