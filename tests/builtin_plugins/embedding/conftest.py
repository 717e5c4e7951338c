from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files
from hookgate.builtin_plugins.embedding.service import TextReading
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.worker import PreparedText

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture(scope="session")
def minilm() -> OnnxModel:
    """The installed model, loaded once."""
    model = OnnxModel(find_files(EmbeddingSettings()))
    model.load()
    return model


class FakeModel:
    """A `LocalModel` whose vector tells the length of the text, and that notes each call."""

    dimension = 3
    fingerprint = "fake:1"
    tells_tokens = False

    def __init__(self, *, broken: str = "") -> None:
        self.broken = broken
        self.loads = self.rests = 0
        self.batches: list[list[str]] = []
        self.threads: set[str] = set()
        self.started = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.failing = False

    def load(self) -> None:
        self.loads += 1
        if self.broken:
            raise EmbeddingError(self.broken)

    def prepare(self, text: str) -> PreparedText:
        self.threads.add(threading.current_thread().name)
        return PreparedText(len(text), text)

    def run(self, batch: Sequence[PreparedText]) -> Any:
        self.threads.add(threading.current_thread().name)
        self.batches.append([one.data for one in batch])
        self.started.set()
        assert self.gate.wait(20)
        if self.failing:
            raise MemoryError("no room")
        return np.array([[one.tokens, 1, 0] for one in batch], dtype=np.float32)

    def rest(self) -> None:
        self.rests += 1

    def read(self, text: str) -> TextReading:
        return TextReading(self.run([self.prepare(text)])[0])


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel()
