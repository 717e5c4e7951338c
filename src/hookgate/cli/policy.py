"""``hookgate policy``: the bench of those who write rules. Most of it needs no gateway.

`table` is an operation of the plugin ``policy``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.group import CommandGroup
from hookgate.cli.policy_files import (
    Profile,
    cases,
    counted,
    paths_of,
    rules,
    settings_of,
    tools,
)
from hookgate.cli.policy_record import coverage, diff, replay
from hookgate.cli.state import JsonOption, State, state_of
from hookgate.core.errors import HookgateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hookgate.builtin_plugins.policy.bench import Found
    from hookgate.builtin_plugins.policy.cases import Tried
    from hookgate.builtin_plugins.policy.facts import Facts
    from hookgate.builtin_plugins.policy.linting import KnownTool

__all__ = ["app"]

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Rules for tool calls: check, test, explain, replay and compare them.",
)
app.command()(replay)
app.command()(diff)
app.command()(coverage)

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="Files and folders of rules; without them, `rules` of [plugin.policy].",
        show_default=False,
    ),
]


@app.command()
def check(
    ctx: typer.Context,
    paths: Paths = None,
    with_tools: Annotated[
        bool,
        typer.Option(
            "--tools",
            help="Ask the gateway, or one in this process, for its tools, and hold the rules "
            "against their names and arguments.",
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 with warnings, too.")] = (
        False
    ),
    as_json: JsonOption = False,
) -> None:
    """Check rules: what cannot be read, what never counts, what contradicts another rule.

    Exit code 1 if the gateway would not start with them; 0 with warnings alone.

    Example:
        hookgate policy check rules --strict
    """
    from hookgate.builtin_plugins.policy.cases import rule_paths
    from hookgate.builtin_plugins.policy.linting import lint, lint_tools
    from hookgate.builtin_plugins.policy.reading import read_rules

    state = state_of(ctx)
    reading = read_rules(rule_paths(paths_of(state, paths)))
    problems, skipped = list(reading.problems), ""
    if not reading.failed:
        problems += lint(reading.rules, settings_of(state))
        if with_tools:
            try:
                problems += lint_tools(reading.rules, tools(state, schemas=True))
            except HookgateError as error:
                skipped = f"names and arguments of tools were not looked at: {error}"
    problems.sort(key=lambda one: (one.file, one.line or 0))
    data = {
        "ok": not reading.failed,
        "rules": [rule.name for rule in reading.rules],
        "problems": [asdict(one) for one in problems],
        "skipped": skipped,
    }

    def render(console: Console) -> None:
        from rich.text import Text

        from hookgate.cli.render import problem_line

        for one in problems:
            console.print(problem_line(one), soft_wrap=True)
        if skipped:
            console.print(skipped, style="yellow", markup=False, soft_wrap=True)
        word, style = ("wrong ", "bold red") if reading.failed else ("ok ", "bold green")
        console.print(Text.assemble((word, style), counted(len(reading.rules), "rule")))

    state.show(data, render)
    if reading.failed or (strict and problems):
        raise typer.Exit(1)


# -- test ------------------------------------------------------------------------------


@app.command()
def test(ctx: typer.Context, paths: Paths = None, as_json: JsonOption = False) -> None:
    """Judge the cases beside the rules (NAME.test.yaml), as the gateway would.

    The lists and the profile of the settings count, as they do there. Exit code 1 if a case
    fails, or if there is none.

    Example:
        hookgate policy test rules
    """
    from hookgate.builtin_plugins.policy.bench import Bench
    from hookgate.builtin_plugins.policy.cases import run_case

    state = state_of(ctx)
    where = paths_of(state, paths)
    bench = Bench(settings_of(state), rules(state, where))
    tried = [run_case(bench, case, every=True) for case in cases(state, where)]
    failed = [one for one in tried if not one.passed]
    data = {
        "ok": bool(tried) and not failed,
        "passed": len(tried) - len(failed),
        "failed": len(failed),
        "cases": [_case_row(one) for one in tried],
    }
    state.show(data, lambda console: _print_cases(console, tried))
    if failed or not tried:
        raise typer.Exit(1)


def _case_row(tried: Tried) -> dict[str, Any]:
    return {
        "name": tried.case.name,
        "place": tried.case.place,
        "passed": tried.passed,
        "wrong": list(tried.wrong),
        **_found_row(tried.found),
    }


def _found_row(found: Found) -> dict[str, Any]:
    return {
        "effect": found.effect,
        "rule": found.rule,
        "why": found.why,
        "arguments": dict(found.arguments),
    }


def _print_cases(console: Console, tried: Sequence[Tried]) -> None:
    from rich.text import Text

    from hookgate.cli.render import clean

    for one in tried:
        word, style = ("passed ", "green") if one.passed else ("failed ", "bold red")
        line = Text.assemble((word, style), clean(one.case.name))
        if one.passed:
            line.append(f"  {one.found.effect} by {clean(one.found.rule or 'nothing')}", "dim")
        else:
            line.append(f"  {clean(one.case.place)}", "cyan")
        console.print(line, soft_wrap=True)
        if one.passed:
            continue
        for wrong in one.wrong:
            console.print(Text(f"    {clean(wrong)}"), soft_wrap=True)
        for why in _said(one.found):
            console.print(Text(f"    {clean(why)}", style="dim"), soft_wrap=True)
    failed = sum(not one.passed for one in tried)
    if not tried:
        console.print("no cases: expected files NAME.test.yaml beside the rules", style="yellow")
    else:
        console.print(f"{counted(len(tried) - failed, 'case')} passed, {failed} failed")


def _said(found: Found) -> list[str]:
    """Return what decided, and what each rule says."""
    why = found.why.splitlines()[0] if found.why else "nothing else has a say"
    lines = [f"decided by {found.rule or 'nothing'}: {why}"]
    for outcome in found.judgements[-1].outcomes if found.judgements else ():
        shadow = " (shadow)" if outcome.rule.mode == "shadow" else ""
        lines.append(f"{outcome.rule.name}{shadow} {outcome.state}: {outcome.why}")
    return lines


# -- explain ---------------------------------------------------------------------------


@app.command()
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
    above that. Nothing is called. No call came before: rules about earlier calls fail.

    Example:
        hookgate policy explain http_get --arg url=https://example.org --tainted
    """
    from hookgate.builtin_plugins.policy.bench import Bench

    state = state_of(ctx)
    where = paths_of(state, rule, needed=False)
    bench = Bench(settings_of(state), rules(state, where), profile)
    known, note = (None, "no gateway was asked") if offline else _known(state, tool)
    facts = _facts(tool, known, flag or ())
    facts.arguments = _arguments(arguments, arg or ())
    facts.provenance = _provenance(provenance)
    facts.taint = frozenset({"somebody else"}) if tainted else frozenset()
    facts.agent, facts.channel, facts.session = agent, channel, f"{agent}:{channel}:local:main"
    found = bench.decide(facts, every=True)
    rows = [
        {
            "rule": one.rule.name,
            "place": one.rule.place,
            "mode": one.rule.mode,
            "state": one.state,
            "effect": one.effect or "",
            "why": one.why,
        }
        for one in found.judgements[-1].outcomes
    ]
    data = {
        "tool": tool,
        "flags": facts.flags.to_json(),
        "note": note,
        "profile": bench.settings.profile,
        "rules": rows,
        "decided": _found_row(found),
    }
    state.show(data, lambda console: _print_explained(console, data))


def _known(state: State, tool: str) -> tuple[KnownTool | None, str]:
    try:
        found = tools(state, tool)
    except HookgateError as error:
        return None, f"no gateway could be asked: {error}"
    same = next((one for one in found if one.name == tool), None)
    return same, "" if same else "the gateway has no such tool"


def _facts(tool: str, known: KnownTool | None, given: Sequence[str]) -> Facts:
    from hookgate.builtin_plugins.policy.facts import Facts
    from hookgate.core.descriptors import Flags

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
    from hookgate.core.messages import Provenance

    known = [one.value for one in Provenance]
    if word not in known:
        raise typer.BadParameter(
            f"found {word!r}, expected one of {', '.join(known)}", param_hint="--provenance"
        )
    return word


def _print_explained(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from hookgate.cli.render import clean, table

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
