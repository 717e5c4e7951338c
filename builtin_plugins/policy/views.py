"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, listing, one_line, table


def changes(found: Mapping[str, Any]) -> Iterator[Text]:
    """Show the tools in quarantine."""
    for row in found["tools"]:
        yield from change(row)
    if not found["tools"]:
        yield Text("no tool is in quarantine", style="dim")


def change(row: Mapping[str, Any]) -> Iterator[Text]:
    """Show what a tool was, and what it is now."""
    yield Text.assemble((row["tool"], "bold"), f" of {row['plugin']}: {one_line(row['why'])}")
    yield Text(f"  digest {row['digest']}", style="dim")
    for part in row["changes"]:
        yield Text(f"  {part['part']}")
        for sign, text, style in (("-", "before", "red"), ("+", "after", "green")):
            for line in clean(part[text]).splitlines() or [""]:
                yield Text(f"    {sign} {line}", style=style)


def verdicts(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what the profile in force decides, by flag, provenance and taint."""
    others = ", ".join(one for one in found["profiles"] if one != found["profile"])
    yield f"profile {found['profile']}; others are {others}"
    columns = ("flag", "value", "provenance", "tainted", "effect")
    ruled = ("rule",) if any(row["rule"] for row in found["rows"]) else ()
    yield table(found["rows"], (*columns, *ruled))


VIEWS = {
    "approvals.grants": listing(
        "grants",
        "nothing is allowed always: who answers a question may say so (`hookgate approvals "
        "resolve allow-always ID`)",
        *("id", "scope", "tool", "session", "by", "expires", "state"),
    ),
    "approvals.list": listing(
        "approvals",
        "nothing waits for an answer: calls that policy asks about wait here (`hookgate policy "
        "table` says which)",
        *("id", "tool", "title", "session", "expires"),
    ),
    "policy.table": verdicts,
    "tools.changes": changes,
}
