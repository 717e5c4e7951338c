"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, listing, table

COLUMNS = ("name", "state", "when", "next", "last", "outcome", "missed")

RUN = ("schedule", "planned", "state", "note")


def schedules(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what runs by the clock, and its last runs."""
    yield from listing(
        "schedules",
        "nothing runs by the clock: a section `[plugin.schedules.jobs.NAME]` with `cron` or "
        "`every`, and `text`, makes something (docs/plugins/schedules.md)",
        *COLUMNS,
    )(found)
    for row in found["schedules"]:
        if row["note"]:
            yield Text(clean(f"{row['name']}: {row['note']}"), style="yellow")
    if found["runs"]:
        yield table(found["runs"], RUN, "runs")


VIEWS = {"schedules.list": schedules}
