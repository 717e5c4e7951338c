"""Tests are collected whichever of their folders are named, in whatever order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.shares import shares

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


@pytest.mark.parametrize("named", [["tests"], ["tests/kit", "tests/test_face.py::test_one"]])
@pytest.mark.parametrize("count", [2, 4])
def test_every_file_is_in_one_share(count: int, named: list[str]) -> None:
    whole = {path for path in HERE.rglob("test_*.py") if named == ["tests"] or "kit" in path.parts}
    whole.add(HERE / "test_face.py")

    found = shares(HERE.parent, named, count)

    assert len(found) == count
    assert sorted(path for share in found for path in share) == sorted(whole)
