"""``hookgate memory import``: what was exported, taken in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookgate import counted
from hookgate.kit.commands import JsonOption, read_export, state_of

BATCH = 500
"""Rows of an import that are sent at once."""


def import_(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="An export.", exists=True, dir_okay=False),
    ],
    trusted: Annotated[
        bool,
        typer.Option(
            "--trusted",
            help="You know who wrote it: its rows are what they say, the user's own words too. "
            "Without it, all are tainted by the file's name.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take in an export: its facts and notes. All of it is checked first.

    What is there already is left as it is. What was said is of a conversation, and left out.
    """
    from hookgate.wire import well_formed

    del as_json
    state = state_of(ctx)
    found = read_export(file, "hookgate memory export --out FILE")
    rows = [row for row in found if row.get("kind") != "turn"]
    done = {"new": 0, "known": 0}
    for check in (True, False):
        for begin in range(0, len(rows), BATCH):
            some = rows[begin : begin + BATCH]
            params = {
                "rows": some,
                "check": check,
                "first": begin + 1,
                "source": well_formed(file.name)[:200],
                "trusted": trusted,
            }
            answer = state.ask("memory.import", params)
            done = {name: count + answer[name] for name, count in done.items()}
    said = f"{counted(done['new'], 'row')} added, {done['known']} known already"
    state.show(done, said)


COMMANDS = {"memory import": import_}
