"""``hookgate policy``: the bench of those who write rules. Most of it needs no gateway.

`table` is an operation of the plugin ``policy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import HookgateError, counted
from hookgate.builtin_plugins.policy.commands.explain import explain
from hookgate.builtin_plugins.policy.commands.files import (
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

    from hookgate.builtin_plugins.policy.bench.bench import BenchDecision
    from hookgate.builtin_plugins.policy.bench.cases import TriedCase
    from hookgate.builtin_plugins.policy.rules.model import Rule

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
