from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hookgate.builtin_plugins.embedding.settings import MEANT_FOR, EmbeddingSettings

SERVER = {
    "embedder": "openai",
    "url": "http://127.0.0.1:9/v1/embeddings",
    "model": "m",
    "dimension": 3,
}


def test_the_default_needs_no_settings() -> None:
    assert EmbeddingSettings().embedder == "onnx"
    assert EmbeddingSettings().cache_size == 10_000


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": "http://x/"}, "found `url` with embedder 'onnx'.*expected embedder 'openai'"),
        ({"embedder": "none", "threads": 2}, "expected embedder 'onnx' or 'sentence-tr"),
        ({"embedder": "openai", "model": "m"}, "embedder 'openai' needs `url`, `dimension`"),
        ({**SERVER, "url": "ftp://x/"}, "expected an http or https URL"),
        ({**SERVER, "url": "http://me:key@x/"}, "expected no user"),
        ({**SERVER, "url": "http://x/?key=y"}, "expected no user, query"),
        ({**SERVER, "model_path": "/x"}, "found `model_path` with embedder 'openai'"),
        ({"model_sha256": "0" * 64}, "found `model_sha256` without `model_path`"),
        ({"model_sha256": "xyz"}, "model_sha256"),
        ({"cache_size": 0}, "cache_size"),
        ({"nosuch": 1}, "nosuch"),
    ],
)
def test_what_does_not_fit_together_is_said(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EmbeddingSettings.model_validate(values)


def test_every_key_of_one_embedder_is_a_key() -> None:
    assert set(MEANT_FOR) <= set(EmbeddingSettings.model_fields)
