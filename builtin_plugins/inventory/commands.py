"""``hookgate inventory``: what agents can use in every runtime, and switching it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import CommandGroup, JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="What agents can use, in every runtime: list, show, switch and install it.",
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `inventory list` shows it.")]
AgentOption = Annotated[str, typer.Option("--agent", help="For this agent alone.")]


@app.command(name="list")
def list_(
    ctx: typer.Context,
    runtime: Annotated[str, typer.Option("--runtime", help="One runtime, as `native`.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="skill, tool or connector.")] = "",
    scope: Annotated[str, typer.Option("--scope", help="team, agent or global.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="What this agent has alone.")] = "",
    status: Annotated[str, typer.Option("--status", help="ready, disabled, ...")] = "",
    after: Annotated[str, typer.Option("--after", help="The id before the page.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=5000, help="A page.")] = 500,
    refresh: Annotated[bool, typer.Option("--refresh", help="Read all runtimes now.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List what agents can use, and how the runtimes stand.

    Example:
        hookgate inventory list --runtime native --kind tool
    """
    del as_json  # Read by the state.
    given = {"runtime": runtime, "kind": kind, "scope": scope, "agent": agent, "status": status}
    params = {name: value for name, value in given.items() if value}
    state = state_of(ctx)
    found = state.ask(
        "inventory.list", {**params, "after": after, "limit": limit, "refresh": refresh}
    )

    def render(console: Console) -> None:
        from hookgate.kit.rendering import table

        rows = [
            {
                "id": row["id"],
                "status": row["status"],
                "tier": row["manageability"],
                "risk": row["risk"],
                "can": ", ".join(one["action"] for one in row["buttons"] if one["enabled"]),
            }
            for row in found["records"]
        ]
        if rows:
            console.print(table(rows))
        else:
            console.print("nothing fits")
        console.print(table([_source(one) for one in found["sources"]], title="sources"))
        if found["next"]:
            more = f"{found['total']} in all; the next ones: --after '{found['next']}'"
            console.print(more, style="dim", markup=False, soft_wrap=True)

    state.show(found, render)


def _source(one: Mapping[str, Any]) -> dict[str, Any]:
    stands = "ok" if one["ok"] else "degraded, served from its last good read"
    if not (one["ok"] or one["stale"]):
        stands = "degraded, and nothing of it is known"
    return {
        "source": one["id"],
        "records": one["records"],
        "stands": stands,
        "synced": one["synced_at"],
        "why": one["why"],
    }


@app.command()
def show(ctx: typer.Context, id_: IdArgument, as_json: JsonOption = False) -> None:
    """Show all that is known of one capability, and what may be done to it."""
    del as_json
    _ask(state_of(ctx), "show", {"id": id_})


@app.command()
def enable(
    ctx: typer.Context, id_: IdArgument, agent: AgentOption = "", as_json: JsonOption = False
) -> None:
    """Enable what was disabled."""
    del as_json
    _ask(state_of(ctx), "enable", {"id": id_, "agent": agent})


@app.command()
def disable(
    ctx: typer.Context, id_: IdArgument, agent: AgentOption = "", as_json: JsonOption = False
) -> None:
    """Disable something, for all or for one agent; nothing of it is taken away.

    Example:
        hookgate inventory disable native:native:global:global:tool:http_get --agent ada
    """
    del as_json
    _ask(state_of(ctx), "disable", {"id": id_, "agent": agent})


@app.command()
def approve(
    ctx: typer.Context,
    id_: IdArgument,
    digest: Annotated[str, typer.Argument(help="As `hookgate tools changes` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Accept a tool that has changed, by the digest that you have looked at."""
    del as_json
    _ask(state_of(ctx), "approve", {"id": id_, "digest": digest})


@app.command()
def install(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="NAME", help="What it will be called.")],
    kind: Annotated[str, typer.Option("--kind", help="skill, tool or connector.")] = "skill",
    agent: AgentOption = "",
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
    del as_json
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
    _ask(state_of(ctx), "install", params)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"found --env {text!r}, expected NAME=VALUE")
    return name, value


def _ask(state: State, action: str, params: Mapping[str, Any]) -> None:
    """Ask an operation that returns one record, and show it."""
    found = state.ask(f"inventory.{action}", dict(params))

    def render(console: Console) -> None:
        from hookgate.kit.rendering import fields

        record = dict(found["record"])
        buttons = [
            one["action"] if one["enabled"] else f"{one['action']} ({one['hint']})"
            for one in record.pop("buttons")
        ]
        note = record.pop("note")
        shown = {name: value for name, value in record.items() if value not in (None, "", [])}
        console.print(fields({**shown, "can be done": ", ".join(buttons) or note or "nothing"}))

    state.show(found, render)


COMMANDS = {"inventory": app}
"""What the command line finds here, by its words."""
