"""What there is, by kind, for a model that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from hookgate.core.descriptors import CapabilityKind
from hookgate.core.tool_call import may_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.core.descriptors import Capability
    from hookgate.core.host import PluginInfo
    from hookgate.core.turn import Turn

__all__ = ["MAX_ROWS", "listing", "visible"]

MAX_ROWS = 200
"""Rows of one kind that are listed; the rest is counted."""


def visible(turn: Turn) -> dict[CapabilityKind, list[Capability]]:
    """Return what the turn may know of, by kind and sorted by name.

    What is withheld is left out, and so are tools that the turn's agent may not call.
    """
    found: dict[CapabilityKind, list[Capability]] = {}
    for row in turn.snapshot.capabilities:
        made = turn.snapshot.tools.get(row.name) if row.kind == "tool" else None
        if row.id not in turn.withheld and (made is None or may_use(turn, made)):
            found.setdefault(row.kind, []).append(row)
    return {
        kind: sorted(found[kind], key=lambda row: row.name)
        for kind in get_args(CapabilityKind)
        if kind in found
    }


def listing(
    turn: Turn, detail: Literal["summary", "full"], plugins: Sequence[PluginInfo]
) -> dict[str, Any]:
    """Return what there is, JSON-ready.

    ``summary`` gives for each kind the names that are on and those that are off. ``full``
    gives a row for each, with what it does and where it comes from, and the plugins.
    Descriptions are not in it: they have to pass the sanitizers first.
    """
    kinds: dict[str, Any] = {}
    for kind, rows in visible(turn).items():
        shown = rows[:MAX_ROWS]
        entry: dict[str, Any] = {"total": len(rows)}
        if detail == "summary":
            entry["on"] = [row.name for row in shown if row.available]
            entry["off"] = [row.name for row in shown if not row.available]
        else:
            entry["rows"] = [_row(turn, row) for row in shown]
        if len(rows) > len(shown):
            entry["more"] = len(rows) - len(shown)
        kinds[kind] = entry
    data: dict[str, Any] = {"kinds": kinds}
    if detail == "full":
        data["plugins"] = [
            {"name": info.name, "origin": info.origin, "state": info.state, "why": info.reason}
            for info in plugins
        ]
    return data


def _row(turn: Turn, row: Capability) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": row.id,
        "name": row.name,
        "on": row.available,
        "category": row.category,
        "origin": row.source_ref,
        "flags": {name: value for name, value in row.flags.to_json().items() if value is not False},
    }
    if row.kind == "tool":
        entry["offered"] = row.name in turn.offered
    return entry
