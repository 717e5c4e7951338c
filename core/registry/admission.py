"""What a tool, a capability and a card must be before a model can be offered it.

However it comes in, what is admitted is a copy that nobody can change, the plugin that brought
it included: pins, grants and judgements hold for what was admitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from hookgate.core.domain.descriptors import (
    FLAG_NAMES,
    KIND_PATTERN,
    KINDS,
    Capability,
    Card,
    ExamplesError,
    Flags,
    checked_examples,
    identity,
)
from hookgate.core.domain.errors import HookgateError, ToolDefinitionError
from hookgate.core.domain.schemas import NAME, compile_schema
from hookgate.core.domain.tools import Sandbox, Tool
from hookgate.core.domain.turn import CHANNELLESS, GUESTS, is_guest_channel
from hookgate.core.registry.frozen import frozen_json, settled

if TYPE_CHECKING:
    from hookgate.channels import Channel
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import TurnSettings

SANDBOX_RUNNER = "wasm"
"""The name under which the plugin runs that runs tools in a sandbox. What a sandbox proves, that
plugin alone may say."""

OWN = ("builtin", "program")
"""Origins of plugins whose words count as the gateway's own."""

_FIELDS = tuple(item.name for item in fields(Tool) if item.init)
_PARTS = attrgetter(
    *("tags", "examples", "parameters", "parameter_texts", "required_secrets", "required_tools"),
    *("flags", "flags.proven"),
)
_CHANNEL = ("sandboxed", "features", "send", "edit")
_KIND = re.compile(KIND_PATTERN)
_SOUND = {tuple, Flags, frozenset}


def tool_admission(settings: TurnSettings) -> Callable[[str, Tool], Tool]:
    """Return the check that the registry of tools makes of each one.

    The check returns a copy of the tool, stamped with the plugin that brought it, or raises
    `ToolDefinitionError`.
    """

    def admit(source: str, tool: Tool) -> Tool:
        if type(tool) is Tool and tool.admitted and tool.plugin == source:
            return tool
        made = _copied(source, tool)
        if wrong := _wrong(source, made, settings):
            raise ToolDefinitionError(made.name, wrong)
        compile_schema(made.schema, tool=made.name)
        object.__setattr__(made, "admitted", True)
        return made

    return admit


def _wrong(source: str, tool: Tool, settings: TurnSettings) -> str:
    if not NAME.fullmatch(tool.name):
        return "expected a name of 1 to 64 characters of [A-Za-z0-9_-]"
    if tool.run is None and tool.owner == "host":
        return "it has no runner: set `run`"
    if not isinstance(tool.idempotent, bool | None):
        return f"found idempotent={tool.idempotent!r}, expected True, False, or None: not known"
    if claims := _claims(source, tool.flags, tool.sandbox):
        return claims
    if settings.sandbox == "required" and tool.sandbox != "wasm":
        return f"found sandbox {tool.sandbox!r}, expected 'wasm': `turn.sandbox` is 'required'"
    return ""


def channel_admission(settings: TurnSettings) -> Callable[[str, Channel], Channel]:
    """Return the check that the registry of channels makes of each one.

    The check returns the channel, or raises `HookgateError`.
    """

    def admit(source: str, channel: Channel) -> Channel:
        missing = [name for name in _CHANNEL if not hasattr(channel, name)]
        if missing:
            raise HookgateError(
                f"channel {channel.name!r}: found no {', '.join(missing)}, expected a `Channel`"
            )
        if why := _misnamed(source, channel.name):
            raise HookgateError(f"channel {channel.name!r}: {why}")
        # Nobody but the runner can prove that code is sandboxed.
        if settings.sandbox == "required" and not (channel.sandboxed and source == SANDBOX_RUNNER):
            raise HookgateError(
                f"channel {channel.name!r}: its code does not run in WASM, and `turn.sandbox` is "
                "'required'"
            )
        return channel

    return admit


