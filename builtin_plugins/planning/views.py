"""What `hookgate outcomes` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from hookgate.kit import rendering
from hookgate.kit.rendering import cell, plain_table


def outcomes(found: Mapping[str, Any]) -> Iterator[str | Table | Text]:
    """Show how turns went, scope by scope."""
    if not found["scopes"]:
        yield "no turns so far"
        return
    titles = ("turns", "success", "partial", "failed", "rate")
    table = plain_table("scope", *titles, "plans", right=titles)
    for row in found["scopes"]:
        table.add_row(
            cell(row["scopeKey"]),
            *(str(row[f"{what}Count"]) for what in ("sample", "success", "partial", "failed")),
            f"{row['weightedSuccessRate']:.2f}",
            "changed" if row["degraded"] else "as set",
        )
    yield table
    if found["failed"]:
        rows = [
            {
                "ended": row["ended"],
                "session": row["session"],
                "reason": row["reason"],
                "fault of": row["fault"],
            }
            for row in found["failed"]
        ]
        yield rendering.table(rows, title="failed, the newest first")
    if not found["durable"]:
        yield Text("no store: this is lost when the gateway stops", style="yellow")


VIEWS = {"outcomes": outcomes}
