"""A tool of a plugin, run once without a gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookgate import Gateway, HookgateError, Settings, ToolResult
from hookgate.builtin_plugins.wasm.engine.limits import GuestError
from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
from hookgate.builtin_plugins.wasm.host.functions import GuestCall
from hookgate.builtin_plugins.wasm.packages.folders import Package
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.builtin_plugins.wasm.tables import METADATA, Values
from hookgate.builtin_plugins.wasm.tools import call_tool
from hookgate.kit.records import MemoryStore
from hookgate.wire import compile_schema

OWNER = "cli:local:main"
WAY_OUT = "egress"


async def try_out(
    settings: Settings,
    wasm: WasmSettings,
    package: Package,
    tool: str,
    arguments: Mapping[str, Any],
) -> ToolResult:
    """Run a tool of `package`, or an export of a channel, and return what it comes to.

    Args:
        settings: The settings, for secrets, limits and the way out.
        wasm: ``[plugin.wasm]``.
        package: The plugin.
        tool: The tool's name; of a channel, an export.
        arguments: What it is called with.

    Raises:
        HookgateError: The plugin cannot be loaded, or has no such tool.
    """
    # The way out alone: no store, no policy, no plugins of others, and no names of them.
    off = tuple(name for name in settings.plugins.disable if name == WAY_OUT)
    plugins = settings.plugins.model_copy(
        update={"entry_points": False, "replace": {}, "required": (), "disable": off}
    )
    log = settings.log.model_copy(update={"level": "error"})
    only = {name: section for name, section in settings.plugin.items() if name == WAY_OUT}
    alone = settings.model_copy(update={"plugins": plugins, "log": log, "plugin": only})
    async with Gateway(alone, builtin=(WAY_OUT,)) as gateway:
        guests = Guests(gateway.host, wasm, Values(MemoryStore(METADATA)))
        try:
            loaded = await guests.load(package)
            if package.manifest.kind == "channel":
                return await _export(guests, loaded, tool, arguments)
            return await _tool(guests, loaded, tool, arguments)
        finally:
            await guests.close()


async def _tool(
    guests: Guests, loaded: LoadedPlugin, tool: str, arguments: Mapping[str, Any]
) -> ToolResult:
    sections = {one.name: one for one in loaded.manifest.tools}
    section = sections.get(tool)
    if section is None:
        raise HookgateError(
            f"{loaded.name} has no tool {tool!r}, expected one of {', '.join(sections)}"
        )
    if problems := compile_schema(section.input_schema, tool=tool)(arguments):
        return ToolResult.error(f"the arguments do not fit: {'; '.join(problems)}")
    return await call_tool(guests, loaded, section, arguments, owner=OWNER)


async def _export(
    guests: Guests, loaded: LoadedPlugin, export: str, arguments: Mapping[str, Any]
) -> ToolResult:
    from pydantic_core import to_json

    call = GuestCall(plugin=loaded.name, granted=loaded.granted)
    try:
        data = await guests.call(loaded, export, to_json(dict(arguments)), call)
    except GuestError as error:
        return ToolResult.error(str(error))
    return ToolResult(content=data.decode("utf-8", "replace"))
