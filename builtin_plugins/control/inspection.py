"""Operations that say what a running gateway is made of: its tools, plugins and routes."""

from __future__ import annotations

import asyncio
import fnmatch
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from hookgate import (
    FLAG_NAMES,
    POSITIONAL,
    Address,
    Host,
    Invocation,
    LogLine,
    Tool,
    operation,
)
from hookgate.kit.modules import on_demand
from hookgate.settings import SetValue, is_within, set_values, values_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.control import inspected
else:
    inspected = on_demand("hookgate.builtin_plugins.control.inspected")

LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[str, ...] = get_args(LogLevel)


def tool_row(tool: Tool, quarantine: str = "", off: str = "") -> inspected.ToolRow:
    """Return what `tools.list` says of a tool."""
    said = tool.flags
    flags = {
        name: inspected.FlagRow(
            value=said.get(name), standing=said.standing(name), ground=said.ground(name)
        )
        for name in FLAG_NAMES
    }
    return inspected.ToolRow.of_record(tool, flags=flags, quarantine=quarantine, off=off)


class Inspection:
    """Tools, settings, the log: what a gateway is made of."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @operation("tools.list", also="tool.list", quick=True, rest=("GET", "/v1/tools"))
    async def tools(
        self, _: Invocation, name: Annotated[str, POSITIONAL, Field(max_length=256)] = "*"
    ) -> inspected.ToolRows:
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
        return inspected.ToolRows(tools=tuple(rows))

    @operation("plugins.why", also="plugin.why", quick=True, command="")
    async def why(
        self, _: Invocation, name: Annotated[str, Field(max_length=256)]
    ) -> inspected.Why:
        """Say why a plugin runs, or why it does not.

        Args:
            name: Its name.
        """
        return inspected.Why(name=name, why=self._host.why(name))

    @operation("route.explain", quick=True, command="")
    async def route(
        self,
        _: Invocation,
        channel: str = "cli",
        account: str = "local",
        peer: str = "main",
        guild: str | None = None,
        team: str | None = None,
    ) -> inspected.Routed:
        """Say which agent answers an address, and why.

        Args:
            channel: The channel.
            account: The account.
            peer: Who writes.
            guild: The guild, server or workspace.
            team: The team.
        """
        route = self._host.route(Address(channel, account, peer, guild, team))
        return inspected.Routed(
            agent=route.agent.name, tier=route.tier, binding=route.binding, reason=route.reason
        )

    @operation("config.show", scope="operate", rest=("GET", "/v1/config"), command="")
    async def config(
        self,
        _: Invocation,
        section: Annotated[str, POSITIONAL, Field(max_length=256)] = "",
        all: bool = False,
    ) -> inspected.ShownSettings:
        """Show the settings of this gateway, and where each comes from. Secrets are masked.

        Args:
            section: Only this section, such as `gateway` or `plugin.memory`.
            all: Defaults, too.
        """
        # Schemas of all sections are made for it.
        rows = await asyncio.to_thread(self._settings, section)
        return inspected.ShownSettings(
            settings=tuple(row for row in rows if all or row.layer != "default")
        )

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
    async def log(self, _: Invocation, params: inspected.LogTailParams) -> inspected.ShownLog:
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
        return inspected.ShownLog(
            lines=tuple(found[-params.limit :]),
            next=last,
            missed=0 if fresh or not lines else max(0, lines[0].seq - params.after - 1),
            level=self._host.settings.log.level,
        )


def _words(line: LogLine) -> str:
    return " ".join([line.event, line.logger, *line.fields, *line.fields.values()]).casefold()
