"""``hookgate discover``: what a message finds, and what a model would see of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import JsonOption, state_of
from hookgate.kit.rendering import clean, one_line

if TYPE_CHECKING:
    from rich.console import Console

TIERS = ("tier 0, the map of categories", "tier 1, summaries", "tier 2, full details")


def discover(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="A message, or what is looked for.")],
    kind: Annotated[
        str | None,
        typer.Option(help="One kind only, such as skill."),
    ] = None,
    category: Annotated[str | None, typer.Option(help="One category only.")] = None,
    available: Annotated[
        bool,
        typer.Option(
            "--available/--all", help="Leave out what lacks something it requires, as a turn does."
        ),
    ] = True,
    limit: Annotated[int | None, typer.Option(help="So many found ones at most.")] = None,
    floor: Annotated[
        float | None, typer.Option(help="The least relevance, 0 to 1, instead of the settings'.")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show the scores by part, the tiers and the times."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show which capabilities a message of yours finds, with the default agent.

    Example:
        hookgate discover "convert 5 miles to km" --explain
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    given: dict[str, Any] = {
        "query": query,
        "kind": kind,
        "category": category,
        "available": available,
        "limit": limit,
        "floor": floor,
    }
    params = {key: value for key, value in given.items() if value is not None}
    found = state.ask("discovery.discover", params)
    state.show(found, lambda console: _print(console, found, explain=explain))


def _print(console: Console, found: Mapping[str, Any], *, explain: bool) -> None:
    from rich.table import Table

    if not found["found"]:
        console.print("Nothing fits: no tier 1 and no tier 2, and no tool is chosen.")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("capability", overflow="fold")
        for name in ("relevance", "dense", "lexical", "graph") if explain else ("relevance",):
            table.add_column(name, justify="right")
        table.add_column("why", overflow="fold")
        for row in found["found"]:
            numbers = [row["relevance"]]
            if explain:
                numbers += [row["dense"], row["lexical"], row["graph"]]
            name = one_line(row["id"]) + ("" if row["available"] else " (not available)")
            table.add_row(name, *(f"{number:.3f}" for number in numbers), one_line(_why(row)))
        console.print(table)
    if not explain:
        return
    for title, tier in zip(TIERS, found["tiers"], strict=True):
        console.print(f"\n[bold]{title}[/bold]: {tier['tokens']} tokens")
        if tier["text"]:
            console.print(clean(tier["text"]), markup=False, highlight=False)
        if tier["left_out"]:
            console.print(f"left out: {one_line(', '.join(tier['left_out']))}")
    times = ", ".join(f"{step} {time:.2f}" for step, time in found["milliseconds"].items())
    meaning = "words and meaning" if found["vectors"] else "words alone"
    console.print(f"\n{found['tokens']} tokens in all. Searched by {meaning}.")
    console.print(f"Milliseconds: {times}.")
    if found["problem"]:
        console.print(clean(found["problem"]))


def _why(row: Mapping[str, Any]) -> str:
    if row["pulled_by"]:
        verb = "needed by" if row["edge"] == "DEPENDS_ON" else "used with"
        return f"{verb} {row['pulled_by']}"
    if row["tag"]:
        return f"tag {row['tag']}"
    return f"holds {', '.join(row['words'])}" if row["words"] else "by meaning"
