"""``hookgate log tail``: the last lines of the running gateway's log, and those that come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookgate import StartError
from hookgate.kit.commands import JsonOption, state_of

_STYLES = {"debug": "dim", "info": "green", "warning": "yellow"}


def tail(
    ctx: typer.Context,
    level: Annotated[
        str, typer.Option(help="The least level: debug, info, warning or error.")
    ] = "debug",
    search: Annotated[str, typer.Option(help="What stands in the line.")] = "",
    limit: Annotated[int, typer.Option(help="So many at most, the newest ones.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the last lines of the running gateway's log, of whom it holds 500. Secrets are masked.

    Where its log goes is left alone. With `--json`, one object a line.

    Example:
        hookgate log tail --level warning --follow
    """
    state = state_of(ctx)
    if state.run(state.running()) is None:
        raise StartError("no gateway runs with these settings, so there is no log of one")
    state.run(_told(state, {"level": level, "search": search, "limit": limit}, follow=follow))


async def _told(state: Any, wanted: Mapping[str, Any], *, follow: bool) -> None:
    client = await state.client()
    if not follow:
        _print(state, await client.call("log.tail", wanted))
        return
    # Listened to first, so that no line falls between the two.
    async with client.stream("events.subscribe", {"types": ["log"]}) as stream:
        await stream.result()
        after = _print(state, await client.call("log.tail", wanted))
        async for kind, _ in stream:
            if kind == "event":
                params = {**wanted, "after": after, "limit": 500}
                after = _print(state, await client.call("log.tail", params))


def _print(state: Any, found: Mapping[str, Any]) -> int:
    """Print lines; return the number of the last one there is."""
    from rich.text import Text

    from hookgate.kit.rendering import one_line

    if found["missed"]:
        state.err.print(f"{found['missed']} lines were missed", style="yellow")
    for line in found["lines"]:
        if state.json:
            print(json.dumps(line, ensure_ascii=False), flush=True)
            continue
        said = Text(f"{line['time'][:19].replace('T', ' ')} ", style="dim")
        said.append(f"{line['level']:<8} ", style=_STYLES.get(line["level"], "bold red"))
        said.append(one_line(line["event"]), style="bold")
        named = {"logger": line["logger"]} if line["logger"] != "hookgate" else {}
        for name, value in {**named, **line["fields"]}.items():
            said.append(f" {one_line(name)}={one_line(value)}")
        state.out.print(said, soft_wrap=True)
    return int(found["next"])


COMMANDS = {"log tail": tail}
