"""Scaffolds: new files from a folder of templates; nothing is overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import NoReturn

from hookgate.kit.content.problems import ContentError, Problem

__all__ = ["filled", "quoted", "scaffold"]

SUFFIX = ".tmpl"

_YAML_WORDS = {"true", "false", "null"}


def filled(folder: Traversable, words: Mapping[str, str]) -> dict[str, str]:
    """Return the files that a folder of templates makes: their texts by path.

    A template ends in ``.tmpl``. Its path and its text may hold ``$word``, and ``dot_`` begins the
    name of what is hidden.
    """
    made = {}
    for path, template in _templates(folder):
        shown = re.sub(r"(?<![^/])dot_", ".", path.removesuffix(SUFFIX))
        text = template.read_text(encoding="utf-8")
        made[Template(shown).substitute(words)] = Template(text).substitute(words)
    return made


def _templates(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _templates(one, f"{above}{one.name}/")
        elif one.name.endswith(SUFFIX):
            yield above + one.name, one


def scaffold(
    target: Path, texts: Mapping[str, str], *, fresh: bool = True, private: bool = False
) -> list[Path]:
    """Write new files, and return them.

    Args:
        target: The folder that they are written to; it is made where it is missing.
        texts: Their texts, by path below `target`.
        fresh: Whether `target` must be empty, where it is there.
        private: Whether nobody else may read them.

    Raises:
        ContentError: Something is there already, or the folder cannot be written.
    """
    written: list[Path] = []
    path = target
    try:
        if fresh and os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
            _refuse(target, "a file or folder already", "another name, or an empty folder")
        target.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        for name, text in texts.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o600 if private else 0o666
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.write(text)
            written.append(path)
    except OSError as error:
        if isinstance(error, FileExistsError) and path != target and os.path.lexists(path):
            _refuse(path, "a file of this name already", "another name, or remove what is there")
        why, expected = (error.strerror or "an error").lower(), "a folder that can be written"
        raise ContentError(Problem(file=str(path), found=why, expected=expected)) from None
    return written


def _refuse(path: Path, found: str, expected: str) -> NoReturn:
    expected += ": nothing is overwritten"
    raise ContentError(Problem(file=str(path), found=found, expected=expected)) from None


def quoted(text: str) -> str:
    """Return a text as YAML takes it for a string: 123 and true would be something else."""
    return text if text[:1].isalpha() and text.casefold() not in _YAML_WORDS else f'"{text}"'
