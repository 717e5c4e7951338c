"""The plugin ``discovery``: chooses capabilities for turns, and lets models search for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hookgate.builtin_plugins.discovery.engine import Engine
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.core.descriptors import Card, Flags, Rejected, Selection
from hookgate.core.strict_json import canonical
from hookgate.core.tool_call import may_use
from hookgate.core.tooling import tool
from hookgate.core.tools import ToolResult
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.builtin_plugins.discovery.lexical import Hit
    from hookgate.core.descriptors import Capabilities, Capability
    from hookgate.core.host import Host
    from hookgate.core.tools import Tool
    from hookgate.core.turn import Turn

META_TOOL = "discover_capabilities"

DESCRIPTION_CHARS = 300
"""So much of a description a model gets to see in a list of results."""


class Plugin:
    """Finds capabilities by their words."""

    Settings = DiscoverySettings

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._engine = Engine()
        self._host: Host | None = None

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        """Bring the meta-tool, which is offered on every turn."""
        self._host = host
        return [
            tool(
                self.discover_capabilities,
                flags=Flags.none(),
                always_on=True,
                category="discovery",
                tags=("search", "tools", "skills"),
            )
        ]

    @hookimpl
    async def select_capabilities(
        self, turn: Turn, capabilities: Capabilities
    ) -> Sequence[Selection]:
        """Choose what fits the message, within the plan's kinds, category and availability."""
        plan = turn.plan

        def shown(row: Capability) -> bool:
            return (
                row.id in capabilities
                and _usable(turn, row)
                and (plan.kinds is None or row.kind in plan.kinds)
                and plan.category in ("", row.category)
                and (row.available or not plan.only_available)
            )

        hits = await self._engine.find(
            turn.snapshot.capabilities,
            turn.message.text,
            shown=shown,
            limit=self._settings.selected,
            floor=self._settings.floor,
        )
        return [
            Selection(id=hit.row.id, score=hit.relevance, reason=f"holds {', '.join(hit.words)}")
            for hit in hits
        ]

    async def discover_capabilities(
        self,
        turn: Turn,
        query: Annotated[str, Field(min_length=1, max_length=500)],
        kind: Literal["tool", "skill", "extension", "channel"] | None = None,
        category: Annotated[str, Field(max_length=80)] = "",
    ) -> ToolResult:
        """Search for tools, skills, extensions and channels. Tools that are found can be called.

        Args:
            turn: The turn; not part of the arguments.
            query: What it should be able to do.
            kind: One kind only.
            category: One category only.
        """

        def shown(row: Capability) -> bool:
            return (
                _usable(turn, row)
                and kind in (None, row.kind)
                and category.casefold() in ("", row.category.casefold())
            )

        hits = await self._engine.find(
            turn.snapshot.capabilities, query, shown=shown, limit=self._settings.results
        )
        found = [entry for hit in hits if (entry := await self._shown(hit)) is not None]
        total = sum(
            1
            for row in turn.snapshot.capabilities
            if row.kind != "card" and row.id not in turn.withheld
        )
        data = {"capabilities": found, "totalIndexed": total}
        return ToolResult(
            content=canonical(data).decode(),
            data=data,
            reveal=tuple(
                entry["name"] for entry in found if entry["kind"] == "tool" and entry["available"]
            ),
        )

    async def _shown(self, hit: Hit) -> dict[str, Any] | None:
        """Return a hit as a model may see it; None where its text was rejected."""
        row = hit.row
        text = row.description[:DESCRIPTION_CHARS]
        if self._host is not None and text:
            card = await self._host.sanitize(Card(id=row.id, text=text, source_ref=row.source_ref))
            if isinstance(card, Rejected):
                return None
            text = card.text
        return {
            "id": row.id,
            "name": row.name,
            "kind": row.kind,
            "description": text,
            "category": row.category,
            "relevance": round(hit.relevance, 3),
            "available": row.available,
        }


def _usable(turn: Turn, row: Capability) -> bool:
    """Whether the turn may know of `row`: not withheld, and no tool that its agent lacks."""
    if row.id in turn.withheld or row.name == META_TOOL:
        return False
    made = turn.snapshot.tools.get(row.name) if row.kind == "tool" else None
    return made is None or may_use(turn, made)
