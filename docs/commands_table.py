"""Write what the command line knows of builtin operations: ``python -m docs.commands_table``.

With it, the help of a group of commands need not start a gateway.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hookgate.cli.operation_commands import SHIPPED
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.kit.functions.operations import describe_operation

TOLD = ("name", "summary", "scope", "plugin", "command", "params", "details", "group")


async def rows() -> list[dict[str, Any]]:
    """Return the operations of all builtin plugins that have a command."""
    with TemporaryDirectory() as home:
        data = {"home": home, "plugins": {"entry_points": False}, "log": {"level": "error"}}
        async with Gateway(Settings.model_validate(data)) as gateway:
            described = [
                describe_operation(one)
                for name, one in sorted(gateway.host.operations.items())
                if name == one.name
            ]
    return [{key: row[key] for key in TOLD} for row in described if row["command"]]


def text() -> str:
    """Return the file: a row a line."""
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in asyncio.run(rows()))
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    Path(SHIPPED).write_text(text(), encoding="utf-8")
