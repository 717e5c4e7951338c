"""Makes an index from rows, and keeps it on disk: words at once, vectors as they are embedded."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import Capability
from hookgate.builtin_plugins.discovery.index import Dense, Index
from hookgate.builtin_plugins.discovery.index.documents import (
    FORMAT,
    LexicalIndex,
    WordTable,
    digest_of,
    text_of,
)
from hookgate.builtin_plugins.discovery.index.vectors import (
    ANN_VECTORS,
    NO_FAISS,
    Vectors,
    VectorStore,
    has_faiss,
)
from hookgate.builtin_plugins.discovery.learn.lessons import discount_of
from hookgate.kit.content.files import write_whole
from hookgate.kit.modules import np

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


# -- building --------------------------------------------------------------------

# Makes an index from rows: words at once, vectors as the embedder gets to them.

ENOUGH = 0.95
"""The share of the texts that must have vectors, so that meaning takes part: of fewer, the
rows with vectors would win for having them."""

SLACK = 1000
"""Vectors that nobody points to, beside as many as are in use, before a store is made anew."""


SLACK_WORDS = 10_000
"""Words that no row holds any more, beside as many as are held, before a table is made anew."""


NOBODY = "?"
"""The fingerprint of no embedder: for a draft that goes by words alone."""


@dataclass(frozen=True, slots=True)
class IndexDraft:
    """A version whose words are indexed.

    Attributes:
        version: The version of the rows.
        rows: The rows.
        lexical: Their words.
        texts: The texts of each row that have a vector, as digests.
        missing: The texts whose vectors are not there yet, by digest.
        fingerprint: The embedder's, whose vectors are meant; "" where any will do.
    """

    version: int
    rows: Sequence[Capability]
    lexical: LexicalIndex
    texts: Sequence[Sequence[bytes]]
    missing: Mapping[bytes, str]
    fingerprint: str = ""


@dataclass(slots=True)
class Material:
    """What one version of the index leaves for the next one. Used by one thread at a time.

    Attributes:
        table: The words of the latest rows.
        store: The vectors.
        fingerprint: The embedder's, that the vectors are from.
        background: Messages that need no capability; see `relevance`.
        elsewhere: Returns the vectors of an embedder by its fingerprint, where they are kept
            in a database; None where they are kept in memory.
        slow: Why searches take longer than they need; "" where they do not.
    """

    table: WordTable | None = None
    store: Vectors | None = None
    fingerprint: str = ""
    background: tuple[str, ...] = ()
    elsewhere: Callable[[str], Vectors | None] = lambda _: None
    slow: str = ""

    def draft(self, version: int, rows: Sequence[Capability], fingerprint: str = "") -> IndexDraft:
        """Index the words of `rows`, and see which vectors are missing.

        Args:
            version: The version of the rows.
            rows: The rows.
            fingerprint: The embedder's, whose vectors are meant; "" where any will do.
        """
        digests = [digest_of(row) for row in rows]
        before = self.table
        if before is not None and len(before.words) > 2 * len(before.numbers) + SLACK_WORDS:
            before = None
        self.table = WordTable.of(rows, digests, before)
        self._reach(fingerprint)
        store = self.store if self._is_from(fingerprint) else None
        known: Mapping[bytes, int] = {} if store is None else store.slots
        missing: dict[bytes, str] = {}
        keys: list[list[bytes]] = []
        # These come first: nothing is judged by meaning before they are there.
        for text in self.background:
            if text_key(text) not in known:
                missing[text_key(text)] = text
        for row in rows:
            of_row = []
            for text in (text_of(row), *row.examples):
                key = text_key(text)
                of_row.append(key)
                if key not in known:
                    missing[key] = text
            keys.append(of_row)
        return IndexDraft(version, rows, LexicalIndex(self.table), keys, missing, fingerprint)

    def index(self, draft: IndexDraft) -> Index:
        """Return the index of a draft, with meaning where enough vectors are there."""
        dense, background = None, None
        texts = sum(len(keys) for keys in draft.texts)
        if self.store is not None and texts and self._is_from(draft.fingerprint):
            missing = sum(1 for key in draft.missing if key not in self.store.slots)
            if missing <= (1 - ENOUGH) * texts:
                self._settle(draft)
                discounts = [
                    _discounts(row, keys) for row, keys in zip(draft.rows, draft.texts, strict=True)
                ]
                dense = Dense.of(self.store, draft.texts, self.fingerprint, discounts)
                background = self._background()
        return Index(draft.version, draft.rows, draft.lexical, dense, background)

    def _reach(self, fingerprint: str) -> None:
        """Turn to the vectors of an embedder that a database keeps; nothing is looked up."""
        store = self.store
        there = store is not None and store.blocking and self._is_from(fingerprint)
        if there or fingerprint in ("", NOBODY):
            return
        kept = self.elsewhere(fingerprint)
        if kept is not None:
            self.store, self.fingerprint = kept, fingerprint

    def look_up(self, draft: IndexDraft) -> IndexDraft:
        """Return `draft` without what a database keeps already.

        Raises:
            VectorsError: The database did not answer.
        """
        store = self.store
        if store is None or not store.blocking or not self._is_from(draft.fingerprint):
            return draft
        store.know([text_key(text) for text in self.background])
        store.know([key for keys in draft.texts for key in keys])
        known = store.slots
        missing = {key: text for key, text in draft.missing.items() if key not in known}
        return replace(draft, missing=missing)

    def let_go(self) -> None:
        """Forget which vectors a database keeps, so that they are looked up anew."""
        if self.store is not None and self.store.blocking:
            self.store, self.fingerprint = None, ""

    def _is_from(self, fingerprint: str) -> bool:
        """Whether the vectors are from the embedder of this fingerprint."""
        return fingerprint in ("", self.fingerprint)

    def _background(self) -> npt.NDArray[np.float32] | None:
        if self.store is None:
            return None
        slots = [self.store.slots.get(text_key(text), -1) for text in self.background]
        found = np.array([slot for slot in slots if slot >= 0], np.int64)
        return self.store.vectors(found) if len(found) else None

    def take(
        self, fingerprint: str, keys: Sequence[bytes], vectors: npt.NDArray[np.float32]
    ) -> None:
        """Take vectors of an embedder; those of another one are thrown away."""
        self._reach(fingerprint)
        if self.store is None or self.fingerprint != fingerprint:
            self.store = VectorStore(vectors.shape[1])
            self.fingerprint = fingerprint
        self.store.add(keys, vectors)

    def _settle(self, draft: IndexDraft) -> None:
        """Make the store anew where it has become too large for its kind, or mostly unused."""
        store = self.store
        if store is None:
            return
        used = dict.fromkeys(key for keys in draft.texts for key in keys)
        used.update(dict.fromkeys(text_key(text) for text in self.background))
        many = len(used) >= ANN_VECTORS
        self.slow = NO_FAISS if many and not store.blocking and not has_faiss() else ""
        approximate = many and not self.slow
        if approximate != store.approximate or len(store) > 2 * len(used) + SLACK:
            self.store = store.without(list(used), approximate=approximate)

    # -- on disk -------------------------------------------------------------

    def saved(self) -> Saved | None:
        """Return what is to be kept; None where nothing has been made yet."""
        if self.table is None:
            return None
        # What a database keeps is not kept twice.
        store = self.store if isinstance(self.store, VectorStore) else None
        return Saved(self.table, store, self.fingerprint)

    def restore(self, saved: Saved) -> None:
        """Begin with what was kept.

        Vectors of another embedder stay until that embedder's come: while no model can be
        loaded, nothing is lost.
        """
        self.table, self.store, self.fingerprint = saved.table, saved.store, saved.fingerprint


def _discounts(row: Capability, keys: Sequence[bytes]) -> list[float]:
    """Return what is taken off the cosine with each text of `row`; its examples are the last."""
    given = len(row.examples)
    return [0.0] * (len(keys) - given) + [discount_of(row)] * given


def text_key(text: str) -> bytes:
    """Return the 16 bytes by which a text's vector is known."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
