"""Vectors that come with hookgate: of the texts that every gateway would embed first.

They are the default model's, kept as half floats: a fresh home has its search by meaning at
once, and the model is asked for what people write and add themselves. ``make vectors`` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hookgate import EmbeddingError
from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

SHIPPED = Path(__file__).parent / "shipped.npz"


class ShippedVectors:
    """Vectors by text.

    Args:
        keys: What stands for each text, sorted; see `key_of`. Shape (texts,).
        vectors: Their vectors, of shape (texts, dimension).
    """

    def __init__(self, keys: npt.NDArray[np.uint64], vectors: npt.NDArray[np.float16]) -> None:
        self._keys = keys
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def read(cls, fingerprint: str, path: Path = SHIPPED) -> Self | None:
        """Return the vectors of the model called `fingerprint`, if there are any. It blocks.

        Raises:
            EmbeddingError: The file is missing or damaged.
        """
        try:
            # Not by the path: NumPy leaves a file open that it cannot read.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                if str(held["fingerprint"]) != fingerprint:
                    return None
                keys, vectors = held["keys"], held["vectors"]
        # A damaged archive raises whatever its reader runs into: NumPy, zipfile and zlib differ.
        except Exception as error:
            raise _unreadable(path, f"{type(error).__name__}: {error}") from error
        if (keys.dtype, vectors.dtype) != (np.uint64, np.float16) or not (
            keys.ndim == 1 and vectors.ndim == 2 and len(vectors) == len(keys) > 0
        ):
            found = f"{keys.dtype} {keys.shape} and {vectors.dtype} {vectors.shape}"
            raise _unreadable(path, f"found {found}, expected a vector of halves for each key")
        return cls(keys, vectors)

    @staticmethod
    def write(
        fingerprint: str, texts: Sequence[str], vectors: npt.NDArray[np.float32], path: Path
    ) -> None:
        """Write the vectors of `texts`; the same texts give the same bytes."""
        keys = np.array([key_of(text) for text in texts], dtype=np.uint64)
        order = np.argsort(keys)
        np.savez_compressed(
            path,
            fingerprint=np.array(fingerprint),
            keys=keys[order],
            vectors=vectors[order].astype(np.float16),
        )

    def find(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[int]]:
        """Return vectors of length 1 and the places in `texts` of those that are not there.

        Returns:
            An array of shape (texts, dimension), zeros where a text is not there; the places.
        """
        keys = np.array([key_of(text) for text in texts], dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = self._keys[at] == keys
        vectors = np.where(found[:, None], self._vectors[at], 0).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors, np.flatnonzero(~found).tolist()


def _unreadable(path: Path, why: str) -> EmbeddingError:
    return EmbeddingError(
        f"the vectors that come with hookgate cannot be read ({path}: {why}): the model computes "
        "them anew, which takes a while; install hookgate again to have them"
    )


def key_of(text: str) -> int:
    """Return 64 bits of BLAKE2b: of some thousand texts, two alike are not to be expected."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
