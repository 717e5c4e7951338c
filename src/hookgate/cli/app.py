"""The command line put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookgate.cli.commands import config, gateway, plugins, tokens, workspace
from hookgate.cli.commands.backup import backup, restore
from hookgate.cli.commands.init import init
from hookgate.cli.commands.serve import serve
from hookgate.cli.commands.turn import chat, turn
from hookgate.cli.group import RootGroup

TALK = "Talk"
LOOK = "Look"
RUN = "Run"

app = typer.Typer(
    cls=RootGroup,
    name="hookgate",
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A traceback with the values of variables could show a secret.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Plugins bring more commands: `hookgate commands` lists them.",
)


def _version(value: bool) -> None:
    if value:
        from hookgate import __version__

        typer.echo(f"hookgate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The settings file.", metavar="FILE"),
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin", "-p", help="`-p no:NAME` switches a plugin off.", metavar="no:NAME"
        ),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Work in this process; leave a running gateway alone.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """A gateway between people and language models in which every feature is a plugin.

    Commands ask the gateway that runs in the same home folder; where none runs, they work in
    this process. It needs no settings to begin with: try `hookgate chat`; `hookgate init` sets up
    a model of yours.
    """


app.command(rich_help_panel=TALK)(init)
app.command(rich_help_panel=TALK)(chat)
app.command(rich_help_panel=TALK)(turn)
app.command(rich_help_panel=RUN)(serve)
app.command(rich_help_panel=RUN)(gateway.status)
app.add_typer(config.app, name="config", rich_help_panel=RUN)
app.add_typer(tokens.app, name="token", rich_help_panel=RUN)
app.add_typer(workspace.app, name="workspace", rich_help_panel=RUN)
app.command(rich_help_panel=RUN)(backup)
app.command(rich_help_panel=RUN)(restore)
app.add_typer(plugins.app, name="plugins", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK)(gateway.route)
app.command(rich_help_panel=LOOK)(gateway.call)
app.command(rich_help_panel=LOOK)(gateway.commands)
