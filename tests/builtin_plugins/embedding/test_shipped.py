"""What comes with hookgate is the model's own, and is all that a fresh gateway embeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.script import until

from hookgate import EmbeddingError
from hookgate.builtin_plugins.awareness.selection.router import examples
from hookgate.builtin_plugins.embedding.onnx import OnnxModel
from hookgate.builtin_plugins.embedding.service import CachedEmbedder, TextReading
from hookgate.builtin_plugins.embedding.stock import SHIPPED, ShippedVectors, key_of
from hookgate.builtin_plugins.embedding.worker import ThreadEngine
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.ports import EMBEDDER

DIMENSION = 4


class Counting:
    """An engine that gives every text the same vector, and keeps what it was asked for."""

    problem, dimension, fingerprint, loaded = "", DIMENSION, "counting", True
    tells_tokens = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.tile(np.array([0, 0, 0, 1], np.float32), (len(texts), 1))

    async def read(self, text: str) -> TextReading:
        return TextReading((await self.embed([text]))[0])

    async def close(self) -> None:
        return None


def shipped(path: Path, texts: Sequence[str]) -> ShippedVectors:
    vectors = np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))
    ShippedVectors.write("counting", texts, vectors, path / "shipped.npz")
    read = ShippedVectors.read("counting", path / "shipped.npz")
    assert read is not None
    return read


@given(st.lists(st.text(), unique=True, min_size=1), st.lists(st.text()))
def test_what_is_there_is_found_and_the_rest_is_named(there: list[str], asked: list[str]) -> None:
    keys = np.array(sorted({key_of(text) for text in there}), np.uint64)
    vectors = np.tile(np.array([0, 2, 0, 0], np.float16), (len(keys), 1))
    asked = [*asked, *there]
    found, missing = ShippedVectors(keys, vectors).find(asked)
    assert missing == [place for place, text in enumerate(asked) if text not in there]
    for place, vector in enumerate(found):
        assert vector.tolist() == ([0] * 4 if place in missing else [0, 1, 0, 0])


async def test_the_model_is_asked_for_the_others_alone(tmp_path: Path) -> None:
    engine, read = Counting(), []

    async def known() -> ShippedVectors:
        read.append(1)
        return shipped(tmp_path, ["known", "also known"])

    embedder = CachedEmbedder(engine, kind="onnx", cache_size=8, shipped=known)
    await asyncio.gather(embedder.embed(["known"]), embedder.embed(["also known"]))
    assert (engine.asked, read) == ([], [1])
    vectors = await embedder.embed(["new", "known", "newer", "also known"])
    assert engine.asked == ["new", "newer"]
    assert vectors.argmax(axis=1).tolist() == [3, 0, 3, 0]
    assert (await embedder.embed([])).shape[0] == 0


def test_vectors_of_another_model_do_not_count(tmp_path: Path) -> None:
    shipped(tmp_path, ["known"])
    assert ShippedVectors.read("another", tmp_path / "shipped.npz") is None


def test_those_that_come_with_hookgate_are_the_models(minilm: OnnxModel) -> None:
    read = ShippedVectors.read(minilm.fingerprint)
    assert read is not None
    assert len(read) > 1000
    texts = [text for group in examples().values() for text in group][::50]
    vectors, missing = read.find(texts)
    assert missing == []
    own = np.concatenate([minilm.run([minilm.prepare(text)]) for text in texts])
    assert (vectors * own).sum(axis=1).min() > 0.9999


def uneven(fingerprint: str) -> bytes:
    file = BytesIO()
    keys, vectors = np.zeros(2, np.uint64), np.zeros((1, DIMENSION), np.float16)
    np.savez(file, fingerprint=np.array(fingerprint), keys=keys, vectors=vectors)
    return file.getvalue()


DAMAGED = {
    "missing": None,
    "empty": b"",
    "no archive": b"hello" * 100,
    "cut": SHIPPED.read_bytes()[:5000],
    "overwritten": SHIPPED.read_bytes()[:3000] + bytes(200) + SHIPPED.read_bytes()[3200:],
    "uneven": uneven("counting"),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path, how: str) -> None:
    path, held = tmp_path / "shipped.npz", DAMAGED[how]
    if held is not None:
        path.write_bytes(held)
    with np.load(SHIPPED) as whole:
        fingerprint = "counting" if how == "uneven" else str(whole["fingerprint"])
    with pytest.raises(EmbeddingError, match="install hookgate again"):
        ShippedVectors.read(fingerprint, path)


@pytest.mark.slow
async def test_without_the_file_the_model_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Any = ShippedVectors.read
    monkeypatch.setattr(read.__func__, "__defaults__", (tmp_path / "none.npz",))
    config = {"home": tmp_path, "plugins": {"entry_points": False}}
    async with Gateway(Settings.model_validate(config)) as gate:
        vectors = await gate.host[EMBEDDER].embed([next(iter(examples().values()))[0]])
        assert "none.npz" in gate.host.notices["embedder: vectors"]
        assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-3)


async def test_a_fresh_home_embeds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    embed = ThreadEngine.embed

    async def counted(self: ThreadEngine, texts: Sequence[str]) -> Any:
        asked.extend(texts)
        return await embed(self, texts)

    monkeypatch.setattr(ThreadEngine, "embed", counted)
    # On a busy machine the model would be loaded before the vectors have been looked at.
    section = {"embedding": {"load_after_seconds": 3600}}
    config = {"home": tmp_path, "plugins": {"entry_points": False}, "plugin": section}
    async with Gateway(Settings.model_validate(config)) as gate:
        embedder = gate.host[EMBEDDER]
        await until(lambda: "discovery: vectors" not in gate.host.notices)
        assert asked == [], "run `make vectors`"
        assert not embedder.loaded  # type: ignore[attr-defined]
    assert SHIPPED.stat().st_size < 2_000_000
