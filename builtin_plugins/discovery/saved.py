"""The index on disk, so that a start embeds nothing that has not changed."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hookgate.builtin_plugins.discovery.documents import FORMAT
from hookgate.builtin_plugins.discovery.lexical import WordTable
from hookgate.builtin_plugins.discovery.vectors import VectorStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["Saved", "SavedError"]


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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        words = "\n".join(self.table.words).encode("utf-8", "surrogatepass")
        meta = {"format": FORMAT, "fingerprint": self.fingerprint}
        arrays: dict[str, npt.NDArray[Any]] = {
            "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8),
            "words": np.frombuffer(words, np.uint8),
            "row_digests": np.frombuffer(b"".join(self.table.digests), np.uint8),
            "starts": self.table.starts,
            "numbers": self.table.numbers,
            "weights": self.table.weights,
        }
        if self.store is not None:
            arrays.update(self.store.arrays())
        half = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            with open(half, "wb", opener=_private) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub knows one keyword
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        finally:
            with suppress(FileNotFoundError):
                half.unlink()

    @classmethod
    def read(cls, path: Path) -> Saved | None:
        """Return what is kept at `path`; None where there is nothing.

        Raises:
            SavedError: It is damaged, or of another version.
        """
        try:
            # The archive holds a checksum of each array, which reading compares.
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls._of(arrays)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, RuntimeError) as error:
            raise SavedError(f"{path} cannot be used: {error}") from error

    @classmethod
    def _of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Saved:
        meta = json.loads(arrays["meta"].tobytes())
        if meta["format"] != FORMAT:
            raise ValueError(f"found format {meta['format']}, expected {FORMAT}")
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


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
