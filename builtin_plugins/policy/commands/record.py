"""``hookgate policy replay``, ``diff`` and ``coverage``: rules against many calls at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import StartError, counted
from hookgate.builtin_plugins.policy.commands.files import (
    Profile,
    cases,
    paths_of,
    rules,
    settings_of,
)
from hookgate.kit.commands import JsonOption, State, state_of
from hookgate.kit.durations import FORMS, seconds_of

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.policy.bench.comparing import Coverage, Differing
    from hookgate.builtin_plugins.policy.bench.replaying import Recorded, Replay

SHOWN = 50
"""Lines that a terminal gets at most; --json has all."""

Export = Annotated[
    Path | None,
    typer.Option("--export", metavar="FILE", help="What `hookgate audit export --out` wrote."),
]


# -- replay ----------------------------------------------------------------------------


def replay(
    ctx: typer.Context,
    rule: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="PATH", help="Other rules than the settings'."),
    ] = None,
    profile: Annotated[
        Profile | None, typer.Option(help="Another profile than the settings'.")
    ] = None,
    since: Annotated[
        str,
        typer.Option(help="Only from then on: 2024-02-29T12:00, or the last 90s, 10m, 24h, 7d."),
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many decisions at most, the newest ones.")
    ] = None,
    export: Export = None,
    fail_on_flip: Annotated[
        bool, typer.Option("--fail-on-flip", help="Exit code 1 if a decision flips.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge the decisions on record again, and say which would be others now.

    What policy said is compared with what it would say: a question that somebody answered
    counts as a question. Where arguments are masked on record and a rule looks at them, a
    decision is undecidable. The rows come from the gateway, or from a file.

    Example:
        hookgate policy replay --rules rules --since 24h
    """
    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.replaying import replay as judge_again

    state = state_of(ctx)
    where = paths_of(state, rule, needed=False)
    bench = Bench(settings_of(state), rules(state, where), profile)
    found = judge_again(bench, _recorded(state, export), since=_since(since), limit=limit)
    data = {
        "rows": len(found.rows),
        "same": found.count("same"),
        "flips": found.flips,
        "undecidable": found.count("undecidable"),
        "passed_over": found.passed_over,
        "profile": bench.settings.profile,
        "decisions": [_row(one) for one in found.rows if one.standing != "same"],
    }
    state.show(data, lambda console: _print_replay(console, found, data))
    if fail_on_flip and found.flips:
        raise typer.Exit(1)


def _row(one: Any) -> dict[str, Any]:
    before = one.recorded
    return {
        "row": before.place,
        "at": before.when,
        "tool": before.facts.tool,
        "session": before.facts.session,
        "standing": one.standing,
        "was": before.effect,
        "was_rule": before.rule,
        "is": one.found.effect if one.standing == "flip" else "",
        "is_rule": one.found.rule if one.standing == "flip" else "",
        "why": one.why,
    }


def _recorded(state: State, export: Path | None) -> list[Recorded]:
    from hookgate.builtin_plugins.policy.bench.replaying import read_rows, rows_of_export

    try:
        if export is None:
            return read_rows(_asked(state))
        with export.open(encoding="utf-8") as file:
            return read_rows(rows_of_export(file))
    except (OSError, ValueError) as error:
        raise StartError(f"{export or 'the audit'} cannot be replayed: {error}") from error


def _asked(state: State) -> Iterator[Mapping[str, Any]]:
    after = ""
    while True:
        page = state.ask("audit.export", {"after": after})
        yield from page["rows"]
        after = page["next"]
        if not after:
            return


def _since(text: str) -> float | None:
    if not text:
        return None
    with suppress(ValueError):
        return datetime.now(UTC).timestamp() - seconds_of(text)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise typer.BadParameter(
            f"found {text!r}, expected a time such as 2024-02-29T12:00, or {FORMS}",
            param_hint="--since",
        ) from None


