"""Tools of guests, as the gateway has tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from hookgate import Content, SessionKey, Taint, Tool, ToolResult, Turn, key_text
from hookgate.builtin_plugins.wasm.engine.limits import GuestError
from hookgate.builtin_plugins.wasm.host.functions import GuestCall
from hookgate.builtin_plugins.wasm.wire import (
    FaultError,
    ToolAnswer,
    ToolRequest,
    WireFormError,
    as_content,
    aside,
    read_answer,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
    from hookgate.builtin_plugins.wasm.packages.manifest import ToolSection

GRACE_SECONDS = 5.0
"""What a tool may take beyond its guest's limit, for waiting until a thread is free: so that the
error names the limit, and not the gateway's own."""


def tools_of(guests: Guests, loaded: LoadedPlugin) -> list[Tool]:
    """Return the tools of a plugin."""
    return [_tool(guests, loaded, section) for section in loaded.manifest.tools]


def _tool(guests: Guests, loaded: LoadedPlugin, section: ToolSection) -> Tool:
    limits = loaded.limits_of(section)

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
        # The module that was judged is the one that runs: it is held here, not looked up.
        return await call_tool(
            guests, loaded, section, arguments, owner=owner_of(turn.session), before=turn.taint
        )

    return Tool(
        name=section.name,
        description=section.description,
        schema=section.input_schema,
        flags=loaded.manifest.flags_of(section),
        run=run,
        sandbox="wasm",
        module=loaded.package.module_digest,
        timeout=limits.seconds + GRACE_SECONDS,
        category=section.category,
        tags=section.tags,
        examples=section.examples,
        idempotent=section.idempotent,
    )


def owner_of(session: SessionKey) -> str:
    """Return whose values in the store a call from a session sees: its peer's."""
    return key_text(session.channel, session.account, session.peer)


async def call_tool(
    guests: Guests,
    loaded: LoadedPlugin,
    section: ToolSection,
    arguments: Mapping[str, Any],
    *,
    owner: str,
    before: Taint = frozenset(),
) -> ToolResult:
    """Call a tool of a guest; whatever becomes of it is a result.

    Args:
        guests: Calls it.
        loaded: The plugin.
        section: The tool.
        arguments: Its arguments.
        owner: Whose values in the store it sees.
        before: The taint of the turn that calls it.
    """
    call = GuestCall(plugin=loaded.name, granted=loaded.granted, owner=owner, before=before)
    limits = loaded.limits_of(section)
    try:
        if loaded.plain_exports:
            data = await guests.call(
                loaded, section.name, _plain(section, arguments), call, limits=limits
            )
            return ToolResult(content=data.decode("utf-8", "replace"), taint=call.taint)
        request = ToolRequest(name=section.name, input=dict(arguments))
        data = await guests.call(loaded, "handle_tool_call", request, call, limits=limits)
        content, is_error = await aside(len(data), _read, data)
    except GuestError as error:
        return ToolResult(
            content=f"{section.name} failed: {error}",
            is_error=True,
            status="timeout" if error.kind == "time" else "failed",
            taint=call.taint,
        )
    except FaultError as fault:
        text = f"{section.name} failed: {fault}"
        return ToolResult(content=text, is_error=True, status="failed", taint=call.taint)
    except WireFormError as error:
        text = f"{section.name} failed: guest {loaded.name!r}: {error}"
        return ToolResult(content=text, is_error=True, status="failed", taint=call.taint)
    return ToolResult(
        content=content,
        is_error=is_error,
        status="failed" if is_error else "done",
        taint=call.taint,
    )


def _read(data: bytes) -> tuple[Content, bool]:
    answer = read_answer(ToolAnswer, data, export="handle_tool_call")
    return as_content(answer.content), answer.is_error


def _plain(section: ToolSection, arguments: Mapping[str, Any]) -> bytes:
    """Return what a module made for Extism is handed: its one text, or all arguments as JSON."""
    if set(section.input_schema.get("properties", ())) == {"input"} == arguments.keys():
        text = arguments["input"]
        if isinstance(text, str):
            return text.encode()
    return to_json(dict(arguments))
