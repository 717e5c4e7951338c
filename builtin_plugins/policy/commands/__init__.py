"""``hookgate policy``: the bench of those who write rules. Most of it needs no gateway.

`table` is an operation of the plugin ``policy``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import HookgateError, counted
from hookgate.builtin_plugins.policy.commands.files import (
    Profile,
    budgets,
    cases,
    paths_of,
    rules,
    settings_of,
    tools,
)
from hookgate.builtin_plugins.policy.commands.record import coverage, diff, replay
from hookgate.kit.commands import CommandGroup, JsonOption, State, state_of
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.policy.bench.bench import Bench, BenchDecision
    from hookgate.builtin_plugins.policy.bench.cases import TriedCase
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool
    from hookgate.builtin_plugins.policy.rules.model import Rule


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


# -- the other commands ------------------------------------------------------------

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Rules for tool calls: check, test, explain, replay and compare them.",
)
app.command()(explain)
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

    Exit code 1 if the gateway would not start with them, a question would outlast its turn, or a
    condition asks about a budget that there is not; 0 with warnings alone.

    Example:
        hookgate policy check rules --strict
    """
    from rich.text import Text

    from hookgate.builtin_plugins.policy.bench.cases import rule_paths
    from hookgate.builtin_plugins.policy.rules.files import read_rules
    from hookgate.builtin_plugins.policy.rules.linting import lint, lint_tools
    from hookgate.kit.rendering import problem_line, verdict

    state = state_of(ctx)
    reading = read_rules(rule_paths(paths_of(state, paths)))
    problems, skipped, wrong = list(reading.problems), "", reading.failed
    if not reading.failed:
        beyond = _beyond(state, reading.found)
        problems, wrong = [*problems, *beyond], bool(beyond)
        problems += lint(reading.found, settings_of(state))
        if with_tools:
            try:
                problems += lint_tools(reading.found, tools(state, schemas=True))
            except HookgateError as error:
                skipped = f"names and arguments of tools were not looked at: {error}"
    problems.sort(key=lambda one: (one.file, one.line or 0))
    failed = wrong or (strict and bool(problems))
    data = {
        "ok": not failed,
        "rules": [rule.name for rule in reading.found],
        "problems": [asdict(one) for one in problems],
        "skipped": skipped,
    }

    said = [problem_line(one) for one in problems]
    if skipped:
        said.append(Text(skipped, style="yellow"))
    if wrong:
        said.append(Text(_wrong(problems), style="bold red"))
    elif failed:
        warned = f"{counted(len(problems), 'warning')}, which --strict takes for wrong"
        said.append(Text(warned, style="bold red"))
    else:
        said.append(verdict(True, counted(len(reading.found), "rule")))
    state.show(data, said, failed=failed)


def _beyond(state: State, found: Sequence[Rule]) -> list[Problem]:
    """Return what is wrong with rules that can be read: where they meet other settings."""
    from hookgate.builtin_plugins.policy.rules.linting import past_deadline, unknown_budgets

    problems = past_deadline(found, state.settings.turn.deadline_seconds)
    if any(rule.budgets for rule in found):
        problems += unknown_budgets(found, budgets(state))
    return problems


def _wrong(problems: Sequence[Problem]) -> str:
    """Return ``2 rules are wrong``; problems of a file as a whole are counted as they are."""
    errors = [one for one in problems if one.severity == "error"]
    # What is wrong with a rule is found "in rule NAME: ...".
    named = {(one.file, one.found.partition(": ")[0]) for one in errors if _of_rule(one)}
    others = sum(not _of_rule(one) for one in errors)
    said = [f"{counted(len(named), 'rule')} {'is' if len(named) == 1 else 'are'} wrong"]
    said = (said if named else []) + ([counted(others, "problem")] if others else [])
    return ", ".join(said)


def _of_rule(problem: Problem) -> bool:
    return problem.found.startswith("in rule ")


# -- test ------------------------------------------------------------------------------


@app.command()
def test(ctx: typer.Context, paths: Paths = None, as_json: JsonOption = False) -> None:
    """Judge the cases beside the rules (NAME.test.yaml), as the gateway would.

    The lists and the profile of the settings count, as they do there. Exit code 1 if a case
    fails, or if there is none.

    Example:
        hookgate policy test rules
    """
    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.cases import run_case

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
    state.show(data, lambda console: _print_cases(console, tried), failed=bool(failed) or not tried)


def _case_row(tried: TriedCase) -> dict[str, Any]:
    return {
        "name": tried.case.name,
        "place": tried.case.place,
        "passed": tried.passed,
        "wrong": list(tried.wrong),
        **tried.found.to_json(),
    }


def _print_cases(console: Console, tried: Sequence[TriedCase]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean

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


def _said(found: BenchDecision) -> list[str]:
    """Return what decided, and what each rule says."""
    why = found.why.splitlines()[0] if found.why else "nothing else has a say"
    lines = [f"decided by {found.rule or 'nothing'}: {why}"]
    for outcome in found.judgements[-1].outcomes if found.judgements else ():
        shadow = " (shadow)" if outcome.rule.mode == "shadow" else ""
        lines.append(f"{outcome.rule.name}{shadow} {outcome.state}: {outcome.why}")
    return lines


COMMANDS = {"policy": app}
"""What the command line finds here, by its words."""