def _print_replay(console: Console, found: Replay, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, table

    shown = [
        {
            "at": row["at"],
            "tool": row["tool"],
            "decision": f"{row['was']} -> {row['is'] or '?'}",
            "by": row["is_rule"] if row["standing"] == "flip" else row["why"],
        }
        for row in data["decisions"]
    ]
    if shown:
        console.print(table(shown[:SHOWN]))
    _more(console, len(shown))
    said = [f"{counted(data['rows'], 'decision')}: {data['same']:,} stay"]
    said += [f"{count:,} {kind}" for kind, count in sorted(data["flips"].items())]
    if data["undecidable"]:
        said.append(f"{data['undecidable']:,} undecidable")
    console.print(Text(clean(", ".join(said))), soft_wrap=True)
    if found.passed_over:
        console.print(
            f"{found.passed_over:,} in which policy had no say, or the tool was quarantined",
            style="dim",
        )


def _more(console: Console, count: int) -> None:
    if count > SHOWN:
        console.print(f"... and {count - SHOWN:,} more; --json has them all", style="dim")


# -- diff ------------------------------------------------------------------------------


def diff(
    ctx: typer.Context,
    old: Annotated[Path, typer.Argument(help="A file or a folder of rules.", exists=True)],
    new: Annotated[Path, typer.Argument(help="Another one.", exists=True)],
    profile: Annotated[
        Profile | None, typer.Option(help="Another profile than the settings'.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how two sets of rules differ: in what they say, and in which verdicts.

    The verdicts are those of a table of each flag, its value, provenance and taint, for the
    tools that rules name, and of all cases beside both sets.

    Example:
        hookgate policy diff rules rules.new
    """
    from hookgate.builtin_plugins.policy.bench.comparing import compare

    state = state_of(ctx)
    settings = settings_of(state)
    if profile is not None:
        settings = settings.model_copy(update={"profile": profile})
    tried = cases(state, [old, new])
    found = compare(rules(state, [old]), rules(state, [new]), tried, settings)
    data = {
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": {name: list(keys) for name, keys in found.changed.items()},
        "lines": found.cells,
        "table": [_differing(one) for one in found.table],
        "cases": [_differing(one) for one in found.cases],
    }
    state.show(data, lambda console: _print_diff(console, data, len(tried)))


def _differing(one: Differing) -> dict[str, str]:
    return {
        "what": one.what,
        "old": one.old.effect,
        "old_rule": one.old.rule,
        "new": one.new.effect,
        "new_rule": one.new.rule,
    }


def _print_diff(console: Console, data: Mapping[str, Any], tried: int) -> None:
    from hookgate.kit.rendering import clean

    for word, style in (("added", "green"), ("removed", "red")):
        for name in data[word]:
            console.print(f"{word} {clean(name)}", style=style, markup=False)
    for name, keys in data["changed"].items():
        line = f"changed {clean(name)}: {', '.join(keys)}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    _print_differing(console, "calls", data["table"])
    _print_differing(console, "cases", data["cases"])
    console.print(
        f"{len(data['table']):,} of {counted(data['lines'], 'line')} of the table and "
        f"{len(data['cases'])} of {counted(tried, 'case')} differ"
    )


def _print_differing(console: Console, title: str, rows: Sequence[Mapping[str, str]]) -> None:
    from hookgate.kit.rendering import table

    if not rows:
        return
    shown = [
        {
            title: row["what"],
            "old": f"{row['old']} ({row['old_rule']})",
            "new": f"{row['new']} ({row['new_rule']})",
        }
        for row in rows[:SHOWN]
    ]
    console.print(table(shown))
    _more(console, len(rows))


# -- coverage --------------------------------------------------------------------------


def coverage(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Files and folders of rules; without them, `rules` of [plugin.policy].",
            show_default=False,
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Count the decisions on record, too.")
    ] = False,
    export: Export = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0, max=100, metavar="PERCENT", help="Exit code 1 below this share."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which rules the cases beside them exercise, and which nothing does.

    A rule is exercised where it holds, or cannot be decided, at least once.

    Example:
        hookgate policy coverage rules --fail-under 100
    """
    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.cases import run_case
    from hookgate.builtin_plugins.policy.bench.comparing import Coverage
    from hookgate.builtin_plugins.policy.bench.replaying import replay as judge_again

    state = state_of(ctx)
    where = paths_of(state, paths)
    bench = Bench(settings_of(state), rules(state, where))
    found = Coverage.of(bench.engine.rules)
    for case in cases(state, where):
        found.take(run_case(bench, case, every=True).found)
    if audit or export is not None:
        for one in judge_again(bench, _recorded(state, export), every=True).rows:
            if one.standing != "undecidable":  # what is masked says nothing about a condition
                found.take(one.found)
    idle = [name for name, row in found.rows.items() if not row.exercised]
    data = {
        "calls": found.calls,
        "percent": round(found.percent, 1),
        "idle": idle,
        "rules": [
            {
                "rule": name,
                "decisive": row.decisive,
                "held": row.held,
                "unknown": row.unknown,
                "failed": row.failed,
            }
            for name, row in found.rows.items()
        ],
    }
    state.show(data, lambda console: _print_coverage(console, found, data))
    if fail_under is not None and found.percent < fail_under:
        raise typer.Exit(1)


def _print_coverage(console: Console, found: Coverage, data: Mapping[str, Any]) -> None:
    from hookgate.kit.rendering import clean, table

    if data["rules"]:
        console.print(table(data["rules"]))
    for name in data["idle"]:
        place = found.rows[name].rule.place
        line = f"nothing exercises {clean(name)} ({clean(place)})"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    rules_ = counted(len(found.rows), "rule")
    console.print(f"{data['percent']:g}% of {rules_} exercised by {counted(found.calls, 'call')}")
