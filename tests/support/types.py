"""mypy with the options of `make types`, whose cache it reads and fills."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def checked(files: Iterable[Path]) -> subprocess.CompletedProcess[str]:
    """Check the types of these files.

    Other options would have mypy look through all of hookgate anew, which takes fifteen times as
    long, and again behind it for whoever comes with those of `make types`.
    """
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *map(str, files)],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
