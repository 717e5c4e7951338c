"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.commands import View
from hookgate.kit.rendering import listing, short, table


def costs(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what hooks cost: of each plugin, or of one plugin each hook and its last calls."""
    plugins = found["plugins"]
    if not plugins:
        yield f"No hook was called since {found['since']}, when timing began: ask again later."
        return
    one = len(plugins) == 1 and found["calls"]
    yield table([_cost(row) for row in (plugins[0]["hooks"] if one else plugins)])
    if one:
        yield table([_call(row) for row in found["calls"]])
    yield Text(f"Timed since {found['since']}.", style="dim")


def _cost(row: Mapping[str, Any]) -> Mapping[str, Any]:
    failures = row["failures"]
    return {
        **{name: Text(row[name], style="bold") for name in ("plugin", "hook") if name in row},
        "calls": row["calls"],
        "ms in all": f"{row['milliseconds']:.3f}",
        "p95 ms": f"{row['p95']:.3f}",
        "failures": Text(str(failures), style="red" if failures else ""),
        "slowest": row["slowest"] if "plugin" in row else f"{row['slowest']:.3f} ms",
    }


def _call(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "at": row["at"][11:23],
        "hook": row["hook"],
        "turn": row["turn"][-6:],
        "ms": f"{row['milliseconds']:.3f}",
        "returned": Text(short(row["returned"]), style="red" if row["failed"] else ""),
    }


VIEWS = {
    "plugins.costs": View(shown=costs, running=True),
    "turn.list": listing(
        "turns",
        "no turn fits: `hookgate chat` begins one, and `hookgate turns show ID` tells all of it",
        *("id", "started", "session", "ending"),
        more="before",
    ),
}
