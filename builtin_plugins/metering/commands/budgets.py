"""``hookgate budgets``: what is limited, and how far it is used.

`set`, `remove`, `raise`, `resume` and `explain` are operations of the plugin ``metering``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import CommandGroup, JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

BAR = 12
"""Characters of a bar."""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Budgets and limits of model calls: show, explain, set, raise them.",
)


@app.callback()
def budgets() -> None:
    """Be a group, although only one command stands here."""


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="One budget or limit; all without it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the budgets and limits, and how far each is used.

    Example:
        hookgate budgets show daily
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    found = state.ask("budgets.show", {"name": name})

    def render(console: Console) -> None:
        if not found["budgets"]:
            console.print(
                "no budgets: `hookgate budgets set NAME --tokens 100000` makes one, or a section "
                "`[plugin.metering.budgets.NAME]` of the settings",
                markup=False,
            )
        else:
            console.print(_table(found["budgets"]))
        for session, why in found["paused"].items():
            console.print(f"paused: {session}: {why}", style="yellow", markup=False)

    state.show(found, render)


def _table(budgets: list[Mapping[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("budget", "for each", "of", "used", "held", "limit", ""):
        table.add_column(title, justify="right" if title in ("used", "held", "limit") else "left")
    for one in budgets:
        whose = one["scope"] if one["of"] == "*" else f"{one['scope']} {one['of']}"
        table.add_row(one["name"], whose, one["window"], "", "", one["limit"], one["over"])
        for counter in one["counters"]:
            _, subject, window = counter["key"].split("/", 2)
            table.add_row(
                "", subject, window, counter["used"], counter["held"], "", _bar(counter["share"])
            )
    return table


def _bar(share: float) -> Text:
    from rich.text import Text

    style = "red" if share >= 1 else "yellow" if share >= 0.8 else "green"
    full = min(round(share * BAR), BAR)
    return Text.assemble(("█" * full, style), ("░" * (BAR - full), "dim"), f" {share:.0%}")
