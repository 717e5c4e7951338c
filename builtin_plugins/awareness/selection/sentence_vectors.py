"""Vectors of the sentences by which tags are judged, kept from one start to the next."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate import Embedder, EmbeddingError
from hookgate.kit.content.files import write_whole

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]

KEPT_TEXTS = 20_000
"""Vectors of so many sentences are kept; the ones used least recently go first."""

MAGIC = b"hookgate sentence vectors 1\n"
KEY_BYTES = 16
SUM_BYTES = 32

_FLOAT = np.dtype("<f4")


class SentenceVectors:
    """Vectors of sentences, so that new cards, or a start, cost what is new alone.

    Its methods belong to the event loop's thread.

    Args:
        path: A file that keeps them from one start to the next; None for memory alone. It
            holds digests and vectors, and no text. One that is damaged is made anew.

    Attributes:
        problem: Why the file could not be read or written; "" where nothing is wrong. The
            vectors are there all the same.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.problem = ""
        self._path = path
        self._fingerprint = ""
        self._known: OrderedDict[bytes, Floats] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def of(self, texts: Sequence[str], embedder: Embedder) -> Floats:
        """Return one vector for each text: an array of shape (texts, dimension).

        Raises:
            EmbeddingError: The model could not be asked. The next call asks it again.
        """
        keys = [_key(text) for text in texts]
        async with self._one_at_a_time:
            fingerprint, dimension = embedder.fingerprint, embedder.dimension
            if fingerprint != self._fingerprint:
                self._known = OrderedDict(await self._read(fingerprint, dimension))
                self._fingerprint = fingerprint
            missing = {
                key: text for key, text in zip(keys, texts, strict=True) if key not in self._known
            }
            if missing:
                vectors = await embedder.embed(list(missing.values()))
                if vectors.shape != (len(missing), dimension) or not np.isfinite(vectors).all():
                    # It would be kept for good.
                    raise EmbeddingError(
                        f"the embedder returned an array of shape {vectors.shape}, expected "
                        f"finite numbers of shape {(len(missing), dimension)}"
                    )
                self._known.update(zip(missing, vectors, strict=True))
            found = {key: self._known[key] for key in keys}
            for key in found:
                self._known.move_to_end(key)
            while len(self._known) > max(KEPT_TEXTS, len(found)):
                self._known.popitem(last=False)
            if missing:
                await self._write(fingerprint, found)
        if not keys:
            return np.zeros((0, dimension), np.float32)
        return np.stack([found[key] for key in keys])

    async def _read(self, fingerprint: str, dimension: int) -> Mapping[bytes, Floats]:
        if self._path is None:
            return {}
        try:
            return await asyncio.to_thread(read_vectors, self._path, fingerprint, dimension)
        except (OSError, ValueError) as error:
            self.problem = f"{self._path}: {error}; the vectors are made anew"
            return {}

    async def _write(self, fingerprint: str, vectors: Mapping[bytes, Floats]) -> None:
        if self._path is None:
            return
        try:
            await asyncio.to_thread(write_vectors, self._path, fingerprint, vectors)
        except OSError as error:
            self.problem = f"{self._path}: {error}; the next start makes the vectors anew"
        else:
            self.problem = ""


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=SUM_BYTES).digest()


def write_vectors(path: Path, fingerprint: str, vectors: Mapping[bytes, Floats]) -> None:
    """Write vectors by the digests of their texts, in one step. It blocks.

    The form: a line that names it, a line of JSON (fingerprint, dimension, count), the
    digests, the vectors as 32-bit floats, and a checksum of all that.

    Raises:
        OSError: It could not be written; what was there is still there.
    """
    matrix = np.stack(list(vectors.values())) if vectors else np.zeros((0, 0), np.float32)
    head = {"fingerprint": fingerprint, "dimension": matrix.shape[1], "count": len(matrix)}
    content = b"".join(
        (
            MAGIC,
            json.dumps(head).encode() + b"\n",
            *vectors,
            np.ascontiguousarray(matrix, _FLOAT).tobytes(),
        )
    )
    # What is lost in a crash is made anew.
    write_whole(path, content + _sum(content), durable=False)


def read_vectors(path: Path, fingerprint: str, dimension: int) -> Mapping[bytes, Floats]:
    """Return what `write_vectors` wrote; nothing where it is another model's, or not there.

    It blocks.

    Raises:
        OSError: It could not be read.
        ValueError: It is damaged, or of another form.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    body = content[:-SUM_BYTES]
    if not content.startswith(MAGIC) or content[-SUM_BYTES:] != _sum(body):
        raise ValueError("found no whole file of vectors")
    line, _, data = body[len(MAGIC) :].partition(b"\n")
    head = json.loads(line)
    count = head["count"]
    if head["fingerprint"] != fingerprint or (count and head["dimension"] != dimension):
        return {}
    keys = [data[at : at + KEY_BYTES] for at in range(0, count * KEY_BYTES, KEY_BYTES)]
    flat = np.frombuffer(data, _FLOAT, offset=count * KEY_BYTES)
    vectors = flat.astype(np.float32).reshape(count, dimension)
    return dict(zip(keys, vectors, strict=True))
