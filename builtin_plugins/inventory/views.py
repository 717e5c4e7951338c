"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, fields, table


def records(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show records, and how the sources stand."""
    rows = [
        {
            "id": row["id"],
            "status": row["status"],
            "tier": row["manageability"],
            "risk": row["risk"],
            "can": ", ".join(one["action"] for one in row["buttons"] if one["enabled"]),
        }
        for row in found["records"]
    ]
    yield table(rows) if rows else "nothing fits"
    yield table([_source(one) for one in found["sources"]], title="sources")
    if found["next"]:
        more = f"{found['total']} in all; the next ones: --after '{found['next']}'"
        yield Text(clean(more), style="dim")


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
