"""Tests are collected whichever of their folders are named, in whatever order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_folders_are_collected_in_any_order() -> None:
    folders = sorted({path.parent for path in HERE.rglob("test_*.py")} - {HERE}, reverse=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-n", "0", *map(str, folders)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
