"""``hookgate wasm list``, ``inspect`` and ``verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.builtin_plugins.wasm.commands.showing import (
    detail_lines,
    folder_of,
    read_folder,
    settings_of,
)
from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "running": "green",
    "loading": "yellow",
    "new": "yellow",
    "changed": "bold red",
    "hidden": "yellow",
}


def list_plugins(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the plugins of the sandbox, and why one does not run.

    Example:
        hookgate wasm list
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    data = state.ask("wasm.list")

    def render(console: Console) -> None:
        from rich.text import Text

        from hookgate.kit.rendering import one_line, table

        rows = data["plugins"]
        if not rows:
            console.print("no plugin: `hookgate wasm install FOLDER` installs one", style="dim")
            return
        console.print(
            table(
                [
                    {
                        "plugin": Text(one_line(row["name"]), style="bold"),
                        "version": row["version"],
                        "brings": ", ".join(row["tools"]) or row["kind"],
                        "state": Text(row["state"], style=STYLES.get(row["state"], "bold red")),
                        "grants": Text("\n".join(map(one_line, row["grants"]))),
                    }
                    for row in rows
                ]
            )
        )
        for row in rows:
            if row["why"]:
                console.print(
                    Text(f"{one_line(row['name'])}: {one_line(row['why'])}", style="yellow"),
                    soft_wrap=True,
                )

    state.show(data, render)


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
        from hookgate.builtin_plugins.wasm.showing import detail_of

        settings = settings_of(state)
        data = detail_of(read_folder(folder, settings), settings).model_dump(mode="json")

    def render(console: Console) -> None:
        for line in detail_lines(data):
            console.print(line, markup=False, soft_wrap=True)

    state.show(data, render)


def verify(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Hold what was accepted against what lies in the folders now, byte by byte.

    Exits with 1 where a plugin is not what was accepted.

    Example:
        hookgate wasm verify
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    data: dict[str, Any] = state.ask("wasm.verify")

    def render(console: Console) -> None:
        from hookgate.kit.rendering import one_line

        for row in data["plugins"]:
            told = "intact" if row["intact"] else f"not what was accepted: {one_line(row['why'])}"
            console.print(f"{one_line(row['name'])}: {told}", markup=False, soft_wrap=True)
        if not data["plugins"]:
            console.print("no plugin was accepted", style="dim")

    state.show(data, render)
    if not data["intact"]:
        raise typer.Exit(1)
