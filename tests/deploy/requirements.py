"""Write deploy/requirements*.txt anew: ``make requirements``.

The versions are those of constraints.txt, and each file of a version stands there by its hash, for
every platform, so that pip takes what was looked at and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ROOT / "deploy" / "requirements.txt"
BUILD = ROOT / "deploy" / "requirements-build.txt"
EXTRAS = ("postgres", "wasm")
"""What a gateway that is deployed has beside what it needs."""

HEAD = """\
# {what}: the versions of constraints.txt, by hash. `make requirements` writes it.
# Wheels alone: what has none for this machine fails, and is not compiled.
--only-binary :all:
"""


def compiled(source: str, *options: str) -> str:
    """Return what `uv pip compile` makes of `source`, a file or ``-`` with pip's requirements."""
    command = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet"]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--constraint", "constraints.txt", "--no-header", "--no-annotate"]
    command += ["--no-config", *options, "-" if source.startswith("hatchling") else source]
    done = subprocess.run(
        command, input=source, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def main() -> None:
    """Write both files."""
    extras = [word for name in EXTRAS for word in ("--extra", name)]
    what = "What a gateway is installed with"
    RUN.write_text(HEAD.format(what=what) + compiled("pyproject.toml", *extras))
    what = "What builds hookgate's own wheel"
    BUILD.write_text(HEAD.format(what=what) + compiled("hatchling"))


if __name__ == "__main__":
    main()
