"""Install the pinned clients: ``python -m tests.clients.install [--short]``; a minute, once.

Python's stand in an environment of their own, ``.venv/clients/venv``, and npm's beside it: none of
them is anything that hookgate or its other tests see.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".venv" / "clients"
PYTHON = FOLDER / "venv" / "bin" / "python"
NODE = FOLDER / "node_modules"
BUILT = ("@anthropic-ai/claude-code", "node")
"""Packages of npm that fetch nothing when they are set up, and do not run without that."""

SHORT = ("openai", "anthropic")
"""What the short form of the tests needs."""


def pins() -> dict[str, dict[str, str]]:
    """Return the versions by name, of each registry."""
    return tomllib.loads((HERE / "pins.toml").read_text(encoding="utf-8"))


def main() -> None:
    """Install them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pinned = pins()
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / "venv")], check=True)
    short = "--short" in sys.argv[1:]
    names = SHORT if short else pinned["pypi"]
    wanted = [f"{name}=={pinned['pypi'][name]}" for name in names]
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)
    if short:
        return
    if shutil.which("npm") is None:
        print("NO npm: clients that run on node are NOT tested", file=sys.stderr)
        return
    package = {
        "private": True,
        "type": "module",
        "dependencies": pinned["npm"],
        "allowScripts": dict.fromkeys(BUILT, True),
    }
    (FOLDER / "package.json").write_text(json.dumps(package), encoding="utf-8")
    quiet = ["--silent", "--no-audit", "--no-fund", "--prefix", str(FOLDER)]
    subprocess.run(["npm", "install", "--ignore-scripts", *quiet], check=True)
    subprocess.run(["npm", "rebuild", *quiet, *BUILT], check=True)


if __name__ == "__main__":
    main()
