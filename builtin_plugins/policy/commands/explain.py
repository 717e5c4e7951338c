"""``hookgate policy explain``: what every rule says of one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import HookgateError
from hookgate.builtin_plugins.policy.commands.files import (
    Profile,
    paths_of,
    rules,
    settings_of,
    tools,
)
from hookgate.kit.commands import JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool


def explain(
    ctx: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="An argument; JSON, or text as it is."),
    ] = None,
    arguments: Annotated[str, typer.Option(help="All arguments, as a JSON object.")] = "{}",
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", metavar="NAME=true|false|unknown", help="What the tool declares."),
    ] = None,
    provenance: Annotated[str, typer.Option(help="How the turn came in.")] = "external_user",
    tainted: Annotated[
        bool, typer.Option("--tainted", help="The turn has read what somebody else wrote.")
    ] = False,
    taint: Annotated[
        list[str] | None,
        typer.Option("--taint", metavar="SOURCE", help="What it has read, such as tool:http_get."),
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            metavar="TOOL[@AGO]",
            help="A call that was allowed before in this turn, the oldest first; with @10m, so "
            "long ago in an earlier turn of the session.",
        ),
    ] = None,
    agent: Annotated[str, typer.Option(help="Who calls it.")] = "main",
    channel: Annotated[str, typer.Option(help="Where the message came from.")] = "cli",
    profile: Annotated[
        Profile | None, typer.Option(help="Another profile than the settings'.")
    ] = None,
    rule: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="PATH", help="Other rules than the settings'."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no gateway what the tool declares.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what every rule says of a call, which one decides, and why.

    What the tool declares is asked of the gateway, or of one in this process; --flag stands
    above that. Nothing is called. What came before is said with --before.

    Example:
        hookgate policy explain http_get --arg url=https://example.org --taint tool:read_file
    """
    from hookgate.builtin_plugins.policy.bench.bench import Bench

    state = state_of(ctx)
    where = paths_of(state, rule, needed=False)
    bench = Bench(settings_of(state), rules(state, where), profile)
    call = {
        "arguments": _arguments(arguments, arg or ()),
        "provenance": _provenance(provenance),
        "taint": frozenset(taint or (["somebody else"] if tainted else [])),
        "agent": agent,
        "channel": channel,
        "session": f"{agent}:{channel}:local:main",
        "turn": "turn",
    }
    asked = None if offline else state
    data = _explained(bench, tool, asked, call, _flags(flag or ()), before or ())
    state.show(data, lambda console: _print_explained(console, data))


def _explained(
    bench: Bench,
    tool: str,
    state: State | None,
    call: Mapping[str, Any],
    flags: Mapping[str, bool | None],
    before: Sequence[str],
) -> dict[str, Any]:
    from dataclasses import replace

    from hookgate.builtin_plugins.policy.bench.bench import (
        declaring,
        explained,
        facts_known,
        history_of,
    )

    notes: list[str] = []

    def known(name: str) -> KnownTool | None:
        found, note = _known(state, name)
        notes.append(note)
        return found

    facts = facts_known(tool, known)
    try:
        facts = replace(facts, flags=declaring(facts.flags, flags), **call)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--flag") from None
    try:
        facts, history = history_of(facts, before, known)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--before") from None
    return {**explained(bench, facts, history), "note": notes[0]}


def _known(state: State | None, tool: str) -> tuple[KnownTool | None, str]:
    """Return what a gateway knows of a tool, and why that is nothing."""
    if state is None:
        return None, "no gateway was asked"
    try:
        found = tools(state, tool)
    except HookgateError as error:
        return None, f"no gateway could be asked: {error}"
    same = next((one for one in found if one.name == tool), None)
    return same, "" if same else "the gateway has no such tool"


def _flags(given: Sequence[str]) -> dict[str, bool | None]:
    words: dict[str, bool | None] = {"true": True, "false": False, "unknown": None}
    values: dict[str, bool | None] = {}
    for item in given:
        name, _, word = item.partition("=")
        if word not in words:
            raise typer.BadParameter(f"found {item!r}, expected NAME=true, false or unknown")
        values[name] = words[word]
    return values


def _arguments(text: str, given: Sequence[str]) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"found no JSON: {error}", param_hint="--arguments") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("found no JSON object", param_hint="--arguments")
    for item in given:
        name, mark, value = item.partition("=")
        if not mark:
            raise typer.BadParameter(f"found {item!r}, expected NAME=VALUE", param_hint="--arg")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _provenance(word: str) -> str:
    from hookgate import Provenance

    known = [one.value for one in Provenance]
    if word not in known:
        raise typer.BadParameter(
            f"found {word!r}, expected one of {', '.join(known)}", param_hint="--provenance"
        )
    return word


def _print_explained(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, table

    words = {True: "yes", False: "no", None: "unknown"}
    flags = ", ".join(f"{name} {words[value]}" for name, value in data["flags"].items())
    console.print(Text(f"{clean(data['tool'])}: {flags}"), soft_wrap=True)
    if data["note"]:
        console.print(Text(clean(data["note"]), style="yellow"), soft_wrap=True)
    shown = [
        {
            "rule": f"{row['rule']}{' (shadow)' if row['mode'] == 'shadow' else ''}",
            "state": row["state"],
            "effect": row["effect"],
            "why": row["why"],
        }
        for row in data["rules"]
    ]
    if shown:
        console.print(table(shown))
    else:
        console.print("no rules", style="dim")
    decided = data["decided"]
    style = {"deny": "bold red", "ask": "bold yellow"}.get(decided["effect"], "bold green")
    line = Text.assemble((decided["effect"], style), f" by {clean(decided['rule'] or 'nothing')}")
    console.print(line, soft_wrap=True)
    for why in decided["why"].splitlines()[:1]:
        console.print(Text(f"  {clean(why)}"), soft_wrap=True)
    if decided["effect"] == "rewrite":
        console.print(Text(f"  {clean(json.dumps(decided['arguments']))}"), soft_wrap=True)
