"""A folder to begin a guest with: its manifest, its source, and its own copy of the kit."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

from hookgate import StartError
from hookgate.builtin_plugins.wasm.kits import Kind, Language
from hookgate.builtin_plugins.wasm.packages.manifest import NAME
from hookgate.kit.content.scaffold import filled, scaffold


def create(name: str, target: Path, language: Language, kind: Kind = Kind.TOOL) -> list[Path]:
    """Write the folder of a guest that says hello, or of a channel that translates.

    Args:
        name: The plugin's name.
        target: A folder that is not there yet, or is empty.
        language: What it is written in.
        kind: What it brings.

    Returns:
        The files that were written.

    Raises:
        StartError: The name cannot be a plugin's, or there is no channel in that language to
            begin with.
        ContentError: The folder cannot be written, or is not empty.
    """
    if re.fullmatch(NAME, name) is None:
        raise StartError(
            f"found the name {name!r}, expected up to 64 small letters, digits, `-` and `_` that "
            "begin with a letter, such as acme-text"
        )
    plugin = files("hookgate.builtin_plugins.wasm")
    kit = tomllib.loads((plugin / "kits" / "kits.toml").read_text("utf-8"))[language]
    copies = {path: (plugin / one).read_text("utf-8") for path, one in kit.pop("copies").items()}
    words = {"name": name, "tool": name.replace("-", "_"), "language": kit.pop("title"), **kit}
    templates = plugin / "kits" / "templates"
    if kind is Kind.CHANNEL:
        templates = templates / "channel"
        words["build"] = words["build"].replace("-w tool", "-w channel")
        if not (templates / language).is_dir():
            raise StartError(
                f"found {language.value!r}, expected rust or python: there is a channel to begin "
                "with in these two, and any language can be one (docs/wasm-guests.md)"
            )
    own = filled(templates / "common", words) | filled(templates / language, words)
    return scaffold(target, copies | own)
