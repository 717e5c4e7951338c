"""The operation of packs: which tools of clients were seen, and what could be said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hookgate import FLAG_NAMES, Invocation, OperationModel, Tool, Turn, operation
from hookgate.builtin_plugins.packs.settings import PACKS, PacksSettings

MAX_SEEN = 500
"""Tools that are remembered, one for each name and schema; the one seen longest ago goes first."""


MAX_ARGUMENTS = 100
"""Arguments of each that are."""


class ClientToolRow(OperationModel):
    """A tool of a client's, as it was seen since the gateway's start."""

    tool: str
    schema_digest: str
    """SHA-256 of its schema; empty where the request that called it listed no such tool."""
    calls: int
    """How often it was called."""
    principal: str
    """Who brought it last."""
    at: str
    """When, ISO 8601 in UTC."""
    known: Literal["pack", "operator", "no"]
    """Who says what it does: a pack that is enabled, `[plugin.packs.tools]`, or nobody."""
    suggestion: str
    """What to write to have it known; empty where it is."""


class ClientTools(OperationModel):
    """The tools of clients that were seen."""

    tools: list[ClientToolRow]
    """By their names."""


@dataclass(slots=True)
class SeenTool:
    """A tool, while it is remembered."""

    digest: str
    schema: Mapping[str, object]
    calls: int = 0
    principal: str = ""
    at: str = ""
    packs: tuple[str, ...] = ()


class SeenTools:
    """The tools of clients that were called."""

    def __init__(self) -> None:
        self.tools: dict[tuple[str, str], SeenTool] = {}

    def note(self, turn: Turn, tool: Tool, digest: str, at: str, packs: tuple[str, ...]) -> None:
        """Remember a call of a tool of a turn's client."""
        key = (tool.name, digest)
        seen = self.tools.pop(key, None) or SeenTool(digest, _outline(tool.schema))
        seen.calls += 1
        seen.principal, seen.at, seen.packs = turn.principal.id, at, packs
        self.tools[key] = seen
        while len(self.tools) > MAX_SEEN:
            del self.tools[next(iter(self.tools))]


def _outline(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names and types of a schema's arguments, which is what packs go by."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    few = list(properties.items())[:MAX_ARGUMENTS]
    types = {name: one.get("type") for name, one in few if isinstance(one, Mapping)}
    return {
        "properties": {
            name[:100]: {"type": kind} if isinstance(kind, str) else {}
            for name, kind in types.items()
        }
    }


class CompatOperations:
    """Clients of other protocols, and what they bring."""

    def __init__(
        self,
        seen: SeenTools,
        settings: PacksSettings,
        known: Callable[[str, SeenTool], Literal["pack", "operator", "no"]],
    ) -> None:
        self._seen = seen
        self._settings = settings
        self._known = known

    @operation("compat.tools", scope="operate", rest=("GET", "/v1/compat/tools"))
    async def list_tools(self, invocation: Invocation) -> ClientTools:
        """List the tools of clients that were seen, with a suggestion for those nobody knows."""
        del invocation
        rows = []
        for (name, digest), seen in sorted(self._seen.tools.items()):
            known = self._known(name, seen)
            rows.append(
                ClientToolRow(
                    tool=name,
                    schema_digest=digest,
                    calls=seen.calls,
                    principal=seen.principal,
                    at=seen.at,
                    known=known,
                    suggestion="" if known != "no" else self._suggestion(name, seen),
                )
            )
        return ClientTools(tools=rows)

    def _suggestion(self, name: str, seen: SeenTool) -> str:
        """Return what to write: the pack that has such a tool, or what to say of it oneself."""
        from hookgate.builtin_plugins.packs.calls import PackReader

        tool = Tool(name=name, description="", schema=seen.schema, owner="client")
        fitting = [one for one, _ in PackReader(packs=PACKS).entries(tool)]
        if fitting:
            enabled = [*self._settings.enabled, fitting[0]]
            listed = ", ".join(f'"{one}"' for one in sorted(enabled))
            return f"[plugin.packs]\nenabled = [{listed}]"
        lines = [f'[plugin.packs.tools."{name}"]']
        lines += [f"{flag} = true  # or false: what does it do?" for flag in FLAG_NAMES]
        lines += [f'schema_digest = "{seen.digest}"'] if seen.digest else []
        return "\n".join(lines)