def _misnamed(plugin: str, channel: str) -> str:
    """Return why a channel that `plugin` brings cannot have its name; "" where it can."""
    read = identity(channel)  # one that reads as another does is taken for it
    if (plugin == SANDBOX_RUNNER) != is_guest_channel(read):
        return (
            f"the names of the channels of the plugin {SANDBOX_RUNNER!r}, which run in "
            f"the sandbox, begin with {GUESTS!r}, and those of no other plugin do: rename it"
        )
    if read in CHANNELLESS:
        return (
            f"{channel!r} stands where no channel brings a message, and this one would "
            "speak in those sessions: give it another name"
        )
    return ""


def _copied(source: str, tool: Tool) -> Tool:
    # Read once, and made anew: a class of the plugin's own could answer otherwise later.
    values = {name: getattr(tool, name) for name in _FIELDS}
    try:
        values["schema"] = frozen_json(values["schema"])
    except (TypeError, RecursionError) as error:
        raise ToolDefinitionError(values["name"], f"the schema is not valid: {error}") from error
    try:
        examples = checked_examples(values["examples"])
    except ExamplesError as error:
        raise ToolDefinitionError(values["name"], str(error)) from error
    flags, tags = _plain(values["flags"]), tuple(values["tags"])
    values.update(flags=flags, tags=tags, examples=examples, plugin=source)
    return Tool(**values)


def admit_capability(source: str, row: Capability) -> Capability:
    """Return the capability as it is kept.

    Raises:
        HookgateError: It says of itself what a sandbox alone can prove, its kind is no name, or
            its examples are too many or no messages.
    """
    if row.kind not in KINDS and not _KIND.fullmatch(str(row.kind)):
        raise HookgateError(
            f"capability {row.id!r}: found the kind {row.kind!r}, expected one of "
            f"{', '.join(KINDS)}, or a word of your own: lower-case letters, digits, _ and -"
        )
    try:
        if row.examples and checked_examples(row.examples) != row.examples:
            row = replace(row, examples=checked_examples(row.examples))
    except ExamplesError as error:
        raise HookgateError(f"capability {row.id!r}: {error}") from error
    # There may be very many, and nearly all of them are as they should be.
    sound = set(map(type, _PARTS(row))) == _SOUND
    if sound and not row.flags.proven:
        return row
    flags = _plain(row.flags)
    if wrong := _claims(source, flags):
        raise HookgateError(f"capability {row.id!r}: {wrong}")
    if sound:
        return row
    return replace(settled(row), flags=flags)


def admit_card(_: str, card: Card) -> Card:
    """Return the card as it is kept."""
    return settled(card)


def _plain(flags: Flags) -> Flags:
    if type(flags) is Flags and type(flags.proven) is frozenset and not flags.grounds:
        return flags
    values = {name: getattr(flags, name) for name in FLAG_NAMES}
    grounds = tuple((str(name), str(text)) for name, text in flags.grounds)
    return Flags(**values, proven=frozenset(flags.proven), grounds=grounds)


def _claims(source: str, flags: Flags, sandbox: Sandbox = "python") -> str:
    """Return what `source` says of its own, and has no say in; "" where there is nothing."""
    if source == SANDBOX_RUNNER:
        return ""
    claims = [f"it runs in the sandbox {sandbox!r}"] if sandbox == "wasm" else []
    if flags.proven:
        claims.append(f"its flags are proven ({', '.join(sorted(flags.proven))})")
    if not claims:
        return ""
    return (
        f"plugin {source!r} says that {' and that '.join(claims)}, which the plugin "
        f"{SANDBOX_RUNNER!r} alone may say: it runs the sandbox, or is what `[plugins] replace` "
        "puts in its place. Leave it out"
    )


def own_sources(host: Host) -> frozenset[str]:
    """Return the sources whose words count as the gateway's own."""
    return frozenset(
        {info.name for info in host.plugins(every=True) if info.origin in OWN} | {"core"}
    )


def is_own(tool: Tool, own: Collection[str]) -> bool:
    """Whether a tool's words are the gateway's own.

    What a plugin of the gateway runs elsewhere, in a sandbox or at a server, comes from elsewhere.

    Args:
        tool: The tool.
        own: What `own_sources` returns.
    """
    return tool.plugin in own and tool.sandbox == "python"
