"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from hookgate import counted
from hookgate.kit.commands import View
from hookgate.kit.rendering import clean


def listed(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show rows, and whether there are more."""
    yield from _rows(found["rows"])
    if not found["rows"]:
        yield "nothing is remembered"
    if found["next"]:
        yield Text(f"there are older ones: --before {found['next']}", style="dim")
    if not found["durable"]:
        yield Text("it is lost when the gateway stops", style="yellow")


def whole(found: Mapping[str, Any]) -> Iterator[str]:
    """Show all of a row, and what it rests on."""
    for row in found["rows"]:
        for name, value in row.items():
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            if shown:
                yield f"{name:<11} {shown}"
    for one in found["sources"]:
        yield f"said in     {one['said']} ({one['at'][:16]}, {one['speaker']})"


def history(found: Mapping[str, Any]) -> Iterator[str]:
    """Show what was known when."""
    yield from _rows(found["rows"])


def lines(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show lines that were found, each with its reason."""
    if not found["lines"]:
        yield "nothing is found"
    for line in found["lines"]:
        mark = "+" if line["shown"] else "-"
        yield f"{mark} {line['at'][:16]} {line['text']}"
        left = f"; not shown: {line['reason']}" if line["reason"] else ""
        why = f"  {line['kind']} {line['id']}; {'; '.join(line['why'])}{left}"
        yield Text(clean(why), style="dim")


def explained(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show what a message would recall."""
    head = f"in {found['session']}: {found['tokens']} of {found['budget']} tokens"
    yield Text(clean(head), style="dim")
    yield from lines(found)


def forgotten(found: Mapping[str, Any]) -> str:
    """Say what is gone, or would be."""
    done = "would forget" if found.get("check") else "forgot"
    return f"{done} {counted(found['facts'], 'fact')} and {counted(found['pieces'], 'message')}"


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        times = "".join(
            f" {word} {row[name][:10]}"
            for word, name in (("from", "valid_from"), ("until", "valid_to"))
            if row[name]
        )
        over = f" [{row['ending']} {row['superseded'][:10]}]" if row["superseded"] else ""
        who = f"{row['speaker']}: " if row["kind"] == "turn" else ""
        taint = f" (taint: {', '.join(row['taint'])})" if row["taint"] else ""
        text = " ".join(f"{who}{row['text']}".split())
        yield f"{row['at'][:16]} {row['id']} {text}{times}{over}{taint}"


VIEWS = {
    "memory.audit": history,
    "memory.explain": explained,
    "memory.export": View(export="rows"),
    "memory.forget": forgotten,
    "memory.list": listed,
    "memory.search": lines,
    "memory.show": whole,
}
