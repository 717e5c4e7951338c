"""The plugin ``awareness``: the tool list_capabilities, and the sanitizer of others' text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hookgate.builtin_plugins.awareness.listing import listing, visible
from hookgate.builtin_plugins.awareness.sanitizer import NestedError, clean
from hookgate.core.descriptors import Card, Finding, Flags, Rejected
from hookgate.core.strict_json import canonical
from hookgate.core.tooling import tool
from hookgate.core.tools import ToolResult
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.core.host import Host
    from hookgate.core.tools import Tool
    from hookgate.core.turn import Turn

DESCRIPTION_CHARS = 200
"""So much of a description a model gets to see in the full list."""


class Plugin:
    """Lists what there is, and cleans what others wrote."""

    def __init__(self) -> None:
        self._host: Host | None = None

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        """Bring the tool."""
        self._host = host
        return [
            tool(
                self.show_capabilities,
                # The hook of this name is another thing: it brings capabilities.
                name="list_capabilities",
                flags=Flags.none(),
                always_on=True,
                category="discovery",
                tags=("overview", "tools", "skills", "plugins"),
            )
        ]

    @hookimpl
    def sanitize_card(self, card: Card) -> Card | Rejected | None:
        """Take from a card what could pass for the frame of a conversation."""
        try:
            cleaned = replace(
                card,
                text=clean(card.text),
                name=clean(card.name),
                description=clean(card.description),
            )
        except NestedError as error:
            finding = Finding(rule="nested-role-tags", severity="high", end=len(card.text))
            return Rejected(reason=str(error), findings=(finding,))
        return None if cleaned == card else cleaned

    async def show_capabilities(
        self, turn: Turn, detail: Literal["summary", "full"] = "summary"
    ) -> ToolResult:
        """List the tools, skills, extensions, channels and cards that there are, on and off.

        Args:
            turn: The turn; not part of the arguments.
            detail: summary gives names; full says what each one does and where it is from.
        """
        assert self._host is not None, "list_tools has run before a tool is called"
        plugins = self._host.doors.plugins() if detail == "full" else ()
        data = listing(turn, detail, plugins)
        if detail == "full":
            await self._describe(turn, data)
        return ToolResult(content=canonical(data).decode(), data=data)

    async def _describe(self, turn: Turn, data: dict[str, Any]) -> None:
        assert self._host is not None, "show_capabilities has looked"
        texts = {row.id: row for rows in visible(turn).values() for row in rows}
        for kind in data["kinds"].values():
            for entry in kind["rows"]:
                row = texts[entry["id"]]
                text = row.description[:DESCRIPTION_CHARS]
                card = Card(id=row.id, text=text, source_ref=row.source_ref)
                safe = await self._host.sanitize(card)
                entry["description"] = (
                    f"(not shown: {safe.reason})" if isinstance(safe, Rejected) else safe.text
                )
