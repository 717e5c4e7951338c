"""The models side by side: `make test-models` runs these, with torch."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.onnx import OnnxModel
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.transformer import (
    WEIGHTS_SHA256,
    TransformerModel,
    find_transformer,
)
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.ports import EMBEDDER

pytestmark = [
    pytest.mark.models,
    pytest.mark.timeout(300),
    # The libraries' own, on import; none of them is about their use here.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.skipif(
        find_spec("torch") is None and "HF_HUB_OFFLINE" not in os.environ,
        reason="needs the extra `sentence-transformers`: run `make test-models`",
    ),
]

TEXTS = [
    "cat",
    "kitten",
    "Send an e-mail to the finance team about the late invoice",
    "What is the weather like in Oslo tomorrow?",
    "tool: http_get. Fetch a web page as text. Category: web. Parameters: url",
    "skill: incident-response. Use cases: on-call, outage, postmortem",
    "restart the payments service after a deployment, but not before 6 pm",
    "How do I rotate an API key without downtime?",
    "SELECT name FROM users WHERE id = 7",
    "def add(a, b):\n    return a + b",
    "Ein kleiner Hund läuft über die Straße.",
    "El gato duerme en el sofá.",
    "東京の天気はどうですか",
    "Какая завтра погода?",
    "naïve café résumé",
    "12.5 % of 40 €",
    "a",
    "the the the the the",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "https://example.com/path?query=value#fragment",
    "Error: connection refused (ECONNREFUSED 127.0.0.1:5432)",
    '{"name": "clock", "parameters": {"timezone": "string"}}',
    "Cancel my subscription and refund the last payment, please.",
    "The mitochondrion is the powerhouse of the cell.",
    "🚀 shipped it 🎉",
    "MixedCASE and UPPER CASE",
    "   leading and trailing   ",
    "tabs\tand\nnew\nlines",
    "The quarterly report names three risks, and none of them is new. " * 5,
    "word " * 254,
    "A text that is longer than what the model reads is cut at the same place. " * 60,
]

WORDLESS = ["", "!!! ??? ..."]


@pytest.fixture(scope="module")
def torch_model() -> TransformerModel:
    model = find_transformer(EmbeddingSettings(embedder="sentence-transformers"))
    model.load()
    return model


def vectors(model: Any, texts: list[str]) -> np.ndarray:
    return np.concatenate([model.run([model.prepare(text)]) for text in texts])


def test_onnx_and_torch_give_the_same_vectors(
    minilm: OnnxModel, torch_model: TransformerModel
) -> None:
    alike = np.sum(vectors(minilm, TEXTS) * vectors(torch_model, TEXTS), axis=1)
    lowest = min(zip(alike.tolist(), TEXTS, strict=True))

    # The one's weights are rounded to 8 bits. A whole text's vector hardly shows it.
    print(f"cosine of both: mean {alike.mean():.5f}, lowest {lowest[0]:.5f} ({lowest[1]!r:.40})")
    assert alike.min() >= 0.999, lowest
    assert alike.mean() >= 0.9993


def test_texts_without_a_word_differ_a_little_more(
    minilm: OnnxModel, torch_model: TransformerModel
) -> None:
    alike = np.sum(vectors(minilm, WORDLESS) * vectors(torch_model, WORDLESS), axis=1)

    assert alike.min() >= 0.99


def test_onnx_and_torch_order_texts_alike(minilm: OnnxModel, torch_model: TransformerModel) -> None:
    one, other = vectors(minilm, TEXTS), vectors(torch_model, TEXTS)

    assert np.abs(one @ one.T - other @ other.T).max() < 0.03


def test_torch_computes_a_text_alone_as_in_a_batch(torch_model: TransformerModel) -> None:
    together = torch_model.run([torch_model.prepare(text) for text in TEXTS])

    assert np.abs(together - vectors(torch_model, TEXTS)).max() < 1e-3


def test_torch_gets_one_thread(torch_model: TransformerModel) -> None:
    import torch

    assert torch.get_num_threads() == 1


async def test_a_gateway_embeds_with_sentence_transformers(tmp_path: Path) -> None:
    section = {"embedder": "sentence-transformers", "max_tokens": 64}
    settings = {"home": tmp_path, "plugins": {"entry_points": False}}
    async with Gateway(
        Settings.model_validate({**settings, "plugin": {"embedding": section}}),
        builtin=("embedding", "providers"),
    ) as gate:
        embedder = gate.host[EMBEDDER]
        assert embedder.dimension == 384
        assert embedder.fingerprint == (
            f"sentence-transformers:all-MiniLM-L6-v2:{WEIGHTS_SHA256[:12]}:64"
        )
        cat, kitten = await embedder.embed(["cat", "kitten"])
        tax = await embedder.embed_query("tax")
        assert gate.host.degraded == {}

    assert cat @ kitten > cat @ tax


def test_a_model_in_a_folder_is_used_by_its_path(torch_model: TransformerModel) -> None:
    folder = torch_model._source
    model = find_transformer(EmbeddingSettings(embedder="sentence-transformers", model=folder))
    model.load()

    assert model.dimension == 384
    assert model.fingerprint != torch_model.fingerprint
    assert np.array_equal(vectors(model, ["cat"]), vectors(torch_model, ["cat"]))


def test_a_model_of_another_dimension_is_refused(torch_model: TransformerModel) -> None:
    wrong = EmbeddingSettings(
        embedder="sentence-transformers", model=torch_model._source, dimension=5
    )
    with pytest.raises(EmbeddingError, match="vectors of 384 numbers, expected 5"):
        find_transformer(wrong).load()


def test_a_name_that_is_not_on_this_machine_is_not_downloaded() -> None:
    settings = EmbeddingSettings(
        embedder="sentence-transformers", model="nobody/no-such-model", dimension=3
    )
    model = find_transformer(settings)
    assert model.dimension == 3

    with pytest.raises(OSError):
        model.load()


def test_a_name_needs_a_dimension_and_a_path_a_folder() -> None:
    named = EmbeddingSettings(embedder="sentence-transformers", model="nobody/no-such-model")
    with pytest.raises(EmbeddingError, match="set `dimension`"):
        find_transformer(named)

    absent = EmbeddingSettings(embedder="sentence-transformers", model="/no/such/folder")
    with pytest.raises(EmbeddingError, match="expected a folder there"):
        find_transformer(absent)
