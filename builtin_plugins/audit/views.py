"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hookgate.kit.commands import View
from hookgate.kit.rendering import listing


def sealed(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of an export, and the heads of their chains at the end."""
    heads = {}
    for row in rows:
        heads[row["chain"]] = f"{row['chain']}/{row['seq']}/{row['seal']}"
        yield row
    yield {"heads": list(heads.values())}


VIEWS = {
    "audit.export": View(shown=sealed, export="rows"),
    "audit.list": listing(
        "entries",
        "no decision fits: each tool call leaves rows here, with what was decided and by whom",
        *("at", "kind", "tool", "outcome", "session"),
        more="before",
    ),
}
