"""``hookgate policy explain``: what every rule says of one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
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

    from hookgate.builtin_plugins.policy.judge.facts import Facts, History
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool

NOW = 1e9
"""The time of the call, in seconds of a clock of its own."""


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
    from hookgate.builtin_plugins.policy.bench.bench import Bench, explained

    state = state_of(ctx)
    where = paths_of(state, rule, needed=False)
    bench = Bench(settings_of(state), rules(state, where), profile)
    known, note = (None, "no gateway was asked") if offline else _known(state, tool)
    facts = _facts(tool, known, flag or ())
    facts.arguments = _arguments(arguments, arg or ())
    facts.provenance = _provenance(provenance)
    facts.taint = frozenset(taint or (["somebody else"] if tainted else []))
    facts.agent, facts.channel, facts.session = agent, channel, f"{agent}:{channel}:local:main"
    facts.turn = "turn"
    history = _history(state, facts, before or (), offline=offline)
    facts.index = sum(one.turn == facts.turn for one in history.since(float("-inf")))
    data = {**explained(bench, facts, history, NOW), "note": note}
    state.show(data, lambda console: _print_explained(console, data))


def _history(state: State, facts: Facts, given: Sequence[str], *, offline: bool) -> History:
    """Return the calls before, each with what its tool declares."""
    from dataclasses import replace

    from hookgate.builtin_plugins.policy.bench.cases import recorded
    from hookgate.builtin_plugins.policy.judge.facts import History
    from hookgate.kit.durations import seconds_of

    history, happened = History(), []
    for number, item in enumerate(given):
        name, mark, text = item.partition("@")
        try:
            ago = seconds_of(text) if mark else 0.0
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--before") from None
        known = None if offline else _known(state, name)[0]
        earlier = replace(
            _facts(name, known, ()),
            agent=facts.agent,
            channel=facts.channel,
            session=facts.session,
            provenance=facts.provenance,
            turn=f"turn {number}" if mark else facts.turn,
        )
        happened.append((NOW - ago, recorded(earlier)))
    for at, earlier in sorted(happened, key=lambda one: one[0]):
        history.add(at, earlier)
    return history


def _known(state: State, tool: str) -> tuple[KnownTool | None, str]:
    try:
        found = tools(state, tool)
    except HookgateError as error:
        return None, f"no gateway could be asked: {error}"
    same = next((one for one in found if one.name == tool), None)
    return same, "" if same else "the gateway has no such tool"


def _facts(tool: str, known: KnownTool | None, given: Sequence[str]) -> Facts:
    from hookgate import Flags
    from hookgate.builtin_plugins.policy.judge.facts import Facts

    facts = known.facts if known else Facts(tool=tool)
    words: dict[str, bool | None] = {"true": True, "false": False, "unknown": None}
    values: dict[str, bool | None] = {}
    for item in given:
        name, _, word = item.partition("=")
        if word not in words:
            raise typer.BadParameter(f"found {item!r}, expected NAME=true, false or unknown")
        values[name] = words[word]
    try:
        said = Flags.from_mapping(values).to_json()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--flag") from None
    snake = {name for name, value in said.items() if value is not None}
    snake |= {name for name in said if name in values}
    facts.flags = Flags.from_mapping(
        {**facts.flags.to_json(), **{name: said[name] for name in snake}}
    )
    return facts


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
