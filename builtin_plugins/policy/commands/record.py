"""``hookgate policy replay``, ``diff`` and ``coverage``: rules against many calls at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from hookgate.kit.durations import moment

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.cases import Coverage
    from hookgate.builtin_plugins.policy.bench.replaying import CallEnded, Recorded, Replayed
    from hookgate.builtin_plugins.policy.rules.model import Rule

SHOWN = 50
"""Lines that a terminal gets at most; --json has all."""

Export = Annotated[
    Path | None,
    typer.Option("--export", metavar="FILE", help="What `hookgate audit export --out` wrote."),
]

Since = Annotated[
    str,
    typer.Option(help="Only from then on: 2024-02-29T12:00, or the last 90s, 10m, 24h, 7d."),
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
    since: Since = "",
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

    state = state_of(ctx)
    where = paths_of(state, rule, needed=False)
    bench = Bench(settings_of(state), rules(state, where), profile)
    data = _replayed(state, export, bench, since=since, limit=limit)
    data |= {"profile": bench.settings.profile}
    failed = fail_on_flip and bool(data["flips"])
    state.show(data, lambda console: _print_replay(console, data), failed=failed)


def _replayed(
    state: State,
    export: Path | None,
    bench: Bench,
    *,
    old: Bench | None = None,
    since: str = "",
    limit: int | None = None,
) -> dict[str, Any]:
    """Return how many decisions on record stay, and each of those that do not."""
    from hookgate.builtin_plugins.policy.bench.replaying import Replay, Tally

    start = _since(since)
    run = Replay(bench, old=old, since=start.timestamp() if start else None)
    tally, decisions = Tally(), []
    rules_ = [*bench.engine.rules, *(old.engine.rules if old else ())]
    found: Iterable[Replayed] = run.each(_recorded(state, export, start, rules_))
    for one in found if limit is None else deque(found, maxlen=limit):
        tally.take(one)
        if one.standing in ("flip", "undecidable"):
            decisions.append(one.to_json())
    return {**tally.to_json(), "decisions": decisions}


def _recorded(
    state: State, export: Path | None, since: datetime | None, asking: Iterable[Rule]
) -> Iterator[Recorded | CallEnded]:
    from hookgate.builtin_plugins.policy.bench.replaying import (
        DECIDED,
        FINISHED,
        kind_asked,
        read_row,
        read_rows,
        rows_of_export,
    )

    try:
        if export is None:
            rows = _asked(state, since, kind_asked(asking))
            yield from (read_row(row) for row in rows if row["kind"] in (DECIDED, FINISHED))
        else:
            with export.open(encoding="utf-8") as file:
                yield from read_rows(rows_of_export(file))
    except (OSError, ValueError) as error:
        raise StartError(f"{export or 'the audit'} cannot be replayed: {error}") from error


def _asked(state: State, since: datetime | None, kind: str) -> Iterator[Mapping[str, Any]]:
    from hookgate.builtin_plugins.policy.bench.replaying import asked_since

    params = {"kind": kind, "since": asked_since(since), "after": ""}
    while True:
        page = state.ask("audit.export", params)
        yield from page["rows"]
        params["after"] = page["next"]
        if not page["next"]:
            return


def _since(text: str) -> datetime | None:
    try:
        return moment(text, datetime.now(UTC)) if text else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None


def _print_replay(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, table

    shown = [
        {
            "at": row["at"],
            "tool": row["tool"],
            "decision": f"{row['old']} -> {row['new'] or '?'}",
            "by": row["new_rule"] if row["standing"] == "flip" else row["why"],
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
    if data["passed_over"]:
        console.print(
            f"{data['passed_over']:,} in which policy had no say, or the tool was quarantined",
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
    audit: Annotated[
        bool, typer.Option("--audit", help="Hold them against the decisions on record, too.")
    ] = False,
    since: Since = "",
    export: Export = None,
    as_json: JsonOption = False,
) -> None:
    """Say how two sets of rules differ: in what they say, and in which verdicts.

    The verdicts are those of a table of each flag, its value, provenance and taint, for the
    tools that rules name, and of all cases beside both sets; with --audit, --since or --export,
    those of the calls on record as well.

    Example:
        hookgate policy diff rules rules.new --since 7d
    """
    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.cases import compare

    state = state_of(ctx)
    settings = settings_of(state)
    if profile is not None:
        settings = settings.model_copy(update={"profile": profile})
    tried = cases(state, [old, new])
    before, after = (Bench(settings, rules(state, [one])) for one in (old, new))
    data = compare(before.engine.rules, after.engine.rules, tried, settings)
    if audit or since or export is not None:
        data["calls"] = _replayed(state, export, after, old=before, since=since)
    state.show(data, lambda console: _print_diff(console, data, len(tried)))


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
    if "calls" in data:
        _print_replay(console, data["calls"])


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
    from hookgate.builtin_plugins.policy.bench.replaying import Replay

    state = state_of(ctx)
    where = paths_of(state, paths)
    bench = Bench(settings_of(state), rules(state, where))
    run = Replay(bench)
    if audit or export is not None:
        for _ in run.each(_recorded(state, export, None, bench.engine.rules)):
            pass  # what is masked says nothing about a condition, and is not counted
    found = run.coverage
    for case in cases(state, where):
        found.take(run_case(bench, case).found)
    data = {
        "calls": found.calls,
        "percent": round(found.percent, 1),
        "idle": [name for name, row in found.rows.items() if not row.exercised],
        "rules": found.to_json(),
    }
    failed = fail_under is not None and found.percent < fail_under
    state.show(data, lambda console: _print_coverage(console, found, data), failed=failed)


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
