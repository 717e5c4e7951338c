"""How many modules a process loads until it is of use, beside those of Python alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.weight.gateway import ROOT

LOADED = "import time:"
"""Begins what ``python -X importtime`` says of a module."""
READY = '"event":"listening"'


def figures() -> Iterator[tuple[str, int]]:
    """Yield the modules that each way to start loads."""
    alone = loaded("-c", "pass")
    for name, arguments in (
        ("import hookgate", ("-c", "import hookgate")),
        ("import Gateway", ("-c", "from hookgate import Gateway")),
        ("--help", ("-m", "hookgate", "--help")),
        ("serve", ("-m", "hookgate", "serve", "--port", "0")),
    ):
        yield name, loaded(*arguments) - alone


def loaded(*arguments: str) -> int:
    """Return how many modules a process has loaded at its end, or when it listens.

    Raises:
        SystemExit: It went wrong.
    """
    with tempfile.TemporaryDirectory() as home:
        # An embedder is loaded beside the start, so how much of it is there is chance.
        environment = {
            **{name: value for name, value in os.environ.items() if "HOOKGATE" not in name},
            "HOOKGATE_HOME": home,
            "HOOKGATE_PLUGIN__EMBEDDING__EMBEDDER": "none",
        }
        found = 0
        with subprocess.Popen(
            [sys.executable, "-X", "importtime", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if READY in line:
                    process.kill()
                    return found
                found += line.startswith(LOADED)
        if process.returncode:
            raise SystemExit(f"`{' '.join(arguments)}` ended with {process.returncode}")
        return found
