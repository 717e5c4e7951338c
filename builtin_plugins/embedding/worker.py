"""A model that runs in this process, on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.service import TextReading, plan_batches

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")

WINDOW = 512
"""Texts that are sorted by length together. More would save little padding, and take memory."""

PREPARED_TOGETHER = 16
"""Texts that are cut into tokens in one go, some ten milliseconds long."""

REST_SECONDS = 30.0
"""So long after the last bulk work the model lets go of what that alone needs."""


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A text that is ready for the model.

    Attributes:
        tokens: How long it is.
        data: What the model made of it.
    """

    tokens: int
    data: Any


class LocalModel(Protocol):
    """A model. Its methods run on one thread, and none before `load` has returned."""

    @property
    def dimension(self) -> int:
        """The length of a vector, as it is announced; `load` holds the model to it."""

    @property
    def fingerprint(self) -> str:
        """Names the model, its version and how it reads a text."""

    @property
    def tells_tokens(self) -> bool:
        """Whether what it has read holds the vectors of tokens."""

    def load(self) -> None:
        """Read the model and make it ready.

        Raises:
            EmbeddingError: It is missing or damaged.
        """

    def prepare(self, text: str) -> PreparedText:
        """Return `text` ready for `run`."""

    def run(self, batch: Sequence[PreparedText]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension).

        Raises:
            EmbeddingError: The model gave something else.
        """

    def read(self, text: str) -> TextReading:
        """Read one text, in the quickest way there is.

        Raises:
            EmbeddingError: The model gave something else.
        """

    def rest(self) -> None:
        """Let go of what `run` alone needs; the next call of it loads that again."""


class ThreadEngine:
    """Runs a `LocalModel` on one thread, queries ahead of what is embedded in bulk.

    At most one step of bulk work waits for the thread at any time, so that a query has at
    most that one before it, and several who embed in bulk take turns.

    Args:
        model: The model. It is loaded by the first call, or by `load`.
        failed: Called on the event loop, once, when the model cannot be loaded.
        ready: Called on the event loop, once, when it is loaded.
        bulk_waits: Leave the loading to `load` and to queries. What is embedded in bulk is
            seldom needed at once; a process that ends soon then never loads the model.
    """

    def __init__(
        self,
        model: LocalModel,
        *,
        failed: Callable[[str], None],
        ready: Callable[[], None] = lambda: None,
        bulk_waits: bool = False,
    ) -> None:
        self._model = model
        self._failed, self._ready = failed, ready
        self._wanted = asyncio.Event()
        if not bulk_waits:
            self._wanted.set()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hookgate-embedding")
        self._bulk = asyncio.Lock()
        self._resting: asyncio.TimerHandle | None = None
        self._loaded = self._told = self._closed = False
        self._problem = ""

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._model.dimension

    @property
    def fingerprint(self) -> str:
        """Names the model, its version and how it reads a text."""
        return self._model.fingerprint

    @property
    def tells_tokens(self) -> bool:
        """Whether what the model has read holds the vectors of tokens."""
        return self._model.tells_tokens

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded

    @property
    def problem(self) -> str:
        """Why the model could not be loaded; "" where it was, or was not tried yet."""
        return self._problem

    async def load(self) -> None:
        """Load the model, unless it is loaded.

        Raises:
            EmbeddingError: It is missing or damaged.
        """
        await self._run(_nothing)

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension), in the order of `texts`.

        Raises:
            EmbeddingError: The model is missing or damaged, or the gateway is stopping.
        """
        await self._wanted.wait()
        self._rest_in(None)
        try:
            return await self._embed(texts)
        finally:
            self._rest_in(REST_SECONDS)

    async def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        made = await self._step(partial(_empty, len(texts), self._model.dimension))
        for start in range(0, len(texts), WINDOW):
            window = texts[start : start + WINDOW]
            ready: list[PreparedText] = []
            for first in range(0, len(window), PREPARED_TOGETHER):
                some = window[first : first + PREPARED_TOGETHER]
                ready += await self._step(partial(self._prepare, some))
            for batch in plan_batches([one.tokens for one in ready]):
                rows = [start + place for place in batch]
                chosen = [ready[place] for place in batch]
                await self._step(partial(self._fill, made, rows, chosen))
        return made

    async def read(self, text: str) -> TextReading:
        """Read one text, ahead of what `embed` still has to do.

        Raises:
            EmbeddingError: The model is missing or damaged, or the gateway is stopping.
        """
        return await self._run(partial(self._read, text))

    async def close(self) -> None:
        """Take no more work. What the thread is at is not waited for."""
        self._closed = True
        self._rest_in(None)
        self._wanted.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- on the event loop -------------------------------------------------

    def _rest_in(self, seconds: float | None) -> None:
        """Have the model rest in so long, unless there is bulk work before; None for not."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if seconds is not None and not self._closed:
            loop = asyncio.get_running_loop()
            self._resting = loop.call_later(seconds, self._pool.submit, self._model.rest)

    async def _step(self, work: Callable[[], T]) -> T:
        """Run one step of bulk work; the others who work in bulk come next."""
        async with self._bulk:
            return await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise _stopping()
        self._wanted.set()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, self._loaded_then, work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise _stopping() from None
            raise
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(
                f"the embedding model {self._model.fingerprint} failed: "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            if (self._problem or self._loaded) and not self._told and not self._closed:
                self._told = True
                if self._problem:
                    self._failed(self._problem)
                else:
                    self._ready()

    # -- on the thread -----------------------------------------------------

    def _loaded_then(self, work: Callable[[], T]) -> T:
        if self._problem:
            raise EmbeddingError(self._problem)
        if not self._loaded:
            try:
                self._model.load()
            except EmbeddingError as error:
                self._problem = str(error)
                raise
            except Exception as error:
                self._problem = (
                    f"the embedding model {self._model.fingerprint} cannot be loaded: "
                    f"{type(error).__name__}: {error}"
                )
                raise EmbeddingError(self._problem) from error
            self._loaded = True
        return work()

    def _prepare(self, texts: Sequence[str]) -> list[PreparedText]:
        return [self._model.prepare(_readable(text)) for text in texts]

    def _fill(
        self, made: npt.NDArray[np.float32], rows: list[int], batch: Sequence[PreparedText]
    ) -> None:
        made[rows] = self._model.run(batch)

    def _read(self, text: str) -> TextReading:
        return self._model.read(_readable(text))


def _nothing() -> None:
    """Do nothing but have the model loaded."""


def _empty(texts: int, dimension: int) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.empty((texts, dimension), dtype=np.float32)


def _readable(text: str) -> str:
    """Return `text` with a question mark for each half of a surrogate pair.

    JSON can carry such halves; no tokenizer takes them.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def _stopping() -> EmbeddingError:
    return EmbeddingError("the embedder is closed: the gateway is stopping")
