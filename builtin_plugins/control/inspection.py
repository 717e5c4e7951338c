"""Operations that say what a running gateway is made of: its tools, plugins and routes."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from hookgate import FLAG_NAMES, Address, Host, Invocation, Operation, OperationModel, Tool
from hookgate.settings import redact_json


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


class ToolsParams(OperationModel):
    """Which tools to list."""

    name: str = Field(default="*", max_length=256)
    """A name, or a glob such as `http_*`."""


class ToolRows(OperationModel):
    """The gateway's tools."""

    tools: tuple[ToolRow, ...]
    """In the order of their names."""


class WhyParams(OperationModel):
    """Which plugin to speak of."""

    name: str = Field(max_length=256)
    """Its name."""


class Why(OperationModel):
    """Why a plugin runs, or why it does not."""

    name: str
    """Its name."""
    why: str
    """The reason, in a sentence."""


class RouteParams(OperationModel):
    """An address, as a message would carry it."""

    channel: str = "cli"
    """The channel."""
    account: str = "local"
    """The account."""
    peer: str = "main"
    """Who writes."""
    guild: str | None = None
    """The guild, server or workspace."""
    team: str | None = None
    """The team."""


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


def tool_row(tool: Tool, quarantine: str = "") -> dict[str, Any]:
    """Return what `tool.list` says of a tool."""
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
    }


def inspection_operations(host: Host) -> Sequence[Operation[Any, Any]]:
    """Return the operations that look at the gateway of `host`."""

    async def tools(_: Invocation, params: ToolsParams) -> ToolRows:
        quarantined = host.quarantined
        rows = [
            tool_row(tool, quarantined.get(name, ""))
            for name, tool in sorted(host.tools.view().items())
            if fnmatch.fnmatchcase(name, params.name)
        ]
        return ToolRows.model_validate(redact_json(host.secrets, {"tools": rows}))

    async def why(_: Invocation, params: WhyParams) -> Why:
        reason = host.secrets.redact(host.why(params.name))
        return Why(name=params.name, why=reason)

    async def route(_: Invocation, params: RouteParams) -> Routed:
        route = host.route(Address(**params.model_dump()))
        return Routed(
            agent=route.agent.name, tier=route.tier, binding=route.binding, reason=route.reason
        )

    return (
        Operation(
            name="tool.list",
            summary="List the tools, with what they declare about themselves.",
            params=ToolsParams,
            result=ToolRows,
            handler=tools,
            quick=True,
            rest=("GET", "/v1/tools"),
        ),
        Operation(
            name="plugin.why",
            summary="Say why a plugin runs, or why it does not.",
            params=WhyParams,
            result=Why,
            handler=why,
            quick=True,
        ),
        Operation(
            name="route.explain",
            summary="Say which agent answers an address, and why.",
            params=RouteParams,
            result=Routed,
            handler=route,
            quick=True,
        ),
    )
