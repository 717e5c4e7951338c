"""What a tool must be before a model can be offered it, however it comes in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.errors import ToolDefinitionError
from hookgate.core.tooling import NAME, compile_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.core.settings import TurnSettings
    from hookgate.core.tools import Tool

__all__ = ["tool_admission"]


def tool_admission(settings: TurnSettings) -> Callable[[str, Tool], Tool]:
    """Return the check that the registry of tools makes of each one.

    The check returns the tool, stamped with the plugin that brought it, or raises
    `ToolDefinitionError`.
    """

    def admit(source: str, tool: Tool) -> Tool:
        if not NAME.fullmatch(tool.name):
            raise ToolDefinitionError(
                tool.name, "expected a name of 1 to 64 characters of [A-Za-z0-9_-]"
            )
        if tool.run is None and tool.owner == "host":
            raise ToolDefinitionError(tool.name, "it has no runner: set `run`")
        if settings.sandbox == "required" and tool.sandbox != "wasm":
            raise ToolDefinitionError(
                tool.name,
                f"found sandbox {tool.sandbox!r}, expected 'wasm': `turn.sandbox` is 'required'",
            )
        compile_schema(tool.schema, tool=tool.name)
        return tool if tool.plugin == source else replace(tool, plugin=source)

    return admit
