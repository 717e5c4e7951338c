"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, table

COLUMNS = ("name", "state", "scopes", "client", "by", "expires", "limits")


def made(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show a new key, and what its client is told."""
    yield Text(f"The key {found['name']}. It is kept nowhere, and not shown again:", style="bold")
    yield Text(f"\n  {found['key']}\n", style="bold green")
    if found["lines"]:
        yield Text("What its client is told:", style="bold")
        yield Text("\n" + "\n".join(found["lines"]) + "\n")
    else:
        yield Text("Clients send `Authorization: Bearer KEY` or `x-api-key: KEY`.", style="dim")
    if found["expires"]:
        yield Text(f"It ends at {found['expires']}.", style="dim")


def keys(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show the keys there are."""
    if not found["keys"]:
        yield "there are no keys: `hookgate keys new --for claude-code` makes one"
        return
    rows = [{**row, "limits": _limits(row)} for row in found["keys"]]
    yield table(rows, COLUMNS, "keys")


def changed(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show a key that was changed."""
    yield from keys({"keys": [found]})


def revoked(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what was revoked."""
    yield f"{clean(found['name'])} is revoked"


def _limits(row: Mapping[str, Any]) -> str:
    return clean(", ".join(f"{name} {_said(value)}" for name, value in row["limits"].items()))


def _said(value: Any) -> str:
    return "|".join(map(str, value)) if isinstance(value, list) else str(value)


VIEWS = {
    "keys.new": made,
    "keys.rotate": made,
    "keys.list": keys,
    "keys.change": changed,
    "keys.revoke": revoked,
}
