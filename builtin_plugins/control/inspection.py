"""Operations that say what a running gateway is made of: its tools, plugins and routes."""

from __future__ import annotations

import fnmatch
from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    FLAG_NAMES,
    POSITIONAL,
    Address,
    Host,
    Invocation,
    OperationModel,
    Tool,
    operation,
)


class FlagRow(OperationModel):
    """One of the five statements about what a tool does."""

    value: bool | None
    """Yes, no, or null where nothing is declared, which policy takes for yes."""
    standing: Literal["proven", "declared", "unknown"]
    """On what it rests: the sandbox holds it, or its author says so, or on nothing."""
    ground: str
    """What that is in particular, such as a grant of the sandbox; empty where nobody says."""


class ToolRow(OperationModel):
    """One tool."""

    name: str
    """The name by which a model calls it."""
    description: str
    """What it does."""
    plugin: str
    """Who brings it."""
    owner: Literal["host", "client"]
    """Who runs it: the gateway, or the client of a compat endpoint."""
    sandbox: Literal["python", "wasm", "remote", "client"]
    """Where it runs."""
    always_on: bool
    """Whether it is offered on every turn, whatever selection says."""
    category: str
    """One word, for people and discovery."""
    flags: dict[str, FlagRow]
    """The five statements by name."""
    idempotent: bool | None
    """Whether a call that is made again alike changes nothing more; null where that is unknown."""
    digest: str
    """SHA-256 of what the model sees and policy judges."""
    quarantine: str
    """Why it must not run before somebody has accepted it; empty where it may."""
    off: str
    """For whom it is switched off: `everybody`, or agents; empty where it is on."""


class ToolRows(OperationModel):
    """The gateway's tools."""

    tools: tuple[ToolRow, ...]
    """In the order of their names."""


class Why(OperationModel):
    """Why a plugin runs, or why it does not."""

    name: str
    """Its name."""
    why: str
    """The reason, in a sentence."""


class Routed(OperationModel):
    """Which agent answers an address, and why."""

    agent: str
    """The agent."""
    tier: str
    """The tier that decided: peer, guild, team, account, channel or default."""
    binding: int | None
    """The place of the binding in the settings, from 0; null where none matched."""
    reason: str
    """The same in words."""


def tool_row(tool: Tool, quarantine: str = "", off: str = "") -> dict[str, Any]:
    """Return what `tools.list` says of a tool."""
    return {
        "name": tool.name,
        "description": tool.description,
        "plugin": tool.plugin,
        "owner": tool.owner,
        "sandbox": tool.sandbox,
        "always_on": tool.always_on,
        "category": tool.category,
        "flags": {
            name: {
                "value": tool.flags.get(name),
                "standing": tool.flags.standing(name),
                "ground": tool.flags.ground(name),
            }
            for name in FLAG_NAMES
        },
        "idempotent": tool.idempotent,
        "digest": tool.digest,
        "quarantine": quarantine,
        "off": off,
    }


class Inspection:
    """Tools: what models can call."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @operation("tools.list", also="tool.list", quick=True, rest=("GET", "/v1/tools"))
    async def tools(
        self, _: Invocation, name: Annotated[str, POSITIONAL, Field(max_length=256)] = "*"
    ) -> ToolRows:
        """List the tools, with what they declare about themselves.

        With --capabilities also what each does to the world, and on what that rests: `proven` by
        the sandbox, declared by its author (plain yes or no), or unknown, which policy takes for
        yes; what that is in particular, such as a grant of the sandbox; and whether it waits in
        quarantine, because it is not the tool that was accepted.

        Args:
            name: A name, or a glob such as `http_*`.

        Example:
            hookgate tools list --capabilities
        """
        quarantined, off = self._host.quarantined, self._host.switched_off
        rows = [
            tool_row(tool, quarantined.get(key, ""), off.get(key, ""))
            for key, tool in sorted(self._host.tools.view().items())
            if fnmatch.fnmatchcase(key, name)
        ]
        return ToolRows.model_validate({"tools": rows})

    @operation("plugins.why", also="plugin.why", quick=True, command="")
    async def why(self, _: Invocation, name: Annotated[str, Field(max_length=256)]) -> Why:
        """Say why a plugin runs, or why it does not.

        Args:
            name: Its name.
        """
        return Why(name=name, why=self._host.why(name))

    @operation("route.explain", quick=True, command="")
    async def route(
        self,
        _: Invocation,
        channel: str = "cli",
        account: str = "local",
        peer: str = "main",
        guild: str | None = None,
        team: str | None = None,
    ) -> Routed:
        """Say which agent answers an address, and why.

        Args:
            channel: The channel.
            account: The account.
            peer: Who writes.
            guild: The guild, server or workspace.
            team: The team.
        """
        route = self._host.route(Address(channel, account, peer, guild, team))
        return Routed(
            agent=route.agent.name, tier=route.tier, binding=route.binding, reason=route.reason
        )
