"""The model that the gateway embeds with, for whoever asks for vectors: `hookgate/minilm`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from hookgate import (
    Embedded,
    Embedder,
    EmbeddingError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderError,
    Turn,
)

NAME = "hookgate"
MOST_TEXTS = 256
"""Texts of one request: some seconds of one core, in which queries come in between."""


class OwnModel:
    """The provider of the gateway's own model.

    Args:
        model: What the model is called.
        embedder: Returns what computes the vectors.
        most_tokens: The tokens of a text that it reads; the rest is cut.
    """

    name = NAME

    def __init__(self, model: str, embedder: Callable[[], Embedder], *, most_tokens: int) -> None:
        self._model = model
        self._embedder = embedder
        self._most_tokens = most_tokens

    def models(self) -> Sequence[ModelInfo]:
        """Return the one model."""
        made = ModelInfo(name=self._model, context_tokens=self._most_tokens, max_output_tokens=0)
        return (made,)

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer nothing: it is no model that writes.

        Raises:
            ProviderError: Always.
        """
        self._check(request)
        raise self._wrong(
            f"{request.model} makes vectors, and writes nothing", "ask /v1/embeddings"
        )
        yield  # What has a `yield` is a stream.

    async def embed(self, turn: Turn, request: ModelRequest) -> Embedded:
        """Turn texts into vectors of length 1.

        Raises:
            ProviderError: It cannot.
        """
        self._check(request)
        assert request.embed is not None, "it asks for vectors"
        texts = [one for one in request.embed.inputs if isinstance(one, str)]
        if len(texts) < len(request.embed.inputs):
            raise self._wrong(
                f"{request.model} reads text, and not the numbers of another model's tokens",
                "send the texts themselves",
            )
        if len(texts) > MOST_TEXTS:
            raise self._wrong(
                f"found {len(texts):,} texts for {request.model}, expected {MOST_TEXTS} at most",
                "send them in several requests",
            )
        embedder = self._embedder()
        wanted = request.embed.dimensions
        if wanted not in (None, embedder.dimension):
            raise self._wrong(
                f"{request.model} makes vectors of {embedder.dimension} numbers, not of {wanted}",
                "leave `dimensions` out",
            )
        try:
            return Embedded(vectors=(await embedder.embed(texts)).tolist())
        except EmbeddingError as error:
            raise ProviderError(
                "unreachable", str(error), provider=NAME, action="see `hookgate status`"
            ) from error

    def _check(self, request: ModelRequest) -> None:
        if request.model.model != self._model:
            raise ProviderError(
                "rejected",
                f"{NAME} has no model {request.model.model[:200]!r}",
                provider=NAME,
                action=f"name {NAME}/{self._model}",
                code="unknown_model",
            )

    def _wrong(self, message: str, action: str) -> ProviderError:
        return ProviderError("rejected", message, provider=NAME, action=action)
