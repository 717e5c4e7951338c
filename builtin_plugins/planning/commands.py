"""``hookgate outcomes``: how the last turns went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def outcomes(
    ctx: typer.Context,
    scope: Annotated[
        str, typer.Argument(help="One scope, such as agent:main/channel:cli; all without it.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show how the last turns went, and whether plans are changed because of it.

    Example:
        hookgate outcomes
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    found = state.ask("outcomes", {"scope": scope})

    def render(console: Console) -> None:
        if not found["scopes"]:
            console.print("no turns so far", markup=False)
            return
        console.print(_table(found["scopes"]))
        if not found["durable"]:
            console.print("no store: this is lost when the gateway stops", style="yellow")

    state.show(found, render)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from hookgate.kit.rendering import cell

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("scope", overflow="fold")
    for title in ("turns", "success", "partial", "failed", "rate"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("plans")
    for row in rows:
        table.add_row(
            cell(row["scopeKey"]),
            *(str(row[f"{what}Count"]) for what in ("sample", "success", "partial", "failed")),
            f"{row['weightedSuccessRate']:.2f}",
            "changed" if row["degraded"] else "as set",
        )
    return table


COMMANDS = {"outcomes": outcomes}
"""What the command line finds here, by its words."""
