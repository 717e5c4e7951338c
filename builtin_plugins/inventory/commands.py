"""``hookgate inventory install``: a capability from what stands in a file or on the line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookgate.kit.commands import JsonOption, state_of


def install(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="NAME", help="What it will be called.")],
    kind: Annotated[str, typer.Option("--kind", help="skill, tool or connector.")] = "skill",
    agent: Annotated[str, typer.Option("--agent", help="For this agent alone.")] = "",
    via: Annotated[str, typer.Option("--via", help="The source that installs it.")] = "native",
    description: Annotated[str, typer.Option("--description", help="What it does.")] = "",
    content: Annotated[str, typer.Option("--content", help="The text of a skill.")] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="A file with the text of a skill.", exists=True, dir_okay=False
        ),
    ] = None,
    command: Annotated[str, typer.Option("--command", help="Starts a connector.")] = "",
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="An argument of the command; may be repeated.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=VALUE for the command; may be repeated.")
    ] = None,
    url: Annotated[str, typer.Option("--url", help="The address of a connector.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Install a capability, once it has passed the sanitizers and the scan.

    Example:
        hookgate inventory install tea --file SKILL.md --agent ada
    """
    if file is not None:
        content = file.read_text(encoding="utf-8")
    variables = dict(_variable(one) for one in env or ())
    texts = {
        "agent": agent,
        "via": via,
        "description": description,
        "content": content,
        "command": command,
        "url": url,
    }
    params = {"key": key, "kind": kind, **texts, "args": list(arg or ()), "env": variables}
    state = state_of(ctx)
    found = state.ask("inventory.install", params)
    from hookgate.builtin_plugins.inventory.views import record

    state.show(found, record(found))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"found --env {text!r}, expected NAME=VALUE")
    return name, value


COMMANDS = {"inventory install": install}
