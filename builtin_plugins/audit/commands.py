"""``hookgate audit verify``: the record of decisions, held against what was exported before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import counted
from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    pass


def verify(
    ctx: typer.Context,
    head: Annotated[
        Path | None,
        typer.Option(help="An export that was kept elsewhere: its heads must still be rows."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether the record is as it was written, and name the first bad row.

    Exit code 1 if it is not, or if rows were sealed with another key.

    Example:
        hookgate audit verify --head audit-export.jsonl
    """
    from rich.text import Text

    from hookgate.kit.rendering import verdict

    state = state_of(ctx)
    heads = [] if head is None else _heads(head)
    found = state.ask("audit.verify", {"heads": heads})

    said: list[Any] = [verdict(found["ok"], _said(found), bad="bad")]
    if heads and found["ok"]:
        said.append(f"{counted(len(heads), 'exported head is', 'exported heads are')} there")
    if not found["durable"]:
        lost = "no store: what is recorded is lost when the gateway stops"
        said.append(Text(lost, style="yellow"))
    state.show(found, said, failed=not found["ok"])


def _said(found: Mapping[str, Any]) -> str:
    said = [counted(found["rows"], "row")]
    if found["bad"]:
        said = [f"row {found['bad']}: {found['why']}"]
    for name, count in found["foreign"].items():
        said.append(f"{counted(count, 'row')} sealed with another key ({name})")
    if found["unsealed"]:
        said.append(f"{counted(found['unsealed'], 'row')} from before there were seals")
    return "; ".join(said)


def _heads(path: Path) -> list[str]:
    from hookgate import StartError

    try:
        last = path.read_text(encoding="utf-8").rstrip().rsplit("\n", 1)[-1]
        heads = json.loads(last)["heads"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(
            f"found no heads in the last line of {path} ({error}): expected a file that "
            "`hookgate audit export --out FILE` wrote"
        ) from error
    if not isinstance(heads, list) or not all(isinstance(one, str) for one in heads):
        raise StartError(f"found heads in {path} that are no list of texts: expected an export")
    return heads


COMMANDS = {"audit verify": verify}
