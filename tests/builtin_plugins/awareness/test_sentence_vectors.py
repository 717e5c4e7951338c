from __future__ import annotations

import math
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate import EmbeddingError
from hookgate.builtin_plugins.awareness.selection.nearness import (
    SentenceVectors,
    read_vectors,
    write_vectors,
)


class Embedder:
    """The vector of a text is its length and its first character."""

    dimension = 2

    def __init__(self, fingerprint: str = "one") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []
        self.broken = False

    async def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        if self.broken:
            raise EmbeddingError("no model")
        self.asked += texts
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)

    async def embed_query(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        raise NotImplementedError


async def test_a_sentence_is_embedded_once_in_whatever_order() -> None:
    vectors, embedder = SentenceVectors(), Embedder()
    first = await vectors.of(["a", "bb", "a"], embedder)
    assert first.tolist() == [[1, 97], [2, 98], [1, 97]]
    second = await vectors.of(["ccc", "bb"], embedder)
    assert second.tolist() == [[3, 99], [2, 98]]
    assert embedder.asked == ["a", "bb", "ccc"]
    assert (await vectors.of([], embedder)).shape == (0, 2)


async def test_another_model_embeds_everything_anew() -> None:
    vectors, other = SentenceVectors(), Embedder("two")
    await vectors.of(["a"], Embedder("one"))
    await vectors.of(["a"], other)
    assert other.asked == ["a"]


async def test_after_a_failure_the_model_is_asked_again() -> None:
    vectors, embedder = SentenceVectors(), Embedder()
    embedder.broken = True
    with pytest.raises(EmbeddingError):
        await vectors.of(["a"], embedder)
    embedder.broken = False
    assert (await vectors.of(["a"], embedder)).tolist() == [[1, 97]]


@pytest.mark.parametrize("wrong", [[[1, math.nan]], [[1, math.inf]], [[1, 2], [3, 4]], [[1]]])
async def test_wrong_vectors_are_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[list[float]]
) -> None:
    async def embed(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.array(wrong, np.float32)

    path, embedder = tmp_path / "vectors", Embedder()
    vectors = SentenceVectors(path)
    with monkeypatch.context() as patched:
        patched.setattr(embedder, "embed", embed)
        with pytest.raises(EmbeddingError, match="shape"):
            await vectors.of(["a"], embedder)
    assert not path.exists()
    assert (await vectors.of(["a"], embedder)).tolist() == [[1, 97]]


async def test_the_next_start_embeds_nothing_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "awareness" / "sentences.vectors"
    before = await SentenceVectors(path).of(["a", "bb"], Embedder())
    embedder = Embedder()
    after = await SentenceVectors(path).of(["bb", "a", "ccc"], embedder)
    assert after[:2].tolist() == before[::-1].tolist()
    assert embedder.asked == ["ccc"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_what_no_tag_needs_any_more_goes_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    await SentenceVectors(path).of(["a", "bb"], Embedder())
    await SentenceVectors(path).of(["bb", "ccc"], Embedder())
    assert len(read_vectors(path, "one", 2)) == 2


async def test_the_file_of_another_model_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    await SentenceVectors(path).of(["a"], Embedder("one"))
    embedder = Embedder("two")
    vectors = SentenceVectors(path)
    await vectors.of(["a"], embedder)
    assert embedder.asked == ["a"]
    assert vectors.problem == ""


async def test_a_damaged_file_is_named_and_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    await SentenceVectors(path).of(["a"], Embedder())
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"!" + whole[-8:])
    vectors, embedder = SentenceVectors(path), Embedder()
    with pytest.raises(ValueError, match="no whole file"):
        read_vectors(path, "one", 2)
    assert (await vectors.of(["a"], embedder)).tolist() == [[1, 97]]
    assert embedder.asked == ["a"]
    assert path.read_bytes() == whole


async def test_a_file_that_cannot_be_written_costs_nothing_but_itself(tmp_path: Path) -> None:
    vectors = SentenceVectors(tmp_path)
    assert (await vectors.of(["a"], Embedder())).tolist() == [[1, 97]]
    assert str(tmp_path) in vectors.problem


@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_pass_for_vectors(tmp_path_factory: Any, noise: bytes, at: int) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.vectors"
    write_vectors(path, "one", {b"k" * 16: np.array([0.5, 0.25], np.float32)})
    whole = path.read_bytes()
    assert {key: row.tolist() for key, row in read_vectors(path, "one", 2).items()} == {
        b"k" * 16: [0.5, 0.25]
    }
    changed = whole[:at] + noise + whole[at + len(noise) :]
    path.write_bytes(changed)
    if changed != whole:
        with pytest.raises(ValueError, match="no whole file"):
            read_vectors(path, "one", 2)
