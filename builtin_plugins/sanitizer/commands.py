"""``hookgate cards scan`` and ``hookgate sanitizer explain``: what it has against texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate import Card
from hookgate.kit.commands import JsonOption, state_of
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console


def scan(
    ctx: typer.Context,
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS.jsonl[.gz]", help='Lines of {"id", "text", ...}, plain or gzip.'
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="RUN.jsonl", help="Where to write one line for each text."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Scan the texts of a file for orders to a model; no gateway is needed.

    A text is flagged if a card of a stranger with that text would be rejected.

    Example:
        hookgate cards scan items.jsonl.gz --out run.jsonl
    """
    from hookgate.builtin_plugins.sanitizer.report import scan_file

    state = state_of(ctx)
    summary = scan_file(items, out)

    def render(console: Console) -> None:
        from rich.table import Table

        from hookgate.kit.rendering import clean

        table = Table("", "texts", "flagged", "share", box=None, pad_edge=False)
        rows = [("all", summary.items, summary.flagged)]
        rows += [(clean(name), row.items, row.flagged) for name, row in summary.by.items()]
        for name, count, flagged in rows:
            share = f"{flagged / count:.4f}" if count else ""
            table.add_row(name, str(count), str(flagged), share)
        console.print(table)
        if summary.milliseconds:
            times = ", ".join(f"{name} {value}" for name, value in summary.milliseconds.items())
            console.print(f"milliseconds of processor time a text: {times}", soft_wrap=True)
        console.print(f"wrote {out}", markup=False, soft_wrap=True)

    state.show({**asdict(summary), "out": str(out)}, render)


def explain(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A text, such as a SKILL.md; - for what is piped."),
    ],
    card: Annotated[
        str, typer.Option(metavar="ID", help="The id that it has as a card, for `thresholds`.")
    ] = "",
    threshold: Annotated[
        float | None,
        typer.Option(help="Another one than that of the settings.", min=-5.0, max=10.0),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the sanitizer finds in a text, by which rule or words, and what can be done.

    Exits with 1 where a stranger's text like that would be rejected; no gateway is needed. What
    `[plugin.sanitizer]` allows passes.

    Example:
        hookgate sanitizer explain SKILL.md
    """
    from hookgate.builtin_plugins.sanitizer.report import explained, rendered
    from hookgate.builtin_plugins.sanitizer.sanitizer import SanitizerSettings
    from hookgate.settings import section_of

    state = state_of(ctx)
    with state.placed():
        settings = section_of(state.settings, "sanitizer", SanitizerSettings)
    told = explained(file, settings, card=card, threshold=threshold)
    state.show(told, lambda console: rendered(console, file, told))
    if told["verdict"] == "reject" and not told["allowed"]:
        raise typer.Exit(1)


COMMANDS = {"cards scan": scan, "sanitizer explain": explain}


def objections(card: Card, first: int) -> Sequence[Problem]:
    """See `hookgate.builtin_plugins.sanitizer.report.objections`."""
    from hookgate.builtin_plugins.sanitizer import report

    return report.objections(card, first)


CHECKS = {"card": objections}
