"""Write the vectors that come with hookgate: ``python -m docs.shipped_vectors``.

A gateway is started in an empty home, and what it embeds before anybody has said a word is what
is shipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.stock import SHIPPED, ShippedVectors
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.ports import EMBEDDER

QUIET_SECONDS = 10.0
"""The gateway has settled when nothing was embedded for so long."""


class Listener:
    """Takes the place of `CachedEmbedder.embed`: asks the model, and keeps what it says.

    Attributes:
        kept: The vectors by text.
        heard: Set whenever something was embedded.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.heard = asyncio.Event()

    async def embed(self, embedder: CachedEmbedder, texts: Sequence[str]) -> Any:
        """Return the vectors of `texts`."""
        # One at a time: together with others, a text gets slightly other numbers.
        for text in texts:
            (self.kept[text],) = await embedder.engine.embed([text])
            self.heard.set()
        return np.array([self.kept[text] for text in texts])

    async def quiet(self) -> None:
        """Wait until nothing was embedded for `QUIET_SECONDS`."""
        while True:
            self.heard.clear()
            try:
                await asyncio.wait_for(self.heard.wait(), QUIET_SECONDS)
            except TimeoutError:
                return


async def vectors_of_a_start() -> tuple[str, dict[str, Any]]:
    """Return the model's fingerprint, and the vectors of all texts that are embedded at a start."""
    listener = Listener()
    with TemporaryDirectory() as home, patch.object(CachedEmbedder, "embed", _calls(listener)):
        section = {"embedding": {"load_after_seconds": 0}}
        data = {"home": home, "plugins": {"entry_points": False}, "plugin": section}
        async with Gateway(Settings.model_validate(data)) as gateway:
            await listener.quiet()
            # A start may index the tools before it has read what describes them.
            for registry in (gateway.host.capabilities, gateway.host.descriptions):
                registry.replace("discovery", [])
            await listener.quiet()
            return gateway.host[EMBEDDER].fingerprint, listener.kept


def _calls(listener: Listener) -> Any:
    async def embed(self: CachedEmbedder, texts: Sequence[str]) -> Any:
        return await listener.embed(self, texts)

    return embed


def main() -> None:
    """Write the file."""
    fingerprint, kept = asyncio.run(vectors_of_a_start())
    texts = sorted(kept)
    ShippedVectors.write(fingerprint, texts, np.array([kept[text] for text in texts]), SHIPPED)
    print(f"{len(texts)} vectors, {SHIPPED.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
