"""The settings of the embedder: ``[plugin.embedding]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from hookgate import Section
from hookgate.kit.url_grants import service_url

EmbedderName: TypeAlias = Literal["onnx", "sentence-transformers", "openai", "none"]

MEANT_FOR: dict[str, tuple[EmbedderName, ...]] = {
    "model_path": ("onnx",),
    "model_sha256": ("onnx",),
    "model": ("sentence-transformers", "openai"),
    "device": ("sentence-transformers",),
    "allow_download": ("sentence-transformers",),
    "url": ("openai",),
    "api_key_env": ("openai",),
    "batch_texts": ("openai",),
    "timeout_seconds": ("openai",),
    "threads": ("onnx", "sentence-transformers"),
    "max_tokens": ("onnx", "sentence-transformers"),
    "load_after_seconds": ("onnx", "sentence-transformers"),
}
"""Key -> the embedders that look at it. All others look at every key."""


def _url(text: str) -> str:
    example, secret = "http://127.0.0.1:8080/v1/embeddings", "`api_key_env` names the key"
    return str(service_url(text, example=example, secret=secret))


class EmbeddingSettings(Section):
    """``[plugin.embedding]``: which model turns texts into vectors, and how."""

    embedder: EmbedderName = "onnx"
    """`onnx` runs the installed MiniLM, `sentence-transformers` any model of that library,
    `openai` asks an OpenAI-compatible server, and `none` does without vectors."""
    on_missing: Literal["lexical", "refuse"] = "lexical"
    """What a start does when the model is missing or damaged: run on with search by words
    alone, and say so in `status`, or stop."""
    cache_size: int = Field(default=10_000, ge=1, le=10_000_000)
    """Queries whose vectors are kept, the latest used; 10,000 take about 20 MB."""
    load_after_seconds: float = Field(default=1.0, ge=0, le=86_400)
    """Seconds after the start at which a local model is loaded, beside the turns, unless a query
    asks for it before; what is embedded in bulk waits for it."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of the computation. More than one make a query quicker on an idle machine, and
    slower on a busy one."""
    max_tokens: int = Field(default=256, ge=8, le=8192)
    """The tokens of a text that a local model reads; the rest is cut."""
    model_path: Path | None = None
    """For `onnx`: a folder with `model.onnx` and `tokenizer.json`, in place of the installed
    model."""
    model_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """For `onnx`: the SHA-256 that this `model.onnx` must have, in hex."""
    model: str | None = Field(default=None, min_length=1)
    """For `sentence-transformers`: the name of a model or an absolute path; the installed
    MiniLM where this is not set. For `openai`: the model's name on the server."""
    device: str = "cpu"
    """For `sentence-transformers`: where it computes, such as `cpu` or `cuda`."""
    allow_download: bool = False
    """For `sentence-transformers`: whether a model that is not on this machine is fetched."""
    dimension: int | None = Field(default=None, ge=1, le=65_536)
    """The length of a vector, where the model is not an installed one and its folder does not
    tell."""
    url: Annotated[str, AfterValidator(_url)] | None = None
    """For `openai`: the whole address, such as `https://api.openai.com/v1/embeddings`."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """For `openai`: the name of the secret that holds the key: an environment variable, or a
    file in `keys`. Without it no key is sent."""
    batch_texts: int = Field(default=64, ge=1, le=2048)
    """For `openai`: the most texts of one request."""
    timeout_seconds: float = Field(default=30.0, gt=0, le=3600)
    """For `openai`: the limit for one request."""

    @model_validator(mode="after")
    def _fits_the_embedder(self) -> EmbeddingSettings:
        for key in sorted(self.model_fields_set):
            meant = MEANT_FOR.get(key)
            if meant is not None and self.embedder not in meant:
                raise ValueError(
                    f"found `{key}` with embedder {self.embedder!r}, which does not look at it: "
                    f"expected embedder {' or '.join(map(repr, meant))}"
                )
        if self.embedder == "openai":
            missing = [key for key in ("url", "model", "dimension") if getattr(self, key) is None]
            if missing:
                raise ValueError(
                    f"embedder 'openai' needs {', '.join(f'`{key}`' for key in missing)}"
                )
        if self.model_sha256 is not None and self.model_path is None:
            raise ValueError(
                "found `model_sha256` without `model_path`: the installed model's is known"
            )
        return self
