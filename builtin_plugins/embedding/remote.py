"""A server that speaks OpenAI's protocol for embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from hookgate import Egress, EgressDeniedError, EgressError, EmbeddingError
from hookgate.builtin_plugins.embedding.service import TextReading
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.kit.durations import retry_after
from hookgate.kit.modules import httpx

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_BYTES = 64 * 1024 * 1024
"""The longest answer: 2,048 vectors of 1,536 numbers take about 60 MB as JSON."""

MAX_SAID = 300
"""Characters of what a server says about a failure."""


class RemoteEngine:
    """Asks a server, a batch of texts at a time. It does not try again: the caller does.

    Args:
        settings: Address, model, dimension and limits.
        egress: Returns the way out; None while there is none.
        redact: Masks secrets in what the server says.

    Attributes:
        key: The API key, or "" for none.
        problem: Why the server cannot be asked; "" where it can.
    """

    loaded = True
    tells_tokens = False

    def __init__(
        self,
        settings: EmbeddingSettings,
        *,
        egress: Callable[[], Egress | None],
        key: str = "",
        redact: Callable[[str], str],
        problem: str = "",
    ) -> None:
        assert settings.url is not None and settings.dimension is not None
        self._settings = settings
        self._url = settings.url
        self.dimension: int = settings.dimension
        self._egress = egress
        self.key = key
        self._redact = redact
        self.problem = problem
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    @property
    def fingerprint(self) -> str:
        """Names the server, the model and the length of its vectors."""
        return f"openai:{self._url}:{self._settings.model}:{self.dimension}"

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension), in the order of `texts`.

        Raises:
            EmbeddingError: A request failed, or its answer is not what was asked for.
        """
        most = self._settings.batch_texts
        parts = [
            await self._ask(texts[start : start + most]) for start in range(0, len(texts), most)
        ]
        return await asyncio.to_thread(_joined, parts, self.dimension)

    async def read(self, text: str) -> TextReading:
        """Return the vector of one text.

        Raises:
            EmbeddingError: The request failed, or its answer is not what was asked for.
        """
        return TextReading((await self._ask([text]))[0].copy())

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    # -- one request -------------------------------------------------------

    async def _ask(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.problem:
            raise EmbeddingError(self.problem)
        client = self._client or self._reach_out()
        body = {
            "model": self._settings.model,
            "input": [text.encode("utf-8", "replace").decode("utf-8") for text in texts],
            "encoding_format": "float",
        }
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        try:
            response = await client.post(self._url, content=orjson.dumps(body), headers=headers)
        except EgressDeniedError as error:
            raise self._error(f"must not be reached: {error}") from None
        except EgressError as error:
            raise self._error(f"did not answer: {error}", transient=True) from None
        if response.status_code != 200:
            raise self._refused(response)
        try:
            return await asyncio.to_thread(_vectors, response.content, len(texts), self.dimension)
        except ValueError as error:
            raise self._error(f"sent what is no answer: {error}") from None

    def _reach_out(self) -> httpx.AsyncClient:
        if self._closed:
            raise EmbeddingError("the embedder is closed: the gateway is stopping")
        egress = self._egress()
        if egress is None:
            raise EmbeddingError(
                "the embedding server cannot be reached, since no plugin provides the key "
                "`egress`: enable the plugin `egress`"
            )
        try:
            self._client = egress.client(
                [self._url],
                name="embedding",
                timeout=self._settings.timeout_seconds,
                max_bytes=MAX_BYTES,
            )
        except ValueError as error:
            raise self._error(f"cannot be granted: {error}") from None
        return self._client

    def _refused(self, response: httpx.Response) -> EmbeddingError:
        status = response.status_code
        text = f"answered with HTTP {status}"
        if said := _said(response.content):
            text += f": {said}"
        wait = retry_after(response.headers, datetime.now(UTC))
        if wait is not None:
            text += f" (asks to wait {wait:g} s)"
        if status in (401, 403):
            text += "; check the key that `[plugin.embedding] api_key_env` names"
        transient = status in (408, 429) or status >= 500
        return self._error(text, transient=transient, retry_after=wait)

    def _error(
        self, text: str, *, transient: bool = False, retry_after: float | None = None
    ) -> EmbeddingError:
        text = f"the embedding server {self._url} {text}"
        if self.key:
            # The gateway's redaction leaves very short secrets alone; here one is meant.
            text = text.replace(self.key, "[redacted]")
        return EmbeddingError(self._redact(text), transient=transient, retry_after=retry_after)


def _said(body: bytes) -> str:
    """Return what the body of a failure says, on one short line."""
    try:
        value: Any = orjson.loads(body[:65_536])
    except orjson.JSONDecodeError:
        value = body[:4096].decode("utf-8", "replace")
    for key in ("error", "message", "detail"):
        if isinstance(value, dict):
            value = value.get(key, value)
    line = " ".join((value if isinstance(value, str) else str(value)).split())
    return line if len(line) <= MAX_SAID else f"{line[: MAX_SAID - 1]}…"


def _vectors(body: bytes, texts: int, dimension: int) -> npt.NDArray[np.float32]:
    """Return the vectors of an answer, brought to length 1 and into the order of the texts.

    Raises:
        ValueError: It holds something else.
    """
    import numpy as np

    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ValueError("found no list `data` in it")
    if len(rows) != texts:
        raise ValueError(f"found {len(rows)} vectors, expected {texts}")
    made = np.full((texts, dimension), np.nan, dtype=np.float64)
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"found no object in `data[{place}]`")
        index = row.get("index", place)
        if type(index) is not int or not 0 <= index < texts:
            raise ValueError(f"found the index {index!r:.40} in `data[{place}]`")
        numbers = row.get("embedding")
        if not isinstance(numbers, list) or not all(type(one) in (int, float) for one in numbers):
            raise ValueError(f"expected a list of numbers in `data[{place}].embedding`")
        if len(numbers) != dimension:
            raise ValueError(
                f"found a vector of {len(numbers)} numbers, expected {dimension}: "
                "`[plugin.embedding] dimension` says so"
            )
        made[index] = numbers
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
    if np.isnan(lengths).any():
        raise ValueError("found one index twice, and another one never")
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError("found a vector without a direction")
    vectors: npt.NDArray[np.float32] = (made / lengths).astype(np.float32)
    return vectors


def _joined(parts: Sequence[npt.NDArray[np.float32]], dimension: int) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.concatenate([np.empty((0, dimension), dtype=np.float32), *parts])
