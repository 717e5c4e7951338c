"""Collecting what plugins bring: providers, channels, tools, capabilities, cards, operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate import hookspecs
from hookgate.core.descriptors import Capability, CapabilityDetail
from hookgate.core.errors import StartError, ToolDefinitionError
from hookgate.core.registry import CapabilityIndex, Snapshot
from hookgate.core.tooling import compile_schema

if TYPE_CHECKING:
    from hookgate.core.descriptors import Card
    from hookgate.core.hooks import Answer
    from hookgate.core.host import Host
    from hookgate.core.operations import Operation
    from hookgate.core.registry import Registry
    from hookgate.core.tools import Tool

__all__ = ["Catalogue"]

T = TypeVar("T")
Check = Callable[[Mapping[str, Any]], Sequence[str]]

CLIENT_CHECKS = 512
"""Compiled schemas of client-owned tools that are kept."""


class Catalogue:
    """Fills the host's registries, and makes the snapshots that turns draw on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._checks: dict[str, tuple[Tool, Check]] = {}
        self._snapshot = Snapshot()
        self._versions = (-1, -1, -1)
        self._filled_once = False

    async def fill(self) -> dict[str, int]:
        """Ask the plugins what they bring; return how many of each there are.

        Raises:
            StartError: Two plugins bring a thing of the same name.
            HookError: A required ``list_`` hook failed.
        """
        host, hooks = self._host, self._host.hooks
        if not self._filled_once:
            await self._wire()
            self._filled_once = True
        tools = await hooks.each_by_plugin(hookspecs.list_tools, host)
        self._take("tools", host.tools, tools, self._admitted)
        rows = await hooks.each_by_plugin(hookspecs.list_capabilities, host)
        self._take("capabilities", host.capabilities, rows, lambda _, items: items)
        cards = await hooks.each_by_plugin(hookspecs.list_cards, host)
        self._take("cards", host.cards, cards, lambda _, items: items)
        return {
            "tools": len(host.tools),
            "capabilities": len(host.capabilities),
            "cards": len(host.cards),
        }

    async def _wire(self) -> None:
        host, hooks = self._host, self._host.hooks
        for answer in await hooks.each_by_plugin(hookspecs.list_providers, host):
            for provider in answer.value or ():
                _put(host.providers, "provider", provider.name, provider, answer.plugin)
        for listed in await hooks.each_by_plugin(hookspecs.list_channels, host):
            for channel in self._sandboxed(listed.plugin, listed.value or ()):
                _put(host.channels, "channel", channel.name, channel, listed.plugin)
        for brought in await hooks.each_by_plugin(hookspecs.list_operations, host):
            self.add_operations(brought.plugin, brought.value or ())

    def add_operations(self, plugin: str, operations: Sequence[Operation[Any, Any]]) -> None:
        """Make `operations` known.

        Raises:
            StartError: There is one of the same name already.
        """
        for operation in operations:
            stamped = replace(operation, plugin=plugin)
            _put(self._host.operations, "operation", operation.name, stamped, plugin)

    # -- snapshots -----------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return what turns draw on now; the same value until something changes."""
        host = self._host
        versions = (host.tools.version, host.capabilities.version, host.cards.version)
        if versions != self._versions:
            self._snapshot = self._make(sum(versions))
            self._versions = versions
        return self._snapshot

    def _make(self, version: int) -> Snapshot:
        host = self._host
        tools, cards = host.tools.view(), host.cards.view()
        rows: dict[str, Capability] = {}
        for tool in tools.values():
            rows[f"tool:{tool.name}"] = _of_tool(tool)
        for name in host.channels:
            rows[f"channel:{name}"] = _of_channel(name)
        for card in cards.values():
            rows[f"card:{card.id}"] = _of_card(card)
        # What a plugin says of a capability by itself knows more than what follows from a tool.
        rows.update(host.capabilities.view())
        return Snapshot(tools=tools, cards=cards, capabilities=CapabilityIndex(rows, version))

    def check_of(self, tool: Tool) -> Check:
        """Return the check of a tool's arguments, compiled once."""
        known = self._checks.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        try:
            check: Check = compile_schema(tool.schema, tool=tool.name)
        except ToolDefinitionError as error:
            why = [f"the tool's own schema cannot be used: {error}"]
            return lambda _: why
        if len(self._checks) > CLIENT_CHECKS + len(self._host.tools):
            self._checks.clear()
        self._checks[tool.name] = (tool, check)
        return check

    # -- one source at a time ------------------------------------------------

    def _take(
        self,
        what: str,
        registry: Registry[T],
        answers: Sequence[Answer[Sequence[T]]],
        admit: Callable[[str, Sequence[T]], Sequence[T]],
    ) -> None:
        for answer in answers:
            part = f"{what} of {answer.plugin}"
            if answer.failure is not None:
                # What it brought before stays: last good rows are better than none.
                self._host.degrade(part, answer.failure.message)
                continue
            self._host.recover(part)
            registry.replace(answer.plugin, admit(answer.plugin, answer.value or ()))

    def _admitted(self, plugin: str, tools: Sequence[Tool]) -> list[Tool]:
        """Leave out the tools that cannot be offered, and say which and why."""
        good = []
        for tool in self._sandboxed(plugin, tools):
            part = f"tool {tool.name} of {plugin}"
            try:
                good.append(self._host.tools.admit(plugin, tool))
            except ToolDefinitionError as error:
                self._host.degrade(part, str(error))
            else:
                self._host.recover(part)
        return good

    def _sandboxed(self, plugin: str, things: Sequence[T]) -> list[T]:
        """Leave out what does not run in a sandbox, where the settings require one."""
        if self._host.settings.turn.sandbox != "required":
            return list(things)
        good = []
        for thing in things:
            sandboxed = getattr(thing, "sandboxed", getattr(thing, "sandbox", "") == "wasm")
            if sandboxed:
                good.append(thing)
            else:
                name = getattr(thing, "name", "?")
                self._host.log.warning(
                    "refused: it does not run in WASM, and turn.sandbox is 'required'",
                    name=name,
                    plugin=plugin,
                )
        return good


def _put(table: dict[str, T], what: str, name: str, thing: T, plugin: str) -> None:
    if name in table:
        raise StartError(
            f"{what} {name!r} of plugin {plugin!r} is there already: "
            "rename one, or disable one of the two plugins"
        )
    table[name] = thing


def _of_tool(tool: Tool) -> Capability:
    return Capability(
        id=f"tool:{tool.name}",
        kind="tool",
        name=tool.name,
        display_name=tool.name.replace("_", " "),
        description=tool.description,
        category=tool.category,
        tags=tool.tags,
        parameters=tuple(tool.schema.get("properties") or ()),
        has_side_effects=tool.flags.writes_persistent_state is not False
        or tool.flags.sends_externally is not False,
        flags=tool.flags,
        source_ref=f"plugin {tool.plugin}",
        load=lambda: CapabilityDetail(schema=tool.schema),
    )


def _of_channel(name: str) -> Capability:
    return Capability(
        id=f"channel:{name}",
        kind="channel",
        name=name,
        display_name=name,
        category="communication",
    )


def _of_card(card: Card) -> Capability:
    return Capability(
        id=f"card:{card.id}",
        kind="card",
        name=card.id,
        display_name=card.name or card.id,
        description=card.description,
        tags=card.triggers.router_tags,
        source_ref=card.source_ref,
    )
