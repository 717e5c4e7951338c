"""``hookgate wasm install``, ``accept`` and ``remove``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.builtin_plugins.wasm.commands.showing import (
    detail_lines,
    folder_of,
    read_folder,
    settings_of,
)
from hookgate.kit.commands import JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Accept what is shown without being asked.")
]


def install(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="The plugin's folder.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a plugin into the home folder and let it run, once you have seen what it may do.

    Installing one of the same name takes its place. What counts is the copy: what changes in the
    folder afterwards changes nothing.

    Example:
        hookgate wasm install ./weather
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    place = folder_of(folder)
    if place is None:
        from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST

        raise typer.BadParameter(
            f"found no folder {folder!r} with {MANIFEST}, expected a plugin's folder"
        )
    from hookgate.builtin_plugins.wasm.packages.detail import detail_of

    settings = settings_of(state)
    detail = detail_of(read_folder(place, settings), settings).model_dump(mode="json")
    _ask(detail, yes=yes)
    params = {"folder": str(place), "digest": detail["digest"]}
    _tell(state, state.ask("wasm.install", params), "installed")


def accept(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The plugin's name.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accept a plugin that is new or has changed, once you have seen what it may do.

    Example:
        hookgate wasm accept weather
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    detail = state.ask("wasm.inspect", {"name": name})
    _ask(detail, yes=yes)
    params = {"name": name, "digest": detail["digest"]}
    _tell(state, state.ask("wasm.accept", params), "accepted")


def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The plugin's name.")],
    values: Annotated[
        bool, typer.Option("--values", help="Delete all that it has kept in the store as well.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Forget what was accepted of a plugin, and delete its copy.

    One that lies in a folder of the settings is new then. What it has kept stays, for when it
    comes back, unless --values says otherwise.

    Example:
        hookgate wasm remove weather
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    data = state.ask("wasm.remove", {"name": name, "values": values})

    def render(console: Console) -> None:
        told = f"removed {name}" if data["removed"] else f"nothing was accepted as {name}"
        deleted = f", and {data['values']:,} of its values" if values else ""
        console.print(told + deleted, markup=False)

    state.show(data, render)
    if not (data["removed"] or data["values"]):
        raise typer.Exit(1)


def _ask(detail: Mapping[str, Any], *, yes: bool) -> None:
    """Show what somebody is about to accept, and ask."""
    for line in detail_lines(detail):
        typer.echo(line, err=True)
    if not yes:
        typer.confirm("May it do that?", abort=True, err=True)


def _tell(state: State, data: Mapping[str, Any], done: str) -> None:
    def render(console: Console) -> None:
        from hookgate.kit.rendering import one_line

        console.print(f"{done} {one_line(data['name'])} {one_line(data['version'])}", markup=False)
        if data["why"]:
            told = "not yet" if data["state"] == "loading" else "it does not run"
            console.print(f"{told}: {one_line(data['why'])}", markup=False, soft_wrap=True)

    state.show(data, render)
    if data["state"] not in ("running", "loading"):
        raise typer.Exit(1)
