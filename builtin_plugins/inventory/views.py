"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, fields, table

_STATUS = {"manageable-but-pending-auth": "pending auth"}


def records(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show records, and how the sources stand."""
    rows = [
        {
            "id": row["short"],
            "name": row["name"],
            "kind": row["kind"],
            "agent": row["agent_id"],
            "status": _STATUS.get(row["status"], row["status"]),
            "can": ", ".join(one["action"] for one in row["buttons"] if one["enabled"]),
            "why": _why(row),
        }
        for row in found["records"]
    ]
    # A column in which nothing stands says nothing, and takes the place of the others.
    shown = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    kept = [{name: row[name] for name in shown} for row in rows]
    yield table(kept) if kept else "nothing fits: without a filter all is shown"
    yield table([_source(one) for one in found["sources"]], title="sources")
    if found["next"]:
        more = f"{found['total']} in all; the next ones: --after '{found['next']}'"
        yield Text(clean(more), style="dim")


def _why(row: Mapping[str, Any]) -> str:
    """Return why it is not ready, or what is odd about it."""
    waits = row["status"] not in ("ready", "disabled")
    return "; ".join((*row["diagnostics"], *([row["hint"]] if waits and row["hint"] else ())))


def _source(one: Mapping[str, Any]) -> dict[str, Any]:
    stands = "ok" if one["ok"] else "degraded, served from its last good read"
    if not (one["ok"] or one["stale"]):
        stands = "degraded, and nothing of it is known"
    return {
        "source": one["id"],
        "records": one["records"],
        "stands": stands,
        "synced": one["synced_at"],
        "why": one["why"],
    }


def record(found: Mapping[str, Any]) -> Any:
    """Show one record, and what may be done to it."""
    row = dict(found["record"])
    buttons = [
        one["action"] if one["enabled"] else f"{one['action']} ({one['hint']})"
        for one in row.pop("buttons")
    ]
    note = row.pop("note")
    row = {"id": row.pop("short"), "whole id": row.pop("id"), **row}
    shown = {name: value for name, value in row.items() if value not in (None, "", [])}
    return fields({**shown, "can be done": ", ".join(buttons) or note or "nothing"})


VIEWS = {
    "inventory.approve": record,
    "inventory.disable": record,
    "inventory.enable": record,
    "inventory.install": record,
    "inventory.list": records,
    "inventory.show": record,
}
