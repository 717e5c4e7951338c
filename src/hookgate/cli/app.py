"""The command line put together."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from hookgate.cli.group import CommandGroup, guarded, reflowed
from hookgate.cli.plugin_commands import made
from hookgate.cli.state import state_of

TALK = "Talk"
LOOK = "Look"
RUN = "Run"

OWN: Mapping[str, tuple[str, str, str]] = {
    "init": (TALK, "init", "init"),
    "chat": (TALK, "turn", "chat"),
    "turn": (TALK, "turn", "turn"),
    "serve": (RUN, "serve", "serve"),
    "status": (RUN, "gateway", "status"),
    "backup": (RUN, "backup", "backup"),
    "restore": (RUN, "backup", "restore"),
    "route": (LOOK, "gateway", "route"),
    "call": (LOOK, "gateway", "call"),
    "commands": (LOOK, "gateway", "commands"),
    "config": (RUN, "config", "app"),
    "token": (RUN, "tokens", "app"),
    "workspace": (RUN, "workspace", "app"),
    "plugins": (LOOK, "plugins", "app"),
}
"""The commands of the shell itself: where help shows each, the module of `cli.commands` that it is
in, and what it is called there. Who asks for one loads no other."""


class RootGroup(CommandGroup):
    """The first group: what goes wrong below it becomes an exit code, and no stack trace."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called `cmd_name`, or None where there is none."""
        if cmd_name in OWN:
            return self._own(cmd_name)
        found = super().get_command(ctx, cmd_name)
        if found is None:
            # What was meant is looked for among those that are loaded.
            for name in OWN:
                self._own(name)
        return found

    def _own(self, name: str) -> Any:
        if name not in self.commands:
            panel, module, what = OWN[name]
            thing = getattr(import_module(f"hookgate.cli.commands.{module}"), what)
            group = isinstance(thing, typer.Typer)
            command: Any = typer.main.get_group(thing) if group else made(thing, name)
            command.name, command.rich_help_panel = name, panel
            command.help = reflowed(command.help)
            self.commands[name] = command
        return self.commands[name]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, for help and completion."""
        return list(dict.fromkeys([*OWN, *super().list_commands(ctx)]))

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        return guarded(lambda: super(RootGroup, self).invoke(ctx), lambda: state_of(ctx))


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
