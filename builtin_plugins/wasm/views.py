"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate import counted
from hookgate.kit.rendering import one_line, table

STYLES = {
    "running": "green",
    "loading": "yellow",
    "new": "yellow",
    "changed": "bold red",
    "hidden": "yellow",
}


def plugins(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show plugins, and why one does not run."""
    rows = found["plugins"]
    if not rows:
        yield Text("no plugin: `hookgate wasm install FOLDER` installs one", style="dim")
        return
    yield table(
        [
            {
                "plugin": Text(one_line(row["name"]), style="bold"),
                "version": row["version"],
                "brings": ", ".join(row["tools"]) or row["kind"],
                "state": Text(row["state"], style=STYLES.get(row["state"], "bold red")),
                "grants": Text("\n".join(map(one_line, row["grants"]))),
            }
            for row in rows
        ]
    )
    for row in rows:
        if row["why"]:
            yield Text(f"{one_line(row['name'])}: {one_line(row['why'])}", style="yellow")


def verified(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show what is not as it was accepted."""
    for row in found["plugins"]:
        told = "intact" if row["intact"] else f"not what was accepted: {one_line(row['why'])}"
        yield f"{one_line(row['name'])}: {told}"
    if not found["plugins"]:
        yield Text("no plugin was accepted", style="dim")


def removed(found: Mapping[str, Any]) -> str:
    """Say what is gone."""
    told = "removed" if found["removed"] else "nothing was accepted as"
    deleted = f", and {counted(found['values'], 'value')} of its own" if found["values"] else ""
    return f"{told} {found['name']}{deleted}"


VIEWS = {"wasm.list": plugins, "wasm.remove": removed, "wasm.verify": verified}
