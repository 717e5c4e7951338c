"""The index on disk, so that a start embeds nothing that has not changed."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hookgate.builtin_plugins.discovery.index.documents import FORMAT
from hookgate.builtin_plugins.discovery.index.lexical import WordTable
from hookgate.builtin_plugins.discovery.index.vectors import VectorStore
from hookgate.kit.content.files import write_whole

if TYPE_CHECKING:
    import numpy.typing as npt

_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
)
"""What reading a damaged archive raises."""


class SavedError(ValueError):
    """The file is there and cannot be used; it is made anew."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What is kept: the words of the rows, and the vectors.

    Attributes:
        table: The words.
        store: The vectors; None where there were none.
        fingerprint: The embedder's, that the vectors are from.
    """

    table: WordTable
    store: VectorStore | None = None
    fingerprint: str = ""

    def write(self, path: Path) -> None:
        """Write to `path` in one step: what was there stays until all is written.

        Raises:
            OSError: It could not be written; what was there is still there.
        """
        words = "\n".join(self.table.words).encode("utf-8", "surrogatepass")
        arrays: dict[str, npt.NDArray[Any]] = {
            "words": np.frombuffer(words, np.uint8),
            "row_digests": np.frombuffer(b"".join(self.table.digests), np.uint8),
            "starts": self.table.starts,
            "numbers": self.table.numbers,
            "weights": self.table.weights,
        }
        if self.store is not None:
            arrays.update(self.store.arrays())
        meta = {"format": FORMAT, "fingerprint": self.fingerprint, "arrays": sorted(arrays)}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        write_whole(path, lambda file: np.savez(file, **arrays), durable=True)  # type: ignore[arg-type]  # its stub knows one keyword

    @classmethod
    def read(cls, path: Path) -> Saved | None:
        """Return what is kept at `path`; None where there is nothing.

        Raises:
            SavedError: It is damaged, or of another version.
        """
        try:
            return cls._of(_arrays(path))
        except FileNotFoundError:
            return None
        except _DAMAGE as error:
            raise SavedError(f"{path} cannot be used: {error}") from error

    @classmethod
    def _of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Saved:
        meta = json.loads(arrays["meta"].tobytes())
        if meta["format"] != FORMAT:
            raise ValueError(f"found format {meta['format']}, expected {FORMAT}")
        if meta["arrays"] != sorted(arrays.keys() - {"meta"}):
            raise ValueError("an array is missing, or there is one too many")
        text = arrays["words"].tobytes().decode("utf-8", "surrogatepass")
        words = text.split("\n") if text else []
        joined = arrays["row_digests"].tobytes()
        table = WordTable(
            words={word: number for number, word in enumerate(words)},
            digests=tuple(joined[at : at + 16] for at in range(0, len(joined), 16)),
            starts=arrays["starts"],
            numbers=arrays["numbers"],
            weights=arrays["weights"],
        )
        _check(table, len(words))
        store = VectorStore.restored(arrays) if "vectors" in arrays else None
        return cls(table, store, str(meta["fingerprint"]))


def _check(table: WordTable, words: int) -> None:
    starts, numbers = table.starts, table.numbers
    sound = (
        len(table.words) == words
        and len(starts) == len(table.digests) + 1
        and int(starts[0]) == 0
        and int(starts[-1]) == len(numbers) == len(table.weights)
        and bool((np.diff(starts) >= 0).all())
        and (not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < words))
    )
    if not sound:
        raise ValueError("the words and the rows do not belong together")


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read what `numpy.savez` wrote.

    The archive holds a checksum of each array. It is compared once a member has been read to
    its end, so that each is read whole before anything is made of it: `numpy.load` stops
    where a damaged head says that the array ends.
    """
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")
            data = io.BytesIO(archive.read(member))
            arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(data)
    return arrays
