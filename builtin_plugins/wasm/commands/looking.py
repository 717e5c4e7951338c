"""``hookgate wasm inspect``."""

from __future__ import annotations

from typing import Annotated

import typer

from hookgate.builtin_plugins.wasm.commands.showing import (
    detail_lines,
    folder_of,
    read_folder,
    settings_of,
)
from hookgate.kit.commands import JsonOption, state_of


def inspect(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="PLUGIN", help="A plugin's folder, or the name of one.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what a plugin brings, what it may do, and what that proves about its tools.

    A folder is read without a gateway, and nothing of it runs.

    Example:
        hookgate wasm inspect ./weather
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    folder = folder_of(target)
    if folder is None:
        data = state.ask("wasm.inspect", {"name": target})
    else:
        from hookgate.builtin_plugins.wasm.packages.detail import detail_of

        settings = settings_of(state)
        data = detail_of(read_folder(folder, settings), settings).model_dump(mode="json")

    state.show(data, detail_lines(data))
