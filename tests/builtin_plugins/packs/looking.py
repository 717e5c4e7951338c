"""Command lines and calls, as the packs see them."""

from __future__ import annotations

from typing import Any

from hookgate.builtin_plugins.packs.calls import CallFindings, PackReader
from hookgate.builtin_plugins.packs.command_lines import CommandLines
from hookgate.builtin_plugins.packs.places import Workspace
from hookgate.builtin_plugins.packs.settings import PACKS
from hookgate.builtin_plugins.packs.tables import programs
from hookgate.core.domain.tools import ClientCallFlags, Tool

ROOT = "/home/ada/shop"


def looked_at(line: str, root: str = ROOT, *, runs: bool = True) -> CallFindings:
    """Return what a command line comes to."""
    findings, tables = CallFindings(), programs()
    CommandLines(tables, Workspace(root, tables.names), findings, runs=runs).text(line)
    return findings


def client_tool(name: str, schema: dict[str, Any] | None = None) -> Tool:
    return Tool(
        name=name,
        description="",
        schema={"type": "object"} if schema is None else schema,
        owner="client",
        sandbox="client",
    )


def called(
    name: str, packs: tuple[str, ...] = PACKS, root: str = ROOT, /, **arguments: Any
) -> ClientCallFlags | None:
    """Return what the packs say of a call of a tool that the request does not list."""
    return PackReader(packs=packs).look(client_tool(name), arguments, root)
