"""``hookgate memory import``: what was exported, taken in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hookgate import counted
from hookgate.kit.commands import JsonOption, state_of

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
    rows = _read(file)
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


def _read(path: Path) -> list[dict[str, Any]]:
    from hookgate import StartError

    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{path} cannot be read as UTF-8 text: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise StartError(
                f"line {number} of {path} is no JSON ({error}): expected a file that "
                "`hookgate memory export --out FILE` wrote"
            ) from error
        if not isinstance(row, dict):
            raise StartError(
                f"found {type(row).__name__} in line {number} of {path}, expected an object"
            )
        if row.get("kind") != "turn":
            rows.append(row)
    return rows


COMMANDS = {"memory import": import_}
