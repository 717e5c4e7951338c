"""Which tags the vector of a message is near to, and the vectors of their sentences, kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Embedder, EmbeddingError
from hookgate.kit.content.files import write_whole
from hookgate.kit.modules import np
from hookgate.kit.vectors import products

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]

KEPT_TEXTS = 20_000
"""Vectors of so many sentences are kept; the ones used least recently go first."""

MAGIC = b"hookgate sentence vectors 1\n"
KEY_BYTES = 16
SUM_BYTES = 32

_FLOAT = "<f4"


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


# -- Which tags the vector of a message is near to -------------------------------

# The nearest example counts most: what somebody asks is mostly asked in one of a few ways. A line
# that divides the examples from unrelated messages, fitted to their vectors, counts a little: it
# knows what the examples have in common.

if TYPE_CHECKING:
    import numpy.typing as npt

    Doubles: TypeAlias = npt.NDArray[np.float64]

UNRELATED_SHARE, LINE_SHARE, FLOOR = 0.5, 0.1, 0.32
"""A message has a tag where its best cosine with an example, less so much of the best cosine
with an unrelated message, plus so much of its side of the line, is at least the floor. Found
with the messages of `benchmarks/awareness.py` and the model that comes with hookgate: lower
floors show more cards for nothing, higher ones miss more. Another model has other cosines."""

OWN_LINE_SHARE = 0.3
"""So much does the line of a tag count, which divides its examples from all others, when the
tag of a message is chosen."""

OTHER_SIDE, KNOWN_EXAMPLES = -0.7, 20
"""A message so far on the other side of the line has no tag with so many examples: it shares
the subject of an example ("weather in Oslo", "remember that I live in Oslo") and nothing of
what the examples have in common. No message of the tuning half of `benchmarks/awareness.py`
that shows a right card lies so far off. What few examples have in common a line cannot know,
so that their tags go by the nearest one alone."""

NEAR = 0.05
"""A second tag counts where its best cosine is so near to the best one of all."""

STIFFNESS = 3.0
"""The ridge of the lines: the higher, the less they follow single examples."""


class Nearness:
    """Judges vectors by examples.

    Args:
        examples: The vectors of the examples, those of one tag next to each other.
        counts: How many examples each tag has, at least one.
        unrelated: The vectors of the unrelated messages.
    """

    def __init__(self, examples: Floats, counts: Sequence[int], unrelated: Floats) -> None:
        self._examples, self._unrelated = examples, unrelated
        self._starts = np.cumsum([0, *counts[:-1]])
        self._known = np.asarray(counts) >= KNOWN_EXAMPLES
        self._lines = _lines(examples, counts, unrelated)

    def nearest(self, vector: Floats) -> list[int]:
        """Return the places of the tags that `vector` is near to: at most two, best first."""
        bests = np.maximum.reduceat(products(vector[None], self._examples)[0], self._starts)
        sides = vector @ self._lines[:-1] + self._lines[-1]
        if sides[-1] < OTHER_SIDE:
            bests = np.where(self._known, -1.0, bests)
        best = float(bests.max())
        # Where no message is like it at all, nothing is taken off.
        apart = float(products(vector[None], self._unrelated).max(initial=0.0))
        sure = best - UNRELATED_SHARE * apart + LINE_SHARE * float(sides[-1])
        # What is no number is not sure.
        if not sure >= FLOOR:
            return []
        order = np.argsort(-(bests + OWN_LINE_SHARE * sides[:-1]), kind="stable").tolist()
        return [order[0], *(at for at in order[1:2] if bests[at] >= best - NEAR)]


def _lines(examples: Floats, counts: Sequence[int], unrelated: Floats) -> Doubles:
    """Return a line for each tag, and one for all of them: the columns, the constant last.

    On the one side a line is near 1, on the other near -1, by least squares with a ridge;
    examples and unrelated messages weigh the same together, whatever their number.
    """
    width = examples.shape[1] + 1
    if not len(unrelated):
        return np.zeros((width, len(counts) + 1))
    vectors = np.ones((len(examples) + len(unrelated), width))
    vectors[:, :-1] = np.concatenate([examples, unrelated])
    tags = np.repeat(np.arange(len(counts)), counts)
    sides = np.full((len(vectors), len(counts) + 1), -1.0)
    sides[np.arange(len(examples)), tags] = 1.0
    sides[: len(examples), -1] = 1.0
    weights = np.full(len(vectors), len(vectors) / 2 / len(examples))
    weights[len(examples) :] = len(vectors) / 2 / len(unrelated)
    ridge = np.full(width, STIFFNESS)
    ridge[-1] = 0.0
    weighted = vectors.T * weights
    return np.linalg.solve(weighted @ vectors + np.diag(ridge), weighted @ sides)
