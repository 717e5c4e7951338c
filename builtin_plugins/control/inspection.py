"""Operations that say what a running gateway is made of: its tools, plugins and routes."""

from __future__ import annotations

import asyncio
import fnmatch
from dataclasses import replace
from typing import Annotated, Literal, get_args

from pydantic import Field

from hookgate import (
    FLAG_NAMES,
    POSITIONAL,
    Address,
    Host,
    Invocation,
    LogLine,
    LogTail,
    OperationModel,
    Tool,
    operation,
)
from hookgate.settings import SetValue, is_within, set_values, values_of

LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[str, ...] = get_args(LogLevel)
LINES = LogTail.LINES


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


class ShownSettings(OperationModel):
    """The settings as they were read last."""

    settings: tuple[SetValue, ...]
    """In the order of the sections."""


class LogTailParams(OperationModel):
    """Which lines of the log are wanted."""

    after: int = Field(default=0, ge=0)
    """Only lines after this one: the `next` of a former answer."""
    level: LogLevel = "debug"
    """The least level."""
    search: str = Field(default="", max_length=200)
    """What stands in the line, in capitals or not."""
    limit: int = Field(default=100, ge=1, le=LINES)
    """So many at most, the newest ones."""


class ShownLog(OperationModel):
    """The last lines of the log, masked as they are written."""

    lines: tuple[LogLine, ...]
    """The oldest first."""
    next: int
    """What to give as `after` for what comes."""
    missed: int
    """So many lines after `after` are kept no more."""
    level: str
    """The least level that is logged at all."""


def tool_row(tool: Tool, quarantine: str = "", off: str = "") -> ToolRow:
    """Return what `tools.list` says of a tool."""
    said = tool.flags
    flags = {
        name: FlagRow(value=said.get(name), standing=said.standing(name), ground=said.ground(name))
        for name in FLAG_NAMES
    }
    return ToolRow.of_record(tool, flags=flags, quarantine=quarantine, off=off)


class Inspection:
    """Tools, settings, the log: what a gateway is made of."""

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
        return ToolRows(tools=tuple(rows))

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

    @operation("config.show", scope="operate", rest=("GET", "/v1/config"), command="")
    async def config(
        self,
        _: Invocation,
        section: Annotated[str, POSITIONAL, Field(max_length=256)] = "",
        all: bool = False,
    ) -> ShownSettings:
        """Show the settings of this gateway, and where each comes from. Secrets are masked.

        Args:
            section: Only this section, such as `gateway` or `plugin.memory`.
            all: Defaults, too.
        """
        # Schemas of all sections are made for it.
        rows = await asyncio.to_thread(self._settings, section)
        return ShownSettings(settings=tuple(row for row in rows if all or row.layer != "default"))

    def _settings(self, section: str) -> list[SetValue]:
        host = self._host
        models = host.section_models()
        before = {one.key: one.value for one in set_values(host.settings, models)}
        return [
            replace(one, restart=True)
            if one.value != before.get(one.key)
            and any(is_within(one.key, key) for key in host.restart_keys)
            else one
            for one in values_of(set_values(host.read_settings, models), section)
        ]

    @operation("log.tail", scope="operate", quick=True, rest=("GET", "/v1/log"), command="")
    async def log(self, _: Invocation, params: LogTailParams) -> ShownLog:
        """Show the last lines of the log. The event `log` says that there are new ones."""
        tail = self._host.log_tail
        lines, last = tail.lines(params.after), tail.last
        # After a restart numbers begin anew.
        fresh = last < params.after
        if fresh:
            lines = tail.lines()
        least, wanted = LEVELS.index(params.level), params.search.casefold()
        found = [
            line
            for line in lines
            if (line.level not in LEVELS or LEVELS.index(line.level) >= least)
            and (not wanted or wanted in _words(line))
        ]
        return ShownLog(
            lines=tuple(found[-params.limit :]),
            next=last,
            missed=0 if fresh or not lines else max(0, lines[0].seq - params.after - 1),
            level=self._host.settings.log.level,
        )


def _words(line: LogLine) -> str:
    return " ".join([line.event, line.logger, *line.fields, *line.fields.values()]).casefold()
