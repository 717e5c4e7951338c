"""``hookgate workspace``: what a folder brings, and accepting it. No gateway is needed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate.cli.group import CommandGroup
from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.kit.content.workspaces import Workspaces, WorkspaceStanding

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Workspaces: look at the skills and cards that a folder brings, and accept them.",
)

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="The folder; without it, the one that you stand in."),
]

STATES = {
    "nothing": "brings nothing",
    "accepted": "accepted: what it brings counts, and taints who reads it",
    "new": "not accepted: nothing of it counts",
    "changed": "changed since it was accepted: nothing of it counts",
}


@app.command()
def show(ctx: typer.Context, folder: Folder = None, as_json: JsonOption = False) -> None:
    """Show the skills, manifests and cards that a folder brings, and their digest.

    Example:
        hookgate workspace show
    """
    state = state_of(ctx)
    _told(state, _standing(state, folder))


@app.command()
def accept(
    ctx: typer.Context,
    folder: Folder = None,
    digest: Annotated[
        str | None,
        typer.Option(help="What `show` has said; without it you are asked.", metavar="DIGEST"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let what a folder brings count, as it is now: any change is asked about again.

    Read the files before: their text reaches models. Cards count with `allow_workspace_cards`
    of [plugin.awareness] alone.

    Example:
        hookgate workspace accept
    """
    state = state_of(ctx)
    found = _standing(state, folder)
    if digest is None and found.files:
        for line in _lines(found):
            typer.echo(line, err=True)
        typer.confirm("Have you read these files, and shall they count?", abort=True, err=True)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    _told(state, _workspaces(state).accept(found.workspace, digest or found.digest, at))


@app.command()
def forget(ctx: typer.Context, folder: Folder = None, as_json: JsonOption = False) -> None:
    """Take back that a folder was accepted: nothing of it counts any more.

    Example:
        hookgate workspace forget
    """
    state = state_of(ctx)
    _workspaces(state).forget(folder or Path.cwd())
    _told(state, _standing(state, folder))


def _workspaces(state: State) -> Workspaces:
    from hookgate.kit.content.workspaces import Workspaces

    return Workspaces(state.settings.home.expanduser())


def _standing(state: State, folder: Path | None) -> WorkspaceStanding:
    return _workspaces(state).standing(folder or Path.cwd())


def _told(state: State, found: WorkspaceStanding) -> None:
    from rich.text import Text

    data = {
        "workspace": str(found.workspace),
        "state": found.state,
        "digest": found.digest,
        "files": list(found.files),
    }
    state.show(data, map(Text, _lines(found)))


def _lines(found: WorkspaceStanding) -> list[str]:
    from hookgate.kit.rendering import one_line

    lines = [one_line(f"{found.workspace}: {STATES[found.state]}")]
    lines += [one_line(f"  {name}") for name in found.files]
    return [*lines, f"digest {found.digest}"] if found.files else lines
