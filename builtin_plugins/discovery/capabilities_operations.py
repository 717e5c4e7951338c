"""The operations that show what capabilities there are, and all that is known of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import Capability, HookgateError, Invocation, OperationModel, not_found, operation
from hookgate.catalogue import KIND_PATTERN, capability_rows

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.sources.collecting import Inventory


class ListParams(OperationModel):
    """Which capabilities to list."""

    kind: str | None = Field(default=None, pattern=f"^{KIND_PATTERN}$")
    """One kind only: `tool`, `skill`, `extension`, `channel`, `connector`, `resource`, `prompt`,
    `card`, or a plugin's own."""
    category: str = Field(default="", max_length=80)
    """One category only."""
    available: bool | None = None
    """Only what is available, or only what is not."""
    text: str = Field(default="", max_length=200)
    """Only what holds this text in its id, names, description or tags."""


class CapabilityRow(OperationModel):
    """One capability in a list."""

    id: str
    """Its id."""
    kind: str
    """tool, skill, extension, channel or card."""
    category: str
    """Its category."""
    available: bool
    """Whether all that it requires is there."""
    source: str
    """Where it was declared."""


class CapabilityRows(OperationModel):
    """Capabilities."""

    capabilities: tuple[CapabilityRow, ...]
    """In the order of their ids."""


class CapabilityShown(CapabilityRow):
    """All that is known of one capability."""

    name: str
    """Its name within its kind."""
    display_name: str
    """Its name for people."""
    description: str
    """What it does."""
    tags: tuple[str, ...]
    """Words that it is found by."""
    examples: tuple[str, ...]
    """Messages that ask for it, as given; `examples list` shows learned ones."""
    parameters: tuple[str, ...]
    """What it takes as input."""
    required_secrets: tuple[str, ...]
    """Secrets without which it does not work."""
    required_tools: tuple[str, ...]
    """Tools without which it does not work."""
    unavailable_because: tuple[str, ...]
    """Why it is not available."""
    has_side_effects: bool
    """Whether using it changes anything."""
    flags: dict[str, bool | None]
    """What it does to the world; null where nothing is declared."""
    input_schema: dict[str, Any] | None
    """The JSON Schema of its input."""
    content: str
    """Its full text."""
    problem: str
    """Why schema and text cannot be read; empty where they can."""


class CapabilityOperations:
    """Capabilities: list and show them, check their files, begin new ones.

    Args:
        inventory: Returns what the files hold now.
    """

    def __init__(self, inventory: Callable[[], Inventory]) -> None:
        self._inventory = inventory

    @operation("capabilities.list", rest=("GET", "/v1/capabilities"))
    async def listed(self, invocation: Invocation, params: ListParams) -> CapabilityRows:
        """List tools, skills, extensions, channels and cards."""
        rows = await asyncio.to_thread(capability_rows, invocation.host)
        shown = [_row(rows[row_id]) for row_id in sorted(rows) if _fits(rows[row_id], params)]
        return CapabilityRows.model_validate({"capabilities": shown})

    @operation("capabilities.show")
    async def show(
        self,
        invocation: Invocation,
        id: Annotated[str, Field(max_length=256)],
    ) -> CapabilityShown:
        """Show all that is known of one capability, its schema and text included.

        Args:
            id: Its id, such as `skill:draft-email`.
        """
        rows = await asyncio.to_thread(capability_rows, invocation.host)
        row = rows.get(id)
        if row is None:
            raise not_found("capability", id, "`hookgate capabilities list` shows all", known=rows)
        why = () if row.available else self._inventory().reasons.get(row.id, ())
        return CapabilityShown.model_validate(await asyncio.to_thread(_shown, row, why))


def _fits(row: Capability, params: ListParams) -> bool:
    held = " ".join((row.id, row.display_name, row.description, *row.tags)).casefold()
    return (
        params.kind in (None, row.kind)
        and params.category.casefold() in ("", row.category.casefold())
        and params.available in (None, row.available)
        and params.text.casefold() in held
    )


def _row(row: Capability) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "category": row.category,
        "available": row.available,
        "source": row.source_ref,
    }


def _shown(row: Capability, why: Sequence[str]) -> dict[str, Any]:
    """Return everything about `row`; it reads files."""
    schema, content, problem = None, "", ""
    if row.load is not None:
        try:
            detail = row.load()
            schema, content = detail.schema, detail.content
        except HookgateError as error:
            problem = str(error)
    return {
        **_row(row),
        "name": row.name,
        "display_name": row.display_name,
        "description": row.description,
        "tags": row.tags,
        "examples": row.examples,
        "parameters": row.parameters,
        "required_secrets": row.required_secrets,
        "required_tools": row.required_tools,
        "unavailable_because": list(why),
        "has_side_effects": row.has_side_effects,
        "flags": row.flags.to_json(),
        "input_schema": None if schema is None else dict(schema),
        "content": content,
        "problem": problem,
    }
