"""The builtin plugin `embedding`: provides the embedder that the other plugins share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hookgate import (
    EGRESS,
    EMBEDDER,
    EmbeddingError,
    Host,
    Key,
    Operation,
    Provider,
    ProviderInfo,
    StartError,
    operations_of,
)
from hookgate.builtin_plugins.embedding.operations import EmbeddingOperations
from hookgate.builtin_plugins.embedding.provider import NAME, OwnModel
from hookgate.builtin_plugins.embedding.service import CachedEmbedder, EmbeddingEngine, NoEngine
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.stock import ShippedVectors
from hookgate.builtin_plugins.embedding.worker import LocalModel, ThreadEngine
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from hookgate.builtin_plugins.embedding.remote import RemoteEngine

PART = "embedder"
SHIPPED_PART = "embedder: vectors"
INSTEAD = "search goes by words alone"

NONE = (
    'there is no embedder, as `[plugin.embedding] embedder = "none"` says: set it to another '
    "one to search by meaning"
)
NO_WAY_OUT = (
    "the embedding server cannot be reached, since no plugin provides the key `egress`: enable "
    "the plugin `egress`"
)


class Plugin:
    """Provides `EMBEDDER`, with a model that is loaded beside the turns."""

    Settings = EmbeddingSettings
    provides: tuple[Key[Any], ...] = (EMBEDDER,)

    def __init__(self, settings: EmbeddingSettings) -> None:
        # One of the embedders alone needs a way out, and starts without it where it may.
        needed = settings.embedder == "openai" and settings.on_missing == "refuse"
        self.requires: tuple[Key[Any], ...] = (EGRESS,) if needed else ()
        self._settings = settings
        self._embedder: CachedEmbedder | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Look for the model and offer it; load it a little later, beside the turns."""
        settings = self._settings
        engine = await self._engine(host)
        embedder = CachedEmbedder(
            engine,
            kind=settings.embedder,
            cache_size=settings.cache_size,
            shipped=partial(self._shipped, host, engine.fingerprint),
        )
        self._embedder = embedder
        host.provide(EMBEDDER, embedder)
        if isinstance(engine, ThreadEngine):
            host.spawn(self._load_later(host, engine), name="load the embedding model")
        try:
            yield
        finally:
            self._embedder = None
            await embedder.close()

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``embedding.status``."""
        # Every plugin has opened now, so that who provides a way out is known.
        if self._settings.embedder == "openai" and EGRESS not in host:
            self._missing(host, NO_WAY_OUT)
        return operations_of(EmbeddingOperations(self._opened))

    @hookimpl
    def describe_providers(self) -> Sequence[ProviderInfo]:
        """Say that the own model costs nothing."""
        own = self._own_model()
        return (
            ()
            if own is None
            else (ProviderInfo(name=NAME, models=tuple(own.models()), local=True),)
        )

    @hookimpl
    def list_providers(self) -> Sequence[Provider]:
        """Offer the own model to whoever asks for vectors; one behind a server is that server's."""
        own = self._own_model()
        return () if own is None else (own,)

    def _own_model(self) -> OwnModel | None:
        settings = self._settings
        if settings.embedder not in ("onnx", "sentence-transformers"):
            return None
        named = (settings.model or "").rpartition("/")[2]
        name = named or (settings.model_path.name if settings.model_path else "minilm")
        return OwnModel(name, self._opened, most_tokens=settings.max_tokens)

    # -- the model ---------------------------------------------------------

    async def _engine(self, host: Host) -> EmbeddingEngine:
        """Return what the settings ask for, or what says why it is not there.

        Raises:
            StartError: It is not there, and `on_missing` refuses to start without it.
        """
        if self._settings.embedder == "none":
            return NoEngine(NONE)
        if self._settings.embedder == "openai":
            return await self._remote(host)

        def failed(why: str) -> None:
            host.standing(PART).note("")
            host.standing(PART).bad(f"{why}; {INSTEAD}")

        try:
            model = await asyncio.to_thread(self._find)
        except EmbeddingError as error:
            self._missing(host, str(error))
            return NoEngine(str(error))
        host.standing(PART).note(f"the model is not loaded yet; until it is, {INSTEAD}")
        ready = partial(host.standing(PART).note, "")
        return ThreadEngine(model, failed=failed, ready=ready, bulk_waits=True)

    async def _shipped(self, host: Host, fingerprint: str) -> ShippedVectors | None:
        """Return the vectors that come with hookgate; without them it is slower, and no worse."""
        try:
            return await asyncio.to_thread(ShippedVectors.read, fingerprint)
        except EmbeddingError as error:
            host.standing(SHIPPED_PART).note(str(error))
            return None

    def _find(self) -> LocalModel:
        """Look for the model's files. Runs on a thread.

        Raises:
            EmbeddingError: They are missing or damaged.
        """
        settings = self._settings
        if settings.embedder == "sentence-transformers":
            from hookgate.builtin_plugins.embedding.transformer import find_transformer

            return find_transformer(settings)
        from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files

        files = find_files(settings)
        if settings.on_missing == "refuse":
            # Otherwise they are read when the model is loaded, and the start does not wait.
            files.check()
        return OnnxModel(files, threads=settings.threads, max_tokens=settings.max_tokens)

    async def _remote(self, host: Host) -> EmbeddingEngine:
        from hookgate.builtin_plugins.embedding.remote import RemoteEngine

        key, problem = await self._key(host)
        if problem:
            self._missing(host, problem)
        engine = RemoteEngine(
            self._settings,
            egress=lambda: host.get(EGRESS),
            key=key,
            redact=host.secrets.redact,
            problem=problem,
        )

        def changed(name: str) -> None:
            if name == self._settings.api_key_env:
                host.spawn(self._rotate(host, engine), name="take another key")

        host.secrets.watch(changed)
        return engine

    async def _key(self, host: Host) -> tuple[str, str]:
        """Return the key of the server, "" for none, and why it cannot be asked without."""
        name = self._settings.api_key_env
        if name is None:
            return "", ""
        key = (await asyncio.to_thread(host.secrets.get, name) or "").strip()
        if not key:
            return "", f"the embedding server needs a key: set {name}, which `api_key_env` names"
        if not (key.isascii() and key.isprintable()):
            return "", f"the key {name} holds characters that no header can carry"
        return key, ""

    async def _rotate(self, host: Host, engine: RemoteEngine) -> None:
        engine.key, engine.problem = await self._key(host)
        host.standing(PART).bad(engine.problem and f"{engine.problem}; {INSTEAD}")

    def _missing(self, host: Host, why: str) -> None:
        if self._settings.on_missing == "refuse":
            raise StartError(
                f'{why} (`[plugin.embedding] on_missing = "lexical"` starts without it)'
            )
        host.standing(PART).bad(f"{why}; {INSTEAD}")

    async def _load_later(self, host: Host, engine: ThreadEngine) -> None:
        await host.started()
        await asyncio.sleep(self._settings.load_after_seconds)
        # What is wrong with the model has been said when this returns.
        with suppress(EmbeddingError):
            await engine.load()

    def _opened(self) -> CachedEmbedder:
        if self._embedder is None:
            raise EmbeddingError("the embedder is closed: the gateway is stopping")
        return self._embedder
