"""Files of capabilities for the tests: written in one line each."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

MANIFEST = """\
name: {name}
kind: {kind}
description: Does {name}.
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def manifest(folder: Path, more: str = "", *, kind: str = "skill", **files: str) -> Path:
    """Write a manifest of the folder's name, and files beside it: ``SKILL_md="..."``."""
    for name, text in files.items():
        write(folder / name.replace("_", "."), text)
    head = MANIFEST.format(name=folder.name, kind=kind)
    return write(folder / "CAPABILITY.yaml", head + dedent(more))


def skill(folder: Path, more: str = "", body: str = "Do it.") -> Path:
    head = f"---\nname: {folder.name}\ndescription: Does {folder.name}.\n{dedent(more)}---\n"
    return write(folder / "SKILL.md", head + body)


def problems(reading: Any) -> list[str]:
    return [str(problem) for problem in reading.problems]
