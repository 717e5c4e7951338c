"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from hookgate import counted
from hookgate.kit.commands import View
from hookgate.kit.rendering import clean, listing, one_line

TIERS = ("tier 0, the map of categories", "tier 1, summaries", "tier 2, full details")

Explain = Annotated[
    bool, typer.Option("--explain", help="Show the scores by part, the tiers and the times.")
]


def discovered(found: Mapping[str, Any], *, explain: Explain = False) -> Iterator[Any]:
    """Show what a message finds."""
    if not found["found"]:
        yield "Nothing fits: no tier 1 and no tier 2, and no tool is chosen."
    else:
        scores = ("relevance", "dense", "lexical", "graph") if explain else ("relevance",)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("capability", overflow="fold")
        for name in scores:
            table.add_column(name, justify="right")
        table.add_column("why", overflow="fold")
        for row in found["found"]:
            name = one_line(row["id"]) + ("" if row["available"] else " (not available)")
            why = one_line(_why(row))
            if explain and row["learned"]:
                said = ", ".join(f"“{one_line(text)}”" for text in row["learned"])
                why += f"; has answered {said}"
            table.add_row(name, *(f"{row[score]:.3f}" for score in scores), why)
        yield table
    if explain:
        yield from _tiers(found)


def imported(done: Mapping[str, Any]) -> str:
    """Say what became of the examples of an export."""
    return (
        f"{counted(done['new'], 'example')} added, {done['known']} known already, "
        f"{done['left_out']} left out"
    )


def _tiers(found: Mapping[str, Any]) -> Iterator[str | Text]:
    for title, tier in zip(TIERS, found["tiers"], strict=True):
        yield Text.assemble("\n", (title, "bold"), f": {tier['tokens']} tokens")
        if tier["text"]:
            yield clean(tier["text"])
        if tier["left_out"]:
            yield f"left out: {one_line(', '.join(tier['left_out']))}"
    times = ", ".join(f"{step} {time:.2f}" for step, time in found["milliseconds"].items())
    meaning = "words and meaning" if found["vectors"] else "words alone"
    yield f"\n{found['tokens']} tokens in all. Searched by {meaning}."
    yield f"Milliseconds: {times}."
    if found["problem"]:
        yield found["problem"]


def _why(row: Mapping[str, Any]) -> str:
    if row["pulled_by"]:
        verb = "needed by" if row["edge"] == "DEPENDS_ON" else "used with"
        return f"{verb} {row['pulled_by']}"
    if row["tag"]:
        return f"tag {row['tag']}"
    return f"holds {', '.join(row['words'])}" if row["words"] else "by meaning"


VIEWS = {
    "capabilities.list": listing(
        "capabilities",
        "no capability fits: skills and manifests lie in folders (`capability_dirs`, "
        "docs/capabilities.md), tools come with plugins",
        *("id", "kind", "category", "available"),
    ),
    "discover": discovered,
    "examples.list": listing(
        "examples",
        "nothing was learned from use so far: a capability that answers a message well is found "
        "better by its like",
        *("capability", "scope", "text", "count", "last_used", "foreign"),
    ),
    "examples.export": View(export="examples"),
    "examples.import": View(imports="examples", shown=imported),
}
