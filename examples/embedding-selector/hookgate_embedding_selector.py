"""A hookgate plugin: the cards that are nearest to a message in meaning are chosen for its turn."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from hookgate import EMBEDDER, Section, Selection, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    import numpy.typing as npt

    from hookgate import Capabilities, Capability, Embedder, Host, Turn


class EmbeddingSelector(Section):
    """``[plugin.embedding_selector]``."""

    top: int = Field(default=3, ge=1, le=100)
    """The most cards that are chosen for a turn."""
    at_least: float = Field(default=0.2, ge=-1, le=1)
    """The least cosine between a message and a card that is chosen."""


class Plugin:
    """Chooses cards by the cosine between their vectors and the message's."""

    Settings = EmbeddingSelector
    requires = (EMBEDDER,)

    def __init__(self, settings: EmbeddingSelector) -> None:
        self.settings = settings
        self.embedder: Embedder
        self.vectors: dict[str, npt.NDArray[np.float32]] = {}
        """Text of a card -> its vector. A card whose text has changed is another one."""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Take the gateway's embedder, which all plugins share."""
        self.embedder = host[EMBEDDER]
        yield

    @hookimpl
    async def select_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Sequence[Selection]:
        """Return the nearest cards. What was withheld is not among `capabilities` any more.

        A failure of the embedder is raised: the turn's plan says whether it goes on without.
        """
        cards = capabilities.of_kind("card")
        if not cards:
            return []
        texts = {row_id: text_of(card) for row_id, card in cards.items()}
        # First: a query has a model loaded at once, and what is embedded in bulk waits for one.
        message = await self.embedder.embed_query(turn.message.text)
        await self.embed(texts.values())
        # The vectors have length 1, so that their dot product is their cosine.
        scores = {row_id: float(self.vectors[text] @ message) for row_id, text in texts.items()}
        # By id where scores are equal, so that the same message finds the same cards.
        best = sorted(scores, key=lambda row_id: (-scores[row_id], row_id))[: self.settings.top]
        return [
            Selection(id=row_id, score=scores[row_id], reason=f"cosine {scores[row_id]:.2f}")
            for row_id in best
            if scores[row_id] >= self.settings.at_least
        ]

    async def embed(self, texts: Collection[str]) -> None:
        """Have a vector for each of `texts`, and for no other."""
        known = {text: self.vectors[text] for text in texts if text in self.vectors}
        missing = sorted(set(texts) - known.keys())
        if missing:
            known.update(zip(missing, await self.embedder.embed(missing), strict=True))
        self.vectors = known


def text_of(card: Capability) -> str:
    """Return what a card is found by. Its body is not among it: that is for the model."""
    return ". ".join(filter(None, (card.display_name, card.description, " ".join(card.tags))))
