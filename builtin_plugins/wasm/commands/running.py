"""``hookgate wasm run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.builtin_plugins.wasm.commands.showing import folder_of, read_folder, settings_of
from hookgate.kit.commands import JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.wasm.packages.folders import Package
    from hookgate.builtin_plugins.wasm.settings import WasmSettings


def run(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="PLUGIN", help="A plugin's folder, or the name of one installed."),
    ],
    tool: Annotated[
        str, typer.Argument(help="One of its tools; of a channel, one of its exports.")
    ],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="The arguments, an object.")
    ] = "{}",
    as_json: JsonOption = False,
) -> None:
    """Run a tool of a plugin once, without a gateway, under its grants and limits.

    No policy is asked and no model: you are. Secrets and the way out are those of the settings;
    what it keeps in its store is forgotten at the end. Exits with 1 where the tool fails.

    Example:
        hookgate wasm run ./echo echo '{"text": "hello"}'
    """
    del as_json  # Read by the state.
    from hookgate.builtin_plugins.wasm.trying import try_out

    state = state_of(ctx)
    settings = settings_of(state)
    package = _package(state, target, settings)
    given = _object(arguments)
    result = state.run(try_out(state.settings, settings, package, tool, given))
    data = {"content": result.text, "is_error": result.is_error, "status": result.status}

    def render(console: Console) -> None:
        from hookgate.kit.rendering import clean

        console.print(
            clean(result.text),
            markup=False,
            soft_wrap=True,
            style="bold red" if result.is_error else None,
        )

    state.show(data, render)
    if result.is_error:
        raise typer.Exit(1)


def _package(state: State, target: str, settings: WasmSettings) -> Package:
    folder = folder_of(target)
    if folder is None:
        verified = state.ask("wasm.verify")["plugins"]
        known = next((row for row in verified if row["name"] == target), None)
        if known is None:
            raise typer.BadParameter(
                f"found neither a plugin's folder {target!r} nor an accepted plugin of that name; "
                "`hookgate wasm list` shows all"
            )
        folder = Path(known["folder"])
    return read_folder(folder, settings)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"found no JSON ({error}), expected an object") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"found {text[:60]!r}, expected an object such as '{{}}'")
    return found
