"""Vectors of texts by the product's embedders, kept on disk from run to run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hookgate.builtin_plugins.embedding.onnx import QUERY_GRAPH
from hookgate.builtin_plugins.embedding.service import WHOLE, plan_batches
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

Floats: TypeAlias = npt.NDArray[np.float32]
EmbedderName: TypeAlias = Literal["onnx", "sentence-transformers"]

Span: TypeAlias = tuple[int, int]

ASKED = f"{hashlib.sha256(QUERY_GRAPH.read_bytes()).hexdigest()}{WHOLE}"
"""What the vectors of queries hang on beside the model."""

KEY_BYTES = 16
SAVE_EVERY = 2000
"""Texts after which the cache is written, so that a run that is stopped loses little."""


def key_of(text: str) -> bytes:
    """Return what stands for a text: 16 bytes of its digest."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def model_of(name: EmbedderName) -> Any:
    """Return the model that the plugin `embedding` would take, not loaded."""
    settings = EmbeddingSettings(embedder=name)
    if name == "onnx":
        from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files

        return OnnxModel(
            find_files(settings), threads=settings.threads, max_tokens=settings.max_tokens
        )
    from hookgate.builtin_plugins.embedding.transformer import find_transformer

    return find_transformer(settings)


def _asked(text: str, span: Span | None) -> bytes:
    """Return what stands for a query, or for a part of it."""
    return key_of(f"{ASKED}{span}{text}")


class Vectors:
    """The vectors of texts.

    Args:
        model: Computes them; it is loaded when the first one is missing.
        cache: A folder for them: two files for each fingerprint of a model, one of digests
            and one of 16-bit floats. None keeps them for this run alone.
        say: Is told how the work goes on.
    """

    def __init__(
        self, model: Any, cache: Path | None = None, say: Callable[[str], object] = print
    ) -> None:
        self._model = model
        self._loaded = False
        self._say = say
        self._places: dict[bytes, int] = {}
        self._known = np.zeros((0, model.dimension), np.float32)
        self._files: tuple[Path, Path] | None = None
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            name = hashlib.blake2b(model.fingerprint.encode(), digest_size=8).hexdigest()
            self._files = (cache / f"{name}.keys", cache / f"{name}.f16")
            self._read()

    def without_cache(self) -> Vectors:
        """Return vectors of the same model that knows no text yet."""
        fresh = Vectors(self._model, say=self._say)
        fresh._loaded = self._loaded
        return fresh

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._model.dimension)

    @property
    def fingerprint(self) -> str:
        """Names the model."""
        return str(self._model.fingerprint)

    def of(self, texts: Sequence[str]) -> Floats:
        """Return one vector of length 1 for each text."""
        keys = [key_of(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        todo = [(key, text) for key, text in wanted.items() if key not in self._places]
        for first in range(0, len(todo), SAVE_EVERY):
            part = todo[first : first + SAVE_EVERY]
            if len(todo) > SAVE_EVERY:
                self._say(f"   embedding {len(todo):,} texts, {first:,} done")
            self._keep([key for key, _ in part], self._compute([text for _, text in part]))
        return self._known[[self._places[key] for key in keys]]

    def asked(self, queries: Sequence[tuple[str, Sequence[Span]]]) -> list[list[Floats]]:
        """Return the vectors of queries as a turn asks for them.

        Args:
            queries: Each text, with where its parts stand.

        Returns:
            For each query its own vector, and behind it those of its parts.
        """
        keys = [[_asked(text, span) for span in (None, *spans)] for text, spans in queries]
        todo = {
            one[0]: (one, *query)
            for one, query in zip(keys, queries, strict=True)
            if not all(key in self._places for key in one)
        }
        waiting = list(todo.values())
        for first in range(0, len(waiting), SAVE_EVERY):
            new: dict[bytes, Floats] = {}
            for own, text, spans in waiting[first : first + SAVE_EVERY]:
                new |= zip(own, self._read_query(text, spans), strict=True)
            new = {key: vector for key, vector in new.items() if key not in self._places}
            self._keep(list(new), np.array([*new.values()], np.float32).reshape(-1, self.dimension))
        return [[self._known[self._places[key]] for key in one] for one in keys]

    def _read_query(self, text: str, spans: Sequence[Span]) -> list[Floats]:
        """Return what `CachedEmbedder.embed_parts` would."""
        self._load()
        reading = self._model.read(text)
        made = [reading.vector]
        for (start, end), vector in zip(spans, reading.parts(spans), strict=True):
            if vector is not None:
                made.append(vector)
            elif reading.tokens is not None:
                made.append(self._model.read(text[start:end]).vector)
            else:
                made.append(self.of([text[start:end]])[0])
        return made

    def seconds_of_one(self, text: str) -> float:
        """Return the seconds that a bare reading of one query takes; no cache is asked."""
        self._load()
        start = time.perf_counter()
        self._model.read(text)
        return time.perf_counter() - start

    def _load(self) -> None:
        if not self._loaded:
            self._model.load()
            self._loaded = True

    def _compute(self, texts: Sequence[str]) -> Floats:
        self._load()
        prepared = [self._model.prepare(text) for text in texts]
        result = np.empty((len(texts), self.dimension), np.float32)
        for batch in plan_batches([one.tokens for one in prepared]):
            result[batch] = self._model.run([prepared[at] for at in batch])
        return result

    # -- the cache ---------------------------------------------------------------

    def _read(self) -> None:
        if self._files is None or not all(path.is_file() for path in self._files):
            return
        joined = self._files[0].read_bytes()
        flat = np.fromfile(self._files[1], np.float16).astype(np.float32)
        # A run that was stopped may have written one of the two further than the other.
        rows = min(len(joined) // KEY_BYTES, len(flat) // self.dimension)
        self._known = flat[: rows * self.dimension].reshape(rows, self.dimension)
        self._places = {joined[at * KEY_BYTES : (at + 1) * KEY_BYTES]: at for at in range(rows)}

    def _keep(self, keys: Sequence[bytes], vectors: Floats) -> None:
        # As they come back from the cache, so that a run with one does not differ.
        halves = vectors.astype(np.float16)
        used = len(self._known)
        self._places.update({key: used + at for at, key in enumerate(keys)})
        self._known = np.concatenate([self._known, halves.astype(np.float32)])
        if self._files is not None:
            for path, data, size in (
                (self._files[0], b"".join(keys), KEY_BYTES),
                (self._files[1], halves.tobytes(), 2 * self.dimension),
            ):
                with path.open("ab") as file:
                    # Behind what was read, whatever a run that was stopped left there.
                    file.truncate(used * size)
                    file.write(data)
