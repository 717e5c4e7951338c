"""A folder to begin a guest with: its manifest, its source, and its own copy of the kit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from hookgate import StartError
from hookgate.builtin_plugins.wasm.kits import Language
from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST, NAME


@dataclass(frozen=True)
class _Kit:
    """What one language brings.

    Attributes:
        title: The language's name.
        source: The file that an author edits.
        build: The line that builds the module.
        tools: What that needs.
        templates: The templates, by the path that each is written to.
        copies: What is copied as it stands, by path: below the plugin's own folder.
    """

    title: str
    source: str
    build: str
    tools: str
    templates: Mapping[str, str]
    copies: Mapping[str, str] = field(default_factory=dict)


_KITS: Final = {
    Language.C: _Kit(
        title="C",
        source="plugin.c",
        build="python-zig cc --target=wasm32-freestanding -std=c11 -Oz -Wall -Wextra "
        "-Wno-unused-function -ffreestanding -fno-builtin -nostdlib -Wl,--no-entry "
        "-Wl,--strip-all -Wl,-z,stack-size=65536 -o plugin.wasm plugin.c",
        tools="`pip install ziglang` brings the compiler. clang with `wasm-ld` takes the same "
        "line, with `clang --target=wasm32` as its beginning.",
        templates={"plugin.c": "c/plugin.c.tmpl"},
        copies={"hookgate.h": "kits/c/hookgate.h"},
    ),
    Language.RUST: _Kit(
        title="Rust",
        source="src/lib.rs",
        build="cargo rustc --release --target wasm32-unknown-unknown -- --emit=link=plugin.wasm",
        tools="`rustup target add wasm32-unknown-unknown` brings what Rust needs for it.",
        templates={"src/lib.rs": "rust/lib.rs.tmpl", "Cargo.toml": "rust/Cargo.toml.tmpl"},
        copies={"src/hookgate.rs": "kits/rust/hookgate.rs"},
    ),
    Language.ASSEMBLYSCRIPT: _Kit(
        title="AssemblyScript",
        source="plugin.ts",
        build="asc plugin.ts --outFile plugin.wasm --runtime stub --optimizeLevel 3 "
        "--shrinkLevel 2 --noAssert --use abort=",
        tools="`npm install --global assemblyscript` brings the compiler.",
        templates={"plugin.ts": "assemblyscript/plugin.ts.tmpl"},
        copies={"hookgate.ts": "kits/assemblyscript/hookgate.ts"},
    ),
    Language.PYTHON: _Kit(
        title="Python",
        source="plugin.py",
        build="componentize-py -d wit -w tool componentize --stub-wasi -o plugin.wasm plugin",
        tools="`pip install componentize-py` brings the tool. The module holds all of CPython, "
        "18 MB: compiling it takes a core 20 seconds, once, and a call about a millisecond.",
        templates={"plugin.py": "python/plugin.py.tmpl"},
        copies={"wit/plugin.wit": "wit/plugin.wit"},
    ),
}
_COMMON: Final = {
    MANIFEST: f"common/{MANIFEST}.tmpl",
    "README.md": "common/README.md.tmpl",
}


def create(name: str, target: Path, language: Language) -> list[Path]:
    """Write the folder of a guest that says hello.

    Args:
        name: The plugin's name.
        target: A folder that is not there yet, or is empty.
        language: What it is written in.

    Returns:
        The files that were written.

    Raises:
        StartError: The name cannot be a plugin's, or the folder cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartError(
            f"{target} is there and not an empty folder, and nothing is overwritten: name "
            "another folder"
        )
    if re.fullmatch(NAME, name) is None:
        raise StartError(
            f"found the name {name!r}, expected up to 64 small letters, digits, `-` and `_` that "
            "begin with a letter, such as acme-text"
        )
    try:
        texts = _texts(name, _KITS[language])
        return [_write(target / path, text) for path, text in texts.items()]
    except OSError as error:
        raise StartError(f"{target} cannot be written: {error.strerror or error}") from error


def _texts(name: str, kit: _Kit) -> dict[str, str]:
    """Return what is to be written, by its path."""
    plugin = files("hookgate.builtin_plugins.wasm")
    words = {
        "name": name,
        "tool": name.replace("-", "_"),
        "language": kit.title,
        "source": kit.source,
        "build": kit.build,
        "tools": kit.tools,
    }
    made = {path: (plugin / one).read_text(encoding="utf-8") for path, one in kit.copies.items()}
    for path, one in {**_COMMON, **kit.templates}.items():
        text = (plugin / "kits" / "templates" / one).read_text(encoding="utf-8")
        made[path] = Template(text).substitute(words)
    return made


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as opened:
        opened.write(text)
    return path
