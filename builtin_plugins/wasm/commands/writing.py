"""``hookgate wasm new``: a folder to begin a guest with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate.builtin_plugins.wasm.kits import Language
from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console


def new(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The plugin's name, such as acme-text.", show_default=False)
    ],
    lang: Annotated[
        Language, typer.Option("--lang", help="What it is written in.", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where to write it; a folder of its name where that is left out.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a plugin for the sandbox: manifest, source and kit. Nothing is overwritten.

    Example:
        hookgate wasm new acme-text --lang rust
    """
    from hookgate.builtin_plugins.wasm.kits.scaffold import create

    del as_json  # Read by the state.
    target = folder or Path(name)
    written = create(name, target, lang)

    def render(console: Console) -> None:
        for path in written:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)
        console.print(f"next: build it, as {target / 'README.md'} says", markup=False)

    data = {"plugin": name, "folder": str(target), "files": [str(path) for path in written]}
    state_of(ctx).show(data, render)
