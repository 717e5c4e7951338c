"""The runtime of the model reports to nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

OnnxModel(find_files(EmbeddingSettings()), threads=1, max_tokens=16).load()
"""


@pytest.mark.slow
def test_loading_the_model_leaves_no_trace_of_this_machine(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []
