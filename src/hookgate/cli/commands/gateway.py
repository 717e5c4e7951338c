"""Commands about the gateway itself: status, routes, calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.core.registry.agents import AgentRoute

_TOLD = ("degraded", "notices", "running")


def status(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Say how the gateway is; exit code 1 if none runs.

    Example:
        hookgate status --json
    """
    from rich.text import Text

    from hookgate.kit.rendering import fields

    state = state_of(ctx)
    running = state.run(state.running())
    if running is None and not state.alone:
        state.show(
            {"running": False, "settings": state.source.file},
            lambda console: console.print("no gateway runs with these settings", style="yellow"),
        )
        raise typer.Exit(1)
    data = {
        "running": running is not None,
        "url": running.where if running else "",
        **state.ask("status"),
    }

    degraded = data["degraded"]
    words = Text("degraded", style="bold yellow") if degraded else Text("ok", style="bold green")
    rest = {key: value for key, value in data.items() if key not in _TOLD}
    said: list[Any] = [fields({"gateway": words, **rest})]
    for parts, style in ((degraded, "bold yellow"), (data["notices"], "bold cyan")):
        said += [Text.assemble((f"  {part}", style), f": {why}") for part, why in parts.items()]
    state.show(data, said)


def route(
    ctx: typer.Context,
    channel: Annotated[str, typer.Option(help="The channel.")] = "cli",
    account: Annotated[str, typer.Option(help="The account on it.")] = "local",
    peer: Annotated[str, typer.Option(help="Who writes.")] = "main",
    guild: Annotated[str | None, typer.Option(help="The guild, server or workspace.")] = None,
    team: Annotated[str | None, typer.Option(help="The team.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which agent answers a message from an address, and which binding decided that.

    It reads the settings; the running gateway uses them since its start or last reload.

    Example:
        hookgate route --channel web --account shop --peer ada
    """
    from hookgate.core.domain.turn import Address, SessionKey
    from hookgate.kit.rendering import fields

    state = state_of(ctx)
    address = Address(channel, account, peer, guild, team)
    found = state.run(_resolve(state, address))
    data = {
        "agent": found.agent.name,
        "models": [str(model) for model in found.agent.models],
        "tier": found.tier,
        "binding": found.binding,
        "reason": found.reason,
        "session": str(SessionKey(found.agent.name, channel, account, peer)),
    }

    place = state.source.place(f"bindings[{found.binding}]")
    where = f" ({place})" if found.binding is not None else ""
    about = fields({key: data[key] for key in ("agent", "models", "session")})
    state.show(data, [about, "", _tiers(found), f"{found.reason}{where}"])


async def _resolve(state: State, address: Any) -> AgentRoute:
    from hookgate.core.registry.agents import Router, load_agents

    settings = state.settings
    with state.placed():
        agents = await load_agents(settings)
    return Router(agents, settings.bindings, settings.default_agent).resolve(address)


def _tiers(found: AgentRoute) -> Any:
    """Return a table of the tiers in the order in which they are tried."""
    from rich.text import Text

    from hookgate.kit.rendering import table

    tiers = ("peer", "guild", "team", "account", "channel", "default")
    rows = []
    for number, tier in enumerate(tiers, start=1):
        if tier == found.tier:
            said, style = f"matches: {found.agent.name}", "bold green"
        elif tiers.index(tier) < tiers.index(found.tier):
            said, style = "no match", "dim"
        else:
            said, style = "not tried any more", "dim"
        rows.append({"#": number, "tier": Text(tier, style=style), "": Text(said, style=style)})
    return table(rows)


# -- any operation -----------------------------------------------------------------


def call(
    ctx: typer.Context,
    operation: Annotated[str, typer.Argument(help="Its name, such as `plugins.list`.")],
    params: Annotated[
        str,
        typer.Option(help="The parameters: JSON, @FILE, or - for standard input."),
    ] = "{}",
    as_json: JsonOption = False,
) -> None:
    """Call any operation of the gateway. Events of one that streams are printed as JSON lines.

    Examples:
        hookgate call operations.list --params '{"name": "chat.*"}'
        hookgate call chat.send --params @message.json
    """
    state = state_of(ctx)
    given = _params(params)
    state.show(state.run(_follow(state, operation, given)))


def _params(text: str) -> Mapping[str, Any]:
    import sys

    from hookgate.core.domain.strict_json import StrictJSONError, loads

    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{text[1:]}: {error}", param_hint="--params") from None
    try:
        value = loads(text)
    except StrictJSONError as error:
        raise typer.BadParameter(str(error), param_hint="--params") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("expected a JSON object", param_hint="--params")
    return value


async def _follow(state: State, operation: str, params: Mapping[str, Any]) -> Any:
    import orjson

    client = await state.client()
    async with client.stream(operation, params) as stream:
        async for kind, data in stream:
            print(orjson.dumps({"event": kind, **data}, default=str).decode(), flush=True)
        return await stream.result()


def commands(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the commands that plugins bring, beside those of `hookgate --help`."""
    from hookgate.cli.operation_commands import operations
    from hookgate.kit.rendering import table

    state = state_of(ctx)
    rows = [
        {
            "command": f"hookgate {row['command']}",
            "does": row["summary"],
            "scope": row["scope"] or "",
            "plugin": row["plugin"],
        }
        for row in sorted(operations(state), key=lambda row: str(row["command"]))
    ]

    state.show({"commands": rows}, table(rows))
